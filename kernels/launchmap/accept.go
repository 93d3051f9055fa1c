package launchmap

import (
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Accepts says whether a family accepts a config at all problems in the box: with every type of weight,
// with a bias and without. It tries sample problems only: all sample columns with the fewest and the
// most rows, and all sample rows with the last columns. That is enough, as families refuse by the
// columns, by the rows, or from some size on.
func (b Box) Accepts(reg *kernels.Registry, d kernels.DeviceInfo, v kernels.Variant) bool {
	f, err := findFamily(reg, v)
	if err != nil || f.Op != b.Class.Op || f.Pass != b.Class.Pass ||
		f.Fragile != nil && f.Fragile(v.Config) {
		return false
	}
	ns := b.sampleColumns()
	problems := b.servedAmong(f, b.Class.sampleProblems(), ns)
	if problems == nil {
		return false
	}
	for i, n := range slices.Backward(ns) { // wide rows are what is refused most
		ms := b.sampleRows(n)
		for k, p := range problems { // outside of the rows: families remember what does not rest on these
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
				if b.BatchInvariant && !f.KeepsRows(p, v.Config, d) {
					return false
				}
			}
		}
	}
	return true
}

// isServed says whether a variant's family serves all types and options of the box's class, with every type of weight.
func (b Box) isServed(reg *kernels.Registry, v kernels.Variant) bool {
	f, err := findFamily(reg, v)
	if err != nil {
		return false
	}
	for _, n := range middleAndEnds(b.sampleColumns()) {
		for _, m := range middleAndEnds(b.sampleRows(n)) {
			for _, form := range b.Class.forms() {
				for _, w := range kernels.DTypes() {
					p := form.problem(b.Class, m, n)
					if p.Weight = w; p.Validate() == nil && ClassOf(p) == b.Class && f.Serves(p) != nil {
						return false
					}
				}
			}
		}
	}
	return true
}

// servedAmong lists the problems that a family serves at the most of some columns and their most rows: a user's
// kernel may serve no bias, or wide rows alone. There are none if it does not serve the first, which map learn
// measures.
func (b Box) servedAmong(f *kernels.Family, problems []kernels.Problem, ns []int64) (list []kernels.Problem) {
	for i, p := range problems {
		at := p
		if len(ns) > 0 {
			at.N = ns[len(ns)-1]
			if ms := b.sampleRows(at.N); len(ms) > 0 {
				at.M = ms[len(ms)-1]
			}
		}
		switch served := f.Serves(at) == nil; {
		case served:
			list = append(list, p)
		case i == 0:
			return nil
		}
	}
	return list
}

// findFamily finds the family of a map's variant. It fails if there is none, or none with such knobs.
func findFamily(reg *kernels.Registry, v kernels.Variant) (*kernels.Family, error) {
	f, err := reg.Lookup(v.Family)
	switch {
	case err != nil:
		return nil, err
	case v.Config.String() == "" && len(f.Knobs) > 0:
		return nil, hint.Errorf("`normbench list families` shows its knobs", "%s has no such knobs", f.Name)
	}
	return f, f.CheckKnobs(v.Config)
}

// withZeroKnobs sets knobs that c lacks to 0. They are newer than c's measurement, and 0 is what kernels
// did then; so records of both are of one config.
func withZeroKnobs(f *kernels.Family, c kernels.Config) kernels.Config {
	for _, r := range f.Knobs {
		if _, ok := c.Lookup(r.Knob); !ok {
			c = c.With(kernels.Setting{Knob: r.Knob})
		}
	}
	return c
}

// Width returns the columns of the box's problems where all have as many, else 0.
func (b *Box) Width() int64 {
	unit, _ := b.units()
	if n := (b.NLo + unit - 1) / unit * unit; n <= b.NHi && n+unit > b.NHi {
		return n
	}
	return 0
}

// sampleColumns lists some of the box's columns: the ends, some with many divisors, and some uneven
// ones.
func (b *Box) sampleColumns() []int64 {
	unit, _ := b.units()
	return slices.DeleteFunc(sampleMultiples(b.NLo, b.NHi, unit), func(n int64) bool {
		return AlignOf(n, b.Class.Bytes) != b.Align
	})
}

// sampleRows lists some of the box's numbers of rows for n columns, as sampleColumns does.
func (b *Box) sampleRows(n int64) []int64 {
	_, unit := b.units()
	return sampleMultiples(b.MLo, min(b.MHi, MaxElems/n), unit)
}

// units returns the numbers of which the columns and the rows of the box's problems are multiples.
func (b *Box) units() (n, m int64) {
	if p := b.Class.sample(); p.Transpose && p.M == 16 {
		return 128, 16
	}
	return b.Align / b.Class.Bytes, 1
}

// sampleMultiples lists some multiples of unit from lo to hi, ascending.
func sampleMultiples(lo, hi, unit int64) (list []int64) {
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
