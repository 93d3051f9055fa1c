package report

import (
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// Timer says how good the clock of some runs was: the floor of those on a GPU, and what failed in
// their selftests. It has no lines for runs on a cpu.
func Timer(runs ...*record.Run) []string {
	s := Side{Cells: map[kernels.Problem]Cell{}}
	for i, r := range runs {
		var c Cell
		c.SetRun(r)
		s.Cells[kernels.Problem{M: int64(i)}] = c
	}
	return timer(s)
}

// timer is Timer of the runs of sides, which are named by letters where their floors differ.
func timer(sides ...Side) []string {
	var floors, lines []string
	for i, s := range sides {
		text := strings.Join(words(floorText, s), " and ")
		if text != "" && len(sides) > 1 {
			text = letter(i) + " " + text
		}
		floors = append(floors, text)
	}
	if one := words(floorText, sides...); len(one) == 1 {
		floors = one
	}
	floors = slices.DeleteFunc(floors, func(s string) bool { return s == "" })
	if len(floors) > 0 {
		lines = append(lines, "floor (an empty launch): "+strings.Join(floors, ", "))
	}
	return append(lines, words(func(c Cell) string { return c.Failed }, sides...)...)
}

func floorText(c Cell) string {
	switch {
	case c.Kind != kernels.KindCUDA:
		return ""
	case c.FloorUS == 0:
		return "unknown"
	}
	return fmt.Sprintf("%.2f us", c.FloorUS)
}

// widenBand is verdict.WidenBand for two cells. Within one run, and on a cpu, floors do not differ.
func widenBand(band float64, a, b Cell) (float64, bool) {
	run := func(c Cell) string { return strings.TrimSuffix(c.Run, record.FinalsSuffix) }
	if run(a) != "" && run(a) == run(b) || a.Kind != kernels.KindCUDA && b.Kind != kernels.KindCUDA {
		return band, true
	}
	return verdict.WidenBand(band, a.FloorUS, b.FloorUS, min(a.MedianUS, b.MedianUS))
}

// noFloor notes how many rows have no verdict because a floor is not known.
func noFloor(c *Comparison, a, b Side) []string {
	n := 0
	for _, r := range c.Rows {
		if _, ok := widenBand(0, a.Cells[r.Problem], b.Cells[r.Problem]); r.Speedup > 0 && !ok {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("INCONCLUSIVE in %s below %d us, as the floor of a run is unknown: two hosts differ by 2 us in an empty launch.",
		count(n, "problem", "problems"), verdict.FloorMatters)}
}
