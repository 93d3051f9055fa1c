package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	d := &drive{b: b, m: m, log: Log{Refused: map[int]string{}, Failed: map[int]*kernels.Failure{}}}
	for round := 0; ; round++ {
		visits := s.Ask(b)
		d.announce(s, visits)
		worked, idle := false, false // something was visited; something could have been
		for _, x := range visits {
			visited, err := d.visit(ctx, round, x)
			if err != nil {
				return d.log, err
			}
			worked = worked || visited
			idle = idle || !b.over(x.Variant)
		}
		// A strategy whose variants are all out has learned so.
		if len(visits) == 0 || !worked && (idle || d.log.Short || a.spent(b.spent)) {
			return d.log, nil
		}
	}
}

// A drive is a search in its course.
type drive struct {
	b   *Board
	m   Bench
	log Log
}

// announce tells which variants are visited for the first time.
func (d *drive) announce(s Strategy, visits []Visit) {
	var fresh, later []kernels.Variant
	for _, x := range visits {
		if !d.b.Seen(x.Variant) {
			fresh = append(fresh, d.b.space.Variants[x.Variant])
		}
	}
	if len(fresh) == 0 {
		return
	}
	if f, ok := s.(foresight); ok {
		for _, v := range f.later() {
			later = append(later, d.b.space.Variants[v])
		}
	}
	d.m.Announce(fresh, later)
}

// visit makes a visit, unless it is refused or the allowance has nothing left for it.
func (d *drive) visit(ctx context.Context, round int, x Visit) (visited bool, err error) {
	b, v, n, allow := d.b, x.Variant, x.Launches, d.b.allow
	variant, first := b.space.Variants[v], !b.Seen(v)
	if b.over(v) || !slices.Contains(b.space.Keep, v) && !d.admit(v, first) {
		return false, nil
	}
	if allow.Launches > 0 && !first {
		n = min(n, allow.Launches-b.spent.Launches)
	}
	if n < 1 {
		return false, nil
	}
	us, busy, err := d.m.Visit(ctx, variant, n)
	b.spent.Seconds += busy
	if first {
		b.spent.Configs++
	}
	var f *kernels.Failure
	if errors.As(err, &f) {
		b.fail(v)
		d.log.Failed[v] = f
		return true, nil
	} else if err != nil {
		return true, err
	}
	b.spent.Launches += len(us)
	b.tell(v, round, us)
	if v == b.space.Keep[0] && first && allow.spent(b.spent) && len(b.space.Variants) > 1 {
		d.log.Short = true
	}
	return true, nil
}

// admit says whether a variant may be visited that is none of those to keep.
func (d *drive) admit(v int, first bool) bool {
	b, allow := d.b, d.b.allow
	switch {
	case d.log.Short || allow.spent(b.spent):
		return false
	case !first:
		return true
	case allow.Configs > 0 && b.spent.Configs >= allow.Configs:
		return false
	}
	why := d.m.Refuse(b.space.Variants[v], b.best())
	if why != "" {
		b.cells[v].out = true
		d.log.Refused[v] = why
	}
	return why == ""
}

// over says whether a variant is visited no more.
func (b *Board) over(v int) bool { return b.cells[v].failed || b.cells[v].out }

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
}

// ErrShort says that a budget does not go beyond the bases of n problems, the first of which is
// p. Took is how long these did.
func ErrShort(p kernels.Problem, n int, budget string, took time.Duration) error {
	what := "the base of " + p.String()
	if n > 1 {
		what = fmt.Sprintf("the bases of %d problems", n)
	}
	least := (4*took + time.Second - 1).Truncate(time.Second) // so that something is found
	return hint.Errorf(fmt.Sprintf("give %s or more, or leave --budget out", least),
		"budget %s is spent by %s alone", budget, what)
}
