package verify

import (
	"math/rand/v2"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/emulate"
	"normbench/kernels/families"
	"normbench/sweep"
)

// Configs that families call invariant keep a row's bits in the emulator, and some of the others do not. A
// batch-invariant map takes the word of families for it.
func TestFamiliesSayWhichConfigsKeepRows(t *testing.T) {
	e, err := emulate.New(t.Context(), t.TempDir())
	assert.Needs(t, "CXX", err)
	defer e.Close()
	reg, info := families.NewRegistry(), emulatedGPU()
	dev := emulate.NewDevice(t.Context(), e, reg, info, emulate.Limit)
	defer dev.Close()
	problems, each := []string{"rmsnorm/fwd/33x131/fp32", "layernorm/fwd/33x131/bf16+bias", "rmsnorm/bwd/33x131/fp32",
		"layernorm/bwd/33x264/bf16+bias"}, 4
	if !assert.All {
		problems, each = problems[:1], 1
	}
	rng := rand.New(rand.NewPCG(1, 1))
	changed := 0
	for _, text := range problems {
		p := devicetest.Problem(t, text)
		for _, f := range reg.Candidates(p) {
			configs, _ := f.Configs(p, info)
			byPlace := func(c kernels.Config) bool { return !f.KeepsRows(p, c, info) }
			if f.Bits == kernels.NotBitwise || !assert.All && !slices.ContainsFunc(configs, byPlace) {
				continue
			}
			rng.Shuffle(len(configs), func(i, j int) { configs[i], configs[j] = configs[j], configs[i] })
			var vs []kernels.Variant
			for _, keeps := range []bool{false, true} {
				some := slices.DeleteFunc(slices.Clone(configs), func(c kernels.Config) bool {
					return f.KeepsRows(p, c, info) != keeps || f.BitsOf(c) == kernels.NotBitwise
				})
				for _, c := range some[:min(each, len(some))] {
					vs = append(vs, kernels.Variant{Family: f.Name, Config: c})
				}
			}
			compare := sweep.RowComparer{Registry: reg, Device: dev, Seed: 1, Windows: 4}
			found, err := compare.Compare(t.Context(), p, vs)
			assert.NoError(t, err)
			for i, v := range vs {
				keeps := f.KeepsRows(p, v.Config, info)
				assert.That(t, !keeps || found[i].Wrong == "", "%s on %s: %s", v, p, found[i].Wrong)
				if !keeps && found[i].Wrong != "" {
					changed++
				}
			}
		}
	}
	assert.That(t, changed > 0, "no config changes a row's bits")
}
