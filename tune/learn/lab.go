package learn

import (
	"context"
	"slices"

	"normbench/kernels"
	"normbench/sweep"
)

// announce tells the devices what the next batch will ask for, so that it compiles beside this one.
func (l *Loop) announce(b Batch) {
	for i := len(b.Tasks) - 1; i >= 0; i-- { // the last announced is compiled first
		t := b.Tasks[i]
		vs := append([]kernels.Variant{{Family: l.Registry.StreamOf(t.Problem)}}, t.Variants...)
		l.Devices[i%len(l.Devices)].Prefetch(t.Problem, vs)
	}
}

// measure has a contest on each problem of a batch.
func (l *Loop) measure(ctx context.Context, b Batch) error {
	s, err := sweep.Run(ctx, l.Registry, l.Devices, b.Tasks, l, sweep.Options{Run: l.Run, Seed: l.Seed, Contest: l.Rounds})
	sum := &l.Summary
	sum.Measured += s.Measured
	sum.Failed += s.Failed
	sum.Skipped += s.Skipped
	sum.Wall += s.Wall
	sum.Busy += s.Busy
	sum.Deciding += s.Deciding
	sum.Writing += s.Writing
	sum.Problems += s.Problems
	for _, g := range s.Gone {
		if !slices.Contains(sum.Gone, g) {
			sum.Gone = append(sum.Gone, g)
		}
	}
	return err
}
