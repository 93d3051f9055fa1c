package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A Session is a problem on a device. It opens the problem when something is to be done with it,
// and again if a failure took it away. One goroutine uses it.
type Session struct {
	Device   kernels.Device
	Registry *kernels.Registry
	Problem  kernels.Problem
	Protocol record.Protocol
	Seed     uint64  // of the inputs; close the session to change it
	Busy     float64 // seconds that the device was at work

	bench  kernels.Bench
	opened bool      // it was open before
	lost   bool      // a failure took the problem away, and the device has not shown that it stands
	sensed time.Time // when the device last said that it is fit
}

// Close takes the problem off the device.
func (s *Session) Close() {
	if s.bench != nil {
		s.bench.Close()
		s.bench = nil
	}
}

// Stream is the variant that copies the problem's tensors.
func (s *Session) Stream() kernels.Variant {
	return kernels.Variant{Family: s.Registry.StreamOf(s.Problem)}
}

// Open opens the problem if it is not open, with a second try if the device fails. A device that
// can no longer open what it had open is a *kernels.Gone.
func (s *Session) Open(ctx context.Context) error {
	for try := 0; ; try++ {
		err := s.open(ctx)
		f := FailureOf(err)
		switch {
		case f == nil || ctx.Err() != nil:
			return err
		case try == 0 && f.Status != kernels.StatusTimeout:
			continue
		case s.opened && doubtful(err) != nil:
			return gone(s.Device, s.Problem, f)
		}
		return err
	}
}

// open is one try. After a failure that took the problem away the device must also run its stream.
func (s *Session) open(ctx context.Context) (err error) {
	if s.bench != nil {
		return nil
	}
	if s.bench, err = s.Device.Open(ctx, s.Problem, s.Seed); err != nil {
		s.bench = nil
	} else if s.lost {
		_, err = s.bench.Check(ctx, s.Stream(), 1)
	}
	if err != nil {
		s.Close()
		s.lost = s.lost || doubtful(err) != nil
		return err
	}
	s.opened, s.lost = true, false
	return nil
}

// lose closes the problem if a failure has taken it away.
func (s *Session) lose(err error) {
	if f := FailureOf(err); f != nil && f.Broken {
		s.Close()
		s.lost = true
	}
}

// do opens the problem and does something with it, twice if the first error says nothing about
// what was done.
func (s *Session) do(ctx context.Context, what func(kernels.Bench) error) error {
	for try := 0; ; try++ {
		if err := s.Open(ctx); err != nil {
			return err
		}
		err := what(s.bench)
		s.lose(err)
		if try > 0 || !beside(err) || ctx.Err() != nil {
			return err
		}
	}
}

// Repeats are the runs of a variant whose bits are compared.
const Repeats = 2

// Check runs a variant so many times and compares its outputs with the reference. A wrong answer is
// in the check, and no error.
func (s *Session) Check(ctx context.Context, v kernels.Variant, repeats int) (c kernels.Check, err error) {
	err = s.do(ctx, func(b kernels.Bench) error {
		c, err = b.Check(ctx, v, repeats)
		s.Busy += c.Busy
		return err
	})
	return c, err
}

// Time takes so many samples of a variant in one visit, in microseconds. Those that the protocol
// discards come on top. A time that cannot be true is a failure.
func (s *Session) Time(ctx context.Context, v kernels.Variant, launches int) ([]float64, error) {
	return s.samples(ctx, v, launches, s.time)
}

// Fit is Time on a device that is fit: see fitTime.
func (s *Session) Fit(ctx context.Context, v kernels.Variant, launches int) ([]float64, error) {
	return s.samples(ctx, v, launches, s.fitTime)
}

func (s *Session) samples(ctx context.Context, v kernels.Variant, launches int, time timer) ([]float64, error) {
	pr := s.Protocol
	t, err := time(ctx, v, pr.TimeOptions(launches+pr.Discard))
	if err != nil {
		return nil, err
	}
	us := record.Micros(t.Seconds[pr.Discard:])
	if why := tooFast(s.Problem, s.Device.Info(), pr, stats.Median(us)); why != "" {
		return nil, kernels.Failf(kernels.StatusUnfit, "%s", why)
	}
	return us, nil
}

// A timer takes times of a variant.
type timer func(context.Context, kernels.Variant, kernels.TimeOptions) (kernels.Timing, error)

func (s *Session) time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (t kernels.Timing, err error) {
	err = s.do(ctx, func(b kernels.Bench) error {
		t, err = b.Time(ctx, v, o)
		s.Busy += t.Busy
		return err
	})
	return t, err
}

