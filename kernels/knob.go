package kernels

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"normbench/internal/hint"
)

// A Knob is one launch parameter. This one table gives a knob's label key, its
// macro in the CUDA sources, its column header and its help; to add a knob,
// add a line. Users' families have knobs of their own (UserKnob).
type Knob struct {
	Key   string // in labels and flags: "br" in br4.bc1024
	Name  string // long form, in headers and JSON
	Macro string // #define in the CUDA sources; "" where it shapes the grid only
	Host  bool   // the host stages read it too, so the cpu device varies it
	Doc   string

	place int // in label order
}

// The knobs. Zero is a value like any other.
var (
	BlockRows   = knob("br", "block_rows", "BLOCK_ROWS", true, "rows that one CTA handles together")
	BlockCols   = knob("bc", "block_cols", "BLOCK_COLS", true, "columns of one chunk of a row")
	Warps       = knob("w", "warps", "WARPS", false, "warps of 32 threads per CTA")
	VectorBytes = knob("v", "vector_bytes", "VECTOR_BYTES", false, "bytes per load and store "+
		"of one thread: 16, 8, 4 or 2; 0 is the widest that divides a row")
	Stages = knob("st", "stages", "STAGES", false, "tiles in flight: 1 loads a tile when "+
		"it is needed, 2 loads the next one ahead, and so on")
	PerSM = knob("k", "ctas_per_sm", "", true, "CTAs per SM (cpu: per core); 0 is one "+
		"CTA per tile of rows")
	CTAs       = knob("p", "ctas", "", true, "CTAs in all; overrides ctas_per_sm; 0 leaves it to that")
	SinglePass = knob("sp", "single_pass_cols", "", true, "rows up to this many columns, if "+
		"one chunk holds them, stay in registers and are read once; wider ones are read twice")
	Unroll = knob("u", "unroll", "UNROLL", false, "vectors that a thread has in flight")
	Hoist  = knob("ho", "hoist", "HOIST", false, "1 keeps the weight in registers over "+
		"all rows of a CTA, 0 loads it for every row")
	RowOrder = knob("ro", "row_order", "ROW_ORDER", true, "how tiles of rows are dealt to "+
		"CTAs: 0 in strides, 1 in contiguous ranges of tiles, 2 of rows")
	SavedOutput = knob("so", "saved_output", "SAVED_OUTPUT", true,
		"1 computes the backward from the forward's saved output y instead of x")
	PartialType = knob("pt", "partial_type", "", true, "type of the partial sums of dw and "+
		"db: 0 fp32, 1 the weight's")
	CopyPath = knob("cp", "copy_path", "COPY_PATH", false,
		"how rows come to shared memory: 1 by each thread's asynchronous copies, 2 by bulk copies")
	Reload = knob("rl", "reload", "RELOAD", false, "what is read again after the "+
		"reduction instead of being kept in registers; see the family")
	StatsAhead = knob("sa", "stats_ahead", "STATS_AHEAD", false,
		"when a backward loads a row's statistics: 0 a tile ahead, 1 those of many tiles at once")
	Cluster = knob("cl", "cluster", "CLUSTER", false, "CTAs of a cluster that share a row "+
		"through distributed shared memory")
	CTAsPerRow = knob("cr", "ctas_per_row", "CTAS_PER_ROW", false,
		"CTAs that share a row through global memory")
	FusedDW = knob("fd", "fused_dw", "FUSED_DW", true, "how partial sums become dw: 0 in "+
		"a second kernel, 1 in the last CTA to end, 2 in the last of each group and then of all, "+
		"3 by adding in memory in any order")
	SplitSize = knob("ss", "split_size", "SPLIT_SIZE", true, "consecutive rows of one CTA")
	GroupSize = knob("gs", "group_size", "GROUP_SIZE", true, "partial rows that CTAs share under locks")
	RowGroups = knob("rg", "row_groups", "ROW_GROUPS", true,
		"shares of the rows that a column of dw is summed in")
	DWCols      = knob("dc", "dw_cols", "DW_COLS", true, "columns per CTA of the kernel that computes dw")
	AtomicScope = knob("at", "atomic_scope", "ATOMIC_SCOPE", true,
		"what is added to dw in memory: 0 every row, 1 the sum of a CTA's rows")
	TransposePath = knob("tp", "transpose_path", "TRANSPOSE_PATH", true, "how yt comes about: 0 "+
		"by strided byte stores of the kernel, 1 in a kernel of its own, through shared memory")
	TransposeRows = knob("tr", "transpose_rows", "TRANSPOSE_ROWS", true, "rows of a tile of the transpose")
	TransposeCols = knob("tc", "transpose_cols", "TRANSPOSE_COLS", true,
		"columns of a tile of the transpose")
	TransposeWarps = knob("tw", "transpose_warps", "TRANSPOSE_WARPS", false, "warps per CTA of the transpose")
	ReduceCols     = knob("rc", "reduce_cols", "REDUCE_COLS", true,
		"columns per CTA of k2, the reduction of the partial rows; 0 for a tile by rule")
	ReduceRows = knob("rr", "reduce_rows", "REDUCE_ROWS", false,
		"partial rows that one CTA of k2 has in flight")
	ReduceWarps = knob("rw", "reduce_warps", "REDUCE_WARPS", false, "warps per CTA of k2")
	EarlyReduce = knob("er", "early_reduce", "EARLY_REDUCE", false, "1 lets k2 start while k1 "+
		"ends and wait for it there (programmatic dependent launch, sm_90)")
	MinBlocks = knob("lb", "launch_bounds", "MIN_BLOCKS", false,
		"CTAs per SM that the compiler limits registers for; 0 sets no limit")
	CacheHint = knob("ch", "cache_hint", "CACHE_HINT", false, "bits: 1 reads rows past L1 "+
		"and first to be evicted from L2, 2 writes without the streaming hint, 4 reads past L1 "+
		"and last to be evicted")
)

