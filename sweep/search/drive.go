package search

import (
	"context"
	"errors"
	"slices"

	"normbench/kernels"
)

// A Measurer measures variants of one problem for Drive.
type Measurer interface {
	// Announce says which variants a round visits for the first time, before it
	// does, so that they can be compiled side by side: a search that waited for the
	// compiler in every round would take longer than the grid.
	Announce(vs []kernels.Variant)
	// Visit launches a variant so many times, after the launches that are
	// dropped, and returns their times in microseconds with the seconds that
	// they took of the budget, the check of a first visit included. The
	// error is a *kernels.Failure where the variant cannot be measured.
	Visit(ctx context.Context, v kernels.Variant, launches int) (us []float64, busy float64, err error)
}

// Drive runs a search with the named strategy, until the strategy asks for no more or the allowance is
// spent. It returns the board with all times and failures. The variants of Candidates.Keep are measured
// whatever they cost.
func Drive(ctx context.Context, name string, space *Candidates, m Measurer) (*Board, error) {
	s, err := newStrategy(name, space)
	if err != nil {
		return nil, err
	}
	b := &Board{space: space, cells: make([]variantState, len(space.Variants))}
	for round := 0; ; round++ {
		visits := s.Ask(b)
		b.announce(visits, m)
		worked, idle := false, false // something was visited; something could have been
		for _, x := range visits {
			visited, err := b.visit(ctx, m, round, x)
			if err != nil {
				return nil, err
			}
			worked = worked || visited
			idle = idle || b.Failure(x.Variant) == nil
		}
		// A strategy whose variants have all failed has learned so.
		if len(visits) == 0 || !worked && (idle || b.Short || b.UsedShare() >= 1) {
			return b, nil
		}
	}
}

// announce tells the measurer which variants will be visited for the first time.
func (b *Board) announce(visits []Visit, m Measurer) {
	var fresh []kernels.Variant
	for _, x := range visits {
		if !b.HasMeasured(x.Variant) {
			fresh = append(fresh, b.space.Variants[x.Variant])
		}
	}
	if len(fresh) > 0 {
		m.Announce(fresh)
	}
}

// visit makes one visit and records what came of it, unless the allowance has nothing left for it.
func (b *Board) visit(ctx context.Context, m Measurer, round int, x Visit) (visited bool, err error) {
	v, n, first := x.Variant, x.Launches, !b.HasMeasured(x.Variant)
	if b.Failure(v) != nil || !slices.Contains(b.space.Keep, v) && !b.admits(first) {
		return false, nil
	}
	us, busy, err := m.Visit(ctx, b.space.Variants[v], n)
	b.spent.Seconds += busy
	if first {
		b.spent.Configs++
	}
	var f *kernels.Failure
	if errors.As(err, &f) {
		b.fail(v, f)
		return true, nil
	} else if err != nil {
		return true, err
	}
	b.spent.Launches += len(us)
	b.addSamples(v, round, us)
	if v == b.space.Keep[0] && first && b.UsedShare() >= 1 && len(b.space.Variants) > 1 {
		b.Short = true
	}
	return true, nil
}

// admits says whether the allowance has room to visit a variant that is not among those to keep. first
// is whether it would be the variant's first visit.
func (b *Board) admits(first bool) bool {
	return !b.Short && b.UsedShare() < 1 &&
		(!first || b.space.Allow.Configs == 0 || b.spent.Configs < b.space.Allow.Configs)
}

// Spent returns what the search has used so far.
func (b *Board) Spent() Effort { return b.spent }
