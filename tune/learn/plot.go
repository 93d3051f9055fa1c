package learn

import (
	"fmt"
	"math"
	"slices"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep/stats"
)

// The measures of a picture, in pixels.
const (
	side                = 16 // of a square
	panelLeft, panelTop = 56, 44
)

// shades are the colours of squares, light enough for letters, each with the regret in percent from
// which it is meant.
var shades = []shade{{10, "#e8837a"}, {5, "#f2b08f"}, {2, "#f4d9a0"}, {1, "#cde2f4"}, {math.Inf(-1), "#e9f2fa"}}

// A shade is a colour for regrets.
type shade struct {
	from   float64
	colour string
}

// unmeasured is the colour of a cell with no measured problem.
const unmeasured = "#ffffff"

// Pictures draw each raster of a map: a square a cell with the letter of its config, shaded by the
// regret of the problems that were measured in it. What is pointed at says its % of a copy's speed.
func Pictures(m *launchmap.Map, points []*Point, d kernels.DeviceInfo) (list []*picture.Drawing) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		regrets, speeds := map[[2]int][]float64{}, map[[2]int][]float64{} // of each cell
		for p, a := range answersAt(r, points, d.SMs) {
			if at := [2]int{a.Line, a.Cell}; p.OK(a.Variant) {
				us := p.US[a.Variant]
				regrets[at] = append(regrets[at], us/p.BestUS)
				if p.Stream > 0 {
					speeds[at] = append(speeds[at], p.Stream/us)
				}
			}
		}
		x := drawing(r, d)
		for b, a := range r.Cells(d.SMs) {
			at := [2]int{a.Line, a.Cell}
			left, top := panelLeft+side*float64(a.Cell), panelTop+side*float64(a.Line)
			tip, fill := fmt.Sprintf("%d to %d rows of %d to %d: %s, %d problems", b.MLo, b.MHi, b.NLo,
				b.NHi, a.Variant, len(regrets[at])), unmeasured
			if len(regrets[at]) > 0 {
				regret := 100 * (stats.GeoMean(regrets[at]) - 1)
				tip += fmt.Sprintf(", regret %.1f%%", regret)
				fill = shades[slices.IndexFunc(shades, func(s shade) bool { return regret >= s.from })].colour
			}
			if len(speeds[at]) > 0 {
				tip += fmt.Sprintf(", %.0f%% of a copy's speed", 100*stats.GeoMean(speeds[at]))
			}
			x.Square(left, top, side-1, fill, tip)
			x.Add(`<text x="%s" y="%s" font-size="11" text-anchor="middle" style="fill:#000">%s</text>`,
				left+side/2-.5, top+12, r.Lines[a.Line].Cells[a.Cell:a.Cell+1])
		}
		list = append(list, x)
	}
	return list
}

// Plot draws a map as an SVG file, three rasters side by side.
func Plot(m *launchmap.Map, points []*Point, d kernels.DeviceInfo) []byte {
	rows := slices.Collect(slices.Chunk(Pictures(m, points, d), 3))
	return picture.File("", nil, rows)
}

// drawing is an empty picture of a raster with its axes: every other line has its first columns,
// every fourth cell its first rows.
func drawing(r *launchmap.Raster, d kernels.DeviceInfo) *picture.Drawing {
	x := &picture.Drawing{Title: r.Title(), Width: max(330, panelLeft+side*float64(len(r.Rows))+20),
		Height: panelTop + side*float64(len(r.Lines)) + 40}
	x.Text(panelLeft, 16, 14, "start", "fg", r.Title())
	x.Text(panelLeft, 34, 12, "start", "dim", "regret: blue below 2%, yellow, orange from 5%, red from 10%")
	for line := 0; line < len(r.Lines); line += 2 {
		x.Text(panelLeft-4, panelTop+side*float64(line)+12, 11, "end", "dim", fmt.Sprint(r.Lines[line].From))
	}
	for cell := 0; cell < len(r.Rows); cell += 4 {
		x.Text(panelLeft+side*float64(cell), x.Height-26, 11, "start", "dim",
			fmt.Sprint(r.Box(0, cell, d.SMs).MLo))
	}
	x.Text(panelLeft, x.Height-10, 11, "start", "dim", "rows from; down: columns from")
	return x
}
