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

// Outside is the first list that is for a problem by its class and not by its hull, or nil.
func (s *Set) Outside(p kernels.Problem, d kernels.DeviceInfo) *List {
	at := s.At(p, d)
	for i := range s.Lists {
		if l := &s.Lists[i]; l.serves(&at) && !l.Hull.Holds(p.M, p.N, d.SMs) {
			return l
		}
	}
	return nil
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

// For is the set's rules as configs, for some problems of a class and columns each, whatever their rows. What runs
// there by default with these rules on their device, base, decides: a rule for which that is several configs is
// parted by what its family's own lists say, and says base, which is no answer, where the parts leave several.
func (s *Set) For(ps []kernels.Problem, base func(kernels.Problem) (kernels.Variant, error)) *Set {
	out := *s
	out.Lists, out.Whole = nil, false
	seen := map[kernels.Problem]bool{}
	for _, p := range ps {
		p = ClassOf(p).Problem(1, p.N)
		if seen[p] {
			continue
		}
		seen[p] = true
		at, of := At(p, s.Device), s.sample(p, base)
		for i := range s.Lists {
			l := s.Lists[i]
			if l.Own || !l.serves(&at) || l.Hull != (Hull{}) && (p.N < l.Hull.NMin || p.N > l.Hull.NMax) {
				continue
			}
			made := List{Class: ClassOf(p), Name: l.Name, Origin: l.Origin, Hull: l.Hull}
			for _, r := range l.Rules {
				box, ok := r.Box.at(&at)
				if !ok {
					continue
				}
				if r.Box = box; r.Then != "" {
					if r.If != "" { // nor is what follows sure
						r.If, r.Then = "", Base
					}
					of.add(&made, i, r)
					continue
				}
				family := l.FamilyOf(&r)
				r.Recipe, r.If = Recipe{}, ""
				if of.add(&made, i, r) {
					continue
				}
				for _, o := range s.Lists {
					if !o.serves(&at) || o.Hull != (Hull{}) {
						continue
					}
					for _, q := range o.Rules {
						if part, ok := q.Box.at(&at); ok && q.Then == "" && o.FamilyOf(&q) == family {
							of.add(&made, i, Rule{Box: part.and(box)})
						}
					}
				}
				if !of.add(&made, i, r) {
					of.add(&made, i, Rule{Box: box, Then: Base})
				}
			}
			for n := len(made.Rules); n > 0 && made.Rules[n-1].Then == Next; n-- { // as without them
				made.Rules = made.Rules[:n-1]
			}
			if len(made.Rules) > 0 {
				out.Lists = append(out.Lists, made)
			}
		}
	}
	return &out
}

// A sample is problems of one width, with what runs there by default and with the list that left them to the next
// ones: answered where they are done with.
type sample struct {
	at   []Place
	base []kernels.Variant
	left []int
}

const answered = -1

// sample asks where rules and families may change their mind: beside all bounds, and by rows and rows per SM.
func (s *Set) sample(p kernels.Problem, base func(kernels.Problem) (kernels.Variant, error)) *sample {
	of, most, at := &sample{}, int64(1<<31)/p.N, At(p, s.Device)
	ms := Lattice(0, most)
	for _, m := range Lattice(0, max(most/at.sms, 1)) {
		ms = append(ms, m*at.sms-1, m*at.sms, m*at.sms+1)
	}
	for i := range s.Lists {
		for _, r := range s.Lists[i].Rules {
			if b, ok := r.Box.at(&at); ok && s.Lists[i].serves(&at) {
				once := int64(s.Device.ClustersAtOnce(int(max(b.Cluster, 1))))
				ms = append(ms, b.RowsOver, b.RowsMax, b.ElemsOver/p.N, b.ElemsMax/p.N, b.WaveLeast*once, b.WaveMax*once, b.MOver.whole(at.sms), b.MLeast.whole(at.sms),
					b.MMax.whole(at.sms), b.MBelow.whole(at.sms), b.XOver.whole(s.Device.CacheBytes)/at.row, b.XMax.whole(s.Device.CacheBytes)/at.row)
			}
		}
	}
	for _, m := range ms {
		ms = append(ms, m+1, m/4*4+4, m/32*32)
	}
	slices.Sort(ms)
	for _, m := range slices.Compact(ms) {
		for _, d := range kernels.DTypes() {
			if p.M, p.DType, p.Weight = m, d, d; m < 1 || d.Size() != at.bytes || p.Validate() != nil {
				continue
			}
			if v, err := base(p); err == nil {
				of.at, of.base, of.left = append(of.at, At(p, s.Device)), append(of.base, v), append(of.left, 0)
			}
		}
	}
	return of
}

// add puts a rule behind those of the i-th list, unless no problem reaches it. It is false for one that has no one answer.
func (of *sample) add(l *List, i int, r Rule) bool {
	var reach []int
	for k := range of.at {
		if at := &of.at[k]; of.left[k] != answered && of.left[k] != i+1 && r.Holds(at) && l.Hull.Holds(at.Problem.M, at.Problem.N, int(at.sms)) {
			if reach = append(reach, k); r.Then == "" && of.base[k] != of.base[reach[0]] {
				return false
			}
		}
	}
	if len(reach) == 0 {
		return true
	}
	if r.Then == "" {
		r.Family, r.Config = of.base[reach[0]].Family, of.base[reach[0]].Config
	}
	l.Rules = append(l.Rules, r)
	for _, k := range reach {
		if of.left[k] = answered; r.Then == Next {
			of.left[k] = i + 1
		}
	}
	return true
}
