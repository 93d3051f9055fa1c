package launchmap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
)

// An if-chain has at most so many widths, or a call would be slow, and so many ranges, or nobody would read
// it, and a compiler takes minutes.
const (
	maxChain  = 16
	maxRanges = 1000
)

// perTest is how many widths one test of an if-chain names: a line that formatters leave as it is.
const perTest = 4

// A layout is a book's answers in the form that templates and the JSON export need.
type layout struct {
	About    []string
	Ops      []kernels.OpSpec
	Types    []exportType
	Options  []exportOption
	Knobs    []exportKnob // that some config has, in label order
	Families []*exportFamily
	Configs  []*exportConfig // the most frequent first
	Kinds    []*exportKind
	Limits   []*exportLimit
	weights  []string     // in words: which types of one are not served
	Alone    *exportLimit // of the one family that the export is of, or nil
	Chain    bool         // kinds have Tests, not Rasters

	MaxM, MinN, MaxN, MaxElems    int64
	FP8T, Uneven, AlikeBits, Bits int // bits of options
	Other                         int // bit of the kinds that answer for what a kind's families do not serve
}

// An exportType is an element type of x with the names that the exported function takes for it, normbench's
// first.
type exportType struct {
	Bytes int64
	Names []string
}

// Name returns the type's name here.
func (t exportType) Name() string { return t.Names[0] }

// An exportOption is an option with its names in code.
type exportOption struct {
	kernels.Option
	Label string // ZERO_CENTERED
	Bit   int
}

// Go writes the label as a Go name: ZeroCentered of ZERO_CENTERED, and FP8 of FP8.
func (o exportOption) Go() string {
	if strings.HasPrefix(o.Label, "FP8") {
		return o.Label
	}
	return camel(strings.ToLower(o.Label))
}

// An exportKnob is a knob, with its names in code.
type exportKnob struct{ Name, Field, Go string }

// An exportFamily is a family with its knobs: those that all its configs share, with values, and the others.
type exportFamily struct {
	Name, Field, Go string
	knobs           []*kernels.Knob
	Shared          []exportSetting
	open            []*kernels.Knob
}

type exportSetting struct {
	exportKnob
	Value int
}

// An exportConfig is a config of a family, with the values of the knobs that its family leaves open.
type exportConfig struct {
	Number int
	Family *exportFamily
	Open   []exportSetting
	config kernels.Config
}

// Knob returns the value of a knob; 0 where the family does not have it.
func (c *exportConfig) Knob(k exportKnob) int {
	for _, s := range c.all() {
		if s.Name == k.Name {
			return s.Value
		}
	}
	return 0
}

// all lists the config's settings: those that its family shares, then its own.
func (c *exportConfig) all() []exportSetting { return slices.Concat(c.Family.Shared, c.Open) }

// An exportKind is a class with its answers.
type exportKind struct {
	Class
	Other     int // the layout's, where the answers are for what the class's own do not serve
	Field, Go string
	Rasters   []exportRaster // the widest alignment first; those with answers
	Tests     []exportTest
}

// KindStep returns a number above every sum of options, by which classes' numbers are made unique.
func (x *layout) KindStep() int { return 2 * x.Other }

// limitedClasses lists those in which a family with limits answers, if the export is of several families.
func (x *layout) limitedClasses(classes []Class, strips [][]strip) (list []Class) {
	limited := func(r RowRange) bool {
		return slices.ContainsFunc(x.Limits, func(l *exportLimit) bool { return l.Name == r.Variant.Family })
	}
	for i, c := range classes {
		if x.Alone == nil && slices.ContainsFunc(strips[4*i:4*i+4], func(list []strip) bool {
			return slices.ContainsFunc(list, func(s strip) bool { return slices.ContainsFunc(s.ranges, limited) })
		}) {
			list = append(list, c)
		}
	}
	return list
}

// Bits returns the sum of the bits of the class's options.
func (k *exportKind) Bits() int { return int(k.With) | k.Other }

// An exportRaster has the answers of a class at one alignment.
type exportRaster struct {
	Align int64
	Bands []exportBand
}

// An exportBand has the answers for columns from From up to the next band.
type exportBand struct {
	From   int64
	Ranges []exportRange
}

