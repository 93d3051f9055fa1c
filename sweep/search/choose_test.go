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
	for name, test := range map[string]struct {
		fs    []Finalist
		want  int
		why   string
		floor float64
	}{
		"fastest": {fs: []Finalist{{Rounds: rounds(100)}, {Rounds: rounds(90)}}, want: 1,
			why: "fastest"},
		"checked in": {fs: []Finalist{{Rounds: rounds(90), Cost: 1}, {Rounds: rounds(90.5),
			Entry: true, Cost: 9}, {Rounds: rounds(90.2), Shared: 3}}, want: 1,
			why: "checked in, of 2"},
		"entry too slow": {fs: []Finalist{{Rounds: rounds(90)}, {Rounds: rounds(92),
			Entry: true}}, want: 0, why: "fastest"},
		"shared": {fs: []Finalist{{Rounds: rounds(90), Cost: 1}, {Rounds: noisy(90.5),
			Shared: 2, Cost: 9}}, want: 1, why: "shared by 2 neighbours, of 2"},
		"fewest resources": {fs: []Finalist{{Rounds: rounds(90), Cost: 8}, {Rounds: noisy(90.5),
			Cost: 4}}, want: 1, why: "takes least of the device, of 2 within 1.0%"},
		"told apart": {fs: []Finalist{{Rounds: rounds(90), Cost: 8}, {Rounds: rounds(90.5),
			Cost: 4}}, want: 0, why: "fastest"},
		"too few rounds": {fs: []Finalist{{Rounds: rounds(90)[:3], Cost: 8},
			{Rounds: rounds(90.5)[:3], Cost: 4}}, want: 1,
			why: "takes least of the device, of 2 within 1.0%"},
		"failed": {fs: []Finalist{{Rounds: rounds(90), Failed: true},
			{Rounds: rounds(120)}}, want: 1, why: "fastest"},
		"none": {fs: []Finalist{{Failed: true}}, want: -1, why: ""},
		"the base stays": {fs: []Finalist{{Rounds: noisy(90), Base: true}, {Rounds: rounds(89.5)},
			{Rounds: rounds(95)}}, want: 0, why: "base: "},
		"the base is beaten by another than the fastest": {fs: []Finalist{{Rounds: rounds(90),
			Base: true}, {Rounds: []float64{80, 80, 80, 99, 99, 80}}, {Rounds: rounds(89)}},
			want: 2, why: "fastest"},
		"the base on a noisy machine": {fs: []Finalist{{Rounds: rounds(90),
			Base: true}, {Rounds: rounds(80)}}, want: 0, why: "base: ", floor: -0.2},
		"the base wins against the entry too": {fs: []Finalist{{Rounds: rounds(90),
			Base: true}, {Rounds: noisy(89.9), Entry: true}}, want: 0, why: "base: "},
		"a base that fails": {fs: []Finalist{{Rounds: rounds(80),
			Base: true, Failed: true}, {Rounds: rounds(90)}}, want: 1, why: "fastest"},
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
