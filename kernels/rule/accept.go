package rule

import (
	"slices"

	"normbench/kernels"
)

// Accepts says whether a family accepts a whole config at all problems of maps with so many columns and rows, both ends
// included: with every type of weight, with a bias and without. It asks on a lattice.
func Accepts(reg *kernels.Registry, d kernels.DeviceInfo, c Class, align, nLo, nHi, mLo, mHi int64, v kernels.Variant) bool {
	f, err := reg.Lookup(v.Family)
	return err == nil && accepts(f, d, c, align, nLo, nHi, mLo, mHi, v.Config)
}

func accepts(f *kernels.Family, d kernels.DeviceInfo, c Class, align, nLo, nHi, mLo, mHi int64, config kernels.Config) bool {
	if f.Op != c.Op || f.Pass != c.Pass {
		return false
	}
	ns, kin := columnsIn(nLo, nHi, align, c.Bytes), c.kin()
	for _, p := range kin {
		if f.Serves(sized(p, 1, 64)) != nil {
			return false
		}
	}
	for i, n := range ns {
		for j, m := range rowsIn(mLo, min(mHi, MaxElems/n)) {
			for k, p := range kin {
				if (k == 0 || (i+j)%3 == 0 || j == 0 || i == 0) && f.Refuse(sized(p, m, n), config, d) != nil {
					return false
				}
			}
		}
	}
	return true
}

// columnsIn are columns in a range at an alignment: the ends, powers of two and their multiples, and uneven ones.
func columnsIn(lo, hi, align, bytes int64) (ns []int64) {
	unit := align / bytes
	add := func(n int64) {
		if lo <= n && n <= hi && AlignOf(n, bytes) == align {
			ns = append(ns, n)
		}
	}
	first, last := (lo+unit-1)/unit, hi/unit
	for _, at := range []int64{first, first + 1, last, last - 1, (first + last) / 2, (first+last)/2 + 1, (first*3 + last) / 4, (first + last*3) / 4, (first*5+last*2)/7 | 1} {
		add(at * unit)
	}
	if align == 16 {
		for step := int64(64); step <= hi; step *= 4 {
			add((lo + step - 1) / step * step)
			add(hi / step * step)
			add(hi/step*step - step)
		}
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// rowsIn are counts of rows in a range: the ends, the middle, powers of two and uneven ones.
func rowsIn(lo, hi int64) (ms []int64) {
	for _, m := range []int64{lo, hi, lo + 1, hi - 1, (lo + hi) / 2, (lo*3 + hi) / 4, (lo + hi*3) / 4} {
		if lo <= m && m <= hi {
			ms = append(ms, m)
		}
	}
	for p := int64(1); p <= hi; p *= 2 {
		if p >= lo {
			ms = append(ms, p)
		}
	}
	slices.Sort(ms)
	return slices.Compact(ms)
}

func sized(p kernels.Problem, m, n int64) kernels.Problem {
	p.M, p.N = m, n
	return p
}
