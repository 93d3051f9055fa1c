package search

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

func TestChoose(t *testing.T) {
	rounds := func(us float64) []float64 {
		return []float64{us, us * 1.001, us * 0.999, us, us, us}
	}
	noisy := func(us float64) []float64 {
		return []float64{us * 0.99, us * 1.02, us * 0.98, us, us * 1.01, us}
	}
	base := func(rounds []float64) Finalist { return Finalist{Rounds: rounds, Base: true} }
	other := func(rounds []float64) Finalist { return Finalist{Rounds: rounds} }
	entry := func(rounds []float64) Finalist { return Finalist{Rounds: rounds, Entry: true} }
	failed := Finalist{Rounds: rounds(80), Base: true, Failed: true}
	for name, test := range map[string]struct {
		fs    []Finalist
		want  int
		why   string
		floor float64
	}{
		"fastest": {[]Finalist{other(rounds(100)), other(rounds(90))}, 1, "fastest", 0},
		"checked in": {[]Finalist{other(rounds(90)), entry(rounds(90.5)), other(rounds(90.2))}, 1,
			"checked in, within 1.0%", 0},
		"entry too slow": {[]Finalist{other(rounds(90)), entry(rounds(92))}, 0, "fastest", 0},
		"entry fastest":  {[]Finalist{other(rounds(90)), entry(rounds(89))}, 1, "fastest", 0},
		"failed": {[]Finalist{{Rounds: rounds(90), Failed: true}, other(rounds(120))}, 1,
			"fastest", 0},
		"a base that fails": {[]Finalist{failed, other(rounds(90))}, 1, "fastest", 0},
		"none":              {[]Finalist{{Failed: true}}, -1, "", 0},
		"the base stays": {[]Finalist{base(noisy(90)), other(rounds(89.5)), other(rounds(95))},
			0, "base: ", 0},
		"the base is beaten by another than the fastest": {[]Finalist{base(rounds(90)),
			other([]float64{80, 80, 80, 99, 99, 80}), other(rounds(89))}, 2, "fastest", 0},
		"the base on a noisy machine": {[]Finalist{base(rounds(90)), other(rounds(80))}, 0,
			"base: ", -0.2},
		"the base wins against the entry too": {[]Finalist{base(rounds(90)),
			entry(noisy(89.9))}, 0, "base: ", 0},
	} {
		got, why := Choose(test.fs, TieBand, test.floor)
		assert.That(t, got == test.want && strings.HasPrefix(why, test.why),
			"%s: %d, %q", name, got, why)
	}
}

func TestEdges(t *testing.T) {
	ranges := []kernels.Range{kernels.Values(kernels.Warps, 4, 8, 16), kernels.Values(kernels.PerSM,
		0, 2, 4, 8), kernels.Values(kernels.Stages, 1, 2),
		kernels.Values(kernels.BlockRows, 1, 2, 4)}
	for label, want := range map[string]string{"br1.w8.st2.k0": "", "br1.w4.st1.k8": "w=4 k=8",
		"br4.w16.k2": "w=16 k=2 br=4", "br2.w8.k4": ""} {
		c := devicetest.Config(t, label)
		assert.Equal(t, strings.Join(Edges(ranges, c), " "), want, label)
	}
}
