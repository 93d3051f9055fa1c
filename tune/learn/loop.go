package learn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep"
	"normbench/sweep/record"
)

// A Loop learns a map on devices of one kind.
type Loop struct {
	Coverage
	Registry *kernels.Registry // of what is launched
	Devices  []kernels.Device
	Store    sweep.RecordStore
	Run      record.Run // what its run is like, but for its ID and its protocol
	Seed     uint64
	Now      func() time.Time // time.Now, but for simulated devices
	Budget   time.Duration    // of wall time, of all runs into one folder
	Spent    time.Duration    // of it, by earlier runs
	// Deadline ends what is being measured when the budget is spent. A simulated device has a clock
	// of its own.
	Deadline bool
	Records  *record.File // of the store
	Data     *Data        // of the records that there are
	// Checkpoint gets the map from time to time, and at the end.
	Checkpoint func(m *launchmap.Map) error
	// Progress is told after each batch.
	Progress func(spent time.Duration, problems int)

	Why     string       // after Learn, what ended it
	Summary sweep.Totals // of what was measured
}

// raceRounds is the most rounds of a race.
const raceRounds = 8

// announce tells the devices which variants the next batch will visit, so that they compile beside this
// one.
func (l *Loop) announce(tasks []sweep.Task) {
	for i, t := range slices.Backward(tasks) { // the last announced is compiled first
		vs := append([]kernels.Variant{{Family: l.Registry.StreamOf(t.Problem)}}, t.Variants...)
		l.Devices[i%len(l.Devices)].Prefetch(t.Problem, vs)
	}
}

// measure runs a race on each problem of a batch. late says that the time left or ctx cut it short.
func (l *Loop) measure(ctx context.Context, left time.Duration, tasks []sweep.Task) (late bool, err error) {
	until, cancel := ctx, context.CancelFunc(func() {})
	if l.Deadline {
		until, cancel = context.WithTimeout(ctx, left)
	}
	defer cancel()
	before := l.Summary.Problems
	s, err := sweep.Run(until, l.Registry, l.Devices, tasks, l.Store,
		sweep.RunOptions{Run: l.Run, Sum: &l.Summary, Seed: l.Seed, RaceRounds: raceRounds})
	// Others are as good as a problem that is nobody's result, as long as there are any.
	late = until.Err() != nil
	if u := (*sweep.UnfinishedError)(nil); late || errors.As(err, &u) && s.Problems > before {
		err = nil
	}
	return late, err
}

// Shares of the budget: between two checkpoints, of a batch, and what a loop that goes on must have
// left to measure: without the last, the same command would add a bit each time.
const (
	checkpointShare = 6
	batchShare      = 24
	leastShare      = 8
)

// Learn measures a batch, fills the map and plans the next batch from it, until the budget is spent, the
// domain is used up or ctx is done. It fills the last map within the budget, from all records.
func (l *Loop) Learn(ctx context.Context) (*launchmap.Map, error) {
	begun, known := l.Now(), len(l.Data.Points)
	spent := func() time.Duration { return l.Spent + l.Now().Sub(begun) }
	l.Run.ID, l.Run.Time = uuid.NewString()[:13], begun.UTC().Truncate(time.Millisecond)
	l.Run.Protocol = sweep.RaceProtocol(l.Run.Protocol, Search, raceRounds)
	groups := 1
	plan := func(step, groups int, points []*Point, pending ...[]sweep.Task) []sweep.Task {
		rng := rand.New(rand.NewPCG(l.Seed, uint64(known)<<20|uint64(step)))
		return l.chooser(points, rng, pending...).planBatch(groups, step)
	}
	var filling, batchTime time.Duration
	now := plan(0, groups, l.Data.Points)
	next := plan(1, groups, l.Data.Points, now)
	filled := spent()
	l.Why = "nothing is left of the domain"
	for step := 2; len(now) > 0 && ctx.Err() == nil; step++ {
		left := l.Budget - spent() - filling - filling/4
		if left <= 0 || left < batchTime/2 {
			l.Why = "the budget is spent"
			break
		}
		if known > 0 && step == 2 && left < l.Budget/leastShare {
			l.Why = fmt.Sprintf("%s of the budget are too short to go on", left.Round(time.Second))
			break
		}
		l.announce(next)
		ready := make(chan []sweep.Task, 1)
		go func(points []*Point) { ready <- plan(step, groups, points, now, next) }(l.Data.Points)
		start := l.Now()
		late, err := l.measure(ctx, left, now)
		batchTime = l.Now().Sub(start)
		after := <-ready
		if err == nil {
			l.Data, err = Gather(l.Coverage.Registry.BaseOf, l.AsksFor, l.Records)
		}
		if err != nil {
			return nil, err
		}
		if late {
			l.Why = "the budget is spent"
			break
		}
		if l.Progress != nil {
			l.Progress(spent(), len(l.Data.Points))
		}
		if l.Checkpoint != nil && spent()-filled > l.Budget/checkpointShare {
			start := l.Now()
			if _, err := l.fill(); err != nil {
				return nil, err
			}
			filling, filled = max(filling, l.Now().Sub(start)), spent()
		}
		// The first batches are small, as nobody knows yet what a problem takes.
		most := int(float64(groups) * float64(l.Budget) / batchShare / float64(max(batchTime, 1)))
		groups = max(1, min(len(l.Classes), 2*groups, most))
		now, next = next, after
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(l.Data.Points) > 0:
		return l.fill()
	case len(now) == 0:
		return nil, hint.Errorf("widen --domain, or choose other --op, --pass and --dtype",
			"the domain holds no problem that the device can run")
	}
	return nil, hint.Errorf("give --budget more: a GPU does about a problem in half a second, "+
		"the first takes longer",
		"budget %s is too short to measure one problem", l.Budget)
}

// fill fills a map from all points and passes it to Checkpoint.
func (l *Loop) fill() (*launchmap.Map, error) {
	m := l.Fill(l.Data.Points)
	if l.Checkpoint == nil {
		return m, nil
	}
	return m, l.Checkpoint(m)
}
