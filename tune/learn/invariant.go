package learn

import (
	"math"
	"slices"

	"normbench/kernels"
)

// joinLines makes one cell of the cells of each line: a batch-invariant map has one config for a range of columns,
// whatever the rows. What is expected of a config there is its mean over the line's cells. Where nothing that was
// measured is accepted in the whole line, an answer of the prior for one of its cells is.
func (f *Filler) joinLines(cells []*openCell) (joined []*openCell) {
	lines := map[int][]*openCell{}
	for _, s := range cells {
		if lines[s.line] == nil {
			joined = append(joined, &openCell{line: s.line, cell: s.cell, box: s.box})
		}
		lines[s.line] = append(lines[s.line], s)
	}
	for _, s := range joined {
		s.parts, s.box.BatchInvariant = lines[s.line], true
		for _, part := range s.parts {
			s.box.MLo, s.box.MHi = min(s.box.MLo, part.box.MLo), max(s.box.MHi, part.box.MHi)
		}
		s.options = meanRegrets(s.parts)
		for _, part := range s.parts { // last: what answers without a cell changes with the rows
			v := f.Prior.Answer(centralProblem(part.box)).Variant
			if !slices.ContainsFunc(s.options, func(g expectedRegret) bool { return g.variant == v }) {
				s.options = append(s.options, expectedRegret{v, noOption, 0})
			}
		}
	}
	return joined
}

// meanRegrets lists the configs that may run in some of the cells, the least mean of their expected regrets
// first. A config that nobody measured near a cell loses priorRegret there. Cells near which nothing was measured
// do not count.
func meanRegrets(cells []*openCell) (list []expectedRegret) {
	at := map[kernels.Variant]int{}
	known := 0.0
	for _, s := range cells {
		if len(s.options) > 0 {
			known++
		}
		for _, g := range s.options {
			i, ok := at[g.variant]
			if !ok {
				i, at[g.variant] = len(list), len(list)
				list = append(list, expectedRegret{variant: g.variant})
			}
			list[i].regret += g.regret - priorRegret
			list[i].weight += g.weight
		}
	}
	for i := range list {
		list[i].regret = priorRegret + list[i].regret/known
	}
	sortRegrets(list)
	return list
}

// costOf says how much slower one config for each line is expected to be than one for each cell: the geometric mean
// over the cells near which something was measured.
func (f *Filler) costOf(lines []*openCell) float64 {
	sum, n := 0.0, 0.0
	for _, s := range lines {
		for _, part := range s.parts {
			free, ok := f.findAccepted(part, 0, nil)
			if !ok || len(s.options) == 0 {
				continue
			}
			regret := priorRegret
			for _, g := range part.options {
				if g.variant == s.options[0].variant {
					regret = g.regret
				}
			}
			sum, n = sum+max(regret-free.regret, 0), n+1
		}
	}
	return math.Round(1e4*math.Exp(sum/max(n, 1))) / 1e4
}
