package report

import (
	"fmt"
	"strings"

	"normbench/internal/console"
	"normbench/kernels/launchmap"
)

// MapTable is what the cells of each raster rest on.
func MapTable(m *launchmap.Map) *Table {
	t := New("map of "+m.Device.Name, "class", ">rows at", ">problems", ">regret", ">cells",
		">measured", ">near", ">borrowed", ">configs")
	t.Drop = []string{"borrowed", "near"}
	t.Legend = []Meaning{{Column: "regret",
		Text: "the map's answers over the best known, in the mean of the measured problems: what the " +
			"map was filled from, so too low"}}
	problems, byHand := 0, 0
	for i := range m.Rasters {
		r := &m.Rasters[i]
		regret := ""
		if r.Problems > 0 {
			regret = fmt.Sprintf("%.1f%%", r.Regret)
		}
		row := []string{r.Class.String(), fmt.Sprintf("%d bytes", r.Align), fmt.Sprint(r.Problems),
			regret}
		for _, x := range []int{len(r.Lines)*len(r.Rows) - r.Count(launchmap.Nothing),
			r.Count(launchmap.Measured), r.Count(launchmap.Neighbour), r.Count(launchmap.Borrowed), len(r.Legend)} {
			row = append(row, fmt.Sprint(x))
		}
		t.Rows = append(t.Rows, row)
		problems, byHand = problems+r.Problems, byHand+r.Count(launchmap.ByHand)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("%s in %s; cells without an answer have the analytic base",
		console.Count(problems, "problem"), console.Count(len(m.Rasters), "raster")))
	if byHand > 0 {
		t.Notes = append(t.Notes, console.Count(byHand, "cell")+" written by hand")
	}
	return t
}

// WidthsTable has a row for each range of rows.
func WidthsTable(book *launchmap.Book, ref string, classes []launchmap.Class, columns []int64) *Table {
	t := New(fmt.Sprintf("launches of %s for %s", ref, book.Device.Name), "problem", ">N", ">M from",
		">to", "family", "label", "rests on")
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