// An exportRange is the rows from First to Last with one config, nil for no answer.
type exportRange struct {
	First, Last int64
	Config      *exportConfig
	RestsOn     string
}

// Number returns the number of the config, -1 for none.
func (r exportRange) Number() int {
	if r.Config == nil {
		return -1
	}
	return r.Config.Number
}

// An exportTest is one if of a chain: widths that have the same ranges.
type exportTest struct {
	Widths []int64
	Ranges []exportRange
}

// Rest returns all ranges but the last, which needs no if.
func (t *exportTest) Rest() []exportRange { return t.Ranges[:len(t.Ranges)-1] }

// Last returns the last range.
func (t *exportTest) Last() exportRange { return t.Ranges[len(t.Ranges)-1] }

// typeNames has other names of types: PyTorch's in Python, as str writes them, and in C++.
var typeNames = map[kernels.DType][]string{
	kernels.BF16: {"bfloat16", "torch.bfloat16", "BFloat16"},
	kernels.FP16: {"float16", "torch.float16", "Half"},
	kernels.FP32: {"float32", "torch.float32", "Float"},
}

// A strip has the answers for columns from some number on.
type strip struct {
	from   int64
	ranges []RowRange
}

// strips lists the answers of a class at an alignment, or those for what their families do not serve. Where only some columns are asked for, empty
// strips are between them.
func (b *Book) strips(c Class, align int64, columns []int64, unserved bool) (list []strip) {
	s := b.sheets[newSheetKey(c, align)]
	for line := range s.Lines {
		if box := s.Box(line, 0, b.Device.SMs); len(columns) == 0 {
			if ranges := b.ranges(s, line, box.NLo, box.NHi, unserved); len(ranges) > 0 {
				list = append(list, strip{from: box.NLo, ranges: ranges})
			}
		}
	}
	for _, n := range columns {
		if AlignOf(n, c.Bytes) == align {
			line, _ := s.At(1, n, b.Device.SMs)
			list = append(list, strip{from: n, ranges: b.ranges(s, line, n, n, unserved)}, strip{from: n + 1})
		}
	}
	return list
}

