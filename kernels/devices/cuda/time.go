//go:build cuda

package cuda

import (
	"context"
	"errors"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/kernels/devices/cuda/driver"
)

// The GPU is kept busy before the first sample until the host has enqueued the
// last one, and before every sample that has no flush.
//
// A launch starts later while many operations are enqueued behind it: on an H200 all but
// the last 20 took 0.6 us more, whether a sample had four operations or five and lasted
// for 10 us or 700. So samples are enqueued a few at a time. Before, it depended on how
// many a visit took which share of them paid for that.
const (
	enqueueNS     = 4_000 // what the host takes for one operation, until it is seen to take more
	firstSpinNS   = 100_000
	warmBacklogNS = 60_000
	spinTries     = 6
	queue         = 20 // operations behind a spin
)

// enqueueBehindSpin runs commands behind a spin, which keeps the GPU busy while the host enqueues them,
// and returns the seconds that all of it took. An event behind the spin proves that it outlasted the
// host; where it did not, the commands run again behind a longer one. The next spin is half as long
// again as the host took.
func (d *Device) enqueueBehindSpin(steps []driver.Command) (busy float64, err error) {
	if d.spinEnd == nil {
		e, err := d.ctx.NewEvent()
		if err != nil {
			return 0, err
		}
		d.spinEnd = &e
	}
	for range spinTries {
		start := time.Now()
		if err := d.ctx.Enqueue(d.stream, d.addSpin(steps, driver.Command{Kind: driver.CommandRecord,
			Event: *d.spinEnd})); err != nil {
			return 0, err
		}
		late, err := d.spinEnd.Reached()
		took := time.Since(start)
		if err := errors.Join(err, d.stream.Synchronize()); err != nil {
			return 0, err
		}
		busy += time.Since(start).Seconds()
		d.enqueueNS = nextEnqueue(d.enqueueNS, took, len(steps), late)
		if !late {
			return busy, nil
		}
	}
	return busy, kernels.Failf(kernels.StatusUnfit,
		"the GPU was never kept busy until the host had enqueued %d operations", len(steps))
}

// nextEnqueue computes how many nanoseconds the host is given for one operation the next time: half as
// much again as it took, and where the spin had ended before it (late), at least twice as much as it was
// given.
func nextEnqueue(given uint64, took time.Duration, operations int, late bool) uint64 {
	next := max(3*uint64(took.Nanoseconds())/uint64(2*operations), enqueueNS)
	if late {
		next = max(next, 2*given)
	}
	return next
}

// batchSizes divides samples into batches that stand behind one spin each, by their operations. All but
// the first batch have one sample more, which is dropped.
func batchSizes(samples, operations int) (sizes []int) {
	most := max(queue/operations, 2)
	for n := most; samples > 0; n = most - 1 {
		n = min(n, samples)
		sizes = append(sizes, n)
		samples -= n
	}
	return sizes
}

// addSpin puts a spin, which lasts as long as the host may need to enqueue them, and the commands behind
// before the steps.
func (d *Device) addSpin(steps []driver.Command, behind ...driver.Command) []driver.Command {
	spin := spinStep(d, firstSpinNS+max(d.enqueueNS, enqueueNS)*uint64(len(steps)))
	return slices.Concat([]driver.Command{spin}, behind, steps)
}

// Time implements kernels.Bench. A sample is a flush, an event, the launches, an event. The flush keeps
// the GPU busy while the host enqueues what follows it. After a pause the first sample is biased: the
// caller drops that of a visit (record.Protocol), and Time that of each later batch.
func (b *bench) Time(_ context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	r, err := b.prepareBound(v)
	if err != nil {
		return kernels.Timing{}, err
	}
	var t kernels.Timing
	err = b.d.call(func() error {
		if o.Persist { // a driver that refuses keeps nothing, and the times show that
			_ = b.d.ctx.SetPersistingL2(int64(b.d.ctx.Info().PersistingL2Bytes))
		}
		t, err = b.time(r, o)
		if o.Persist && !driver.IsSticky(err) {
			_ = b.d.ctx.ResetPersistingL2()
			_ = b.d.ctx.SetPersistingL2(0)
		}
		return b.d.toFailure(err)
	})
	return t, err
}

// time takes the samples and checks the outputs of the last run.
func (b *bench) time(r *loadedVariant, o kernels.TimeOptions) (kernels.Timing, error) {
	d := b.d
	runs := runLengths(len(r.launches), o.Stages)
	if err := d.reserveEvents(2 * len(runs) * o.Samples); err != nil {
		return kernels.Timing{}, err
	}
	flush, err := d.backlogCommands(o.Flush)
	if err != nil {
		return kernels.Timing{}, err
	}
	before := append(b.restore(r), flush...)
	checked := !r.family.Stream && r.plan.Writes(b.p)
	busy, err := b.takeSamples(r, o.Samples, runs, before, checked)
	if err != nil {
		return kernels.Timing{}, err
	}
	t, err := b.readTimes(r, o, runs)
	if err != nil {
		return kernels.Timing{}, err
	}
	t.Busy = busy
	if checked && o.Samples > 0 {
		start := time.Now()
		if err := b.checkTimed(r, o.Samples); err != nil {
			return kernels.Timing{}, err
		}
		t.Busy += time.Since(start).Seconds()
	}
	return t, nil
}

