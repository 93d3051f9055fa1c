package launchrule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
)

// A Class says which problems a list of rules is for.
type Class struct {
	Op      kernels.Op   `json:"op"`
	Pass    kernels.Pass `json:"pass"`
	Bytes   int64        `json:"dtype_bytes,omitempty"` // of an element of x; 0 for any
	With    Options      `json:"with,omitzero"`         // options that a problem has,
	Without Options      `json:"without,omitzero"`      // and those that it has not
}

// ClassOf is the class that a problem is measured for. Weights of another type than x and
// zero-centered weights launch alike, so they share a class.
func ClassOf(p kernels.Problem) Class {
	has := OptionsOf(p) &^ launchAlike
	return Class{p.Op, p.Pass, p.DType.Size(), has, allOptions &^ launchAlike &^ has}
}

// serves says whether a problem is of the class.
func (c *Class) serves(at *Place) bool {
	return c.Op == at.Problem.Op && c.Pass == at.Problem.Pass && (c.Bytes == 0 || c.Bytes == at.bytes) &&
		at.options&c.With == c.With && at.options&c.Without == 0
}

func (c Class) String() string {
	s := fmt.Sprintf("%s/%s/%d-byte", c.Op, c.Pass, c.Bytes)
	if c.Bytes == 0 {
		s = fmt.Sprintf("%s/%s", c.Op, c.Pass)
	}
	for _, o := range c.With.names() {
		s += "+" + o
	}
	if c.Without != 0 && c.With|c.Without|launchAlike != allOptions {
		s += " without " + strings.Join(c.Without.names(), ", ")
	}
	return s
}

// Compare orders classes as record.CompareProblems orders their problems.
func (c Class) Compare(o Class) int {
	return cmp.Or(cmp.Compare(o.Op, c.Op), cmp.Compare(o.Pass, c.Pass), cmp.Compare(c.With, o.With), cmp.Compare(c.Bytes, o.Bytes), cmp.Compare(c.Without, o.Without))
}

// Problem is a problem of the class.
func (c Class) Problem(m, n int64) kernels.Problem {
	d := kernels.BF16
	if c.Bytes == kernels.FP32.Size() {
		d = kernels.FP32
	}
	has := func(name string) bool { return slices.Contains(c.With.names(), name) }
	return kernels.Problem{Op: c.Op, Pass: c.Pass, M: m, N: n, DType: d, Weight: d, Bias: has("bias"), ZeroCentered: has("zc"), NoWeight: has("noweight"),
		Residual: has("residual"), FP8: has("fp8") || has("fp8t"), Transpose: has("fp8t"), Accumulate: has("acc")}
}

// Options are some of the switches of a problem.
type Options uint8

var optionNames = [...]string{"bias", "zc", "noweight", "residual", "fp8", "fp8t", "acc"}

const (
	biasOption  Options = 1
	launchAlike Options = 2 // zc
	allOptions  Options = 1<<7 - 1
)

// OptionsOf are the options that p has.
func OptionsOf(p kernels.Problem) (o Options) {
	for i, has := range [...]bool{p.Bias, p.ZeroCentered, p.NoWeight, p.Residual, p.FP8 && !p.Transpose, p.Transpose, p.Accumulate} {
		if has {
			o |= 1 << i
		}
	}
	return o
}

func (o Options) names() (names []string) {
	for i, x := range optionNames {
		if o&(1<<i) != 0 {
			names = append(names, x)
		}
	}
	return names
}

// MarshalText implements encoding.TextMarshaler with the names, as in the text of a problem.
func (o Options) MarshalText() ([]byte, error) { return []byte(strings.Join(o.names(), "+")), nil }

// UnmarshalText implements encoding.TextUnmarshaler with the names.
func (o *Options) UnmarshalText(b []byte) error {
	*o = 0
words:
	for _, w := range strings.Split(string(b), "+") {
		for i, x := range optionNames {
			if w == x {
				*o |= 1 << i
				continue words
			}
		}
		return fmt.Errorf("unknown option %q", w)
	}
	return nil
}

// A Rule is a box with what to run in it.
type Rule struct {
	Box
	Recipe
	// If names a condition beside the box: one of the conditions below, which Place.If answers.
	If string `json:"if,omitempty"`
	// Then is Next or Base where the rule has nothing to run.
	Then     string   `json:"then,omitempty"`
	Evidence Evidence `json:"evidence,omitzero"`
}

// The conditions that a rule can name.
const (
	HalfBusy = "half_busy" // the family's default has CTAs for half of the SMs
	RuleBusy = "rule_busy" // and is a rule's
	Accepted = "accepted"  // the config is not refused
	AsBusy   = "as_busy"   // nor do bands of it leave CTAs more idle than bands half as high do
)

