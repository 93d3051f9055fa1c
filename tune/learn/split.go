package learn

import (
	"math"
	"slices"

	"normbench/kernels/rule"
)

const (
	// leastSplit is the expected regret that one more line or bound saves in the mean of a raster, at least.
	leastSplit = 1e-4
	// mostSplits bounds the lines and bounds that a raster gets at once.
	mostSplits = 8
)

// eighthsIn are the widths of models in a range: powers of two times 1, 9/8 to 15/8.
func eighthsIn(lo, hi int64) (list []int64) {
	for unit := int64(1); 8*unit <= hi; unit *= 2 {
		for e := int64(8); e < 16; e++ {
			if n := e * unit; lo <= n && n <= hi {
				list = append(list, n)
			}
		}
	}
	return list
}

// widthsIn is how much a range of columns counts: half by its octaves, half by the widths of models in it.
func widthsIn(lo, hi int64) float64 {
	return math.Log2(float64(hi+1)/float64(lo))/2 + float64(len(eighthsIn(lo, hi)))/16
}

// A cut is where a line or a column of cells may be split: the last number of the lower part.
type cut struct {
	rows bool
	at   int // line or cell
	last int64
}

// split gives a raster more lines and bounds where families refuse the best configs in a part of a cell, and two parts
// lose less. It says whether it did.
func (f *Filler) split(c *class, r *rule.Raster, squares []*square) bool {
	gains := map[cut]float64{}
	total := 0.0
	for _, s := range squares {
		total += s.weight
		now := slices.IndexFunc(s.options, func(g guess) bool { return f.accepts(s.box, c.variants[g.variant]) })
		if now <= 0 || s.options[now].regret-s.options[0].regret < 0.005 {
			continue
		}
		nLo, nHi, mLo, mHi := s.box.nLo, s.box.nHi, s.box.mLo, s.box.mHi
		// saved is what a part of the cell gains by options that are refused elsewhere in it.
		saved := func(nLo, nHi, mLo, mHi int64) float64 {
			for _, g := range s.options[:now] {
				if f.accepts(box{s.box.title, nLo, nHi, mLo, mHi}, c.variants[g.variant]) {
					return s.options[now].regret - g.regret
				}
			}
			return 0
		}
		for _, n := range eighthsIn(nLo, nHi) {
			for _, last := range []int64{n - 1, n} {
				if last >= nLo && last < nHi {
					low, high := widthsIn(nLo, last), widthsIn(last+1, nHi)
					gains[cut{false, s.line, last}] += s.weight * (low*saved(nLo, last, mLo, mHi) + high*saved(last+1, nHi, mLo, mHi)) / (low + high)
				}
			}
		}
		if s.cell > 0 && mHi > mLo+4 {
			m := int64(math.Sqrt(float64(mLo) * float64(mHi)))
			if p := m * 100 / int64(max(f.Device.SMs, 1)); r.Rows[s.cell].PerSM > 0 {
				m = p * int64(f.Device.SMs) / 100
			}
			gains[cut{true, s.cell, m}] += s.weight * (saved(nLo, nHi, mLo, m) + saved(nLo, nHi, m+1, mHi)) / 2
		}
	}
	var cuts []cut
	for x, g := range gains {
		if g > leastSplit*total {
			cuts = append(cuts, x)
		}
	}
	slices.SortFunc(cuts, func(a, b cut) int {
		switch {
		case gains[a] != gains[b]:
			return int(math.Copysign(1, gains[b]-gains[a]))
		case a.rows != b.rows:
			return map[bool]int{true: 1, false: -1}[a.rows]
		case a.at != b.at:
			return a.at - b.at
		}
		return int(a.last - b.last)
	})
	type where struct {
		rows bool
		at   int
	}
	done := map[where]bool{}
	var kept []cut
	for _, x := range cuts { // one for each line and bound, the rest is seen anew
		if !done[where{x.rows, x.at}] && len(kept) < mostSplits {
			done[where{x.rows, x.at}] = true
			kept = append(kept, x)
		}
	}
	for _, x := range kept {
		if x.rows {
			b := rule.Bound{Rows: x.last}
			if r.Rows[x.at].PerSM > 0 {
				b = rule.Bound{PerSM: (x.last*100 + int64(f.Device.SMs) - 1) / int64(f.Device.SMs)}
			}
			r.Rows = append(r.Rows, b)
		} else {
			r.Lines = append(r.Lines, rule.Line{From: x.last + 1})
		}
	}
	slices.SortFunc(r.Rows, func(a, b rule.Bound) int { return int(a.Last(f.Device.SMs) - b.Last(f.Device.SMs)) })
	slices.SortFunc(r.Lines, func(a, b rule.Line) int { return int(a.From - b.From) })
	r.Clear()
	return len(kept) > 0
}
