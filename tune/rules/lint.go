package rules

import (
	"fmt"
	"slices"

	"normbench/kernels"
	"normbench/kernels/families"
)

// Lint finds what makes rules wrong with these kernels on this device: rules
// that can never fire, families and knobs that are gone, configs that the
// registry refuses somewhere in their box, sources that have changed since.
// hash gives a family's source hash.
func (s *Set) Lint(j Judge, hash func(*kernels.Family) (string, error)) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if s.Device.ID != j.Device.ID {
		add("the rules are for %s, not for %s", s.Device.ID, j.Device.ID)
	}
	for _, name := range sortedKeys(s.Sources) {
		f, err := j.Registry.Lookup(name)
		if err != nil {
			continue // said where a rule uses it
		}
		if now, err := hash(f); err == nil && now != families.FromSchema1(s.Sources[name]) {
			add("stale: the sources of %s are %s, and the rules are from %s", name, now, s.Sources[name])
		}
	}
	j.Device.Units = max(j.Device.Units, 1)
	for i := range s.Classes {
		l := &s.Classes[i]
		t := &table{class: l.Class, sms: j.Device.Units, judge: j, probes: map[probe]bool{}}
		for n := range l.Rules {
			r := &l.Rules[n]
			at := fmt.Sprintf("%s rule %d (%s)", l.Class, n+1, r.Box)
			f, err := j.Registry.Lookup(r.Family)
			if err != nil {
				add("%s: unknown family %q", at, r.Family)
				continue
			}
			if _, ok := s.Sources[r.Family]; !ok {
				add("%s: no source hash of %s", at, r.Family)
			}
			if k := slices.IndexFunc(l.Rules[:n], func(o Rule) bool { return o.covers(r.Box) }); k >= 0 {
				add("%s: unreachable behind rule %d (%s)", at, k+1, l.Rules[k].Box)
				continue
			}
			strange := false
			for _, set := range r.Config.Settings() {
				if !slices.ContainsFunc(f.Knobs, func(x kernels.Range) bool { return x.Knob == set.Knob }) {
					add("%s: %s has no knob %q", at, r.Family, set.Knob.Key)
					strange = true
				}
			}
			if !strange {
				if why := t.refusal(r.Box, r.Recipe, l.Hull, s.like(l.Class)); why != "" {
					add("%s: %s", at, why)
				}
			}
		}
	}
	return found
}

// like is a problem of a class as the rules are for: launches know its type and options.
func (s *Set) like(c Class) kernels.Problem {
	if i := slices.IndexFunc(s.UpTo, func(p kernels.Problem) bool { return ClassOf(p) == c }); i >= 0 {
		return s.UpTo[i]
	}
	return c.problem(1, 1)
}

// refusal is where, in a box and the hull, a recipe is refused for problems like p, and why.
func (t *table) refusal(b Box, r Recipe, h Hull, p kernels.Problem) string {
	nOver, nMost, mOver, mMost := b.bounds(h, t.sms)
	if nOver >= nMost || mOver >= mMost {
		return "unreachable outside the hull (" + h.String() + ")"
	}
	any := false
	for _, n := range (alignment{b.RowAlign, b.RowUneven}).lattice(nOver, nMost, t.class.Bytes) {
		for _, m := range b.rowsAt(mOver, mMost, int64(t.sms)) {
			p.M, p.N = m, n
			if !h.Holds(p.M, p.N, t.sms) {
				continue
			}
			any = true
			v := r.At(n, t.class.Bytes)
			if f, err := t.judge.Registry.Lookup(v.Family); err == nil {
				if err := f.CheckServes(p); err != nil {
					return err.Error()
				}
				if err := f.Refuse(p, v.Config, t.judge.Device); err != nil {
					return fmt.Sprintf("%s refuses %s for %s: %v", v.Family, v.Config, p, err)
				}
			}
		}
	}
	if !any {
		return "unreachable outside the hull (" + h.String() + ")"
	}
	return ""
}

// rowsAt are numbers of rows in the box at which to ask, of those that come to more than
// over and at most most per multiprocessor.
func (b Box) rowsAt(over, most, sms int64) []int64 {
	var ms []int64
	if b.RowsOver == 0 && b.RowsMax == 0 && b.RowsMultiple == 0 {
		for _, q := range lattice(over, most) {
			ms = append(ms, q*sms)
		}
		return ms
	}
	over, most = max(over*sms, b.RowsOver), most*sms
	if b.RowsMax > 0 {
		most = min(most, b.RowsMax)
	}
	k := max(b.RowsMultiple, 1)
	for _, m := range lattice(over, most) {
		for _, m := range []int64{m / k * k, (m + k - 1) / k * k} {
			if over < m && m <= most {
				ms = append(ms, m)
			}
		}
	}
	slices.Sort(ms)
	return slices.Compact(ms)
}

// bounds are a box's columns and rows per multiprocessor, within the hull.
func (b Box) bounds(h Hull, sms int) (nOver, nMost, mOver, mMost int64) {
	nOver, nMost, mOver, mMost = max(b.NOver, h.NMin-1), h.NMax, max(b.MOver, h.MMin-1), h.MMax
	mOver = max(mOver, RowsPerSM(b.RowsOver+1, sms)-1)
	if b.RowsMax > 0 {
		mMost = min(mMost, RowsPerSM(b.RowsMax, sms))
	}
	if b.NMax > 0 {
		nMost = min(nMost, b.NMax)
	}
	if b.MMax > 0 {
		mMost = min(mMost, b.MMax)
	}
	return nOver, nMost, mOver, mMost
}
