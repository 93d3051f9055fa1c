package learn

import (
	"fmt"
	"math"
	"slices"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/sweep/stats"
)

// The measures of a picture, in pixels.
const (
	side                = 16 // of a square
	panelLeft, panelTop = 56, 44
)

// shade is the class of a square by what is lost there, in percent.
func shade(lost float64, limits ...float64) string {
	i := slices.IndexFunc(limits, func(limit float64) bool { return lost >= limit })
	if i < 0 {
		i = len(limits)
	}
	return fmt.Sprint("m", i)
}

// Pictures draw each raster of a map three times: its configs by their letters, the regret and the
// % of a copy's speed of the problems measured in each cell.
func Pictures(m *rule.Map, points []*Point, d kernels.DeviceInfo) (rows [][]*picture.Drawing) {
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
		letters := drawing(r, "configs by letter", d)
		regret := drawing(r, "regret: up to 1, 2, 5, 10%, more in red", d)
		speed := drawing(r, "% of a copy's speed: below 50 in red, 70, 85, 95", d)
		for b, a := range r.Cells(d.SMs) {
			at := [2]int{a.Line, a.Cell}
			left, top := panelLeft+side*float64(a.Cell), panelTop+side*float64(a.Line)
			tip := fmt.Sprintf("%d to %d rows of %d to %d: %s, %d problems", b.MLo, b.MHi, b.NLo,
				b.NHi, a.Variant, len(regrets[at]))
			lost, fast := 100*(stats.GeoMean(regrets[at])-1), 100*stats.GeoMean(speeds[at])
			if len(regrets[at]) > 0 {
				tip += fmt.Sprintf(", regret %.1f%%", lost)
			}
			if len(speeds[at]) > 0 {
				tip += fmt.Sprintf(", %.0f%% of a copy's speed", fast)
				speed.Square(left, top, side-1, shade(100-fast, 50, 30, 15, 5), tip)
			}
			if len(regrets[at]) > 0 {
				regret.Square(left, top, side-1, shade(lost, 10, 5, 2, 1), tip)
			}
			letters.Square(left, top, side-1, hue(slices.Index(r.Legend, a.Variant)), tip)
			letters.Add(`<text x="%s" y="%s" font-size="11" text-anchor="middle" style="fill:#000">%s</text>`,
				left+side/2-.5, top+12, r.Lines[a.Line].Cells[a.Cell:a.Cell+1])
		}
		rows = append(rows, []*picture.Drawing{letters, regret, speed})
	}
	return rows
}

// Plot draws a map as an SVG file.
func Plot(m *rule.Map, points []*Point, d kernels.DeviceInfo) []byte {
	return picture.File("", nil, Pictures(m, points, d))
}

// drawing is an empty picture of a raster with its axes: every other line has its first columns,
// every fourth cell its first rows.
func drawing(r *rule.Raster, title string, d kernels.DeviceInfo) *picture.Drawing {
	x := &picture.Drawing{Title: r.Title() + ": " + title,
		Width:  max(330, panelLeft+side*float64(len(r.Rows))+20),
		Height: panelTop + side*float64(len(r.Lines)) + 40}
	x.Text(panelLeft, 16, 14, "start", "fg", r.Title())
	x.Text(panelLeft, 34, 12, "start", "dim", title)
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

// hue is a light colour of its own for each of a legend's configs: letters tell those apart that
// are alike.
func hue(n int) string {
	h := math.Mod(float64(n)*0.618034, 1) * 6
	light := 0.93 - 0.12*float64(n%3)
	f := func(k float64) int {
		x := math.Mod(h+k, 6)
		return int(255 * light * (1 - 0.35*min(max(math.Abs(x-3)-1, 0), 1)))
	}
	return fmt.Sprintf("#%02x%02x%02x", f(0), f(4), f(2))
}