var (
	knobs [maxKnobs]*Knob // by place; behind the first `ours`, those of users as they come
	ours  int
	place = map[string]int{} // of a key of ours, and of a name

	users struct { // the knobs of users' families
		sync.RWMutex
		byKey map[string]*Knob
	}
)

// knob makes a knob and adds it to the table.
func knob(key, name, macro string, host bool, doc string) *Knob {
	k := &Knob{key, name, macro, host, doc, ours}
	place[key], place[name] = k.place, k.place
	knobs[ours] = k
	ours++
	return k
}

// UserKnob returns the knob of a user's family that has this name, and adds it if it is new. The name
// has letters and _ only. Key and macro are the name in capitals, so no knob of ours has them. Families
// with a knob of the same name share it, and its first doc. The error says that there are too many.
func UserKnob(name, doc string) (*Knob, error) {
	key := strings.ToUpper(name)
	users.Lock()
	defer users.Unlock()
	k, ok := users.byKey[key]
	if !ok {
		at := ours + len(users.byKey)
		if at == maxKnobs {
			return nil, hint.Errorf("use fewer names", "more than %d knobs of users' families", maxKnobs-ours)
		}
		if users.byKey == nil {
			users.byKey = map[string]*Knob{}
		}
		k = &Knob{Key: key, Name: strings.ToLower(name), Macro: key, place: at}
		users.byKey[key], knobs[at] = k, k
	}
	k.Doc = cmp.Or(k.Doc, doc)
	return k, nil
}

// findOrAddKnob finds the knob of a key or a name in a label. A key in capitals is a user's, whose
// family need not be loaded: it is added if it is new.
func findOrAddKnob(key string) (*Knob, error) {
	if at, ok := place[key]; ok {
		return knobs[at], nil
	}
	users.RLock()
	k := users.byKey[key]
	if name := users.byKey[strings.ToUpper(key)]; k == nil && name != nil && name.Name == key {
		k = name
	}
	users.RUnlock()
	if k != nil {
		return k, nil
	}
	if key != "" && strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
		return UserKnob(key, "")
	}
	return nil, hint.Errorf("`normbench list knobs` names them", "unknown knob %q", key)
}

// compareOrder orders knobs as labels do: ours as in the table, then users' by their keys.
func (k *Knob) compareOrder(o *Knob) int {
	if k.place >= ours && o.place >= ours {
		return strings.Compare(k.Key, o.Key)
	}
	return cmp.Compare(k.place, o.place)
}

// Knobs lists every knob in label order, also those of users' families that were loaded or named so far.
func Knobs() []*Knob {
	users.RLock()
	defer users.RUnlock()
	all := slices.Clone(knobs[:ours+len(users.byKey)])
	slices.SortFunc(all, (*Knob).compareOrder)
	return all
}

// FindKnob finds a knob by its key or its name.
func FindKnob(s string) (*Knob, error) {
	for _, k := range Knobs() {
		if s == k.Key || s == k.Name {
			return k, nil
		}
	}
	return nil, hint.Errorf("`normbench list knobs` names them", "unknown knob %q", s)
}

// A Setting is a knob with its value.
type Setting struct {
	Knob  *Knob
	Value int
}

// A Config assigns values to knobs. It is comparable, and its label, such as
// br4.w8.v16.k2, is unique: the knobs stand in the order of the table. The
// zero Config assigns none.
//
// The label itself is the value. (An array indexed by knob was tried in the
// design: it made every record and map key some 100 bytes for the same
// meaning. Only while a space is laid out are the values in such an array, a
// draft: Refuse and Plan may be given one, and neither keep nor compare it.)
type Config struct {
	label string
	draft *draft
}

