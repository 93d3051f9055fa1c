package search

import (
	"cmp"
	"fmt"
	"math"
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
	Variant kernels.Variant
	Rounds  []float64 // its time in each, the same rounds for all
	Base    bool      // it is what runs untuned
	Entry   bool      // it is the checked-in entry
	Shared  int       // neighbouring problems that chose it too
	Cost    int       // warps times stages times CTAs: what it takes of the device
	Failed  bool      // it is out: it came out wrong on fresh inputs
}

// Cost is what a plan's launch takes of the device, to break ties by: threads
// times stages of all CTAs that are resident at once.
func Cost(p kernels.Plan, c kernels.Config, d kernels.DeviceInfo) int {
	if len(p.Launches) == 0 {
		return 0
	}
	l := p.Launches[0]
	ctas := l.Grid[0] * max(l.Grid[1], 1) * max(l.Grid[2], 1)
	return l.Block / 32 * max(c.Get(kernels.Stages), 1) * min(ctas, 16*max(d.SMs, 1))
}

// Choose picks the winner of the finals. The base stays unless the rounds prove another
// ahead (verdict.IsAhead, with floor of two copies of the base). Of those that are, the winner is the
// fastest by the median of its rounds; or, of those within the band of it, the checked-in entry,
// then, of those that the rounds do not tell from it (verdict.Gain), the one that most neighbouring
// problems share, then the one that takes least. It says why, and is -1 where none is left.
//
// (All within the band were tied once: configs that were 0.8% slower in each of eight
// rounds won for a smaller launch.)
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
	fastest := fs[ahead[0]].Rounds
	tied := slices.DeleteFunc(slices.Clone(ahead), func(i int) bool {
		_, lo, _, ok := verdict.Gain(fs[i].Rounds, fastest)
		return i != ahead[0] && (behind(fs[i].Rounds, fastest) > band || ok && lo > 0 && !fs[i].Entry)
	})
	if len(tied) == 1 {
		return ahead[0], "fastest"
	}
	best := slices.MinFunc(tied, func(a, b int) int { return fs[a].compare(&fs[b]) })
	what := "takes least of the device"
	switch f := fs[best]; {
	case f.Entry:
		what = "checked in"
	case f.Shared > 0:
		what = fmt.Sprintf("shared by %d neighbours", f.Shared)
	}
	return best, fmt.Sprintf("%s, of %d within %.1f%%", what, len(tied), 100*band)
}

func (f *Finalist) runs() bool { return !f.Failed && len(f.Rounds) > 0 }

// compare puts what is preferred among those that are tied first.
func (f *Finalist) compare(g *Finalist) int {
	if f.Entry != g.Entry {
		return map[bool]int{true: -1, false: 1}[f.Entry]
	}
	return cmp.Or(cmp.Compare(g.Shared, f.Shared), cmp.Compare(f.Cost, g.Cost),
		cmp.Compare(stats.Median(f.Rounds), stats.Median(g.Rounds)))
}

// behind is by how much a is slower than b, from the rounds of both.
func behind(a, b []float64) float64 {
	if len(a) != len(b) {
		return stats.Median(a)/stats.Median(b) - 1
	}
	d := make([]float64, len(a))
	for i := range a {
		d[i] = math.Log(a[i] / b[i])
	}
	return math.Expm1(stats.Median(d))
}

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
