package families

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	embedded "normbench"
	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// A book says what is launched by default: by the launch rules that are for a device, and where they have no
// answer, or one that is refused, by the families' analytic bases. Launch rules choose among configs
// and change no kernel, so they are part of no family's sources.
type book struct {
	sets     func() []*launchrule.Set
	analytic map[string]*kernels.Family // with bases that know no rules
}

// brought are the rules that the program brings along.
var brought = sync.OnceValue(func() []*launchrule.Set {
	names, err := fs.Glob(embedded.Rules, "results/*/rules.json")
	var sets []*launchrule.Set
	for _, name := range names {
		text, bad := embedded.Rules.ReadFile(name)
		s, worse := launchrule.Parse(name, text)
		sets, err = append(sets, s), errors.Join(err, bad, worse)
	}
	if err != nil {
		panic(err) // a test reads them first
	}
	return sets
})

// With makes the registry of all families with the defaults of some launch rules.
func With(sets ...*launchrule.Set) *kernels.Registry {
	return Over(&kernels.Registry{File: File}, sets...)
}

// Over is With with those families of r beside ours that are not ours, such as a user's.
func Over(r *kernels.Registry, sets ...*launchrule.Set) *kernels.Registry {
	out, _ := over(r, func() []*launchrule.Set { return sets })
	return out
}

func over(r *kernels.Registry, sets func() []*launchrule.Set) (*kernels.Registry, *book) {
	b := &book{sets, map[string]*kernels.Family{}}
	out := &kernels.Registry{Default: b.choose, File: r.File}
	add := func(f *kernels.Family) {
		b.analytic[f.Name] = f
		ruled := *f
		ruled.Base = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config { return b.base(f, p, d) }
		out.Families = append(out.Families, &ruled)
	}
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, d := range designs {
			add(withRows(d(op)))
		}
	}
	for _, f := range r.Families {
		if b.analytic[f.Name] == nil {
			add(f)
		}
	}
	return out, b
}

// withRows has f refuse a CTA without rows before f's own rules, which divide by them.
func withRows(f *kernels.Family) *kernels.Family {
	if !hasKnob(f, kernels.BlockRows) {
		return f
	}
	refuse := f.Refuse
	f.Refuse = func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
		if c.Get(kernels.BlockRows) < 1 {
			return fmt.Errorf("a CTA has at least one row")
		}
		return refuse(p, c, d)
	}
	return f
}

func hasKnob(f *kernels.Family, k *kernels.Knob) bool {
	return slices.ContainsFunc(f.Knobs, func(r kernels.Range) bool { return r.Knob == k })
}

// rules are those for a device, nil where there are none.
func (b *book) rules(d *kernels.DeviceInfo) *launchrule.Set {
	return launchrule.Ladder(b.sets(), d).Set
}

// Step says which of the rules that the program brings along answer for a device.
func Step(d kernels.DeviceInfo) launchrule.Step { return launchrule.Ladder(brought(), &d) }

// ownAt is a place where the conditions of families' own rules hold.
func (b *book) ownAt(s *launchrule.Set, p kernels.Problem, d kernels.DeviceInfo) *launchrule.Place {
	at := s.At(p, d)
	at.If = func(at launchrule.Place, l *launchrule.List, r *launchrule.Rule) bool {
		f := b.analytic[l.FamilyOf(r)]
		if f == nil || r.If == launchrule.HalfBusy || r.If == launchrule.RuleBusy || f.CheckServes(p) != nil {
			return false
		}
		c := b.config(f, l, r, &at)
		return f.Refuse(p, c, d) == nil && (r.If != launchrule.AsBusy || bandBusy(p, c, d))
	}
	return &at
}

// choiceAt is a place where the conditions hold by which rules choose a family.
func (b *book) choiceAt(s *launchrule.Set, p kernels.Problem, d kernels.DeviceInfo) *launchrule.Place {
	at := s.At(p, d)
	at.If = func(at launchrule.Place, l *launchrule.List, r *launchrule.Rule) bool {
		f := b.analytic[l.FamilyOf(r)]
		if f == nil || f.CheckServes(p) != nil || r.If == launchrule.RuleBusy && s.Own(b.ownAt(s, p, d), f.Name).Index < 0 {
			return false
		}
		c := b.base(f, p, d)
		return f.Refuse(p, c, d) == nil && halfBusy(f.Plan(p, c, d), d)
	}
	return &at
}

// config is what a rule runs of f, completed by the analytic base.
func (b *book) config(f *kernels.Family, l *launchrule.List, r *launchrule.Rule, at *launchrule.Place) kernels.Config {
	c := l.Variant(r, at.Problem.N, at.Problem.DType.Size()).Config
	if slices.ContainsFunc(f.Knobs, func(r kernels.Range) bool { _, ok := c.Lookup(r.Knob); return !ok }) {
		c = f.Base(at.Problem, at.Device).With(c.Settings()...)
	}
	if l.MoreWarps {
		return moreWarps(c, func(c kernels.Config) bool { return f.Refuse(at.Problem, c, at.Device) == nil })
	}
	return c
}

