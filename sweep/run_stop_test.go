package sweep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"normbench/kernels"
	"normbench/kernels/devicetest"
)

// A run that is stopped ends at once, whole: what was measured is in the sink,
// nothing is half there, nobody is left behind (the bubble sees to that).
func TestRunCanceled(t *testing.T) {
	for after := range 11 {
		synctest.Test(t, func(t *testing.T) {
			ts := tasks(t, 3, pool[:4]...)
			a, b := fake(), fake()
			a.Seconds, b.Seconds = takes(0.01), takes(0.02)
			ctx, cancel := context.WithCancelCause(t.Context())
			sink := &memory{}
			o := options(2)
			n := 0
			var at time.Time
			o.Observe = func(Event) {
				if n++; n == after+1 {
					at = time.Now()
					cancel(errors.New("a signal"))
				}
			}
			sum, err := Run(ctx, registry, devices(a, b), ts, sink, o)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %d: got %v", after, err)
			}
			if d := time.Since(at); d > 100*time.Millisecond { // one visit is 60 ms
				t.Errorf("after %d: it took %s", after, d)
			}
			if sum.Measured != len(sink.variants()) || sum.Measured >= 12 {
				t.Errorf("after %d: %d records, %+v", after, len(sink.variants()), sum)
			}
			for _, r := range sink.variants() {
				if r.Status != kernels.StatusOK {
					t.Errorf("after %d: %s is %s: %s", after, r.Variant(), r.Status, r.Reason)
				}
			}
			checkCalls(t, a)
			checkCalls(t, b)
			// Every finished measurement is kept.
			times := 0
			for _, c := range append(a.Calls("time"), b.Calls("time")...) {
				if l := len(planOf(t, c).Launches); !isStream(c.Variants[0]) && (l == 1 || c.Options.Stages) {
					times++
				}
			}
			// An aborted Time is a call too, one at most per device.
			if len(sink.variants()) < times-2 || len(sink.variants()) > times {
				t.Errorf("after %d: %d measured, %d kept", after, times, len(sink.variants()))
			}
		})
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if sum, err := Run(ctx, registry, devices(fake()), tasks(t, 2, pool[0]), &memory{}, options(2)); !errors.Is(err, context.Canceled) || sum.Measured != 0 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
	t.Run("after the last", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := options(2)
		o.Observe = func(e Event) {
			if e.Done == e.Total {
				cancel()
			}
		}
		if sum, err := Run(ctx, registry, devices(fake()), tasks(t, 2, pool[0]), &memory{}, o); err != nil || sum.Measured != 2 {
			t.Errorf("nothing is missing, and yet: %+v, %v", sum, err)
		}
	})
}

func planOf(t *testing.T, c devicetest.Call) kernels.Plan {
	t.Helper()
	_, _, plan, err := registry.Resolve(c.Problem, c.Variants[0], devicetest.H200())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// stuck is a device whose Time hangs until it is stopped, and then reports a
// failure, as one whose process ended with ours does.
func stuck(say error) kernels.Device {
	f := fake()
	f.Hook = func(ctx context.Context, op string, v kernels.Variant) error {
		if op != "time" || isStream(v) {
			return nil
		}
		<-ctx.Done()
		return say
	}
	return f
}

// What a device says while it is being stopped is neither a record, which would
// keep the variant from being measured ever after, nor the error.
func TestRunCanceledDevice(t *testing.T) {
	for _, say := range []error{
		&kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker ended: signal: terminated", Broken: true},
		errors.New("broken pipe"),
		context.Canceled,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sink := &memory{}
			_, err := Run(ctx, registry, []kernels.Device{stuck(say), stuck(say)}, tasks(t, 3, pool[:3]...), sink, options(2))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: got %v", say, err)
			}
			if rs := sink.variants(); len(rs) != 0 {
				t.Errorf("%v: a record of %s: %s", say, rs[0].Status, rs[0].Reason)
			}
		})
	}
}

// A sink that does not take a line ends the run at once with its error, also
// where a device hangs that minds its context.
func TestRunSinkFails(t *testing.T) {
	full := errors.New("records: no space left on device")
	for at := range 10 {
		synctest.Test(t, func(t *testing.T) {
			a, b := fake(), fake()
			a.Seconds, b.Seconds = takes(0.01), takes(0.015)
			var failedAt time.Time
			sink := &memory{}
			sink.fail = func(n int) error {
				if n < at {
					return nil
				}
				if !failedAt.IsZero() {
					t.Errorf("at %d: asked again", at)
				}
				failedAt = time.Now()
				return full
			}
			sum, err := Run(t.Context(), registry, devices(a, b), tasks(t, 4, pool[:4]...), sink, options(2))
			if !errors.Is(err, full) {
				t.Errorf("at %d: got %v", at, err)
			}
			if d := time.Since(failedAt); d > 100*time.Millisecond {
				t.Errorf("at %d: it took %s", at, d)
			}
			if len(sink.runs)+len(sink.records) != at || sum.Measured != len(sink.variants()) {
				t.Errorf("at %d: %d records, %+v", at, len(sink.records), sum)
			}
			checkCalls(t, a)
			checkCalls(t, b)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{fail: func(n int) error {
			if n == 2 { // the stream of the second device
				return full
			}
			return nil
		}}
		ds := []kernels.Device{stuck(errors.New("broken pipe")), stuck(context.Canceled)}
		if _, err := Run(t.Context(), registry, ds, tasks(t, 2, pool[:2]...), sink, options(2)); !errors.Is(err, full) {
			t.Errorf("with hanging devices: got %v", err)
		}
	})
}
