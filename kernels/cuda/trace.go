//go:build cuda

package cuda

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/kernels/cuda/cupti"
	"normbench/kernels/cuda/driver"
)

// traceTries are the traces of a visit, until one is whole.
const traceTries = 4

// errNoTrace says that CUPTI is not here; stages are then timed by events.
var errNoTrace = errors.New("no CUPTI")

// trace times stages by CUPTI's activity records: each kernel from its first
// instruction to its last, without the cost of launching it, and the gaps
// between the kernels of a sample. A trace that does not hold exactly the
// launches that were enqueued is no trace: on an H200 with CUPTI 13.0 about one in three lacks the
// first kernel of its first sample. After traceTries of them events take its place.
func (b *bench) trace(r *program, o kernels.TimeOptions) (kernels.Timing, error) {
	d := b.d
	tracer, err := cupti.Open()
	if err != nil {
		return kernels.Timing{}, errNoTrace
	}
	before, err := d.backlog(o.Flush)
	if err != nil {
		return kernels.Timing{}, err
	}
	var steps []driver.Step
	for range o.Samples {
		steps = append(steps, before...)
		for j := range r.launches {
			steps = append(steps, r.launches[j].step)
		}
	}
	if err := d.stream.Synchronize(); err != nil {
		return kernels.Timing{}, err
	}
	if err := tracer.Start(); err != nil {
		return kernels.Timing{}, errNoTrace // somebody else's profiler is attached
	}
	start := time.Now()
	err = d.ctx.Enqueue(d.stream, d.addSpin(steps))
	if err == nil {
		err = d.stream.Synchronize()
	}
	busy := time.Since(start).Seconds()
	acts, stopped := tracer.Stop()
	switch {
	case err != nil:
		return kernels.Timing{}, err
	case stopped != nil: // CUPTI dropped records, or wrote what cannot be read
		return kernels.Timing{}, errNoTrace
	}
	var entries []string
	for i, l := range r.plan.Launches {
		entries = append(entries, cmp.Or(r.launches[i].symbol, l.Entry))
	}
	stages, gaps, err := cupti.Stages(acts, entries, o.Samples, "flush", "letGo", "spin")
	if err != nil {
		return kernels.Timing{}, errNoTrace
	}
	t := kernels.Timing{Seconds: slices.Clone(gaps), By: kernels.ByCUPTI, Gaps: gaps, Busy: busy}
	for j, l := range r.launches {
		t.Stages = append(t.Stages, kernels.StageSeconds{Stage: l.stage, Seconds: stages[j]})
		for i, s := range stages[j] {
			t.Seconds[i] += s
		}
	}
	return t, nil
}