// runLengths lists how many of a plan's launches each run of a sample has: all, or where stages are
// timed one, then two, and so on up to all.
func runLengths(launches int, stages bool) (runs []int) {
	for n := 1; stages && n < launches; n++ {
		runs = append(runs, n)
	}
	return append(runs, launches)
}

// takeSamples takes the samples of one call, a batch behind each spin. Where the answer is checked
// afterwards, the outputs are poisoned ahead of the last run. busy is seconds.
func (b *bench) takeSamples(r *loadedVariant, takeSamples int, runs []int, before []driver.Command,
	checked bool) (busy float64, err error) {
	operations, marks := 0, 2*len(runs)
	for _, n := range runs {
		operations += len(before) + 2 + n
	}
	first := 0
	for _, n := range batchSizes(takeSamples, operations) {
		var steps []driver.Command
		if first > 0 {
			steps = b.sampleCommands(r, runs, before, nil, b.d.events[first*marks:][:marks])
		}
		for i := first; i < first+n; i++ {
			var poison []driver.Command
			if i == takeSamples-1 && checked {
				poison = b.poison(r)
			}
			steps = append(steps, b.sampleCommands(r, runs, before, poison, b.d.events[i*marks:][:marks])...)
		}
		took, err := b.d.enqueueBehindSpin(steps)
		if err != nil {
			return 0, err
		}
		busy += took
		first += n
	}
	return busy, nil
}

// sampleCommands makes the commands of one sample: for each run the flush before it, and its launches
// between two events. The outputs are poisoned ahead of the last run.
func (b *bench) sampleCommands(r *loadedVariant, runs []int, before, poison []driver.Command,
	events []driver.Event) (steps []driver.Command) {
	mark := func(i int) driver.Command { return driver.Command{Kind: driver.CommandRecord, Event: events[i]} }
	for k, n := range runs {
		if k == len(runs)-1 {
			steps = append(steps, poison...)
		}
		steps = append(append(steps, before...), mark(2*k))
		for j := range n {
			steps = append(steps, r.launches[j].step)
		}
		steps = append(steps, mark(2*k+1))
	}
	return steps
}

// reserveEvents creates events until there are n.
func (d *Device) reserveEvents(n int) error {
	for len(d.events) < n {
		e, err := d.ctx.NewEvent()
		if err != nil {
			return err
		}
		d.events = append(d.events, e)
	}
	return nil
}

// leastStage is the least time of a stage, in seconds: noise may make a difference negative.
const leastStage = 1e-9

// readTimes reads the times of the samples from their events. A stage's time is that of the run up to
// its launch less that of the run before: what the launch adds to the plan's time (kernels.ByExposed).
func (b *bench) readTimes(r *loadedVariant, o kernels.TimeOptions, runs []int) (t kernels.Timing, err error) {
	t.Seconds = make([]float64, o.Samples)
	if o.Stages {
		t.By = kernels.ByExposed
		for _, l := range r.launches {
			t.Stages = append(t.Stages, kernels.StageSeconds{Stage: l.stage,
				Seconds: make([]float64, o.Samples)})
		}
	}
	for i := range o.Samples {
		events := b.d.events[i*2*len(runs):][:2*len(runs)]
		before := 0.0
		for k := range runs {
			took, err := events[2*k+1].Elapsed(events[2*k])
			if err != nil {
				return kernels.Timing{}, err
			}
			if o.Stages {
				t.Stages[k].Seconds[i] = max(took-before, leastStage)
			}
			before, t.Seconds[i] = took, took
		}
	}
	return t, nil
}

// backlogCommands makes the commands that run before every sample: the flush, or a spin where the caches
// are to stay warm.
//
// The flush reads. A memset was tried first, as other tools do it: on an H200 the cache is then full of
// dirty lines, and writing them back takes 1 to 2 us of a kernel that moves 25 MB and 5 us of one that
// moves 200 MB, time that belongs to the flush and not to the kernel (docs/performance.md).
func (d *Device) backlogCommands(flush int64) ([]driver.Command, error) {
	if flush == 0 {
		return []driver.Command{spinStep(d, warmBacklogNS)}, nil
	}
	if d.flush.bytes < flush+256 {
		if err := d.grow(&d.flush, flush+256); err != nil {
			return nil, err
		}
		if err := d.ctx.Memset8(d.stream, d.flush.ptr, 0x5a, flush+256); err != nil {
			return nil, err
		}
	}
	step := func(f driver.Function, args ...uint64) driver.Command {
		return driver.Command{Kind: driver.CommandLaunch, Func: f, Grid: [3]int{d.info.SMs * 4, 1, 1},
			Block: [3]int{512, 1, 1}, Args: args}
	}
	from := uint64(d.flush.ptr)
	return []driver.Command{step(d.support.flush, from, uint64(flush/16), from+uint64(flush)),
		step(d.support.letGo, from, uint64(flush/128))}, nil
}

// spinStep makes the command that spins for so many nanoseconds.
func spinStep(d *Device, ns uint64) driver.Command {
	return driver.Command{Kind: driver.CommandLaunch, Func: d.support.spin, Grid: [3]int{1, 1, 1},
		Block: [3]int{1, 1, 1}, Args: []uint64{ns}}
}
