package study

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"normbench/internal/picture"
)

// plotRegret draws the 95th percentile of regret against GPU time as an SVG file, a line per
// strategy through its budgets.
func plotRegret(name string, rows []Row) error {
	top := 1.0
	var lines []picture.Line
	var legend []picture.Series
	for _, r := range rows {
		i := slices.IndexFunc(lines, func(l picture.Line) bool { return l.Name == r.Label })
		if i < 0 {
			i = len(lines)
			s := picture.Series{Name: r.Label, Class: fmt.Sprint("s", i%picture.Slots), Glyph: i, Width: 1.6, Radius: 4}
			if r.Label == "auto" {
				s.Width = 3
			}
			legend, lines = append(legend, s), append(lines, picture.Line{Series: s})
		}
		top = max(top, 100*r.P95)
		lines[i].Points = append(lines[i].Points, picture.Point{X: 100 * r.GPU, Y: 100 * r.P95})
	}
	for _, l := range lines {
		slices.SortFunc(l.Points, func(a, b picture.Point) int { return cmp.Compare(a.X, b.X) })
	}
	x := picture.Axis{Label: "GPU time, % of the grid's", Lo: 1, Hi: 110, Log: true}
	for _, v := range []float64{1, 2, 5, 10, 20, 50, 100} {
		x.Ticks = append(x.Ticks, picture.Tick{At: v, Label: fmt.Sprint(v)})
	}
	y := picture.Axis{Label: "95th percentile of regret, %", Hi: 1.05 * top, Ticks: picture.Even(0, 1.05*top, 1, 8)}
	plot := picture.Plot{Width: 760, Height: 420, X: x, Y: y, Lines: lines}
	return os.WriteFile(name, picture.File("What a search gives up, by the GPU time it takes", legend, [][]*picture.Drawing{{plot.Draw()}}), 0o644)
}