// unanswered names the ops for which there is no config at all, by lines of the head.
func unanswered(classes []Class, strips [][]strip) []string {
	has := map[kernels.Op]bool{}
	for i, c := range classes {
		for _, list := range strips[4*i : 4*i+4] {
			for _, s := range list {
				has[c.Op] = has[c.Op] || slices.ContainsFunc(s.ranges, func(r RowRange) bool { return r.Variant.Family != "" })
			}
		}
	}
	var names []string
	for _, op := range kernels.Ops() {
		if !has[op.Op] {
			names = append(names, string(op.Op))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return foldText("Nor is there one for "+strings.Join(names, ", ")+".", aboutWidth)
}

// layOut makes the layout of an export: a chain of ifs where code is asked for and the columns are few,
// else rasters.
func (b *Book) layOut(classes []Class, columns []int64, code bool) *layout {
	stripsOf := func(classes []Class, unserved bool) [][]strip {
		strips := make([][]strip, 4*len(classes)) // class by class, of each by alignment
		var wait sync.WaitGroup
		for i, c := range classes {
			for j, align := range Aligns(c.Bytes) {
				wait.Go(func() { strips[4*i+j] = b.strips(c, align, columns, unserved) })
			}
		}
		wait.Wait()
		return strips
	}
	strips := stripsOf(classes, false)
	last, ranges := len(options)-1, 0
	for _, list := range strips {
		for _, s := range list {
			ranges += len(s.ranges)
		}
	}
	x := &layout{Ops: kernels.Ops(), Chain: code && len(columns) > 0 && len(columns) <= maxChain && ranges <= maxRanges,
		MaxM: MaxM, MinN: MinN, MaxN: MaxN, MaxElems: MaxElems, Uneven: 1 << last, Other: 2 << last, Bits: 1<<last - 1,
		AlikeBits: int(alikeBits)}
	for _, d := range kernels.DTypes() {
		x.Types = append(x.Types, exportType{d.Size(), append([]string{d.String()}, typeNames[d]...)})
	}
	for i, o := range options[:last] {
		label := o.Flag
		if len(o.Values) > 0 && o.Values[0] == "none" || o.Doc == "" { // one flag of several
			label = o.Name
		}
		x.Options = append(x.Options, exportOption{o, strings.ToUpper(strings.ReplaceAll(label, "-", "_")), 1 << i})
		if o.Name == "fp8t" {
			x.FP8T = 1 << i
		}
	}
	x.addLimits(b, classes, strips)
	others := x.limitedClasses(classes, strips)
	strips, kinds := append(strips, stripsOf(others, true)...), slices.Concat(classes, others)
	uses, families := map[kernels.Variant]int{}, map[string]bool{}
	for _, list := range strips {
		for _, s := range list {
			for _, r := range s.ranges {
				if r.Variant.Family != "" {
					uses[r.Variant]++
					families[r.Variant.Family] = true
				}
			}
		}
	}
	x.About = append(b.about(families), unanswered(classes, strips)...)
	for _, line := range x.weights {
		x.About = append(x.About, foldText(kernels.MakePrintable(line, maxAbout), aboutWidth)...)
	}
	if x.Chain {
		x.About = append(x.About, foldText("Comments say what a config rests on: measured there, neighbours, borrowed from "+
			"another class or device, by hand, or the analytic base.", aboutWidth)...)
	}
	configs := x.addConfigs(uses)
	for i, c := range kinds {
		kind := &exportKind{Class: c}
		if i >= len(classes) {
			kind.Other = x.Other
		}
		for j, align := range Aligns(c.Bytes) {
			var bands []exportBand
			for _, s := range strips[4*i+j] {
				band := exportBand{From: s.from}
				for _, r := range s.ranges {
					band.Ranges = append(band.Ranges, exportRange{r.First, r.Last, configs[r.Variant],
						strings.Join(r.RestsOn, ", ")})
				}
				if len(s.ranges) == 0 {
					band.Ranges = []exportRange{{First: 1, Last: MaxM}}
				}
				bands = append(bands, band)
			}
			kind.add(align, bands, x.Chain)
		}
		if len(kind.Rasters)+len(kind.Tests) > 0 {
			x.Kinds = append(x.Kinds, kind)
		}
	}
	names := namesIn{}
	for _, k := range x.Kinds {
		k.Field = names.unique(strings.NewReplacer("/", "_", "+", "_", "-", "_").Replace(k.Class.String()) +
			map[bool]string{true: "_other"}[k.Other != 0])
		k.Go = lowerFirst(camel(k.Field))
	}
	return x
}

// add adds the answers at an alignment. It makes one of neighbouring bands with the same answers.
func (k *exportKind) add(align int64, bands []exportBand, chain bool) {
	same := func(a, b []exportRange) bool {
		return slices.EqualFunc(a, b, func(a, b exportRange) bool { return a.First == b.First && a.Config == b.Config })
	}
	if chain {
		for _, b := range bands {
			if len(b.Ranges) == 1 && b.Ranges[0].Config == nil {
				continue // between widths
			}
			i := slices.IndexFunc(k.Tests, func(t exportTest) bool {
				return len(t.Widths) < perTest && slices.Equal(t.Ranges, b.Ranges)
			})
			if i < 0 {
				i, k.Tests = len(k.Tests), append(k.Tests, exportTest{Ranges: b.Ranges})
			}
			k.Tests[i].Widths = append(k.Tests[i].Widths, b.From)
		}
		slices.SortFunc(k.Tests, func(a, b exportTest) int { return cmp.Compare(a.Widths[0], b.Widths[0]) })
		return
	}
	bands = slices.CompactFunc(bands, func(a, b exportBand) bool { return same(a.Ranges, b.Ranges) })
	if len(bands) > 0 {
		k.Rasters = append(k.Rasters, exportRaster{align, bands})
	}
}

// addConfigs adds families, knobs and configs to the layout, the most used configs first, and returns
// the configs by variant.
func (x *layout) addConfigs(uses map[kernels.Variant]int) map[kernels.Variant]*exportConfig {
	variants := slices.SortedFunc(maps.Keys(uses), func(v, w kernels.Variant) int {
		return cmp.Or(uses[w]-uses[v], strings.Compare(v.String(), w.String()))
	})
	code, goCode := namesIn{}, namesIn{}
	knobs := map[string]exportKnob{}
	for _, k := range knobsOf(variants) {
		if _, ok := knobs[k.Name]; !ok { // a user's family may have one that is called as ours
			field := code.unique(k.Name)
			knobs[k.Name] = exportKnob{k.Name, field, goCode.unique(camel(field))}
			x.Knobs = append(x.Knobs, knobs[k.Name])
		}
	}
	byFamily := map[string][]kernels.Variant{}
	for _, v := range variants {
		byFamily[v.Family] = append(byFamily[v.Family], v)
	}
	families, fields := map[string]*exportFamily{}, namesIn{}
	for _, name := range codeNames {
		fields[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(byFamily)) {
		vs := byFamily[name]
		f := &exportFamily{Name: name, knobs: knobsOf(vs), Field: fields.unique(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, name))}
		f.Go = lowerFirst(camel(f.Field))
		for _, k := range f.knobs {
			if value := vs[0].Config.Get(k); slices.ContainsFunc(vs, func(v kernels.Variant) bool {
				return v.Config.Get(k) != value
			}) {
				f.open = append(f.open, k)
			} else {
				f.Shared = append(f.Shared, exportSetting{knobs[k.Name], value})
			}
		}
		families[name], x.Families = f, append(x.Families, f)
	}
	configs := map[kernels.Variant]*exportConfig{}
	for i, v := range variants {
		c := &exportConfig{Number: i, Family: families[v.Family], config: v.Config}
		for _, k := range c.Family.open {
			c.Open = append(c.Open, exportSetting{knobs[k.Name], v.Config.Get(k)})
		}
		configs[v], x.Configs = c, append(x.Configs, c)
	}
	return configs
}

// A namesIn holds the names that a part of the exported program has.
type namesIn map[string]bool

// reserved lists words that no knob or family can have as a name in Python, C++ or Go code, and names
// that the exported code has itself.
var reserved = strings.Fields("family launch " +
	"and as assert async await break class continue def del elif else except finally for from global if " +
	"import in is lambda nonlocal not or pass raise return try while with yield " +
	"alignas alignof asm auto bool case catch char concept const constexpr consteval constinit decltype " +
	"default delete do double enum explicit export extern false float friend goto inline int long mutable " +
	"namespace new noexcept nullptr operator private protected public register requires short signed sizeof " +
	"static struct switch template this throw true typedef typeid typename union unsigned using virtual void " +
	"volatile xor bitand bitor compl not_eq or_eq xor_eq and_eq " +
	"chan defer fallthrough func go interface map package range select type var")

// codeNames lists names of the exported code's own that a family's name could be.
var codeNames = strings.Fields("bf16 bytes_of configs find form fp16 fp32 is_served kind kinds look_up pick raster rasters served " +
	"span types up_to")

// unique takes a name, with a _ behind it where it is reserved or taken.
func (names namesIn) unique(name string) string {
	for slices.Contains(reserved, name) || names[name] {
		name += "_"
	}
	names[name] = true
	return name
}

// camel converts block_rows to BlockRows.
func camel(name string) (out string) {
	for _, part := range strings.Split(strings.TrimRight(name, "_"), "_") {
		if part != "" {
			out += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return out + name[len(strings.TrimRight(name, "_")):]
}

func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// json writes the layout as JSON: a line for each config and band. export.schema.json describes it.
func (x *layout) json(d kernels.DeviceInfo) ([]byte, error) {
	type object = map[string]any
	var text bytes.Buffer
	var failed error
	compact := func(v any) string {
		data, err := json.Marshal(v)
		failed = cmp.Or(failed, err)
		return string(data)
	}
	var configs, limits, rasters, others, opts []string
	for _, c := range x.Configs {
		knobs := map[string]int{}
		for _, s := range c.all() {
			knobs[s.Name] = s.Value
		}
		configs = append(configs, compact(struct {
			Family string         `json:"family"`
			Knobs  map[string]int `json:"knobs"`
		}{c.Family.Name, knobs}))
	}
	for _, o := range x.Options {
		opts = append(opts, compact(struct {
			Name  string `json:"name"`
			Means string `json:"means"`
			Alike bool   `json:"launches_alike"`
		}{o.Name, o.Noun, o.Alike}))
	}
	for _, k := range x.Kinds {
		names := k.With.names()
		for _, r := range k.Rasters {
			var bands []string
			for _, b := range r.Bands {
				starts, numbers := []int64{}, []any{}
				for _, g := range b.Ranges {
					starts = append(starts, g.First)
					if g.Config == nil {
						numbers = append(numbers, nil)
					} else {
						numbers = append(numbers, g.Config.Number)
					}
				}
				bands = append(bands, compact(struct {
					N      int64   `json:"n_from"`
					M      []int64 `json:"m_from"`
					Config []any   `json:"config"`
				}{b.From, starts, numbers}))
			}
			to := &rasters
			if k.Other != 0 {
				to = &others
			}
			*to = append(*to, fmt.Sprintf(`{"op": %q, "pass": %q, "element_bytes": %d, "options": %s, `+
				`"row_align_bytes": %d, "bands": [`+"\n      %s\n    ]}", k.Op, k.Pass, k.Bytes, compact(names),
				r.Align, strings.Join(bands, ",\n      ")))
		}
	}
	for _, l := range x.Limits {
		forms := []any{}
		for _, f := range l.Served {
			forms = append(forms, struct {
				Type    string   `json:"type"`
				Options []string `json:"options"`
			}{f.Type.String(), f.With.names()})
		}
		limits = append(limits, compact(struct {
			Family string `json:"family"`
			Op     string `json:"op"`
			Pass   string `json:"pass"`
			Alone  bool   `json:"alone"`
			Forms  []any  `json:"forms"`
		}{l.Name, string(l.Op), string(l.Pass), l == x.Alone, forms}))
	}
	types := object{}
	for _, t := range x.Types {
		types[t.Names[0]] = t.Bytes
	}
	list := func(items []string) string {
		if len(items) == 0 {
			return "[]"
		}
		return "[\n    " + strings.Join(items, ",\n    ") + "\n  ]"
	}
	about := make([]string, len(x.About))
	for i, line := range x.About {
		about[i] = compact(line)
	}
	for i, field := range [][2]string{{"$schema", compact(SchemaID)}, {"about", list(about)},
		{"device", compact(object{"id": d.ID, "name": d.Name, "arch": d.Arch, "sms": d.SMs})},
		{"bounds", compact(object{"m_max": x.MaxM, "n_min": x.MinN, "n_max": x.MaxN, "elements_max": x.MaxElems})},
		{"element_bytes", compact(types)}, {"options", list(opts)}, {"configs", list(configs)},
		{"limits", list(limits)}, {"rasters", list(rasters)}, {"others", list(others)}} {
		fmt.Fprintf(&text, "%s\n  %q: %s", []string{"{", ","}[min(i, 1)], field[0], field[1])
	}
	text.WriteString("\n}\n")
	return text.Bytes(), failed
}

// SchemaID names export.schema.json, which describes a JSON export, and its version.
const SchemaID = "urn:normbench:map-export:1"

// pythonWidth is the length of a line in ruff's and black's Python.
const pythonWidth = 88

// pythonCall writes a call as ruff does, indented by so many spaces: in one line, with all arguments in
// a second line, or with each in a line of its own.
func pythonCall(indent int, before string, arguments []string) string {
	space, in := strings.Repeat(" ", indent), strings.Repeat(" ", indent+4)
	line, inner := before+"("+strings.Join(arguments, ", ")+")", strings.Join(arguments, ", ")
	switch {
	case indent+len(line) <= pythonWidth:
		return space + line
	case indent+4+len(inner) <= pythonWidth:
		return space + before + "(\n" + in + inner + "\n" + space + ")"
	}
	return space + before + "(\n" + in + strings.Join(arguments, ",\n"+in) + ",\n" + space + ")"
}

// Python writes the arguments of the config's launch in Python.
func (c *exportConfig) Python() []string {
	list := []string{fmt.Sprintf("%q", c.Family.Name)}
	for _, s := range c.Open {
		list = append(list, fmt.Sprintf("%s=%d", s.Field, s.Value))
	}
	return list
}
