package lab

import (
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/tune/ref"
)

// coverage is which shapes a verify has checked of those asked for, for each REF that was named and
// each family of the user's, by op and pass.
type coverage struct {
	refs     []*ref.Ref
	problems []kernels.Problem
	typed    map[[2]int64]bool
	onCPU    bool
	checked  map[coveredShape]bool
	refused  map[coveredShape]string
}

type coveredShape struct {
	ref  string
	op   kernels.Op
	pass kernels.Pass
	m, n int64
}

func coverShape(r *ref.Ref, p kernels.Problem) coveredShape {
	return coveredShape{r.Text, p.Op, p.Pass, p.M, p.N}
}

func (l *Lab) newCoverage(c *VerifyTask, guests []*kernels.Family) *coverage {
	s := &coverage{refs: c.Refs, problems: c.Problems, typed: map[[2]int64]bool{},
		onCPU:   c.Device.Info().Kind == kernels.KindCPU,
		checked: map[coveredShape]bool{}, refused: map[coveredShape]string{}}
	for _, t := range c.Typed {
		s.typed[[2]int64{t.M, t.N}] = true
	}
	if len(c.Refs) == 0 {
		for _, f := range guests {
			if r, err := l.Parse(f.Name); err == nil {
				s.refs = append(s.refs, r)
			}
		}
	}
	return s
}

// ran notes what the device itself checks of REFs.
func (s *coverage) ran(l *Lab, refs []*ref.Ref, info kernels.DeviceInfo) {
	for _, r := range refs {
		for _, p := range s.problems {
			vs, err := s.checkedVariants(l)(r, p, info)
			if len(vs) > 0 {
				s.add(r, p)
			}
			s.refuse(r, p, err)
		}
	}
}

func (s *coverage) add(r *ref.Ref, p kernels.Problem) { s.checked[coverShape(r, p)] = true }

// refuse notes why a REF has no variant for a problem, where it has any for its op and pass.
func (s *coverage) refuse(r *ref.Ref, p kernels.Problem, err error) {
	if err != nil {
		s.refused[coverShape(r, p)] = err.Error()
	}
}

// noteUncovered says which shapes asked for were not checked, and why: typed ones are missed by v.
func (s *coverage) noteUncovered(l *Lab, v *Verification) {
	done := map[coveredShape]bool{}
	others := map[string]int{} // shapes of groups, by what has not checked them
	var order []string
	for _, r := range s.refs {
		for _, p := range s.problems {
			at := coverShape(r, p)
			if s.checked[at] || done[at] || slices.Contains(v.Unrun, r.Text) || !l.serves(r, p) {
				continue
			}
			done[at] = true
			shape := fmt.Sprintf("%dx%d", p.M, p.N)
			if !s.typed[[2]int64{p.M, p.N}] {
				if others[r.Text] == 0 {
					order = append(order, r.Text)
				}
				others[r.Text]++
				continue
			}
			why := s.refused[at]
			switch {
			case why != "":
			case s.onCPU && p.M*p.N > emulatedElements:
				why = fmt.Sprintf("it has %d elements, and the emulator takes at most %d", p.M*p.N,
					emulatedElements)
			default:
				why = "no config takes it"
			}
			l.Notef("%s %s %s was not checked at %s: %s", r.Text, p.Op, p.Pass, shape, console.OneLine(why))
			if one := r.Text + " at " + shape; !slices.Contains(v.Missed, one) {
				v.Missed = append(v.Missed, one)
			}
		}
	}
	var parts []string
	for _, name := range order {
		parts = append(parts, fmt.Sprintf("%d of %s", others[name], name))
	}
	if len(parts) > 0 {
		l.Notef("shapes of the group that were not checked, as the emulator takes three of at most %d "+
			"elements: %s", emulatedElements, strings.Join(parts, ", "))
	}
}

// serves says whether a REF may have a variant for the op and pass of p.
func (l *Lab) serves(r *ref.Ref, p kernels.Problem) bool {
	if r.Kind != ref.Family {
		return r.Kind != ref.Recorded && r.Kind != ref.Tuned
	}
	f, err := l.Registry.Lookup(r.Name)
	return err == nil && f.Op == p.Op && f.Pass == p.Pass
}

// checkedVariants chooses the variants that verify checks of a REF: those of Variants or, of a family whose base
// config refuses a typed shape, the first config that takes it.
func (s *coverage) checkedVariants(l *Lab) variantsFunc {
	return func(r *ref.Ref, p kernels.Problem, info kernels.DeviceInfo) ([]kernels.Variant, error) {
		vs, err := l.Variants(r, p, info)
		if err == nil || r.Kind != ref.Family || r.Text != r.Name || !s.typed[[2]int64{p.M, p.N}] ||
			!slices.ContainsFunc(s.refs, func(o *ref.Ref) bool { return o.Text == r.Text }) {
			return vs, err
		}
		f, bad := l.Registry.Lookup(r.Name)
		if bad != nil || f.CheckServes(p) != nil {
			return nil, err
		}
		configs, _ := f.Configs(p, info)
		if len(configs) == 0 {
			return nil, err
		}
		l.NoteOnce(fmt.Sprintf("the base config of %s refuses %s (%s); the first that takes it is checked: %s",
			f.Name, p, console.OneLine(err.Error()), configs[0]))
		return []kernels.Variant{{Family: f.Name, Config: configs[0]}}, nil
	}
}
