package search

import "math/rand/v2"

// GridLimit is the most variants of a space that auto measures all of: a search
// of so few saves little.
const GridLimit = 16

// RaceLimit is the most variants of a space that auto races all of. A model of a
// first problem has little to go by there: of the 26 variants of
// rmsnorm/bwd/29x17389 one is 10% faster than all others, and 12 did not find it.
const RaceLimit = 32

// ScarceShare is the share of a space below which a budget is too small for the model,
// whose length scales are those of all problems: of twelve grids, from a base of median
// time, 3% left it at a regret of 9%, and a surrogate that fits its own at 4%. Where a problem
// nearby was searched the model does better again, in smaller rounds.
const ScarceShare = 0.08

// autoOptions were chosen on the rmsnorm half of an H200's grids, and hardly
// matter: 8 to 16 finalists, a share of 20 to 28%, and half or twice each of the
// model's variances and length scales find as many of the grid's winners within
// 2 in 100. First visits of 3 launches in place of 1 find no more for the same time.
var autoOptions = modelOptions{transfer: true, batch: 12, few: 2, ceiling: 48, polish: 0.5, explore: 24, first: 1, start: 4, cold: 10, least: 8, stop: 0.0007,
	most: 0.22, floor: 12, finalists: 20, history: 300, widen: 3}

// newAuto picks by the size of the space and the budget: the grid where it is
// small; a race of all where it is not much larger, or the budget has room for all; else the model, with
// what is known of other problems.
func newAuto(s *Space, rng *rand.Rand) Strategy {
	switch {
	case s.Axes != nil && len(s.Variants) > GridLimit, s.Limit > 0 && float64(s.Limit) < ScarceShare*float64(len(s.Variants)) && s.Known.count(s.Problem, 2*neighbour) == 0:
		return newEvolve(s, rng)
	case len(s.Variants) <= GridLimit && (s.Limit <= 0 || s.Limit >= len(s.Variants)):
		return newGrid(s, rng)
	case s.Limit >= len(s.Variants), s.Limit <= 0 && len(s.Variants) <= RaceLimit:
		return newHalving(s, rng)
	}
	return newModel(s, rng, autoOptions)
}
