package search

import "math/rand/v2"

// GridLimit is the most variants of a space that auto measures all of: a search
// of so few saves little.
const GridLimit = 16

// RaceLimit is the most variants of a space that auto races all of. A surrogate of a
// first problem has little to go by there: of the 26 variants of
// rmsnorm/bwd/29x17389 one is 10% faster than all others, and 12 did not find it.
const RaceLimit = 32

// newAuto picks by the size of the space and the budget: the grid where it is
// small; a race of all where it is not much larger, or the budget has room for all; else evolve.
func newAuto(s *Space, rng *rand.Rand) Strategy {
	switch {
	case s.Axes != nil && len(s.Variants) > GridLimit:
		return newEvolve(s, rng)
	case len(s.Variants) <= GridLimit && (s.Limit <= 0 || s.Limit >= len(s.Variants)):
		return newGrid(s, rng)
	case s.Limit >= len(s.Variants), s.Limit <= 0 && len(s.Variants) <= RaceLimit:
		return newHalving(s, rng)
	}
	return newEvolve(s, rng)
}
