package learn

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
)

// A Lab measures batches on devices of one kind, into a sink.
type Lab struct {
	Registry *kernels.Registry
	Devices  []kernels.Device
	Sink     sweep.Sink
	Run      record.Run // what each run of the lab is like, but for its ID and its protocol
	Seed     uint64
	Rounds   int              // of a contest, at most
	Now      func() time.Time // time.Now, but for simulated devices

	sum sweep.Summary
	run *record.Run // of what was measured, once its line is written
}

// Announce tells the devices what the next batch will ask for, so that it compiles beside this one.
func (l *Lab) Announce(b Batch) {
	for i := len(b.Tasks) - 1; i >= 0; i-- { // the last announced is compiled first
		t := b.Tasks[i]
		vs := append([]kernels.Variant{{Family: l.Registry.StreamOf(t.Problem)}}, t.Variants...)
		l.Devices[i%len(l.Devices)].Prefetch(t.Problem, vs)
	}
}

// Contest measures a batch and tells done of each problem.
func (l *Lab) Contest(ctx context.Context, b Batch, done func([]*record.Record)) error {
	sink, run := l.Sink, l.Run
	if l.run != nil {
		sink, run = known{sink}, *l.run
	} else {
		run.ID, run.Time = uuid.NewString()[:13], l.Now().UTC().Truncate(time.Millisecond)
		run.Protocol = sweep.ContestProtocol(l.Run.Protocol, Search, l.Rounds)
	}
	s, err := sweep.Run(ctx, l.Registry, l.Devices, b.Tasks, sink, sweep.Options{Run: run, Seed: l.Seed, Repeats: 2,
		Contest: &sweep.Contest{Rounds: l.Rounds, Seed: l.Seed},
		Finished: func(recs []*record.Record) error {
			l.run = &run // its line is written
			done(recs)
			return nil
		}})
	l.sum.Measured += s.Measured
	l.sum.Failed += s.Failed
	l.sum.Skipped += s.Skipped
	l.sum.Pruned += s.Pruned
	l.sum.Wall += s.Wall
	l.sum.Busy += s.Busy
	l.sum.Deciding += s.Deciding
	l.sum.Writing += s.Writing
	l.sum.Problems += s.Problems
	for _, g := range s.Gone {
		if !slices.Contains(l.sum.Gone, g) {
			l.sum.Gone = append(l.sum.Gone, g)
		}
	}
	return err
}

// Measured is the run of what was measured, nil before anything was.
func (l *Lab) Measured() *record.Run { return l.run }

// known is a sink that has the line of a run already.
type known struct{ sweep.Sink }

func (s known) AppendAll(vs ...interface{ CheckValid() error }) error {
	vs = slices.DeleteFunc(slices.Clone(vs), func(v interface{ CheckValid() error }) bool {
		_, is := v.(*record.Run)
		return is
	})
	if len(vs) == 0 {
		return nil
	}
	return s.Sink.AppendAll(vs...)
}

// Summary is what came of all runs.
func (l *Lab) Summary() sweep.Summary { return l.sum }
