package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

func device(t testing.TB, seed uint64) (*Device, kernels.Problem) {
	p := devicetest.Problem(t, "rmsnorm/fwd/64x256/bf16")
	d, err := New(kernels.DeviceInfo{ID: "gpu", Kind: kernels.KindCUDA, SMs: 4, PeakRate: 1e12}, "old.jsonl", seed, []Measurement{
		{Problem: p, Variant: devicetest.Variant(t, "f@w4"), Status: kernels.StatusOK, SamplesUS: []float64{1, 2, 3, 4}, Check: &kernels.Check{Busy: 0.5}},
		{Problem: p, Variant: devicetest.Variant(t, "f@w8"), Status: kernels.StatusCompile, Reason: "no"},
		{Problem: p, Variant: kernels.Variant{Family: Stream}, SamplesUS: []float64{1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, p
}

func TestReplay(t *testing.T) {
	d, p := device(t, 1)
	if d.Info().ID != "replay-gpu" {
		t.Errorf("it says it is %s", d.Info().ID)
	}
	draw := func(d *Device, seed uint64) []float64 {
		b, err := d.Open(t.Context(), p, seed)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		o, err := b.Time(t.Context(), devicetest.Variant(t, "f@w4"), kernels.TimeOptions{Samples: 20, Flush: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range o.Seconds {
			if !slices.Contains([]float64{1e-6, 2e-6, 3e-6, 4e-6}, s) {
				t.Errorf("%g was never recorded", s)
			}
		}
		if want := 20e-6; o.Busy < want+20e-6 || o.Busy > want+80e-6 {
			t.Errorf("busy %g", o.Busy)
		}
		return o.Seconds
	}
	a := draw(d, 5)
	same, _ := device(t, 1)
	if !slices.Equal(a, draw(same, 5)) {
		t.Error("the same seed drew others")
	}
	other, _ := device(t, 2)
	if slices.Equal(a, draw(d, 6)) || slices.Equal(a, draw(other, 5)) {
		t.Error("another seed drew the same")
	}
	b, err := d.Open(t.Context(), p, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := b.Check(t.Context(), devicetest.Variant(t, "f@w4"), 2); err != nil || c.Busy != 0.5 {
		t.Errorf("%+v %v", c, err)
	}
	if _, err := b.Time(t.Context(), devicetest.Variant(t, "rms_fwd/stream@w8.u1"), kernels.TimeOptions{Samples: 1}); err != nil {
		t.Errorf("the stream: %v", err)
	}
	for v, want := range map[string]string{
		"f@w8":  "compile: no",
		"f@w16": "refused: the replay of old.jsonl lacks f@w16 on rmsnorm/fwd/64x256/bf16",
	} {
		var f *kernels.Failure
		if _, err := b.Check(t.Context(), devicetest.Variant(t, v), 1); !errors.As(err, &f) || f.Error() != want {
			t.Errorf("%s: %v", v, err)
		}
		if _, err := b.Time(t.Context(), devicetest.Variant(t, v), kernels.TimeOptions{Samples: 1}); !errors.As(err, &f) || f.Error() != want {
			t.Errorf("%s: %v", v, err)
		}
	}
	var f *kernels.Failure
	if _, err := d.Open(t.Context(), devicetest.Problem(t, "rmsnorm/fwd/1x1/bf16"), 1); !errors.As(err, &f) || !strings.Contains(f.Reason, "lacks the problem") {
		t.Error(err)
	}
	if _, err := New(kernels.DeviceInfo{ID: "x"}, "none", 1, nil); err == nil || hint.Of(err) == "" {
		t.Error(err)
	}
}
