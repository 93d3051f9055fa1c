package report

import (
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// The finals of a search are of its best variants, whichever their design. Of one design they
// may have a variant that was there for another reason, such as the base, far from that
// design's best. So a side that is a choice among recorded variants has times of both phases,
// and Alike takes those that can be compared.

// Alike gives all sides the same phase for a problem that some of them have from a search
// only: there the others' times are of the search too, where they have them.
func Alike(sides []Side) {
	for _, s := range sides {
		for p, c := range s.Cells {
			if c.Phase != record.PhaseSearch {
				continue
			}
			for _, other := range sides {
				if o, ok := other.Cells[p]; ok && o.Phase != record.PhaseSearch &&
					o.Searched != nil {
					other.Cells[p] = *o.Searched
				}
			}
		}
	}
}

// fewConfigs is how many configs of a design say nothing against it, where the other side
// has four times as many.
const fewConfigs = 8

// unequal says whether the slower side of a row of a search stands on too few configs of its
// design to be called slower. One that was named, not chosen, has no others.
func (r *Row) unequal() bool {
	slow, fast := r.a, r.b
	if slow.MedianUS < fast.MedianUS {
		slow, fast = fast, slow
	}
	return slow.Phase == record.PhaseSearch && !slow.Named && slow.Configs < fewConfigs &&
		fast.Configs >= 4*slow.Configs
}

// searchBand is how far apart the medians of a search have to be: it took the fastest of
// many, each seen a few times, so some of that is luck.
const searchBand = 0.10

// markSearched marks a row of a search. Its few samples are too few for a test of rank that
// is corrected for as many rows; where none of them overlap, and the medians are far apart,
// one side is faster.
func (r *Row) markSearched() Mark {
	a, b := r.a, r.b
	if len(a.Samples) == 0 || len(b.Samples) == 0 {
		return Unclear
	}
	switch _, wide, ok := r.band(searchBand); {
	case !ok:
	case slices.Max(b.Samples) < slices.Min(a.Samples) && a.MedianUS > b.MedianUS*(1+wide):
		return Faster
	case slices.Max(a.Samples) < slices.Min(b.Samples) && b.MedianUS > a.MedianUS*(1+wide):
		return Slower
	}
	return Unclear
}

// behind says which phases and how many configs stand behind the cells of a side, or "" for a
// side without either.
func behind(label string, cells []Cell) string {
	phases := map[string]int{}
	var configs []float64
	for _, x := range cells {
		if x.Configs > 0 {
			configs = append(configs, float64(x.Configs))
			phases[phaseName(x.Phase)]++
		}
	}
	if len(configs) == 0 {
		return ""
	}
	var parts []string
	for _, name := range []string{"grid", "finals", "search"} {
		if n := phases[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %s", name, count(n, "problem", "problems")))
		}
	}
	of := count(int(configs[0]), "config", "configs")
	if least, most := slices.Min(configs), slices.Max(configs); least < most {
		of = fmt.Sprintf("%g to %g configs (median %g)", least, most, stats.Median(configs))
	}
	return fmt.Sprintf("%s's times: %s; of %s each.", label, strings.Join(parts, ", "), of)
}

// phaseName is a protocol's phase in words. A grid's is empty, and so is a bench's.
func phaseName(phase string) string {
	switch phase {
	case "":
		return "grid"
	case record.PhaseFinal:
		return "finals"
	}
	return phase
}

// coverage are the notes on what stands behind the sides of c, which marks the rows that
// it cannot judge.
func coverage(c *Comparison) (notes []string) {
	mixed, few, apart := 0, 0, 0
	var as, bs []Cell
	for i := range c.Rows {
		r := &c.Rows[i]
		as, bs = append(as, r.a), append(bs, r.b)
		searched := r.a.Phase == record.PhaseSearch
		switch {
		case r.Speedup == 0 || r.a.Configs == 0 || r.b.Configs == 0:
		case searched != (r.b.Phase == record.PhaseSearch):
			mixed++
			r.Mark = Unclear
		case r.unequal():
			few++
			r.Mark = Unclear
		case searched && r.Mark == Unclear:
			if r.Mark = r.markSearched(); r.Mark != Unclear {
				apart++
			}
		}
	}
	for i, cells := range [][]Cell{as, bs} {
		if n := behind(letter(i), cells); n != "" {
			notes = append(notes, n)
		}
	}
	if apart > 0 {
		notes = append(notes, fmt.Sprintf("FASTER or SLOWER in %s of a search, whose samples are too few for the test: the medians are more than %g %% apart, and the samples do not overlap.", count(apart, "problem", "problems"), 100*searchBand))
	}
	if mixed > 0 {
		notes = append(notes, fmt.Sprintf("INCONCLUSIVE in %s, as one side has times of a search only, and the other none of one.", count(mixed, "problem", "problems")))
	}
	if few > 0 {
		notes = append(notes, fmt.Sprintf("INCONCLUSIVE in %s, as the search tried fewer than %d configs of the slower side, and four times as many of the other.", count(few, "problem", "problems"), fewConfigs))
	}
	return notes
}

// Best are the cells of a side as it is its own best choice of what was recorded: those of the
// finals or the grid, but of the search where the best variant that it saw is not among them.
// again says which variants are, and that the finals have the best in any case.
func Best(cells, searched map[kernels.Problem]Cell,
	again func(kernels.Problem, kernels.Variant) bool) map[kernels.Problem]Cell {
	for p, s := range searched {
		c, ok := cells[p]
		switch {
		case !ok, s.Status == kernels.StatusOK && c.Status != kernels.StatusOK,
			s.Status == kernels.StatusOK && !again(p, s.Variant) &&
				c.MedianUS > s.MedianUS*(1+TieBand):
			cells[p] = s
		default:
			c.Searched = &s
			cells[p] = c
		}
	}
	return cells
}
