package families_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// Configs lays out what Space finds by asking about every product of the ranges: the same configs in
// the same order, and as many refusals. This fails where a family's Refuse depends on a knob
// without reading it from the config.
func TestConfigsAreThoseOfTheProduct(t *testing.T) {
	t.Parallel()
	n := 12
	if testing.Short() {
		n = 2
	}
	r := families.New()
	rng := rand.New(rand.NewPCG(27, 3))
	old, two := devicetest.H200(), devicetest.CPU()
	old.Arch, old.SMs, old.SharedPerBlock, old.CacheBytes = "sm_80", 108, 166912, 40<<20
	devices := []kernels.DeviceInfo{devicetest.H200(), old, two}
	type place struct {
		p kernels.Problem
		d kernels.DeviceInfo
	}
	var places []place // some for each family, and random ones
	for _, text := range []string{"rmsnorm/fwd/4096x2048/bf16+fp8t", "layernorm/fwd/64x8192/bf16+bias+fp8t", "layernorm/bwd/29x4096/bf16+bias", "rmsnorm/bwd/8192x1024/bf16"} {
		places = append(places, place{problem(t, text), devices[0]})
	}
	for i := range n {
		p := random(rng)
		p.Pass = []kernels.Pass{kernels.Fwd, kernels.Bwd}[i%2]
		switch rng.IntN(4) {
		case 0:
			p.Residual = true
		case 1:
			p.FP8 = p.Pass == kernels.Fwd
		case 2:
			p.Accumulate = p.Pass == kernels.Bwd
		}
		places = append(places, place{p, devices[rng.IntN(len(devices))]})
	}
	served := map[string]bool{}
	for _, at := range places {
		p, d := at.p, at.d
		for _, f := range r.Families {
			if f.CheckServes(p) != nil {
				continue
			}
			served[f.Name] = true
			var override []kernels.Range
			if k := f.Knobs; len(k) > 0 && rng.IntN(2) == 0 { // of values that the family may not know
				override = append(override, kernels.Values(k[rng.IntN(len(k))].Knob, 4, 0, 4, 1))
			}
			want := f.Space(p, d, override...)
			configs, refused := f.Configs(p, d, override...)
			if !slices.Equal(configs, want.Configs) {
				t.Errorf("%s on %s, %s, override %v: %d configs, want %d", f.Name, p, d.Name, override, len(configs), len(want.Configs))
			}
			if refused != len(want.Refused) {
				t.Errorf("%s on %s, %s, override %v: %d refused, want %d", f.Name, p, d.Name, override, refused, len(want.Refused))
			}
		}
	}
	for _, f := range r.Families {
		if !served[f.Name] && !testing.Short() {
			t.Errorf("%s was not tried", f.Name)
		}
	}
}
