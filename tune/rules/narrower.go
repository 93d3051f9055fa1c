package rules

import (
	"sync"

	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// RecipesOf lists the recipes that run v on rows of n elements of so many bytes: as it is, and in
// the ways in which knobs may follow the row.
func RecipesOf(v kernels.Variant, n, bytes int64) []Recipe { return recipesOf(v, n, bytes) }

// CompareRecipes orders recipes, the plainer first.
func CompareRecipes(a, b Recipe) int { return compareRecipes(a, b) }

// Offers says whether a recipe can run on a problem: the family accepts it, and the knobs that follow
// the row have values of its grid.
func Offers(j Judge, p kernels.Problem, r Recipe) bool { return offers(j, p, r) }

// PlanOf is what a variant launches as text, "" where it is refused or not known.
func PlanOf(j Judge, p kernels.Problem, v kernels.Variant) string { return planOf(j, p, v) }

// A Narrower shrinks boxes to what their recipes are accepted on. It remembers what it
// asked the registry; its method may be called from several goroutines.
type Narrower struct{ t *table }

// NewNarrower makes one for a class.
func NewNarrower(c Class, j Judge) *Narrower {
	return &Narrower{&table{class: c, sms: max(j.Device.SMs, 1), judge: j, mu: new(sync.Mutex), probes: map[probe]bool{}}}
}

// Narrow is the largest part of a box within the hull that a recipe is accepted on throughout,
// by how many of the problems it holds. ok is false where it would hold none.
func (n *Narrower) Narrow(b Box, r Recipe, h Hull, ps []kernels.Problem) (_ Box, ok bool) {
	t := *n.t
	use := make([]int, len(ps))
	t.shapes = make([]shape, len(ps))
	for i, p := range ps {
		use[i], t.shapes[i] = i, shape{m: p.M, n: p.N, at: launchrule.At(p, t.judge.Device)}
	}
	return t.narrow(b, r, h, use)
}
