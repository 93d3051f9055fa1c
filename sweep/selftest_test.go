package sweep_test

import (
	"context"
	"fmt"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
)

// keeping is a device whose L2 keeps lines: reading them again takes plain of the time behind a
// plain flush, and ours behind the device's own.
type keeping struct {
	*devicetest.Fake
	plain, ours float64
}

func (k keeping) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	b, err := k.Fake.Open(ctx, p, in)
	return keepingBench{b, k}, err
}

type keepingBench struct {
	kernels.Bench
	k keeping
}

func (b keepingBench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (
	kernels.Timing, error) {
	t, err := b.Bench.Time(ctx, v, o)
	if v.Family == "rms_fwd/kept" && o.Persist && len(t.Stages) > 0 {
		factor := b.k.ours
		if o.Flush == 0 {
			factor = b.k.plain
		}
		for i := range t.Stages[0].Seconds {
			t.Stages[0].Seconds[i] *= factor
		}
	}
	return t, err
}

// On a cpu the selftest is short: its tensors are of a quarter of the cache, so that the float64
// answers take no longer than the times, and what only a GPU has is left out.
func TestSelfTestOfACPUIsShort(t *testing.T) {
	fake := &devicetest.Fake{DeviceInfo: devicetest.CPU(), Seconds: devicetest.Always(10e-6)}
	trials, _, err := sweep.SelfTest(t.Context(), families.New(), fake)
	assert.NoError(t, err)
	assert.Equal(t, len(trials), 7, "checks")
	cache, samples := devicetest.CPU().CacheBytes, 0
	for _, call := range fake.Calls("open", "time") {
		assert.That(t, 2*call.Problem.M*call.Problem.N <= cache/4, "%s is large", call)
		samples += call.Options.Samples
		assert.That(t, call.Options.Flush <= 2*cache, "%s waits for a flush of %d", call, call.Options.Flush)
	}
	assert.That(t, samples <= 250, "%d samples, each behind a flush", samples)
}

// The trial of kept lines fails where the device's flush leaves them, and only there:
// testdata/kept.txt, by what a plain flush and the device's own leave of the time.
func TestSelfTestFindsAFlushThatLeavesLines(t *testing.T) {
	assert.Lines(t, "testdata/kept.txt", func(input string) string {
		x := assert.Numbers(t, input)
		fake := &devicetest.Fake{Seconds: devicetest.Always(10e-6)}
		trials, floor, err := sweep.SelfTest(t.Context(), families.New(), keeping{fake, x[0], x[1]})
		assert.That(t, err == nil && floor >= 9.99 && floor <= 10.01,
			"a floor of %g us, every launch takes 10: %v", floor, err)
		last := trials[len(trials)-1]
		return fmt.Sprintf("%s: %s, ok %t", last.Name, last.Found, last.OK)
	})
}
