// Package search finds the fastest variant of a problem with a part of the
// launches that measuring all of them takes.
//
// A Strategy is asked for visits and told what came of them; it touches no
// device, and is a function of its Space and of what it was told, so one seed
// gives one search. Drive plays a strategy against whatever measures, within a
// Budget, and keeps the books in a Board.
package search

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Candidates are the variants that a strategy may choose from on one problem, with all that it may know
// beforehand.
type Candidates struct {
	Problem  kernels.Problem
	SMs      int // SMs of the device; knobs count CTAs per each
	Variants []kernels.Variant
	// Keep are indices of the variants that are always measured and never
	// eliminated: the base first, then the checked-in entry and the presets.
	Keep []int
	// Known is what was found on other problems, which strategies may start from;
	// nil for nothing.
	Known *History
	// Full is the launches that a measurement of the grid takes of each variant:
	// nothing is measured more often than that.
	Full int
	// Allow is what the search may use. Of Configs it measures no more, but for those to keep.
	Allow Effort
	// Noise is the relative standard deviation of one launch, as the stream of the problem shows it;
	// 0 where it is not known.
	Noise float64
	Seed  uint64
	// Axes are the knobs of a space that is not of this program's families, and At
	// the indices of each variant's values; nil where the variants say it.
	Axes []ForeignKnob
	At   [][]int
}

// A Visit asks for so many launches of a variant in a row. One more launch is made before them and
// dropped, as it reads long after the pause.
type Visit struct {
	Variant  int // index into Space.Variants
	Launches int
}

// A Strategy chooses what to measure next.
type Strategy interface {
	// Ask is the next round: the visits to make, in this order, before the
	// strategy is told of them. An empty round ends the search.
	Ask(b *Board) []Visit
}

// The strategies.
const (
	Auto    = "auto"
	Grid    = "grid"
	Random  = "random"
	Halving = "halving"
	Evolve  = "evolve"
)

// Names lists the strategies, auto first.
func Names() []string { return []string{Auto, Grid, Random, Halving, Evolve} }

// CheckName refuses a name that is no strategy's.
func CheckName(name string) error {
	if slices.Contains(Names(), name) {
		return nil
	}
	return hint.Errorf("use "+strings.Join(Names(), ", "), "unknown strategy %q", name)
}

// newStrategy makes the strategy of a name for a space; one seed gives one search.
func newStrategy(name string, s *Candidates) (Strategy, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if len(s.Variants) == 0 {
		return nil, hint.Errorf("widen --knob or --family; `normbench list configs` shows why configs "+
			"are refused", "%s has no variant to measure", s.Problem)
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00", s.Problem, name)
	rng := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	if name == Auto {
		name = s.chooseStrategy()
	}
	switch name {
	case Grid:
		return &singleRound{s, allVariants(s)}, nil
	case Random:
		return &singleRound{s, shuffleVariants(s, rng)}, nil
	case Halving:
		return &race{s: s, rng: rng, in: cutAtLimit(s, shuffleVariants(s, rng)), widen: 2.5}, nil
	}
	return newEvolution(s, rng), nil
}

// gridLimit is the most variants of a space that auto measures all of: a search
// of so few saves little.
const gridLimit = 16

// raceLimit is the most variants of a space that auto races all of. A surrogate of a
// first problem has little to go by there: of the 26 variants of
// rmsnorm/bwd/29x17389 one is 10% faster than all others, and 12 did not find it.
const raceLimit = 32

// chooseStrategy resolves auto by the size of the space and the budget: the grid where the space is
// small; a race of all where it is not much larger or the budget has room for all; else evolve.
func (s *Candidates) chooseStrategy() string {
	n := len(s.Variants)
	switch {
	case s.Axes != nil && n > gridLimit:
		return Evolve
	case n <= gridLimit && (s.Allow.Configs == 0 || s.Allow.Configs >= n):
		return Grid
	case s.Allow.Configs >= n, s.Allow.Configs == 0 && n <= raceLimit:
		return Halving
	}
	return Evolve
}

// limit returns the most variants that a search may measure: as many as the allowance has, but all of
// Keep.
func (s *Candidates) limit() int {
	if n := s.Allow.Configs; n > 0 {
		return min(max(n, len(s.Keep)), len(s.Variants))
	}
	return len(s.Variants)
}
