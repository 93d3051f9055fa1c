package learn

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/tune/rules"
)

// A Loop learns rules on a device.
type Loop struct {
	Policy
	*Lab
	Options Options
	Budget  time.Duration // of wall time, of all runs into one folder
	Spent   time.Duration // of it, by earlier runs
	Target  float64       // held-out regret at which to stop; 0 for none
	// Deadline ends what is being measured when the budget is spent. A simulated device has a clock of its own.
	Deadline bool
	// Why says, after Learn, what ended it.
	Why string
	// Checkpoint gets the rules from time to time, and at the end with their evaluation.
	Checkpoint func(r *Result, points []*Point, last bool) error
	// Progress is told after each batch.
	Progress func(s Status)

	points map[kernels.Problem]*Point
}

// A Status is how far a loop is.
type Status struct {
	Spent, Budget time.Duration
	Problems      int
	Rules         int     // that were learned
	Regret        float64 // of the newer half of the fresh draws, less one
	Half          float64 // of its 95% interval
	Fresh         int     // problems that it is over
	Last          kernels.Problem
}

// Points are the problems of recorded data, as a fit takes them. A sweep may have had another base than the default,
// which has no time then. With stand, the sweep's base stands for it, and kept counts those. Else they are left out.
func (p *Policy) Points(d *rules.Data, stand bool) (points []*Point, kept int) {
	for i := range d.Shapes {
		s := &d.Shapes[i]
		q := &Point{Problem: s.Problem, US: s.US, Failed: s.Failed, Stream: s.Stream, Fresh: s.Fresh, Asked: s.Asked, When: s.When}
		if stand && s.Asked.Family == "" {
			q.Default = s.Base
		}
		if p.complete(q) {
			points = append(points, q)
			if v, err := p.Default(q.Problem); err != nil || q.Default != v {
				kept++
			}
		}
	}
	slices.SortFunc(points, func(a, b *Point) int { return record.CompareProblems(a.Problem, b.Problem) })
	return points, kept
}

// complete fills in what a point's times say. False where the default has none and the point brings no other.
func (p *Policy) complete(q *Point) bool {
	v, err := p.Default(q.Problem)
	if err != nil || q.US[v] == 0 {
		v = q.Default
	}
	if q.US[v] == 0 {
		return false
	}
	q.Base, _ = p.Analytic(q.Problem)
	q.Default, q.Weight, q.at, q.where, q.BestUS = v, p.Weight(q.Problem), placeOf(q.Problem), launchrule.At(q.Problem, p.Judge.Device), 0
	for v, us := range q.US {
		if q.BestUS == 0 || us < q.BestUS || us == q.BestUS && v.String() < q.Best.String() {
			q.Best, q.BestUS = v, us
		}
	}
	return true
}

// add takes the records of a problem. Points do not change: planning may be reading the old one.
func (l *Loop) add(recs []*record.Record, fresh bool) {
	if len(recs) == 0 {
		return
	}
	q := &Point{Problem: recs[0].Problem, US: map[kernels.Variant]float64{}, Failed: map[kernels.Variant]bool{}, Fresh: fresh}
	if old := l.points[q.Problem]; old != nil {
		q.Fresh, q.Asked, q.Stream = old.Fresh, old.Asked, old.Stream
		for v, us := range old.US {
			q.US[v] = us
		}
		for v := range old.Failed {
			q.Failed[v] = true
		}
	}
	for _, r := range recs {
		v := r.Variant()
		if r.Family == record.Stream {
			continue
		}
		if r.StreamUS > 0 {
			q.Stream = r.StreamUS
		}
		if r.Time.After(q.When) {
			q.When = r.Time
		}
		if r.Base && q.Asked.Family == "" {
			q.Asked = v
		}
		switch {
		case r.Status == kernels.StatusOK:
			q.US[v] = stats.Median(r.SamplesUS)
		case r.Status != record.StatusPruned && r.Status != kernels.StatusUnfit:
			q.Failed[v] = true
		}
	}
	if l.complete(q) {
		l.points[q.Problem] = q
	}
}

// Problems counts those that are known.
func (l *Loop) Problems() int { return len(l.points) }

// all are the points in an order that is always the same.
func (l *Loop) all() []*Point {
	list := make([]*Point, 0, len(l.points))
	for _, p := range l.points {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Point) int { return record.CompareProblems(a.Problem, b.Problem) })
	return list
}

// firstBatch is how many problems the first batches have.
const firstBatch = 3

