package sweep_test

import (
	"context"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
)

// keeping is a device whose L2 keeps lines: reading them again takes plain of the time behind a
// plain flush, and ours behind the device's own.
type keeping struct {
	*devicetest.Fake
	plain, ours float64
}

func (k keeping) Open(ctx context.Context, p kernels.Problem, seed uint64) (kernels.Bench, error) {
	b, err := k.Fake.Open(ctx, p, seed)
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

// The trial of kept lines fails where the device's flush leaves them, and only there.
func TestSelfTestKept(t *testing.T) {
	for _, c := range []struct {
		plain, ours float64
		ok          bool
		found       string
	}{
		{0.6, 1, true, "1.00x; 0.60x"},
		{0.6, 0.6, false, "0.60x; 0.60x"},
		{0.6, 0.93, false, "0.93x; 0.60x"}, // a part is left
		{1, 1, true, "1.00x; 1.00x: none kept"},
	} {
		fake := &devicetest.Fake{Seconds: devicetest.Always(10e-6)}
		trials, floor, err := sweep.SelfTest(t.Context(), families.New(), keeping{fake, c.plain,
			c.ours})
		assert.NoError(t, err)
		assert.That(t, floor >= 9.99 && floor <= 10.01,
			"a floor of %g us, every launch takes 10", floor)
		x := trials[len(trials)-1]
		assert.That(t, strings.HasPrefix(x.Name, "L2 lines kept") && x.OK == c.ok &&
			x.Found == c.found, "%+v: got %+v", c, x)
	}
}
