package study

import (
	"math"

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
