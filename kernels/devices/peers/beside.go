package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Device is ours with the peers beside it, on one GPU.
type Device struct {
	ours   kernels.Device
	theirs *Worker
	calls  map[callKey]callTimes
}

// A callTimes says what one call of a peer takes on a problem, in seconds of the host and of the GPU.
type callTimes struct{ host, gpu float64 }

type callKey struct {
	family  string
	problem kernels.Problem
}

// Join joins the two. They must be the same GPU.
func Join(ours kernels.Device, theirs *Worker) (*Device, error) {
	a, b := ours.Info(), theirs.Info()
	if a.Kind != b.Kind || a.UUID != "" && b.UUID != "" && a.UUID != b.UUID {
		return nil, hint.Errorf("use --device cuda, and one GPU for both",
			"the peers run on %s %s, and our kernels on %s %s", b.Name, b.UUID, a.Name, a.UUID)
	}
	return &Device{ours, theirs, map[callKey]callTimes{}}, nil
}

// Info implements kernels.Device: it is ours.
func (d *Device) Info() kernels.DeviceInfo { return d.ours.Info() }

// Peers are those that the Python knows, missing ones too.
func (d *Device) Peers() []kernels.Peer { return d.theirs.Peers() }

// Prepare compiles for the cells that are peers': Worker.Prepare.
func (d *Device) Prepare(ctx context.Context, cells []ProblemVariant, o PrepareOptions) (Preparation, error) {
	return d.theirs.Prepare(ctx, cells, o)
}

// Prefetch implements kernels.Device. Peers compile ahead only while nothing is
// measured, by Prepare, or else when they are first checked.
func (d *Device) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	if vs = slices.DeleteFunc(slices.Clone(vs), isPeer); len(vs) > 0 {
		d.ours.Prefetch(p, vs)
	}
}

func isPeer(v kernels.Variant) bool {
	_, ok := kernels.PeerName(v.Family)
	return ok
}

// Sense implements kernels.Sensor with our device's sensors. The peers' process
// holds memory of the GPU, but it is not another's.
func (d *Device) Sense(ctx context.Context) (kernels.Reading, error) {
	s, ok := d.ours.(kernels.Sensor)
	if !ok {
		return kernels.Reading{}, nil
	}
	if n, ok := d.ours.(kernels.ProcessIgnorer); ok {
		var pids []int // it has another one after a crash
		if pid := d.theirs.PID(); pid != 0 {
			pids = append(pids, pid)
		}
		n.IgnoreProcesses(pids...)
	}
	return s.Sense(ctx)
}

// Open implements kernels.Device. The peers get the problem with the first
// variant of theirs: it takes memory in each process.
func (d *Device) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	ours, err := d.ours.Open(ctx, p, in)
	if err != nil {
		return nil, err
	}
	return &bench{d: d, p: p, in: in, ours: ours}, nil
}

// Close implements kernels.Device.
func (d *Device) Close() error { return errors.Join(d.ours.Close(), d.theirs.Close()) }

type bench struct {
	d      *Device
	p      kernels.Problem
	in     kernels.Inputs
	ours   kernels.Bench
	theirs kernels.Bench // nil until a peer is asked for, and after one has taken its process down
}

// Check implements kernels.Bench.
func (b *bench) Check(ctx context.Context, v kernels.Variant,
	repeats int) (c kernels.Check, err error) {
	err = b.call(ctx, v, func(on kernels.Bench) error {
		c, err = on.Check(ctx, v, repeats)
		return err
	})
	return c, err
}

// HashRows implements kernels.RowHasher, as far as the device does.
func (b *bench) HashRows(ctx context.Context, v kernels.Variant, rows int64) (hashes kernels.RowHashes, err error) {
	err = b.call(ctx, v, func(on kernels.Bench) error {
		hashes, err = kernels.HashRows(ctx, on, v, rows)
		return err
	})
	return hashes, err
}

// Time implements kernels.Bench.
func (b *bench) Time(ctx context.Context, v kernels.Variant,
	o kernels.TimeOptions) (t kernels.Timing, err error) {
	err = b.call(ctx, v, func(on kernels.Bench) error {
		t, err = on.Time(ctx, v, o)
		return err
	})
	if err == nil && t.Host > 0 {
		gpu := slices.Sorted(slices.Values(t.Seconds))[len(t.Seconds)/2]
		b.d.calls[callKey{v.Family, b.p}] = callTimes{t.Host, gpu}
	}
	return t, err
}

// HostBound says of a peer that was timed how long the host takes for a call, and the share of that
// for which it leaves the GPU without work where call follows call. It is "" where nothing is known.
func (d *Device) HostBound(family string) string {
	var host []float64
	bound, worst := 0, 0.0
	for a, c := range d.calls {
		if a.family != family {
			continue
		}
		if host = append(host, c.host); c.host > c.gpu {
			bound++
			worst = max(worst, 1-c.gpu/c.host)
		}
	}
	if len(host) == 0 {
		return ""
	}
	slices.Sort(host)
	text := fmt.Sprintf("the host takes %.1f us for a call, which is in no time here", 1e6*host[len(host)/2])
	if bound == 0 {
		return text + ": 0% host-bound"
	}
	return fmt.Sprintf("%s: up to %.0f%% host-bound, on %d of %d problems", text, 100*worst, bound, len(host))
}

// call runs f on the bench that v belongs to. What a peer takes down with it is
// its own process: ours stands, and the next peer starts that one again.
func (b *bench) call(ctx context.Context, v kernels.Variant, f func(kernels.Bench) error) error {
	if !isPeer(v) {
		return f(b.ours)
	}
	if err := b.d.theirs.tooLate(ProblemVariant{b.p, v}); err != nil {
		return err
	}
	err := error(nil)
	for try := 0; b.theirs == nil && try < 2; try++ { // it may have to start again
		if b.theirs, err = b.d.theirs.Open(ctx, b.p, b.in); err == nil {
			break
		}
		b.theirs = nil // a nil Client's bench is no nil Bench
	}
	if err == nil {
		err = f(b.theirs)
	}
	var failure *kernels.Failure
	if errors.As(err, &failure) && failure.Broken {
		b.theirs = nil
		return kernels.Failf(failure.Status, "%s", failure.Reason)
	}
	if gone := (*kernels.DeviceLoss)(nil); errors.As(err, &gone) { // ours is not
		b.theirs = nil
		return kernels.Failf(kernels.StatusCrash, "%v", gone)
	}
	return err
}

// Close implements kernels.Bench.
func (b *bench) Close() error {
	err := b.ours.Close()
	if b.theirs != nil {
		err = errors.Join(err, b.theirs.Close())
	}
	return err
}
