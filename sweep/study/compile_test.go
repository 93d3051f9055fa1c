package study

import (
	"math"
	"testing"

	"normbench/kernels"
)

// A round takes as long as its units do on the cores; k2 is compiled once for the variants that
// share its knobs, and nothing twice.
func TestCompiles(t *testing.T) {
	g := &Grid{}
	var vs []kernels.Variant
	for i := range 9 {
		v := Variant{Variant: kernels.Variant{Family: "f", Config: kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: i + 1}, kernels.Setting{Knob: kernels.ReduceCols, Value: 32})}}
		v.Check.Resources = []kernels.Resource{{Stage: "k1"}, {Stage: "k2"}}
		g.Variants = append(g.Variants, v)
		vs = append(vs, v.Variant)
	}
	c := newCompiles(g)
	c.Announce(vs[:8], nil) // 8 of k1 and one k2
	c.Announce(vs[:8], nil)
	c.Announce(vs[7:], nil)
	if want := [2]float64{(3 + 1) * UnitSeconds, (1 + 1) * UnitSeconds}; math.Abs(c.wall[0]-want[0]) > 1e-9 || math.Abs(c.wall[1]-want[1]) > 1e-9 {
		t.Errorf("%v seconds, want %v", c.wall, want)
	}
}

// A search that measured the best of all samples saw it, whatever it chose.
func TestKnown(t *testing.T) {
	g := &Grid{}
	for _, us := range [][]float64{{10, 10, 10}, {10.05, 10.05, 10.05}, {11, 9, 10.2}} {
		g.Variants = append(g.Variants, Variant{Samples: us})
	}
	if k := g.known(); !k[0] || !k[1] || k[2] {
		t.Errorf("known %v", k)
	}
}
