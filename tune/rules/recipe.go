package rules

import (
	"cmp"
	"math/bits"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
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

// RecipesOf lists the recipes that run v on rows of n elements of so many bytes. The first is v
// as it is; in the others, knobs follow the row.
func RecipesOf(v kernels.Variant, n, bytes int64) []launchrule.Recipe {
	var out []launchrule.Recipe
	row := ceilPow2(n * bytes)
	for _, w := range ways {
		r := launchrule.Recipe{Family: v.Family, Config: v.Config}
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

// CompareRecipes orders recipes, those that follow nothing first: of equals the
// plainer is taken.
func CompareRecipes(a, b launchrule.Recipe) int {
	return cmp.Or(
		cmp.Compare(len(a.Grow)+len(a.Shrink), len(b.Grow)+len(b.Shrink)),
		cmp.Compare(a.Family, b.Family), cmp.Compare(a.Config.String(), b.Config.String()), cmp.Compare(a.RowBytes, b.RowBytes),
		slices.Compare(a.Grow, b.Grow), slices.Compare(a.Shrink, b.Shrink))
}

// ceilPow2 rounds n >= 1 up to a power of two.
func ceilPow2(n int64) int64 { return 1 << bits.Len64(uint64(n-1)) }

// Offers says whether a recipe can run on a problem: the registry accepts it, and the knobs that
// follow the row have values that the family's grid crosses. Beyond those nothing was ever measured.
func Offers(j launchrule.Judge, p kernels.Problem, r launchrule.Recipe) bool {
	v := r.At(p.N, p.DType.Size())
	if !j.Accepts(p, v) {
		return false
	}
	if r.RowBytes == 0 {
		return true
	}
	f, _ := j.Registry.Lookup(r.Family)
	for _, name := range slices.Concat(r.Grow, r.Shrink) {
		k, _ := kernels.ParseKnob(name)
		if !slices.ContainsFunc(f.Knobs, func(x kernels.Range) bool {
			return x.Knob == k && slices.Contains(x.Values, v.Config.Get(k))
		}) {
			return false
		}
	}
	return true
}

// PlanOf is what a variant launches as text, "" where it is refused or not known.
func PlanOf(j launchrule.Judge, p kernels.Problem, v kernels.Variant) string {
	if !j.Accepts(p, v) {
		return ""
	}
	f, _ := j.Registry.Lookup(v.Family)
	return f.Plan(p, v.Config, j.Device).String()
}
