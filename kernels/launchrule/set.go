package launchrule

import (
	"encoding/json"
	"slices"
	"time"

	"normbench/kernels"
)

// Schema is the version of the rules files that this package writes, and the
// newest that it reads.
const Schema = 2

// Kind is what the files say they are, to tell them from tuned tables.
const Kind = "rules"

// A Set is the rules of one device, with where they come from.
type Set struct {
	Schema   int                `json:"schema"`
	Kind     string             `json:"kind"`
	Tool     string             `json:"tool"`               // version of normbench that fitted
	Measured string             `json:"measured,omitempty"` // version that measured
	Date     time.Time          `json:"date,omitzero"`      // of the latest record
	Device   kernels.DeviceInfo `json:"device"`
	Protocol json.RawMessage    `json:"protocol,omitempty"` // a record.Protocol
	Noise    float64            `json:"noise,omitempty"`    // median spread of the stream's samples
	// Whole says that where no rule answers the analytic base does. Else it is the program's default.
	Whole   bool              `json:"whole,omitempty"`
	Sources map[string]string `json:"sources"`  // hash of each family's sources that was measured
	HeldOut []Score           `json:"held_out"` // what is known of the rules on problems left out of the fit
	Lists   []List            `json:"classes"`

	Of   string            `json:"of,omitempty"`    // schema 1; empty once they are read
	UpTo []kernels.Problem `json:"up_to,omitempty"` //
}

// A Score says how good a way to choose is, over the shapes of a class. Regret
// is time over the best known: 1 is perfect.
type Score struct {
	Class   string  `json:"class"`
	Held    string  `json:"held"`    // what was left out of the fit: "shape", "n", or "" for nothing
	Chooser string  `json:"chooser"` // see the Chooser constants
	Shapes  int     `json:"shapes"`  // that it is over
	Regret  float64 `json:"regret"`  // geometric mean
	Lo      float64 `json:"lo"`      // its 95 % interval over shapes, by bootstrap
	Hi      float64 `json:"hi"`
	P95     float64 `json:"p95"`
	Max     float64 `json:"max"`
	Worst   string  `json:"worst"`
	Within2 float64 `json:"within_2"` // share of shapes within 2 % of the best known
	Within5 float64 `json:"within_5"`
}

// Parts that a fit left out.
const (
	HeldNothing = ""
	HeldShape   = "shape"
	HeldN       = "n"
)

// ChooserRules are the rules themselves, of the choosers that a Score may be of.
const ChooserRules = "rules"

// An Answer is a rule for a problem.
type Answer struct {
	Match Match
	List  *List // of the rule, or the last of the problem's class; nil where there is none
	Index int   // the rule's number in its list, from 0; -1 where none fired
}

// Rule is the rule of an answer, nil where none fired.
func (a Answer) Rule() *Rule {
	if a.Index < 0 {
		return nil
	}
	return &a.List.Rules[a.Index]
}

// Variant is what the answer runs at a place, zero where no rule fired.
func (a Answer) Variant(at *Place) kernels.Variant {
	if a.Index < 0 {
		return kernels.Variant{}
	}
	return a.List.Variant(a.Rule(), at.Problem.N, at.bytes)
}

// Choose finds the rule that answers for a problem: of each list of its class in turn the first
// that fires, until one has a launch that accept, which may be nil, takes. Of a family whose rule
// it does not take no other list is asked. It allocates nothing.
func (s *Set) Choose(at *Place, accept func(Answer) bool) Answer {
	none, refused := Answer{Match: MatchClass, Index: -1}, [8]string{}
	for i := range s.Lists {
		l := &s.Lists[i]
		if l.Own || !l.serves(at) {
			continue
		}
		a := Answer{List: l}
		if a.Index, a.Match = l.Find(at); a.Index < 0 {
			none = a
			continue
		}
		none = Answer{Match: MatchDefault, List: l, Index: -1}
		switch r := a.Rule(); {
		case r.Then == Base:
			return none
		case r.Then == Next:
		default:
			family := l.FamilyOf(r)
			n := slices.Index(refused[:], family)
			if n >= 0 {
				continue
			}
			if accept == nil || accept(a) {
				return a
			}
			if n = slices.Index(refused[:], ""); n >= 0 {
				refused[n] = family
			}
		}
	}
	return none
}

