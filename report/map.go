package report

import (
	"fmt"
	"math"
	"strings"

	"normbench/internal/console"
	"normbench/kernels/launchmap"
)

// MapTable is what the cells of each raster rest on.
func MapTable(m *launchmap.Map) *Table {
	type raster = *launchmap.Raster
	count := func(head string, of func(raster) int) Column[raster] {
		return Column[raster]{Head: head, Name: head, Value: func(r raster) any { return of(r) }}
	}
	cells := func(head string, on byte) Column[raster] {
		return count(head, func(r raster) int { return r.Count(on) })
	}
	var rasters []raster
	problems, byHand := 0, 0
	logs, invariant := 0.0, 0 // rasters with one config for a line, and what that costs
	for i := range m.Rasters {
		r := &m.Rasters[i]
		rasters = append(rasters, r)
		problems, byHand = problems+r.Problems, byHand+r.Count(launchmap.ByHand)
		if r.BatchInvariant > 0 {
			logs, invariant = logs+math.Log(r.BatchInvariant), invariant+1
		}
	}
	t := NewTable("map of "+m.Device.Name, rasters, []Column[raster]{
		{Head: "class", Name: "class", Value: func(r raster) any { return r.Class.String() }},
		{Head: "rows at", Name: "align_bytes", Value: func(r raster) any { return int(r.Align) },
			Text: func(r raster) string { return fmt.Sprintf("%d bytes", r.Align) }},
		count("problems", func(r raster) int { return r.Problems }),
		{Head: "regret", Name: "regret_percent", Value: func(r raster) any {
			if r.Problems == 0 {
				return nil
			}
			return float64(r.Regret)
		}, Text: func(r raster) string {
			if r.Problems == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f%%", r.Regret)
		}, Means: "the map's answers over the best known, in the mean of the measured problems: what the " +
			"map was filled from, so too low"},
		count("cells", func(r raster) int { return len(r.Lines)*len(r.Rows) - r.Count(launchmap.Nothing) }),
		cells("measured", launchmap.Measured), cells("near", launchmap.Neighbour),
		cells("borrowed", launchmap.Borrowed), count("configs", func(r raster) int { return len(r.Legend) })})
	t.Drop, t.Device = []string{"borrowed", "near"}, m.Device.ID
	t.Notes = append(t.Notes, fmt.Sprintf("%s in %s; cells without an answer have the analytic base",
		console.Count(problems, "problem"), console.Count(len(m.Rasters), "raster")))
	if invariant > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("batch-invariant: one config for a range of columns, whatever the rows, in %s; "+
			"%.2fx of free choice, as expected from what was measured", console.Count(invariant, "raster"),
			math.Exp(logs/float64(invariant))))
	}
	if byHand > 0 {
		t.Notes = append(t.Notes, console.Count(byHand, "cell")+" written by hand")
	}
	return t
}

// WidthsTable has a row for each range of rows.
func WidthsTable(book *launchmap.Book, ref string, classes []launchmap.Class, columns []int64) *Table {
	t := New(fmt.Sprintf("launches of %s for %s", ref, book.Device.Name), "problem", ">N=n", ">M from=m_from",
		">to=m_to", "family", "label=config", "rests on=rests_on")
	t.Device = book.Device.ID
	for _, x := range classes {
		for _, n := range columns {
			for _, run := range book.Ranges(x, n) {
				t.Rows = append(t.Rows, []string{x.String(), fmt.Sprint(n), fmt.Sprint(run.First),
					fmt.Sprint(min(run.Last, launchmap.MaxElems/n)),
					run.Variant.Family, run.Variant.Config.String(), strings.Join(run.RestsOn, ", ")})
			}
		}
	}
	t.Group = &Group{Hide: []string{"problem", "N"}, Of: func(row []string) (string, string) {
		return row[0] + ", N = " + row[1], row[0]
	}}
	return t
}
