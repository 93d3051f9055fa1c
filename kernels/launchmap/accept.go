package launchmap

import (
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Accepts says whether a family accepts a whole config at all problems of maps in the box: with
// every type of weight, with a bias and without. It asks for all columns of a lattice with the fewest
// and the most rows, and for all rows of the last: what is refused is so by the columns, by the rows,
// or from some size on. Registers for a weight of another type depend on the columns alone.
func (b Box) Accepts(reg *kernels.Registry, d kernels.DeviceInfo, v kernels.Variant) bool {
	f, err := familyOf(reg, v)
	if err != nil || f.Op != b.Class.Op || f.Pass != b.Class.Pass ||
		f.Fragile != nil && f.Fragile(v.Config) {
		return false
	}
	kin := b.Class.sampleProblems()
	if f.Serves(kin[0]) == nil { // a user's kernel may serve no bias: its problems are those it serves
		kin = slices.DeleteFunc(kin, func(p kernels.Problem) bool { return f.Serves(p) != nil })
	}
	ns := b.columns()
	for i, n := range slices.Backward(ns) { // wide rows are what is refused most
		ms := b.rows(n)
		for k, p := range kin { // outside of the rows: families remember what does not rest on these
			for j, m := range ms {
				first, last := j == 0, j == len(ms)-1
				if asked := last || first && k*i == 0 || i == len(ns)-1 && k == 0; !asked {
					continue
				}
				if p.M, p.N = m, n; ClassOf(p) != b.Class {
					continue
				}
				if f.Serves(p) != nil || f.Refuse(p, v.Config, d) != nil {
					return false
				}
			}
		}
	}
	return true
}

// familyOf is the family of a map's variant, or the error that there is none with such knobs.
func familyOf(reg *kernels.Registry, v kernels.Variant) (*kernels.Family, error) {
	f, err := reg.Lookup(v.Family)
	switch {
	case err != nil:
		return nil, err
	case v.Config.String() == "" && len(f.Knobs) > 0:
		return nil, hint.Errorf("`normbench list families` shows its knobs", "%s has no such knobs", f.Name)
	}
	return f, f.CheckKnobs(v.Config)
}

// withZeroKnobs completes a config that was measured before its family had some of its knobs: they are 0,
// which is what kernels did then. Records of both are of one config.
func withZeroKnobs(f *kernels.Family, c kernels.Config) kernels.Config {
	for _, r := range f.Knobs {
		if _, ok := c.Lookup(r.Knob); !ok {
			c = c.With(kernels.Setting{Knob: r.Knob})
		}
	}
	return c
}

// columns are some of the box: the ends, those with many divisors, and uneven ones.
func (b *Box) columns() []int64 {
	unit, _ := b.units()
	return slices.DeleteFunc(lattice(b.NLo, b.NHi, unit), func(n int64) bool {
		return AlignOf(n, b.Class.Bytes) != b.Align
	})
}

// rows are some counts of rows of n columns, as columns.
func (b *Box) rows(n int64) []int64 {
	_, unit := b.units()
	return lattice(b.MLo, min(b.MHi, MaxElems/n), unit)
}

// units are what the columns and the rows of the box's problems are multiples of.
func (b *Box) units() (n, m int64) {
	if p := b.Class.sample(); p.Transpose && p.M == 16 {
		return 128, 16
	}
	return b.Align / b.Class.Bytes, 1
}

// lattice is some multiples of unit in a range.
func lattice(lo, hi, unit int64) (list []int64) {
	first, last := (lo+unit-1)/unit, hi/unit
	for _, at := range []int64{first, first + 1, last, last - 1, (first + last) / 2, (first+last)/2 + 1,
		(first*3 + last) / 4, (first + last*3) / 4, (first*5+last*2)/7 | 1} {
		list = append(list, at*unit)
	}
	for step := int64(64); step <= hi; step *= 4 {
		list = append(list, (lo+step-1)/step*step, hi/step*step)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(n int64) bool {
		return n < lo || n > hi || n%unit != 0
	})
}
