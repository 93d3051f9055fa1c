package study

import (
	"math"
	"testing"

	"normbench/kernels"
)

// CompileCores are the numbers of cores that a replay counts compiling for.
var CompileCores = [2]int{4, 16}

// UnitSeconds is what a core takes for a unit, in the mean: 1661 core seconds for 7921 units
// in a sweep of an H200's default group (docs/search.md). The grids' records hold no compile times, so
// a replay takes this for every unit.
const UnitSeconds = 0.21

// A unit is code that is compiled once: the first launch of a variant, or a later one,
// which the variants of a family with equal k2 knobs share.
type unit struct {
	variant kernels.Variant // of the first launch
	family  string          // of a later one
	stage   string
	knobs   [3]int
}

// compiles counts the seconds of compiling before each round, all cores at work on the units of
// its new variants. What is compiled ahead meanwhile is left out, so a sweep takes less.
type compiles struct {
	of    *Grid
	built map[unit]bool
	wall  [2]float64 // by CompileCores
}

// Announce implements search.Bench.
func (c *compiles) Announce(now, later []kernels.Variant) {
	n := 0
	for _, v := range now {
		for _, u := range c.units(v) {
			if !c.built[u] {
				c.built[u] = true
				n++
			}
		}
	}
	for i, cores := range CompileCores {
		c.wall[i] += math.Ceil(float64(n)/float64(cores)) * UnitSeconds
	}
}

func (c *compiles) units(v kernels.Variant) []unit {
	us := []unit{{variant: v}}
	for i := range c.of.Variants {
		if c.of.Variants[i].Variant != v {
			continue
		}
		for k, r := range c.of.Variants[i].Check.Resources {
			if k > 0 {
				us = append(us, unit{family: v.Family, stage: r.Stage,
					knobs: [3]int{v.Config.Get(kernels.ReduceCols), v.Config.Get(kernels.ReduceRows), v.Config.Get(kernels.ReduceWarps)}})
			}
		}
		break
	}
	return us
}

func newCompiles(of *Grid) compiles { return compiles{of: of, built: map[unit]bool{}} }

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