// Learn measures, fits and measures again, until the budget is spent, the target is
// reached, the domain is used up or ctx is done. known are the points of earlier runs. What
// it returns is evaluated unless ctx is done.
func (l *Loop) Learn(ctx context.Context, known []*Point) (*Result, error) {
	l.points = map[kernels.Problem]*Point{}
	for _, p := range known {
		l.points[p.Problem] = p
	}
	begun := l.Now()
	spent := func() time.Duration { return l.Spent + l.Now().Sub(begun) }
	rng := func(step int) *rand.Rand { return rand.New(rand.NewPCG(l.Seed, uint64(len(known))<<20|uint64(step))) }
	var fit *Result
	fitted := 0
	plan := func(step int, points []*Point, old *Result, pending ...Batch) (Batch, *Result) {
		r := old
		if n := len(points); n >= 8 && (old == nil || 8*(n-fitted) >= n) {
			r = Fit(points, l.Judge, l.Options, l.Memo, false)
			fitted = n
		}
		c := l.chooser(points, r, rng(step), pending...)
		return c.Next(step%5 == 1), r
	}
	most, stale := l.Batch, 0
	l.Batch = min(most, firstBatch)
	now, _ := plan(0, l.all(), nil)
	next, _ := plan(1, l.all(), nil, now)
	var batchTime time.Duration
	l.Why = "nothing is left of the domain"
	for step := 2; len(now.Tasks) > 0 && ctx.Err() == nil; step++ {
		left := l.Budget - spent()
		if left <= 0 || len(l.points) > len(known) && left < batchTime {
			l.Why = "the budget is spent"
			break
		}
		until, cancel := ctx, context.CancelFunc(func() {})
		if l.Deadline {
			until, cancel = context.WithTimeout(ctx, left)
		}
		l.Announce(next)
		type planned struct {
			batch Batch
			fit   *Result
		}
		ready := make(chan planned, 1)
		go func(points []*Point, old *Result, now, next Batch) {
			b, r := plan(step, points, old, now, next)
			ready <- planned{b, r}
		}(l.all(), fit, now, next)
		start, before := l.Now(), len(l.points)
		var last kernels.Problem
		err := l.Contest(until, now, func(recs []*record.Record) {
			last = recs[0].Problem
			l.add(recs, now.Fresh)
		})
		batchTime = l.Now().Sub(start)
		late := until.Err() != nil
		cancel()
		after := <-ready
		switch {
		case err != nil && ctx.Err() == nil && !late:
			return nil, err
		case late:
			l.Why = "the budget is spent"
		}
		if ctx.Err() != nil || late {
			break
		}
		// A batch takes a twentieth of the budget at most, so that what is learned is used. The first ones are small, as
		// nobody knows yet what a problem takes.
		if n := len(now.Tasks); batchTime > 0 {
			l.Batch = min(most, 2*l.Batch, max(2, int(float64(n)*float64(l.Budget)/20/float64(batchTime))))
		}
		// Without new problems there is more to find on the old ones, but not for ever.
		if stale++; len(l.points) > before {
			stale = 0
		}
		if stale == 6 {
			break
		}
		changed := after.fit != fit
		fit = after.fit
		if changed && l.Checkpoint != nil {
			if err := l.Checkpoint(fit, l.all(), false); err != nil {
				return nil, err
			}
		}
		s := l.status(spent(), fit, last)
		if l.Progress != nil {
			l.Progress(s)
		}
		if l.Target > 0 && s.Fresh >= 40 && s.Regret+s.Half < l.Target {
			l.Why = "the regret held out is below the target"
			break
		}
		now, next = next, after.batch
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(l.points) == 0 {
		if len(now.Tasks) == 0 {
			return nil, hint.Errorf("widen --domain, or choose other --op, --pass and --dtype", "the domain holds no problem that the device can run")
		}
		return nil, hint.Errorf("give --budget more: a GPU does about a problem in half a second, the first takes longer", "budget %s is too short to measure one problem", l.Budget)
	}
	res := Fit(l.all(), l.Judge, l.Options, l.Memo, true)
	if l.Checkpoint != nil {
		if err := l.Checkpoint(res, l.all(), true); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// status sums up how good the answers to the newer half of the fresh draws were.
func (l *Loop) status(spent time.Duration, fit *Result, last kernels.Problem) Status {
	s := Status{Spent: spent, Budget: l.Budget, Problems: len(l.points), Last: last}
	if fit != nil {
		for _, c := range fit.Set.Lists[:fit.Learned] {
			s.Rules += len(c.Rules)
		}
	}
	var fresh []*Point
	for _, p := range l.all() {
		if p.Fresh {
			fresh = append(fresh, p)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *Point) int { return a.When.Compare(b.When) })
	sum, sq, total := 0.0, 0.0, 0.0
	for _, p := range fresh[len(fresh)/2:] {
		if g, ok := p.regret(p.Asked); ok {
			sum, sq, total = sum+p.Weight*g, sq+p.Weight*g*g, total+p.Weight
			s.Fresh++
		}
	}
	if s.Fresh > 1 {
		mean := sum / total
		s.Regret = math.Expm1(mean)
		s.Half = 1.96 * math.Sqrt(max(sq/total-mean*mean, 0)/float64(s.Fresh-1))
	}
	return s
}
