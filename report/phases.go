package report

import (
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A rowNote is a note below the table on the rows for which it holds: where holds is nil, those that
// say why by it. {n} counts them.
type rowNote struct {
	text  string
	holds func(*Row) bool
}

// What stands behind a row's mark, where a note tells it.
const (
	whySearch = "INCONCLUSIVE in {n}, as a side has times of a search only, which kept the fastest of " +
		"many. Run both with --live."
	whyAlone = "no finals in {n}: there was nothing but the base, or the budget left nothing else."
)

var whyFloor = fmt.Sprintf("INCONCLUSIVE in {n} below %d us, as the floor of a run is unknown: two hosts "+
	"differ by 2 us in an empty launch.", verdict.FloorMatters)

var coverageNotes = []rowNote{{text: whySearch}, {text: whyFloor}}

// methodNotes say how the verdicts and the means were found.
var methodNotes = []rowNote{
	{"paired: by the finals' rounds, in which A and B took turns, with the interval that the " +
		"verdict rests on. INCONCLUSIVE counts as 1.00x in the means.",
		func(r *Row) bool { return r.judged != nil }},
	{"no interval in {n}, as the finals had too few rounds for a verdict.",
		func(r *Row) bool { return r.judged != nil && r.judged.Lo == 0 }},
	{text: whyAlone},
	{"= says that both sides are one variant of one run, not measured against itself. It counts " +
		"as 1.00x.", func(r *Row) bool { return r.isOneVariant() && r.Unproven.medianUS() == 0 }},
	{"kept base: the rounds do not prove that another, with this median, is faster. Chance makes one of " +
		"many look fast. It counts as 1.00x.",
		func(r *Row) bool { return r.Unproven.medianUS() > 0 && len(r.Unproven.Finals().Rounds) > 0 }},
	{"kept base: the times do not prove that another, with this median, is faster. Chance makes one of " +
		"many look fast. It counts as 1.00x.",
		func(r *Row) bool { return r.Unproven.medianUS() > 0 && len(r.Unproven.Finals().Rounds) == 0 }},
	{"not paired: of one recording, and not measured in turns, so {n} without a verdict. It counts " +
		"as 1.00x in the means. A search's finals and `normbench compare A B --live` measure in turns.",
		func(r *Row) bool { return r.Verdict == NotPaired }},
	{fmt.Sprintf("UNPAIRED: recorded, not measured in turns. FASTER and SLOWER need intervals that "+
		"are apart, and medians more than %g %% apart: %g %% if two runs have samples, and twice "+
		"what the stream moved.", 100*TieBand, 100*verdict.Default().Unpaired), (*Row).isByMedians},
	{"SAME needs the whole interval within that, and a stream that stood still. Run both with " +
		"--live for less.", (*Row).isByMedians},
}

// isByMedians says whether a row was judged by medians.
func (r *Row) isByMedians() bool {
	return r.Speedup > 0 && r.judged == nil && !r.isOneVariant() && r.Verdict != NotPaired
}

// rowNotes are those of a list that hold for a row.
func (c *Comparison) rowNotes(list []rowNote) (notes []string) {
	for _, x := range list {
		n := 0
		for i := range c.Rows {
			if r := &c.Rows[i]; x.holds == nil && r.why == x.text || x.holds != nil && x.holds(r) {
				n++
			}
		}
		if n > 0 {
			notes = append(notes, strings.Replace(x.text, "{n}", console.Count(n, "problem"), 1))
		}
	}
	return notes
}

// sourceNote says which phases and how many configs stand behind the cells of a side, or "" for a
// side without either.
func sourceNote(label string, cells []Measurement) string {
	phases := map[string]int{}
	var configs []float64
	for _, x := range cells {
		if x.Configs > 0 {
			configs = append(configs, float64(x.Configs))
			phases[phaseName(x.run().Protocol.Phase)]++
		}
	}
	if len(configs) == 0 {
		return ""
	}
	var parts []string
	for _, name := range []string{"grid", "finals", "search"} {
		if n := phases[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s in %s", name, console.Count(n, "problem")))
		}
	}
	of := console.Count(int(configs[0]), "config")
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

// coverage are the notes on what stands behind the sides of c.
func coverage(c *Comparison) (notes []string) {
	var sides [2][]Measurement
	for _, r := range c.Rows {
		sides[0], sides[1] = append(sides[0], r.A), append(sides[1], r.B)
	}
	for i, cells := range sides {
		if n := sourceNote(letter(i), cells); n != "" {
			notes = append(notes, n)
		}
	}
	return append(notes, c.rowNotes(coverageNotes)...)
}

// BestCells chooses the cells of a side with its best variants of what was recorded: those of the
// finals or the grid, but of the search where the best variant that it saw is not among them: the
// finals may have a variant of a design for another reason, such as the base, far from its best.
// again says which variants are, and that the finals have the best in any case.
func BestCells(cells, searched map[kernels.Problem]Measurement,
	again func(kernels.Problem, kernels.Variant) bool) map[kernels.Problem]Measurement {
	for p, s := range searched {
		c, ok := cells[p]
		if !ok || s.Status == kernels.StatusOK && (c.Status != kernels.StatusOK ||
			!again(p, s.Variant) && c.Median > s.Median*(1+TieBand)) {
			cells[p] = s
		}
	}
	return cells
}
