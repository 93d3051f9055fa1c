package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Bench measures variants of one problem for Drive.
type Bench interface {
	// Refuse says why a variant need not run, or is "". It is asked before the
	// first visit. incumbent is the least median so far in microseconds, +Inf for
	// none.
	Refuse(v kernels.Variant, incumbent float64) string
	// Announce says which variants a round visits for the first time, before it
	// does, and which may well be next, so that they can be compiled side by side:
	// a search that waited for the compiler in every round would take longer than
	// the grid.
	Announce(now, later []kernels.Variant)
	// Visit launches a variant so many times, after the launches that are
	// dropped, and returns their times in microseconds with the seconds that
	// they took of the budget, the check of a first visit included. The
	// error is a *kernels.Failure where the variant cannot be measured.
	Visit(ctx context.Context, v kernels.Variant, launches int) (us []float64, busy float64, err error)
}

// foresight is a strategy that has an idea of the round after this one.
type foresight interface{ later() []int }

// Spent is what a search has used up.
type Spent struct {
	Seconds  float64 // in which the device was at work
	Launches int     // timed ones; what a visit drops is not counted
	Configs  int     // variants tried, failed ones included
}

// Drive plays a strategy until it has enough or the allowance is spent. The board holds the
// times; the log's Refused and Failed say which variants were not measured, and why.
//
// The variants of Space.Keep are measured whatever they cost: the error says by
// how much an allowance was too small for the base.
func Drive(ctx context.Context, s Strategy, b *Board, a Allowance, m Bench) (Log, error) {
	b.allow = a
	log := Log{Refused: map[int]string{}, Failed: map[int]*kernels.Failure{}}
	keep := map[int]bool{}
	for _, v := range b.space.Keep {
		keep[v] = true
	}
	dry := false
	for round := 0; ; round++ {
		start := time.Now()
		visits := s.Ask(b)
		log.Deciding += time.Since(start)
		if len(visits) == 0 {
			return log, nil
		}
		worked := false
		var fresh []kernels.Variant
		for _, x := range visits {
			if !b.Seen(x.Variant) {
				fresh = append(fresh, b.space.Variants[x.Variant])
			}
		}
		if len(fresh) > 0 {
			var later []kernels.Variant
			if f, ok := s.(foresight); ok {
				for _, v := range f.later() {
					later = append(later, b.space.Variants[v])
				}
			}
			m.Announce(fresh, later)
		}
		for _, x := range visits {
			v := x.Variant
			if b.cells[v].failed || b.cells[v].out || x.Launches < 1 {
				continue
			}
			first := !b.Seen(v)
			if !keep[v] && (dry || a.spent(b.spent) || first && a.Configs > 0 && b.spent.Configs >= a.Configs) {
				continue
			}
			if first && !keep[v] {
				if why := m.Refuse(b.space.Variants[v], b.best()); why != "" {
					b.cells[v].out = true
					log.Refused[v] = why
					continue
				}
			}
			n := x.Launches
			if a.Launches > 0 && !first {
				n = min(n, max(a.Launches-b.spent.Launches, 0))
			}
			if n < 1 {
				continue
			}
			us, busy, err := m.Visit(ctx, b.space.Variants[v], n)
			b.spent.Seconds += busy
			if first {
				b.spent.Configs++
			}
			worked = true
			var f *kernels.Failure
			switch {
			case errors.As(err, &f):
				b.fail(v)
				log.Failed[v] = f
				continue
			case err != nil:
				return log, err
			}
			b.spent.Launches += len(us)
			b.tell(v, round, us)
			if v == b.space.Keep[0] && first && a.spent(b.spent) && len(b.space.Variants) > 1 {
				dry = true
				log.Short = true
			}
		}
		if !worked && (dry || a.spent(b.spent)) {
			return log, nil
		}
		if !worked && allRefused(visits, b) {
			continue // the strategy has learned that these are out
		}
		if !worked {
			return log, nil
		}
	}
}

func allRefused(visits []Visit, b *Board) bool {
	for _, x := range visits {
		if !b.cells[x.Variant].out && !b.cells[x.Variant].failed {
			return false
		}
	}
	return true
}

// best is the least median so far.
func (b *Board) best() float64 {
	best := b.Median(0)
	for _, v := range b.order {
		best = min(best, b.Median(v))
	}
	return best
}

// Spent is what the search has used so far.
func (b *Board) Spent() Spent { return b.spent }

// A Log is what a search did not measure.
type Log struct {
	Refused map[int]string           // by Bench.Refuse
	Failed  map[int]*kernels.Failure // by Bench.Visit
	Short   bool                     // the allowance was spent when the base was measured
	// Deciding is the time that the strategy took.
	Deciding time.Duration
}

// ErrShort says that a budget does not go beyond the bases of n problems, the first of which is
// p. Took is how long these did.
func ErrShort(p kernels.Problem, n int, budget string, took time.Duration) error {
	what := "the base of " + p.String()
	if n > 1 {
		what = fmt.Sprintf("the bases of %d problems", n)
	}
	least := (4*took + time.Second - 1).Truncate(time.Second) // so that something is found
	return hint.Errorf(fmt.Sprintf("give %s or more, or leave --budget out", least), "budget %s is spent by %s alone", budget, what)
}