// Answers of a rule without a config.
const (
	Next = "next" // the lists that follow answer
	Base = "base" // no list does: the analytic base answers
)

// Evidence is what stands behind a rule: the measured problems that it answers.
// Regrets are geometric means of time over the best known, so 1 is perfect; speedups are
// geometric means of another's time over the rule's, so more than 1 is good.
type Evidence struct {
	Problems      int     `json:"problems"`
	Records       int     `json:"records,omitempty"`
	Regret        float64 `json:"regret"`                   // of the rule
	DefaultRegret float64 `json:"default_regret,omitempty"` // of the default there
	Worst         string  `json:"worst,omitempty"`          // the problem with the largest regret
	WorstRegret   float64 `json:"worst_regret,omitempty"`
	HeldOutRegret float64 `json:"held_out_regret,omitempty"` // of rules fitted without the problem
	OverBase      float64 `json:"over_base,omitempty"`       // speedup over the analytic base
	OverBaseWorst float64 `json:"over_base_worst,omitempty"` // the least of one problem
	OverNext      float64 `json:"over_next,omitempty"`       // speedup over the rule that would answer without this one
	OverNextWorst float64 `json:"over_next_worst,omitempty"`
	Device        string  `json:"device,omitempty"` // ID, where it is not that of the file
	Commit        string  `json:"commit,omitempty"` // of the kernels that were measured
}

// A Hull is where a class was measured. Outside it the rules know nothing. The zero Hull has no bounds.
type Hull struct {
	NMin     int64 `json:"n_min"`
	NMax     int64 `json:"n_max"`
	MMin     int64 `json:"m_per_sm_min"` // rows per SM, see RowsPerSM
	MMax     int64 `json:"m_per_sm_max"`
	ElemsMax int64 `json:"elems_max"` // columns times rows per SM
}

// Holds says whether a shape is in the hull.
func (h Hull) Holds(m, n int64, sms int) bool {
	rows := RowsPerSM(m, sms)
	return h == Hull{} || h.NMin <= n && n <= h.NMax && h.MMin <= rows && rows <= h.MMax && n*rows <= h.ElemsMax
}

func (h Hull) String() string {
	return fmt.Sprintf("%d <= N <= %d, %d <= M/SM <= %d, N*M/SM <= %d", h.NMin, h.NMax, h.MMin, h.MMax, h.ElemsMax)
}

// A List is rules of one class, in order: the first whose box a problem is in answers. A class
// may have several lists: where one has no rule, or its rule says next, the following is asked.
type List struct {
	Class
	Name   string         `json:"name,omitempty"`
	Family string         `json:"family,omitempty"` // of rules that name none
	Rest   kernels.Config `json:"rest,omitzero"`    // knobs that the rules leave out
	// MoreWarps doubles a config's warps, up to 32, until the family takes it: more threads have less of a row each.
	MoreWarps bool `json:"more_warps,omitempty"`
	// Own lists say what their family runs by default where it is asked for, and do not
	// choose it.
	Own    bool   `json:"own,omitempty"`
	Origin string `json:"origin,omitempty"` // where rules without evidence come from
	Hull   Hull   `json:"hull,omitzero"`
	Rules  []Rule `json:"rules"`

	Bias *bool `json:"bias,omitempty"` // schema 1; nil once it is read
}

// FamilyOf is the family of a rule of l.
func (l *List) FamilyOf(r *Rule) string { return cmp.Or(r.Family, l.Family) }

// Variant is what a rule of l sets of the launch of rows of n elements. Knobs that it leaves
// out are the family's base; so are all of a rule that chooses a family only.
func (l *List) Variant(r *Rule, n, bytes int64) kernels.Variant {
	v := r.At(n, bytes)
	if v.Family = l.FamilyOf(r); l.Rest.String() != "" && r.Config.String() != "" {
		v.Config = l.Rest.With(v.Config.Settings()...)
	}
	return v
}

// Match says how an answer came about.
type Match string

// The matches.
const (
	MatchRule    Match = "rule"    // a rule fired
	MatchDefault Match = "default" // no rule fires: the default is as good as anything known
	MatchOutside Match = "outside" // outside the measured hull: the default
	MatchClass   Match = "class"   // nothing of the class was measured: the default
)

// Find is the index of the rule that fires, or -1.
func (l *List) Find(at *Place) (int, Match) {
	if !l.Hull.Holds(at.Problem.M, at.Problem.N, int(at.sms)) {
		return -1, MatchOutside
	}
	for i := range l.Rules {
		if r := &l.Rules[i]; r.Holds(at) && (r.If == "" || at.condition(l, r)) {
			return i, MatchRule
		}
	}
	return -1, MatchDefault
}
