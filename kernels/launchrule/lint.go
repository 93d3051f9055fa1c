package launchrule

import (
	"fmt"
	"maps"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Judge says what the registry makes of variants on a device.
type Judge struct {
	Registry *kernels.Registry
	Device   kernels.DeviceInfo
}

// Accepts says whether a full config can run.
func (j Judge) Accepts(p kernels.Problem, v kernels.Variant) bool {
	f, err := j.Registry.Lookup(v.Family)
	return err == nil && f.CheckServes(p) == nil && f.Refuse(p, v.Config, j.Device) == nil
}

// refusal is why a variant whose config may leave knobs out cannot run, or nil.
func (j Judge) refusal(p kernels.Problem, v kernels.Variant) error {
	f, err := j.Registry.Lookup(v.Family)
	if err == nil {
		err = f.CheckServes(p)
	}
	if err == nil {
		_, err = f.Complete(p, v.Config, j.Device)
	}
	return err
}

// A Finding is what is wrong with a rule, or a list where Rule is -1, or the set where List is too.
type Finding struct {
	List, Rule int // from 0
	Text       string
}

// Lint finds what makes rules wrong with these kernels on this device: rules
// that can never fire, families and knobs that are gone, configs that the
// registry refuses in their box, sources that have changed since. stale says what the source
// hash of a family is now, where the rules are of another.
//
// Measured rules must be accepted in all of their box, as exported code cannot ask. Rules without evidence
// are refused where their launch is nowhere accepted: elsewhere the next list answers.
func (s *Set) Lint(j Judge, stale func(f *kernels.Family, source string) (now string, ok bool)) []Finding {
	var found []Finding
	add := func(list, rule int, format string, args ...any) {
		at := ""
		if list >= 0 {
			at = s.Lists[list].Title()
		}
		if rule >= 0 {
			at += fmt.Sprintf(" rule %d (%s)", rule+1, s.Lists[list].Rules[rule].Box)
		}
		if at != "" {
			at += ": "
		}
		found = append(found, Finding{list, rule, at + fmt.Sprintf(format, args...)})
	}
	if s.Device.ID != j.Device.ID {
		add(-1, -1, "the rules are for %s, not for %s", s.Device.ID, j.Device.ID)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		f, err := j.Registry.Lookup(name)
		if err != nil {
			continue // said where a rule uses it
		}
		if now, ok := stale(f, s.Sources[name]); ok {
			add(-1, -1, "stale: the sources of %s are %s, and the rules are from %s", name, now, s.Sources[name])
		}
	}
	if !slices.ContainsFunc(s.Lists, func(l List) bool { return len(l.Rules) > 0 }) {
		add(-1, -1, "empty: it has no rule")
	}
	for i := range s.Lists {
		l := &s.Lists[i]
		for n := range l.Rules {
			r := &l.Rules[n]
			if k := slices.IndexFunc(l.Rules[:n], func(o Rule) bool { return o.If == "" && o.Covers(r.Box) }); k >= 0 {
				add(i, n, "unreachable behind rule %d (%s)", k+1, l.Rules[k].Box)
				continue
			}
			if r.Then != "" {
				continue
			}
			if err := l.strange(r, j.Registry); err != nil {
				add(i, n, "%v", err)
				continue
			}
			if k := slices.IndexFunc(s.Lists[:i], func(o List) bool { return o.hides(l, n) }); k >= 0 {
				add(i, n, "unreachable behind the rules of %s, list %d", s.Lists[k].Title(), k+1)
				continue
			}
			if _, ok := s.Sources[l.FamilyOf(r)]; !ok && l.Origin == "" {
				add(i, n, "no source hash of %s", l.FamilyOf(r))
			}
			if why := s.refused(j, l, n); why != "" {
				add(i, n, "%s", why)
			}
		}
	}
	return found
}

// hides says whether no problem that the n-th rule of o, a later list, is for gets past l: a rule of the same family
// is asked first, or one that ends the search. What a rule before that one takes off must not reach o's either.
func (l *List) hides(o *List, n int) bool {
	r := &o.Rules[n]
	family := o.FamilyOf(r)
	wider := l.Op == o.Op && l.Pass == o.Pass && (l.Bytes == 0 || l.Bytes == o.Bytes) && l.With&^o.With == 0 && l.Without&^o.Without == 0 &&
		(l.Hull == Hull{} || l.Hull == o.Hull) && (!l.Own || o.Own) && (l.Family == "" || l.Family == family)
	for i := range l.Rules {
		q := &l.Rules[i]
		ends := q.If == "" && (q.Then == Base || q.Then == "" && l.FamilyOf(q) == family && (q.Config.String() != "" || r.Config.String() == ""))
		switch {
		case !wider:
			return false
		case ends && q.Covers(r.Box):
			return true
		case !ends && !slices.ContainsFunc(o.Rules[:n], func(x Rule) bool { return x.If == "" && x.Covers(q.Box) }):
			return false
		}
	}
	return false
}

// strange says that a registry does not have a rule's family, or the family a knob of it.
func (l *List) strange(r *Rule, registry *kernels.Registry) error {
	if r.Then != "" {
		return nil
	}
	f, err := registry.Lookup(l.FamilyOf(r))
	if err != nil {
		return err
	}
	for _, set := range l.Rest.With(r.Config.Settings()...).Settings() {
		if !slices.ContainsFunc(f.Knobs, func(x kernels.Range) bool { return x.Knob == set.Knob }) {
			return hint.Errorf("`normbench list kernels` shows its knobs", "%s has no knob %q", f.Name, set.Knob.Key)
		}
	}
	return nil
}

// Strange is the first rule, by list and number, that names a family or a knob that the registry does not
// have; err is nil where there is none.
func (s *Set) Strange(registry *kernels.Registry) (list, rule int, err error) {
	for i := range s.Lists {
		for n := range s.Lists[i].Rules {
			l := &s.Lists[i]
			if err := l.strange(&l.Rules[n], registry); err != nil {
				return i, n, hint.With(&ruleError{i, n, l.Title(), err}, hint.Of(err))
			}
		}
	}
	return 0, 0, nil
}

// refused is why the n-th rule of a list is wrong in its box: no problem reaches it, or its launch is refused.
func (s *Set) refused(j Judge, l *List, n int) string {
	r, reached, accepted, why := &l.Rules[n], false, false, error(nil)
	for at := range l.probes(n, j.Device) {
		if i, _ := l.Find(at); i != n {
			continue
		}
		reached = true
		err := j.refusal(at.Problem, l.Variant(r, at.Problem.N, at.bytes))
		if err == nil {
			if accepted = true; l.Origin != "" {
				return ""
			}
			continue
		}
		if why = err; l.Origin == "" {
			break
		}
	}
	if at, _ := l.narrowed(n, j.Device); !reached && at != nil { // between the probes
		why = j.refusal(at.Problem, l.Variant(r, at.Problem.N, at.bytes))
		reached, accepted = true, why == nil
	}
	switch {
	case !reached && l.Hull != Hull{}:
		return "unreachable outside the hull (" + l.Hull.String() + ")"
	case !reached:
		return "unreachable"
	case why != nil && (l.Origin == "" || !accepted):
		return why.Error()
	}
	return ""
}