// Own finds the rule for what a family runs by default: of the lists in turn the first rule that fires, is
// of the family and has a config.
func (s *Set) Own(at *Place, family string) Answer {
	for i := range s.Lists {
		l := &s.Lists[i]
		if l.Family != "" && l.Family != family || !l.serves(at) {
			continue
		}
		a := Answer{List: l}
		if a.Index, a.Match = l.Find(at); a.Index < 0 {
			continue
		}
		switch r := a.Rule(); {
		case r.Then == Base:
			return Answer{Match: MatchDefault, List: l, Index: -1}
		case r.Then == "" && r.Config.String() != "" && l.FamilyOf(r) == family:
			return a
		}
	}
	return Answer{Match: MatchDefault, Index: -1}
}

// Pick answers for a problem on the rules' device, by its numbers alone.
func (s *Set) Pick(p kernels.Problem) (Answer, kernels.Variant) {
	at := At(p, s.Device)
	a := s.Choose(&at, nil)
	return a, a.Variant(&at)
}

// Reached is the set without the rules that no problem reaches on its device. Others may have other numbers of SMs.
func (s *Set) Reached() *Set {
	out := *s
	out.Lists = slices.Clone(s.Lists)
	for i := range out.Lists {
		l := &out.Lists[i]
		rules := []Rule{}
		for n := range l.Rules {
			if _, never := l.narrowed(n, s.Device); !never || l.Rules[n].Then != "" {
				rules = append(rules, l.Rules[n])
			}
		}
		l.Rules = rules
	}
	return &out
}

// For is the set's rules for some problems whatever their rows, a list for each number of columns
// and list: what depends on columns, options and types alone is worked out.
func (s *Set) For(ps []kernels.Problem) *Set {
	out := *s
	out.Lists = nil
	seen := map[kernels.Problem]bool{}
	for _, p := range ps {
		like := ClassOf(p).Problem(1, p.N)
		if seen[like] {
			continue
		}
		seen[like] = true
		for _, l := range s.Lists {
			at := At(p, s.Device)
			if l.Own || !l.serves(&at) || l.Hull != (Hull{}) && (p.N < l.Hull.NMin || p.N > l.Hull.NMax) {
				continue
			}
			l.Class = ClassOf(p)
			var rules []Rule
			for _, r := range l.Rules {
				columns := Box{NOver: r.NOver, NMax: r.NMax, Columns: r.Columns, RowOver: r.RowOver, RowMax: r.RowMax, RowAlign: r.RowAlign, RowUneven: r.RowUneven}
				if !columns.Holds(&at) {
					continue
				}
				r.Box = Box{DType: r.DType, NOver: p.N - 1, NMax: p.N, MOver: r.MOver, MLeast: r.MLeast, MMax: r.MMax, MBelow: r.MBelow, RowsOver: r.RowsOver, RowsMax: r.RowsMax,
					Multiple: r.Multiple, Odd: r.Odd, Cluster: r.Cluster, WaveLeast: r.WaveLeast, WaveMax: r.WaveMax, XOver: r.XOver, XMax: r.XMax, ElemsOver: r.ElemsOver, ElemsMax: r.ElemsMax}
				if r.Then == "" { // what a reader needs is one config
					v := l.Variant(&r, p.N, p.DType.Size())
					r.Recipe = Recipe{Family: v.Family, Config: v.Config}
				}
				if !slices.ContainsFunc(rules, func(o Rule) bool { return o.If == "" && o.Covers(r.Box) }) {
					rules = append(rules, r)
				}
			}
			l.Rest, l.Rules = kernels.Config{}, rules
			if slices.ContainsFunc(rules, func(r Rule) bool { return r.Then != Next }) {
				out.Lists = append(out.Lists, l)
			}
		}
	}
	return &out
}
