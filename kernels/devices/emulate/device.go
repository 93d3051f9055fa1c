package emulate

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"normbench/kernels"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cpu"
)

// Limit is the longest that one launch may run by default, a hundred times what small problems take.
const Limit = time.Minute

// A Device runs the CUDA sources of variants, with plans for the GPU of its info. Check is
// for answers; the times of Time say nothing.
type Device struct {
	*cpu.Device
	emulator *Emulator
	registry *kernels.Registry
	limit    time.Duration                       // of a launch
	hung     map[kernels.Variant]kernels.Problem // where a variant did not end
	ctx      context.Context                     // of the compilers of Prefetch
	stop     context.CancelFunc
	ahead    sync.WaitGroup
	slots    chan struct{}
}

// poisoned is why a lock that is right on its first day may never be free.
const poisoned = "scratch starts as NaN, its whole numbers as -1: a lock or a counter is cleared by a " +
	"launch ahead"

// NewDevice stands for the GPU of info; limit is the longest that a launch may run. A launch that the emulator cannot run is a failure
// of kernels.StatusCompile, one that ends badly of StatusCrash. Each second run of a check runs the CTAs
// from last to first.
func NewDevice(ctx context.Context, e *Emulator, r *kernels.Registry,
	info kernels.DeviceInfo, limit time.Duration) *Device {
	e.target = triton.TargetOf(info)
	d := &Device{emulator: e, registry: r, limit: limit, hung: map[kernels.Variant]kernels.Problem{},
		slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	launch := func(ctx context.Context, l *kernels.Launch, mem map[string]*kernels.Memory, run int) error {
		if _, err := e.build(ctx, r, l); ctx.Err() != nil { // which has a limit of its own
			return errors.Join(ctx.Err(), err)
		}
		within, stop := context.WithTimeout(ctx, d.limit)
		defer stop()
		err := e.Run(within, r, l, mem, run%2 == 1)
		var u *UnsupportedError
		switch {
		case err == nil || ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case errors.Is(err, ErrSpace):
			return err
		case errors.As(err, &u):
			return kernels.Failf(kernels.StatusCompile, "%v", u)
		case within.Err() != nil:
			return kernels.Failf(kernels.StatusTimeout, "%s did not end within %s (%s)", l.Entry, d.limit,
				poisoned)
		}
		return kernels.Failf(kernels.StatusCrash, "%v", err)
	}
	d.Device = cpu.As(r, info, launch)
	d.ctx, d.stop = context.WithCancel(ctx)
	return d
}

// Open implements kernels.Device. A variant that has not ended on one problem is not run on others:
// each would take as long.
func (d *Device) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	b, err := d.Device.Open(ctx, p, in)
	if err != nil {
		return nil, err
	}
	return &bench{b, d, p}, nil
}

type bench struct {
	kernels.Bench
	d *Device
	p kernels.Problem
}

// Check implements kernels.Bench.
func (b *bench) Check(ctx context.Context, v kernels.Variant, repeats int) (c kernels.Check, err error) {
	err = b.run(v, func() error {
		c, err = b.Bench.Check(ctx, v, repeats)
		return err
	})
	return c, err
}

// HashRows implements kernels.RowHasher.
func (b *bench) HashRows(ctx context.Context, v kernels.Variant, rows int64) (hashes kernels.RowHashes, err error) {
	err = b.run(v, func() error {
		hashes, err = b.Bench.(kernels.RowHasher).HashRows(ctx, v, rows)
		return err
	})
	return hashes, err
}

// run runs a variant, unless it has not ended before, and notes where it does not end.
func (b *bench) run(v kernels.Variant, what func() error) error {
	if where, ok := b.d.hung[v]; ok {
		return kernels.Failf(kernels.StatusTimeout, "not run, as it did not end on %s", where)
	}
	err := what()
	var f *kernels.Failure
	if errors.As(err, &f) && f.Status == kernels.StatusTimeout {
		b.d.hung[v] = b.p
	}
	return err
}

// Prefetch compiles what the variants launch, as many programs at once as there are cores.
func (d *Device) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	for _, v := range vs {
		_, _, plan, err := d.registry.Resolve(p, v, d.Info())
		if err != nil {
			continue // Check says it
		}
		for i := range plan.Launches {
			if l := &plan.Launches[i]; l.IsKernel() {
				d.ahead.Go(func() {
					d.slots <- struct{}{}
					defer func() { <-d.slots }()
					_, _ = d.emulator.build(d.ctx, d.registry, l) // Run says what is wrong
				})
			}
		}
	}
}

// Close implements kernels.Device. It ends the compilers.
func (d *Device) Close() error {
	d.stop()
	d.ahead.Wait()
	return nil
}
