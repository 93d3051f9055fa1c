package search

import (
	"slices"
	"strings"
	"testing"

	"normbench/kernels"
)

func TestChoose(t *testing.T) {
	rounds := func(us float64) []float64 { return []float64{us, us * 1.001, us * 0.999, us, us, us} }
	noisy := func(us float64) []float64 { return []float64{us * 0.99, us * 1.02, us * 0.98, us, us * 1.01, us} }
	for name, test := range map[string]struct {
		fs   []Finalist
		want int
		why  string
	}{
		"fastest":          {[]Finalist{{Rounds: rounds(100)}, {Rounds: rounds(90)}}, 1, "fastest"},
		"checked in":       {[]Finalist{{Rounds: rounds(90), Cost: 1}, {Rounds: rounds(90.5), Entry: true, Cost: 9}, {Rounds: rounds(90.2), Shared: 3}}, 1, "checked in, of 2"},
		"entry too slow":   {[]Finalist{{Rounds: rounds(90)}, {Rounds: rounds(92), Entry: true}}, 0, "fastest"},
		"shared":           {[]Finalist{{Rounds: rounds(90), Cost: 1}, {Rounds: noisy(90.5), Shared: 2, Cost: 9}}, 1, "shared by 2 neighbours, of 2"},
		"fewest resources": {[]Finalist{{Rounds: rounds(90), Cost: 8}, {Rounds: noisy(90.5), Cost: 4}}, 1, "takes least of the device, of 2 within 1.0%"},
		"told apart":       {[]Finalist{{Rounds: rounds(90), Cost: 8}, {Rounds: rounds(90.5), Cost: 4}}, 0, "fastest"},
		"too few rounds":   {[]Finalist{{Rounds: rounds(90)[:3], Cost: 8}, {Rounds: rounds(90.5)[:3], Cost: 4}}, 1, "takes least of the device, of 2 within 1.0%"},
		"failed":           {[]Finalist{{Rounds: rounds(90), Failed: true}, {Rounds: rounds(120)}}, 1, "fastest"},
		"none":             {[]Finalist{{Failed: true}}, -1, ""},
	} {
		got, why := Choose(test.fs, TieBand)
		if got != test.want || !strings.HasPrefix(why, test.why) {
			t.Errorf("%s: %d, %q", name, got, why)
		}
	}
}

func TestGain(t *testing.T) {
	a := []float64{103, 102, 104, 103, 102, 104, 103, 103}
	b := []float64{100, 100, 100, 100, 100, 100, 100, 100}
	gain, lo, hi, ok := Gain(a, b)
	if !ok || gain < 0.029 || gain > 0.031 || lo < 0.02 || lo > gain || hi < gain || hi > 0.04 {
		t.Errorf("%g [%g, %g] %v", gain, lo, hi, ok)
	}
	if _, _, _, ok := Gain(a[:3], b[:3]); ok {
		t.Error("an interval of three rounds")
	}
	if _, _, _, ok := Gain(a, b[:7]); ok {
		t.Error("rounds of different numbers")
	}
}

func TestEdges(t *testing.T) {
	ranges := []kernels.Range{kernels.Values(kernels.Warps, 4, 8, 16), kernels.Values(kernels.PerSM, 0, 2, 4, 8), kernels.Values(kernels.Stages, 1, 2), kernels.Values(kernels.BlockRows, 1, 2, 4)}
	for label, want := range map[string]string{"br1.w8.st2.k0": "", "br1.w4.st1.k8": "w=4 k=8", "br4.w16.k2": "w=16 k=2 br=4", "br2.w8.k4": ""} {
		c, err := kernels.ParseConfig(label)
		if err != nil {
			t.Fatal(err)
		}
		got := Edges(ranges, c)
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", label, got, want)
		}
	}
}
