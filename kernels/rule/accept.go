package rule

import (
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Accepts says whether a family accepts a whole config at all problems of maps with so many columns and rows, both ends
// included: with every type of weight, with a bias and without. It asks on a lattice.
func Accepts(reg *kernels.Registry, d kernels.DeviceInfo, c Class, align, nLo, nHi, mLo, mHi int64, v kernels.Variant) bool {
	f, err := reg.Lookup(v.Family)
	return err == nil && accepts(f, d, c, align, nLo, nHi, mLo, mHi, v.Config)
}

func accepts(f *kernels.Family, d kernels.DeviceInfo, c Class, align, nLo, nHi, mLo, mHi int64, config kernels.Config) bool {
	if f.Op != c.Op || f.Pass != c.Pass || strange(f, config) != nil {
		return false
	}
	kin, config := c.kin(), config.Unpacked()
	if f.Serves(kin[0]) == nil { // a user's kernel may serve no bias: its problems are those that it serves
		kin = slices.DeleteFunc(kin, func(p kernels.Problem) bool { return f.Serves(p) != nil })
	}
	for i, n := range columnsIn(nLo, nHi, align, c) {
		for j, m := range rowsIn(mLo, min(mHi, MaxElems/n), c) {
			for k, p := range kin {
				p.M, p.N = m, n
				if k > 0 && i > 0 && j > 0 && (i+j)%3 > 0 || ClassOf(p) != c {
					continue
				}
				if f.Serves(p) != nil || f.Refuse(p, config, d) != nil {
					return false
				}
			}
		}
	}
	return true
}

// Whole is v with the knobs of its family that it leaves out, as one does that was measured before there were such knobs: 0, which is
// what kernels did then. Records of both are of one config.
func Whole(reg *kernels.Registry, v kernels.Variant) kernels.Variant {
	if f, err := reg.Lookup(v.Family); err == nil {
		for _, r := range f.Knobs {
			if _, ok := v.Config.Lookup(r.Knob); !ok {
				v.Config = v.Config.With(kernels.Setting{Knob: r.Knob})
			}
		}
	}
	return v
}

// strange says which knob a config has and its family has not, or nil.
func strange(f *kernels.Family, c kernels.Config) error {
	if c.String() == "" && len(f.Knobs) > 0 {
		return hint.Errorf("`normbench list kernels` shows its knobs", "%s has no such knobs", f.Name)
	}
	for _, s := range c.Settings() {
		if !slices.ContainsFunc(f.Knobs, func(r kernels.Range) bool { return r.Knob == s.Knob }) {
			return hint.Errorf("`normbench list kernels` shows its knobs", "%s has no knob %q", f.Name, s.Knob.Key)
		}
	}
	return nil
}

// units are what columns and rows of a class's problems are multiples of at an alignment.
func (c Class) units(align int64) (n, m int64) {
	if p := c.Problem(16, 128); p.Transpose && ClassOf(p) == c {
		return 128, 16
	}
	return align / c.Bytes, 1
}

// columnsIn are columns in a range at an alignment: the ends, those with many divisors, and uneven ones.
func columnsIn(lo, hi, align int64, c Class) []int64 {
	unit, _ := c.units(align)
	return lattice(lo, hi, unit, func(n int64) bool { return AlignOf(n, c.Bytes) == align })
}

// rowsIn are counts of rows in a range: the ends, those with many divisors, and uneven ones.
func rowsIn(lo, hi int64, c Class) []int64 {
	_, unit := c.units(16)
	return lattice(lo, hi, unit, func(int64) bool { return true })
}

// lattice is some multiples of unit in a range.
func lattice(lo, hi, unit int64, ok func(int64) bool) (list []int64) {
	add := func(n int64) {
		if lo <= n && n <= hi && n%unit == 0 && ok(n) {
			list = append(list, n)
		}
	}
	first, last := (lo+unit-1)/unit, hi/unit
	for _, at := range []int64{first, first + 1, last, last - 1, (first + last) / 2, (first+last)/2 + 1, (first*3 + last) / 4, (first + last*3) / 4, (first*5+last*2)/7 | 1} {
		add(at * unit)
	}
	for step := int64(64); step <= hi; step *= 4 {
		add((lo + step - 1) / step * step)
		add(hi / step * step)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