// NewConfig makes a Config of settings; a later one for the same knob wins.
func NewConfig(settings ...Setting) Config {
	return Config{}.With(settings...)
}

// With returns c with settings added or replaced.
func (c Config) With(settings ...Setting) Config {
	if c.draft != nil {
		return c.draft.with(settings)
	}
	all := c.Settings()
	for _, s := range settings {
		if i := slices.IndexFunc(all, func(t Setting) bool { return t.Knob == s.Knob }); i >= 0 {
			all[i].Value = s.Value
		} else {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Setting) int { return a.Knob.compareOrder(b.Knob) })
	return Config{label: labelOf(all)}
}

// labelOf writes settings as a label, in their order.
func labelOf(settings []Setting) string {
	var room [128]byte
	text := room[:0]
	for i, s := range settings {
		if i > 0 {
			text = append(text, '.')
		}
		text = strconv.AppendInt(append(text, s.Knob.Key...), int64(s.Value), 10)
	}
	return string(text)
}

// Is says whether both have the same label. It is false of a draft, which may change.
func (c Config) Is(o Config) bool { return c.draft == nil && c == o }

// Lookup returns the value of k and whether c assigns one.
func (c Config) Lookup(k *Knob) (int, bool) {
	if c.draft != nil {
		return c.draft.values[k.place], c.draft.has&(1<<k.place) != 0
	}
	var from, to int
	for i := 0; i < len(c.label); i = to + 1 { // byte by byte, as the parts are of a few
		for from = i; from < len(c.label) && c.label[from] > '9'; from++ {
		}
		for to = from; to < len(c.label) && c.label[to] != '.'; to++ {
		}
		if from < to && c.label[i:from] == k.Key {
			n, err := strconv.Atoi(c.label[from:to])
			return n, err == nil
		}
	}
	return 0, false
}

// Get returns the value of k, 0 where c assigns none.
func (c Config) Get(k *Knob) int {
	v, _ := c.Lookup(k)
	return v
}

// Settings lists the assignments in label order.
func (c Config) Settings() []Setting {
	if c.draft != nil {
		return c.draft.settings()
	}
	all, _, _ := parse(c.label) // a label has no errors
	return all
}

// String returns the label, "" of the empty Config.
func (c Config) String() string {
	if c.draft != nil {
		return labelOf(c.draft.settings())
	}
	return c.label
}

// ParseConfig reads a label such as br4.bc1024.w8. Knobs may come in any
// order, each once, by key or by name: block_rows4.warps8 is br4.w8.
func ParseConfig(label string) (Config, error) {
	all, canonical, err := parse(label)
	switch {
	case err != nil:
		return Config{}, err
	case canonical: // records have a label each, of String's making
		return Config{label: label}, nil
	}
	return NewConfig(all...), nil
}

// parse reads the settings of a label, and says whether the label is canonical, as String writes it.
func parse(label string) (all []Setting, canonical bool, err error) {
	const help = "a label is knobs with whole numbers, such as br4.w8.k2 or block_rows4.warps8; " +
		"`normbench list knobs` names them"
	all, canonical = make([]Setting, 0, strings.Count(label, ".")+1), true
	last := (*Knob)(nil)
	for rest := label; rest != ""; {
		var part string
		var dot bool
		part, rest, dot = strings.Cut(rest, ".")
		i := strings.IndexAny(part, "0123456789")
		if i <= 0 || (dot && rest == "") {
			return nil, false, hint.Errorf(help, "malformed config %q at %q", label, part)
		}
		v, err := strconv.Atoi(part[i:])
		if err != nil || v < 0 || v > 1<<31-1 {
			return nil, false, hint.Errorf(help, "malformed config %q at %q", label, part)
		}
		k, err := findOrAddKnob(part[:i])
		if err != nil {
			return nil, false, hint.Errorf(hint.Of(err), "%w in config %q", err, label)
		}
		more := last == nil || last.compareOrder(k) < 0
		if (!canonical || !more) && slices.ContainsFunc(all, func(s Setting) bool { return s.Knob == k }) {
			return nil, false, hint.Errorf(help, "knob %q stands twice in config %q", part[:i], label)
		}
		all = append(all, Setting{k, v})
		written := part[:i] == k.Key && (part[i] != '0' || len(part) == i+1)
		canonical, last = canonical && more && written, k
	}
	return all, canonical, nil
}

// MarshalText implements encoding.TextMarshaler with the label.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseConfig.
func (c *Config) UnmarshalText(b []byte) error {
	v, err := ParseConfig(string(b))
	*c = v
	return err
}
