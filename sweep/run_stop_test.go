package sweep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// A run that is stopped, before its first record or after any, ends at once, whole: what was measured
// is in the sink, nothing is half there, nobody is left behind (the bubble sees to that). After the
// last one nothing is missing.
func TestStoppedRunEndsWhole(t *testing.T) {
	for after := range 17 {
		synctest.Test(t, func(t *testing.T) {
			ts := tasks(t, 3, pool[:4]...)
			a, b := fake(), fake()
			a.Seconds, b.Seconds = takes(0.01), takes(0.02)
			ctx, cancel := context.WithCancelCause(t.Context())
			sink := &memorySink{}
			o := options(2)
			at := time.Now()
			stop := func() {
				if len(sink.records) == after {
					at = time.Now()
					cancel(errors.New("a signal"))
				}
			}
			o.Observe = func(ProgressEvent) { stop() }
			stop()
			sum, err := Run(ctx, registry, devices(a, b), ts, sink, o)
			assert.That(t, errors.Is(err, context.Canceled) == (sum.Measured < 12) &&
				(err == nil) == (after == 16), "after %d: %+v, %v", after, sum, err)
			if d := time.Since(at); d > 100*time.Millisecond { // one visit is 60 ms
				t.Errorf("after %d: it took %s", after, d)
			}
			assert.Equal(t, sum.Measured, len(sink.variants()), "after", after)
			for _, r := range sink.variants() {
				assert.Equal(t, r.Status, kernels.StatusOK, "after", after, r.Variant(), r.Reason)
			}
			checkCalls(t, a)
			checkCalls(t, b)
			// Every finished measurement is kept.
			times := 0
			for _, c := range append(a.Calls("time"), b.Calls("time")...) {
				if l := len(planOf(t, c).Launches); !isStream(c.Variants[0]) &&
					(l == 1 || c.Options.Stages) {
					times++
				}
			}
			// An aborted Time is a call too, one at most per device.
			assert.That(t, len(sink.variants()) >= times-2 && len(sink.variants()) <= times,
				"after %d: %d measured, %d kept", after, times, len(sink.variants()))
		})
	}
}

func planOf(t *testing.T, c devicetest.FakeCall) kernels.Plan {
	t.Helper()
	_, _, plan, err := registry.Resolve(c.Problem, c.Variants[0], devicetest.H200())
	assert.NoError(t, err)
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
func TestStoppedDeviceLeavesNoRecord(t *testing.T) {
	for _, say := range []error{
		&kernels.Failure{Status: kernels.StatusCrash,
			Reason: "the worker ended: signal: terminated", Broken: true},
		errors.New("broken pipe"),
		context.Canceled,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sink := &memorySink{}
			_, err := Run(ctx, registry, []kernels.Device{stuck(say), stuck(say)},
				tasks(t, 3, pool[:3]...), sink, options(2))
			assert.That(t, errors.Is(err, context.DeadlineExceeded), "%v: got %v", say, err)
			rs := sink.variants()
			assert.Equal(t, len(rs), 0, say, "records")
		})
	}
}

// A sink that does not take a line ends the run at once with its error, also
// where a device hangs that minds its context.
func TestSinkThatFailsEndsTheRun(t *testing.T) {
	full := errors.New("records: no space left on device")
	for at := range 10 {
		synctest.Test(t, func(t *testing.T) {
			a, b := fake(), fake()
			a.Seconds, b.Seconds = takes(0.01), takes(0.015)
			var failedAt time.Time
			sink := &memorySink{}
			sink.fail = func(n int) error {
				if n < at {
					return nil
				}
				assert.That(t, failedAt.IsZero(), "at %d: asked again", at)
				failedAt = time.Now()
				return full
			}
			sum, err := Run(t.Context(), registry, devices(a, b), tasks(t, 4, pool[:4]...), sink,
				options(2))
			assert.That(t, errors.Is(err, full), "at %d: got %v", at, err)
			d := time.Since(failedAt)
			assert.That(t, d <= 100*time.Millisecond, "at %d: it took %s", at, d)
			assert.That(t, len(sink.runs)+len(sink.records) == at &&
				sum.Measured == len(sink.variants()), "at %d: %d records, %+v", at,
				len(sink.records), sum)
			checkCalls(t, a)
			checkCalls(t, b)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		sink := &memorySink{fail: func(n int) error {
			if n == 2 { // the stream of the second device
				return full
			}
			return nil
		}}
		ds := []kernels.Device{stuck(errors.New("broken pipe")), stuck(context.Canceled)}
		_, err := Run(t.Context(), registry, ds, tasks(t, 2, pool[:2]...), sink, options(2))
		assert.That(t, errors.Is(err, full), "with hanging devices: got %v", err)
	})
}
