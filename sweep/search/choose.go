package search

import (
	"cmp"
	"fmt"
	"slices"

	"normbench/kernels"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// TieBand is how much slower a finalist may be than the fastest, relatively, and
// still be chosen for other reasons: two sweeps of one device differ by as much.
// The band is wider if two copies of the base differ by more.
const TieBand = 0.01

// A Finalist is a variant in the last rounds, in which all finalists are visited
// in turns.
type Finalist struct {
	Rounds []float64 // its time in each, the same rounds for all
	Base   bool      // it is what runs untuned
	Entry  bool      // it is the checked-in entry
	Failed bool      // it is out: it came out wrong on fresh inputs
}

// Choose picks the winner of the finals. The base stays unless the rounds prove another
// ahead (verdict.IsAhead, with floor of two copies of the base). Of those that are, the winner is the
// checked-in entry if it is within the band of the fastest, else the fastest by the median of its
// rounds. It says why, and is -1 where none is left.
func Choose(fs []Finalist, band, floor float64) (winner int, why string) {
	base := slices.IndexFunc(fs, func(f Finalist) bool { return f.Base && f.runs() })
	others := 0
	var ahead []int // the fastest first
	for i, f := range fs {
		if f.Base || !f.runs() {
			continue
		}
		others++
		if base < 0 || verdict.IsAhead(fs[base].Rounds, f.Rounds, floor) {
			ahead = append(ahead, i)
		}
	}
	if len(ahead) == 0 {
		return base, map[bool]string{true: "base: nothing else was in the finals",
			false: "base: none is faster beyond doubt"}[others == 0]
	}
	slices.SortStableFunc(ahead, func(a, b int) int {
		return cmp.Compare(stats.Median(fs[a].Rounds), stats.Median(fs[b].Rounds))
	})
	entry := slices.IndexFunc(ahead, func(i int) bool { return fs[i].Entry })
	if entry > 0 {
		behind, _, _, _ := verdict.Gain(fs[ahead[entry]].Rounds, fs[ahead[0]].Rounds)
		if behind <= band {
			return ahead[entry], fmt.Sprintf("checked in, within %.1f%% of the fastest", 100*band)
		}
	}
	return ahead[0], "fastest"
}

func (f *Finalist) runs() bool { return !f.Failed && len(f.Rounds) > 0 }

// Edges lists the knobs that a config sets to the least or the largest of a
// family's values, "w=32": a wider range may hold something faster. Values of 0,
// which leave a choice to the kernel, and ranges of fewer than three have no edge.
func Edges(ranges []kernels.Range, c kernels.Config) []string {
	var edges []string
	for _, r := range ranges {
		var values []int
		for _, v := range r.Values {
			if v > 0 && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if v := c.Get(r.Knob); len(values) >= 3 &&
			(v == slices.Min(values) && v > 1 || v == slices.Max(values)) {
			edges = append(edges, fmt.Sprintf("%s=%d", r.Knob.Key, v))
		}
	}
	return edges
}
