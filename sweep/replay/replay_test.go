package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
)

func device(t testing.TB, seed uint64) (*Device, kernels.Problem) {
	p := devicetest.Problem(t, "rmsnorm/fwd/64x256/bf16")
	d, err := New(kernels.DeviceInfo{ID: "gpu", Kind: kernels.KindCUDA, SMs: 4, PeakRate: 1e12},
		"old.jsonl", seed, []*record.Record{
			{Problem: p, Family: "f", Config: devicetest.Variant(t, "f@w4").Config,
				Status: kernels.StatusOK, SamplesUS: []float64{1, 2, 3, 4},
				Check: &kernels.Check{Busy: 0.5}},
			{Problem: p, Family: "f", Config: devicetest.Variant(t, "f@w8").Config,
				Status: kernels.StatusCompile, Reason: "no"},
			{Problem: p, Family: record.Stream, Status: kernels.StatusOK, SamplesUS: []float64{1}},
		})
	assert.NoError(t, err)
	return d, p
}

func TestReplayDrawsRecordedTimes(t *testing.T) {
	d, p := device(t, 1)
	assert.Equal(t, d.Info().ID, "replay-gpu", "it says it")
	draw := func(d *Device, seed uint64) []float64 {
		b, err := d.Open(t.Context(), p, kernels.Inputs{Seed: seed})
		assert.NoError(t, err)
		defer b.Close()
		o, err := b.Time(t.Context(), devicetest.Variant(t, "f@w4"),
			kernels.TimeOptions{Samples: 20, Flush: 1e6})
		assert.NoError(t, err)
		for _, s := range o.Seconds {
			assert.That(t, slices.Contains([]float64{1e-6, 2e-6, 3e-6, 4e-6}, s),
				"%g was never recorded", s)
		}
		want := 20e-6
		assert.That(t, o.Busy >= want+20e-6 && o.Busy <= want+80e-6, "busy %g", o.Busy)
		return o.Seconds
	}
	a := draw(d, 5)
	same, _ := device(t, 1)
	assert.Same(t, a, draw(same, 5), "the same seed drew others")
	other, _ := device(t, 2)
	assert.That(t, !slices.Equal(a, draw(d, 6)) && !slices.Equal(a, draw(other, 5)),
		"another seed drew the same")
	b, err := d.Open(t.Context(), p, kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	c, err := b.Check(t.Context(), devicetest.Variant(t, "f@w4"), 2)
	assert.That(t, err == nil && c.Busy == 0.5, "%+v %v", c, err)
	_, err = b.Time(t.Context(), devicetest.Variant(t, "rms_fwd/stream@w8.u1"),
		kernels.TimeOptions{Samples: 1})
	assert.That(t, err == nil, "the stream: %v", err)
	for v, want := range map[string]string{
		"f@w8":  "compile: no",
		"f@w16": "refused: the replay of old.jsonl lacks f@w16 on rmsnorm/fwd/64x256/bf16",
	} {
		var f *kernels.Failure
		_, err := b.Check(t.Context(), devicetest.Variant(t, v), 1)
		assert.That(t, errors.As(err, &f) && f.Error() == want, "%s: %v", v, err)
		_, err = b.Time(t.Context(), devicetest.Variant(t, v), kernels.TimeOptions{Samples: 1})
		assert.That(t, errors.As(err, &f) && f.Error() == want, "%s: %v", v, err)
	}
	var f *kernels.Failure
	_, err = d.Open(t.Context(), devicetest.Problem(t, "rmsnorm/fwd/1x1/bf16"), kernels.Inputs{Seed: 1})
	assert.That(t, errors.As(err, &f) && strings.Contains(f.Reason, "lacks the problem"), "%v", err)
	_, err = New(kernels.DeviceInfo{ID: "x"}, "none", 1, nil)
	assert.That(t, err != nil && hint.Of(err) != "", "%v", err)
}
