package rules

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// Costs of a shape that is not the same, in log time. A variant is expected to lose
// octaveOfColumns to the best for each octave between the columns of two shapes. An octave of rows
// costs half as much. An octave of the alignment of rows, up to 16 bytes, costs twice as much. On
// the H200's records, the best variants lose some 3% one octave of columns away.
const (
	octaveOfColumns = 0.03
	octaveOfRows    = 0.015
	octaveOfAligned = 0.06
)

// Near lists up to k variants that are likely to be fast on p, the likeliest first: those that
// were the least behind the best at shapes like it, of the same op, pass and size of an
// element. Only what can run counts, and of several that launch the same the first.
func (d *Data) Near(p kernels.Problem, k int, j launchrule.Judge) []kernels.Variant {
	class := launchrule.ClassOf(p)
	expected := map[kernels.Variant]float64{}
	for _, s := range d.Shapes {
		if launchrule.ClassOf(s.Problem) != class {
			continue
		}
		away := apart(p, s.Problem)
		for v, us := range s.US {
			loss := math.Log(us/s.BestUS) + away
			if old, ok := expected[v]; !ok || loss < old {
				expected[v] = loss
			}
		}
	}
	order := make([]kernels.Variant, 0, len(expected))
	for v := range expected {
		order = append(order, v)
	}
	slices.SortFunc(order, func(a, b kernels.Variant) int {
		return cmp.Or(cmp.Compare(expected[a], expected[b]), compareVariants(a, b))
	})
	var near []kernels.Variant
	seen := map[string]bool{}
	for _, v := range order {
		if len(near) == k {
			break
		}
		if plan := PlanOf(j, p, v); plan != "" && !seen[plan] {
			seen[plan] = true
			near = append(near, v)
		}
	}
	return near
}

// apart is how much is expected to be lost from one problem to another.
func apart(a, b kernels.Problem) float64 {
	octaves := func(x, y int64) float64 { return math.Abs(math.Log2(float64(x) / float64(y))) }
	aligned := func(p kernels.Problem) int64 { row := p.N * p.DType.Size(); return min(row&-row, 16) }
	return octaveOfColumns*octaves(a.N, b.N) + octaveOfRows*octaves(a.M, b.M) + octaveOfAligned*octaves(aligned(a), aligned(b))
}