// MinClock is the share of its full clock below which a device's times are
// rejected, as nvbench does.
const MinClock = 0.75

// fitFor is how long a device counts as fit. Each round of the finals asks anew.
const fitFor = 50 * time.Millisecond

// fitTime is time, again where the device was not fit for it: shared, throttled, or at a low
// clock. After a few tries the variant is unfit. Asking takes as long as a short visit, so a device
// that was fit a moment ago is not asked again.
func (s *Session) fitTime(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (t kernels.Timing, err error) {
	const tries = 5
	sensor, ok := s.Device.(kernels.Sensor)
	err = s.do(ctx, func(b kernels.Bench) error {
		why := ""
		for range tries {
			t, err = b.Time(ctx, v, o)
			if err != nil || !ok || time.Since(s.sensed) < fitFor {
				s.Busy += t.Busy
				return err
			}
			state, err := sensor.Sense(ctx)
			if err != nil {
				return &sensing{err}
			}
			if why = state.Unfit(MinClock); why == "" {
				s.sensed = time.Now()
				s.Busy += t.Busy
				return nil
			}
		}
		return kernels.Failf(kernels.StatusUnfit, "rejected %d times: %s", tries, why)
	})
	return t, err
}

// A sensing is what sensors failed with behind a variant that was timed: no fault of the
// variant, which gets another try.
type sensing struct{ error }

func (s *sensing) Unwrap() error { return s.error }

// FailureOf is the failure in an error, or nil.
func FailureOf(err error) (f *kernels.Failure) {
	errors.As(err, &f)
	return f
}

// beside says whether an error says nothing about the variant that was to run.
func beside(err error) bool {
	f := FailureOf(err)
	return errors.As(err, new(*sensing)) || f != nil && f.Before
}

// Stages are the times of each launch of a variant, taken in a pass of their own.
type Stages struct {
	By    string // kernels.ByEvents or ByCUPTI
	Of    []record.Stage
	GapUS float64 // median time between them; 0 where it is not known
}

// Stages times each launch of a variant, by CUPTI if trace is set and the device has it.
func (s *Session) Stages(ctx context.Context, v kernels.Variant, trace bool) (Stages, error) {
	pr := s.Protocol
	o := pr.TimeOptions(pr.StageSamples + pr.Discard)
	o.Stages, o.Trace = true, trace
	t, err := s.time(ctx, v, o)
	if err != nil {
		return Stages{}, err
	}
	x := Stages{By: t.By}
	if len(t.Gaps) > 0 {
		x.GapUS = stats.Median(record.Micros(t.Gaps[pr.Discard:]))
	}
	for _, stage := range t.Stages {
		us := record.Micros(stage.Seconds[pr.Discard:])
		x.Of = append(x.Of, record.Stage{Stage: stage.Stage, SamplesUS: us})
	}
	return x, nil
}

// tooFast says why a cold time, in microseconds, cannot be true, or is "": the
// inputs alone would have been read faster than the memory goes. (Outputs do not
// count: they may still be in the cache when the time is taken.)
func tooFast(p kernels.Problem, d kernels.DeviceInfo, pr record.Protocol, us float64) string {
	if !pr.Cold || d.PeakRate == 0 {
		return ""
	}
	var read int64
	for _, t := range p.Tensors() {
		if t.Role == kernels.Input {
			read += t.Bytes()
		}
	}
	if pr.Rotate && kernels.MaxRotation*p.Bytes() < 3*d.CacheBytes {
		return "" // too small to be cold by rotation
	}
	if rate := float64(read) / us * 1e6; rate > float64(d.PeakRate) {
		return fmt.Sprintf("it would have read %.0f GB/s, and the memory's peak is %.0f: warm, or miscounted",
			rate/1e9, float64(d.PeakRate)/1e9)
	}
	return ""
}

// settled says whether two visits in a row agree within 1%, which ends every
// warm-up: clocks rise under load. There is no visit before the first, whose
// last is 0.
func settled(last, median float64) bool { return median > 0.99*last && median < 1.01*last }

// WarmUp repeats a visit until two in a row agree within 1%, 20 times at most.
func WarmUp(visit func() (us []float64, err error)) error {
	for last, i := 0.0, 0; i < 20; i++ {
		us, err := visit()
		if err != nil {
			return err
		}
		m := stats.Median(us)
		if settled(last, m) {
			return nil
		}
		last = m
	}
	return nil
}
