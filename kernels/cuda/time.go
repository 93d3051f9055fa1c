//go:build cuda

package cuda

import (
	"context"
	"time"

	"normbench/kernels"
	"normbench/kernels/cuda/driver"
)

// The GPU is kept busy before the first sample until the host has enqueued the
// last one, and before every sample that has no flush. With 300 us ahead of the
// first sample, however many there were, the samples after the host was done
// came out 0.6 us faster on an H200 than those before.
const (
	enqueueNS     = 4_000 // what the host takes for one operation, at most: 2.9 us were measured
	firstSpinNS   = 100_000
	warmBacklogNS = 60_000
)

// behind puts steps behind a spin that outlasts their enqueueing.
func (d *Device) behind(steps []driver.Step) []driver.Step {
	return append([]driver.Step{spinStep(d, firstSpinNS+enqueueNS*uint64(len(steps)))}, steps...)
}

// Time implements kernels.Bench. All samples are enqueued in one call: flush,
// event, launches, event, and so on. The flush keeps the GPU busy while the
// host enqueues what follows it.
func (b *bench) Time(_ context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	r, err := b.current(v)
	if err != nil {
		return kernels.Timing{}, err
	}
	var t kernels.Timing
	err = b.d.on(func() error {
		t, err = b.time(r, o)
		return b.d.fail(err)
	})
	return t, err
}

func (b *bench) time(r *ready, o kernels.TimeOptions) (kernels.Timing, error) {
	d := b.d
	if o.Stages && o.Trace {
		if t, err := b.trace(r, o); err != errNoTrace {
			return t, err
		}
	}
	marks := 2 // events per sample
	if o.Stages {
		marks = len(r.launches) + 1
	}
	for len(d.events) < marks*o.Samples {
		e, err := d.ctx.NewEvent()
		if err != nil {
			return kernels.Timing{}, err
		}
		d.events = append(d.events, e)
	}
	before, err := d.backlog(o.Flush)
	if err != nil {
		return kernels.Timing{}, err
	}
	sets := []map[string]driver.Ptr{b.mem}
	if o.Rotate {
		if sets, err = b.rotation(); err != nil {
			return kernels.Timing{}, err
		}
	}
	var steps []driver.Step
	for i := range o.Samples {
		events := d.events[i*marks:][:marks]
		steps = append(steps, before, driver.Step{Kind: driver.StepRecord, Event: events[0]})
		for j := range r.launches {
			steps = append(steps, b.step(r, j, sets[i%len(sets)], len(sets) > 1))
			if o.Stages || j == len(r.launches)-1 {
				steps = append(steps, driver.Step{Kind: driver.StepRecord, Event: events[min(j+1, marks-1)]})
			}
		}
	}
	start := time.Now()
	if err := d.ctx.Enqueue(d.stream, d.behind(steps)); err != nil {
		return kernels.Timing{}, err
	}
	if err := d.stream.Synchronize(); err != nil {
		return kernels.Timing{}, err
	}
	t := kernels.Timing{Seconds: make([]float64, o.Samples), Busy: time.Since(start).Seconds()}
	if o.Stages {
		t.By = kernels.ByEvents
		for _, l := range r.launches {
			t.Stages = append(t.Stages, kernels.StageSeconds{Stage: l.stage, Seconds: make([]float64, o.Samples)})
		}
	}
	for i := range o.Samples {
		events := d.events[i*marks:][:marks]
		if t.Seconds[i], err = events[marks-1].Elapsed(events[0]); err != nil {
			return kernels.Timing{}, err
		}
		if o.Stages {
			for j := range r.launches {
				if t.Stages[j].Seconds[i], err = events[j+1].Elapsed(events[j]); err != nil {
					return kernels.Timing{}, err
				}
			}
		}
	}
	return t, nil
}

// backlog is what runs before every sample: the flush, or a spin where the
// caches are to stay warm.
//
// The flush reads. A memset was tried first, as other tools do it: on an H200
// the cache is then full of dirty lines, and writing them back takes 1 to 2 us
// of a kernel that moves 25 MB and 5 us of one that moves 200 MB, time that
// belongs to the flush and not to the kernel (docs/performance.md).
func (d *Device) backlog(flush int64) (driver.Step, error) {
	if flush == 0 {
		return spinStep(d, warmBacklogNS), nil
	}
	if d.flush.bytes < flush+256 {
		if err := d.grow(&d.flush, flush+256); err != nil {
			return driver.Step{}, err
		}
		if err := d.ctx.Memset8(d.stream, d.flush.ptr, 0x5a, flush+256); err != nil {
			return driver.Step{}, err
		}
	}
	return driver.Step{
		Kind: driver.StepLaunch, Func: d.support.flush,
		Grid: [3]int{d.info.Units * 4, 1, 1}, Block: [3]int{512, 1, 1},
		Args: []uint64{uint64(d.flush.ptr), uint64(flush / 16), uint64(d.flush.ptr) + uint64(flush)},
	}, nil
}

func spinStep(d *Device, ns uint64) driver.Step {
	return driver.Step{Kind: driver.StepLaunch, Func: d.support.spin, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}, Args: []uint64{ns}}
}

// step is launch j on a set of tensors, with arguments of its own if those of
// the problem's are not meant.
func (b *bench) step(r *ready, j int, set map[string]driver.Ptr, own bool) driver.Step {
	step := r.launches[j].step
	if own {
		step.Args = make([]uint64, len(step.Args))
		b.bind(r, j, &step, set)
	}
	return step
}
