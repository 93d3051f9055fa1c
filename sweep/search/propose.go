package search

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
)

// Propose picks n of the candidates that may be faster on a problem than what was seen, the most
// promising first, by index. Seen are variants with the logs of their times over the fastest, as
// measured on the problem or near it. Regrets are what is expected of all candidates, in such logs.
func Propose(p kernels.Problem, sms int, seen []kernels.Variant, logs []float64,
	candidates []kernels.Variant, n int) (picks []int, regrets []float64) {
	s := &Space{Problem: p, SMs: sms, Variants: slices.Concat(seen, candidates)}
	g := newSurrogate(s, newLattice(s))
	g.nugget = proposeNugget
	order := make([]int, len(seen))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(logs[i], logs[j]) })
	var train []int // the fastest and the slowest in turn, so that a part of it is a fair sample
	for i := range (len(order) + 1) / 2 {
		train = append(train, order[i])
		if j := len(order) - 1 - i; j > i {
			train = append(train, order[j])
		}
	}
	train = train[:min(len(train), evolveTrain)]
	y := make([]float64, len(train))
	for i, v := range train {
		y[i] = warp(logs[v])
	}
	few := min(len(train), proposeFit)
	g.fit(train[:few], y[:few], 1)
	g.condition(train, y)
	all := make([]int, len(candidates))
	for i := range all {
		all[i] = len(seen) + i
	}
	guesses := g.guesses(all)
	for _, q := range guesses {
		regrets = append(regrets, warpAt*math.Expm1(max(q.mean, 0)/warpAt))
	}
	return g.improving(guesses, slices.Min(y), n, func(int) float64 { return 0 }), regrets
}

const (
	proposeFit    = 60   // observations that the surrogate is fitted to
	proposeNugget = 1e-2 // of a mean over problems nearby, at first
)
