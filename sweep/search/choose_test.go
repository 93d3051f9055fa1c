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
	cost := func(cost int, rounds []float64) Finalist {
		return Finalist{Rounds: rounds, Cost: cost}
	}
	entry := func(cost int, rounds []float64) Finalist {
		return Finalist{Rounds: rounds, Cost: cost, Entry: true}
	}
	failed := Finalist{Rounds: rounds(80), Base: true, Failed: true}
	const least = "takes least of the device, of 2 within 1.0%"
	for name, test := range map[string]struct {
		fs    []Finalist
		want  int
		why   string
		floor float64
	}{
		"fastest": {[]Finalist{cost(0, rounds(100)), cost(0, rounds(90))}, 1, "fastest", 0},
		"checked in": {[]Finalist{cost(1, rounds(90)), entry(9, rounds(90.5)),
			{Rounds: rounds(90.2), Shared: 3}}, 1, "checked in, of 2", 0},
		"entry too slow": {[]Finalist{cost(0, rounds(90)), entry(0, rounds(92))}, 0, "fastest", 0},
		"shared": {[]Finalist{cost(1, rounds(90)), {Rounds: noisy(90.5), Shared: 2, Cost: 9}}, 1,
			"shared by 2 neighbours, of 2", 0},
		"fewest resources": {[]Finalist{cost(8, rounds(90)), cost(4, noisy(90.5))}, 1, least, 0},
		"told apart":       {[]Finalist{cost(8, rounds(90)), cost(4, rounds(90.5))}, 0, "fastest", 0},
		"too few rounds": {[]Finalist{cost(8, rounds(90)[:3]), cost(4, rounds(90.5)[:3])}, 1,
			least, 0},
		"failed": {[]Finalist{{Rounds: rounds(90), Failed: true}, cost(0, rounds(120))}, 1,
			"fastest", 0},
		"a base that fails": {[]Finalist{failed, cost(0, rounds(90))}, 1, "fastest", 0},
		"none":              {[]Finalist{{Failed: true}}, -1, "", 0},
		"the base stays": {[]Finalist{base(noisy(90)), cost(0, rounds(89.5)), cost(0, rounds(95))},
			0, "base: ", 0},
		"the base is beaten by another than the fastest": {[]Finalist{base(rounds(90)),
			cost(0, []float64{80, 80, 80, 99, 99, 80}), cost(0, rounds(89))}, 2, "fastest", 0},
		"the base on a noisy machine": {[]Finalist{base(rounds(90)), cost(0, rounds(80))}, 0,
			"base: ", -0.2},
		"the base wins against the entry too": {[]Finalist{base(rounds(90)),
			entry(0, noisy(89.9))}, 0, "base: ", 0},
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
