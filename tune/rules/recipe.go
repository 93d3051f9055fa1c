package rules

import (
	"cmp"
	"math/bits"
	"slices"

	"normbench/kernels"
)

// The ways in which a config may follow the row. All keep the bytes per thread,
// or the share of a row in a chunk; they differ in what pays for it.
var ways = []struct{ grow, shrink []*kernels.Knob }{
	{nil, nil},
	{[]*kernels.Knob{kernels.Warps}, nil},
	{[]*kernels.Knob{kernels.Warps}, []*kernels.Knob{kernels.PerSM}},
	{nil, []*kernels.Knob{kernels.BlockRows}},
	{[]*kernels.Knob{kernels.BlockCols}, nil},
	{[]*kernels.Knob{kernels.BlockCols, kernels.Warps}, nil},
}

// recipesOf lists the recipes that run v on rows of n elements.
func recipesOf(v kernels.Variant, n, bytes int64) []Recipe {
	var out []Recipe
	row := ceilPow2(n * bytes)
	for _, w := range ways {
		r := Recipe{Family: v.Family, Config: v.Config}
		ok := true
		for _, k := range slices.Concat(w.grow, w.shrink) {
			ok = ok && v.Config.Get(k) > 0
		}
		if !ok {
			continue
		}
		for _, k := range w.grow {
			r.Grow, r.RowBytes = append(r.Grow, k.Name), row
		}
		for _, k := range w.shrink {
			r.Shrink, r.RowBytes = append(r.Shrink, k.Name), row
		}
		out = append(out, r)
	}
	return out
}

// compareRecipes orders recipes, those that follow nothing first: of equals the
// plainer is taken.
func compareRecipes(a, b Recipe) int {
	return cmp.Or(
		cmp.Compare(len(a.Grow)+len(a.Shrink), len(b.Grow)+len(b.Shrink)),
		cmp.Compare(a.Family, b.Family), cmp.Compare(a.Config.String(), b.Config.String()), cmp.Compare(a.RowBytes, b.RowBytes),
		slices.Compare(a.Grow, b.Grow), slices.Compare(a.Shrink, b.Shrink))
}

// ceilPow2 rounds n >= 1 up to a power of two.
func ceilPow2(n int64) int64 { return 1 << bits.Len64(uint64(n-1)) }