// moreWarps is c with its warps doubled until it is accepted, or c.
func moreWarps(c kernels.Config, accepted func(kernels.Config) bool) kernels.Config {
	for warps := c.Get(kernels.Warps); warps > 0 && warps <= 32; warps *= 2 {
		if more := c.With(set(kernels.Warps, warps)); accepted(more) {
			return more
		}
	}
	return c
}

// base is what f runs by default.
func (b *book) base(f *kernels.Family, p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	if s := b.rules(&d); s != nil {
		at := b.ownAt(s, p, d)
		if a := s.Own(at, f.Name); a.Index >= 0 {
			if c := b.config(f, a.List, a.Rule(), at); f.Refuse(p, c, d) == nil {
				return c
			}
		}
	}
	return f.Base(p, d)
}

// choose names the family that serves p before any tuning.
func (b *book) choose(p kernels.Problem, d kernels.DeviceInfo) string {
	if s := b.rules(&d); s != nil {
		at := b.choiceAt(s, p, d)
		if a := s.Choose(at, func(a launchrule.Answer) bool { return b.refusal(a, at) == nil }); a.Index >= 0 {
			return a.List.FamilyOf(a.Rule())
		}
	}
	return analyticDefault(p, d, func(f *kernels.Family) bool {
		f = b.analytic[f.Name]
		return f.CheckServes(p) == nil && f.Refuse(p, b.base(f, p, d), d) == nil
	})
}

// refusal is why what a rule chooses cannot run, or nil.
func (b *book) refusal(a launchrule.Answer, at *launchrule.Place) error {
	p, d, f := at.Problem, at.Device, b.analytic[a.List.FamilyOf(a.Rule())]
	if f == nil {
		return fmt.Errorf("unknown family %q", a.List.FamilyOf(a.Rule()))
	}
	if err := f.CheckServes(p); err != nil {
		return err
	}
	if a.Rule().Config.String() == "" {
		return f.Refuse(p, b.base(f, p, d), d)
	}
	return f.Refuse(p, b.config(f, a.List, a.Rule(), at), d)
}

// A Reason is a default that was considered: by a rule, or where Answer has none by the analytic base.
type Reason struct {
	launchrule.Answer
	Variant kernels.Variant
	Refusal error // why it does not run
}

// Explain says what some rules alone, nil for none, and the analytic base behind them, launch for a problem: the
// default first, then what would be next, the analytic base at last. Rules may name any family of r.
func Explain(r *kernels.Registry, s *launchrule.Set, p kernels.Problem, d kernels.DeviceInfo) (reasons []Reason) {
	ruled, b := over(r, func() []*launchrule.Set { return []*launchrule.Set{s} })
	v, err := ruled.Base(p, d)
	taken := Reason{Answer: launchrule.Answer{Index: -1}, Variant: v, Refusal: err}
	if s := b.rules(&d); s != nil {
		if a := s.Own(b.ownAt(s, p, d), v.Family); a.Index >= 0 && b.config(b.analytic[v.Family], a.List, a.Rule(), b.ownAt(s, p, d)) == v.Config {
			taken.Answer = a
		}
		at := b.choiceAt(s, p, d)
		s.Choose(at, func(a launchrule.Answer) bool {
			x := Reason{Answer: a, Refusal: b.refusal(a, at)}
			f := b.analytic[a.List.FamilyOf(a.Rule())]
			switch {
			case f == nil:
				x.Variant.Family = a.List.FamilyOf(a.Rule())
			case a.Rule().Config.String() == "":
				x.Variant = kernels.Variant{Family: f.Name, Config: b.base(f, p, d)}
			default:
				x.Variant = kernels.Variant{Family: f.Name, Config: b.config(f, a.List, a.Rule(), at)}
			}
			if x.Variant != v {
				reasons = append(reasons, x)
			} else if taken.Index < 0 {
				taken.Answer = a
			}
			return false
		})
	}
	reasons = append([]Reason{taken}, reasons...)
	if base, err := With().Base(p, d); err == nil && (base != v || taken.Index >= 0) {
		reasons = append(reasons, Reason{Answer: launchrule.Answer{Index: -1}, Variant: base})
	}
	return reasons
}

// halfBusy says whether a plan's main kernel has CTAs for half of the SMs.
func halfBusy(plan kernels.Plan, d kernels.DeviceInfo) bool {
	for _, l := range plan.Launches {
		if l.Stage == "k1" {
			return 2*l.Grid[0] >= d.SMs
		}
	}
	return false
}
