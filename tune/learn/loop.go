package learn

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/sweep/record"
)

// A Loop learns a map on a device.
type Loop struct {
	Policy
	*Lab
	Budget time.Duration // of wall time, of all runs into one folder
	Spent  time.Duration // of it, by earlier runs
	// Deadline ends what is being measured when the budget is spent. A simulated device has a clock of its own.
	Deadline bool
	Why      string // after Learn, what ended it
	// Checkpoint gets the map from time to time, and at the end.
	Checkpoint func(m *rule.Map, points []*Point) error
	// Progress is told after each batch, and with Deadline at least each ten seconds.
	Progress func(s Status)

	mu     sync.Mutex
	points map[kernels.Problem]*Point
	fresh  []float64 // log regrets of the answers of the time, of problems that had no times before
}

// A Status is how far a loop is.
type Status struct {
	Spent, Budget time.Duration
	Problems      int
	// Regret is how far the map's answers were behind the best found, at the last Of problems before their
	// times were known, less one; Half of its 95% interval. Of is 0 where there are too few.
	Regret, Half float64
	Of           int
}

// add takes the records of a problem. Points do not change: planning may be reading the old one.
func (l *Loop) add(recs []*record.Record) {
	if len(recs) == 0 {
		return
	}
	q := &Point{Problem: recs[0].Problem, US: map[kernels.Variant]float64{}, Failed: map[kernels.Variant]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.points[q.Problem]
	if old != nil {
		q.Asked, q.Stream = old.Asked, old.Stream
		for v, us := range old.US {
			q.US[v] = us
		}
		for v := range old.Failed {
			q.Failed[v] = true
		}
	}
	for _, r := range recs {
		if r.Family == record.Stream {
			continue
		}
		if q.Add(r); r.Base && q.Asked.Family == "" {
			q.Asked = r.Variant()
		}
	}
	if !q.finish() {
		return
	}
	if us := q.US[q.Asked]; old == nil && us > 0 {
		l.fresh = append(l.fresh, math.Log(us/q.BestUS))
	}
	l.points[q.Problem] = q
}

// Problems counts those that are known.
func (l *Loop) Problems() int { return len(l.points) }

// all are the points in an order that is always the same.
func (l *Loop) all() []*Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*Point, 0, len(l.points))
	for _, p := range l.points {
		list = append(list, p)
	}
	sortPoints(list)
	return list
}

// Shares of the budget: between two checkpoints, of a batch, and what a loop that goes on must have left to measure: without
// the last, the same command would add a bit each time.
const (
	checkpointShare = 6
	batchShare      = 24
	leastShare      = 8
)

// Learn measures, fills and measures again, until the budget is spent, the domain is used up or ctx is done. known
// are the points of earlier runs. The last map is filled within the budget.
func (l *Loop) Learn(ctx context.Context, known []*Point) (*rule.Map, error) {
	l.points = map[kernels.Problem]*Point{}
	for _, p := range known {
		l.points[p.Problem] = p
	}
	begun := l.Now()
	spent := func() time.Duration { return l.Spent + l.Now().Sub(begun) }
	defer l.tick(ctx, spent)()
	groups := 1
	plan := func(step, groups int, points []*Point, pending ...Batch) Batch {
		rng := rand.New(rand.NewPCG(l.Seed, uint64(len(known))<<20|uint64(step)))
		return l.chooser(points, rng, pending...).next(groups, step)
	}
	var filling, batchTime time.Duration
	fill := func(points []*Point) (*rule.Map, error) {
		start := l.Now()
		m := l.Fill(points)
		var err error
		if l.Checkpoint != nil {
			err = l.Checkpoint(m, points)
		}
		filling = max(filling, l.Now().Sub(start))
		return m, err
	}
	now := plan(0, groups, l.all())
	next := plan(1, groups, l.all(), now)
	filled := spent()
	l.Why = "nothing is left of the domain"
	for step := 2; len(now.Tasks) > 0 && ctx.Err() == nil; step++ {
		left := l.Budget - spent() - filling - filling/4
		if left <= 0 || len(l.points) > len(known) && left < batchTime/2 || len(known) > 0 && step == 2 && left < l.Budget/leastShare {
			l.Why = "the budget is spent"
			break
		}
		until, cancel := ctx, context.CancelFunc(func() {})
		if l.Deadline {
			until, cancel = context.WithTimeout(ctx, left)
		}
		l.Announce(next)
		ready := make(chan Batch, 1)
		go func(points []*Point) { ready <- plan(step, groups, points, now, next) }(l.all())
		start := l.Now()
		err := l.Contest(until, now, l.add)
		batchTime = l.Now().Sub(start)
		late := until.Err() != nil && ctx.Err() == nil
		cancel()
		after := <-ready
		if err != nil && ctx.Err() == nil && !late {
			return nil, err
		}
		if late {
			l.Why = "the budget is spent"
		}
		if late || ctx.Err() != nil {
			break
		}
		if l.Progress != nil {
			l.Progress(l.status(spent()))
		}
		if spent()-filled > l.Budget/checkpointShare {
			if _, err := fill(l.all()); err != nil {
				return nil, err
			}
			filled = spent()
		}
		// The first batches are small, as nobody knows yet what a problem takes.
		most := int(float64(groups) * float64(l.Budget) / batchShare / float64(max(batchTime, 1)))
		groups = max(1, min(len(l.Classes), 2*groups, most))
		now, next = next, after
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(l.points) == 0 {
		if len(now.Tasks) == 0 {
			return nil, hint.Errorf("widen --domain, or choose other --op, --pass and --dtype",
				"the domain holds no problem that the device can run")
		}
		return nil, hint.Errorf("give --budget more: a GPU does about a problem in half a second, the first takes longer",
			"budget %s is too short to measure one problem", l.Budget)
	}
	return fill(l.all())
}

// tick has Progress told each ten seconds, whatever takes so long. What it returns ends that.
func (l *Loop) tick(ctx context.Context, spent func() time.Duration) func() {
	tell := l.Progress
	if tell == nil || !l.Deadline {
		return func() {}
	}
	var mu sync.Mutex
	told := time.Now()
	l.Progress = func(s Status) {
		mu.Lock()
		defer mu.Unlock()
		if told = time.Now(); s.Spent > 0 {
			tell(s)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		for t := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			mu.Lock()
			silent := time.Since(told) > 9*time.Second
			mu.Unlock()
			if silent {
				l.Progress(l.status(spent()))
			}
		}
	}()
	return stop
}

// leastFresh is of how many problems a regret is told.
const leastFresh = 20

// status sums up how good the answers to the last problems were.
func (l *Loop) status(spent time.Duration) Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Spent: spent, Budget: l.Budget, Problems: len(l.points)}
	last := slices.Clone(l.fresh[len(l.fresh)-min(len(l.fresh), max(len(l.fresh)/4, leastFresh)):])
	if len(last) < leastFresh {
		return s
	}
	sum, sq, n := 0.0, 0.0, float64(len(last))
	for _, g := range last {
		sum, sq = sum+g, sq+g*g
	}
	mean := sum / n
	s.Regret, s.Of = math.Expm1(mean), len(last)
	s.Half = 1.96 * math.Sqrt(max(sq/n-mean*mean, 0)/(n-1))
	return s
}
