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

// A cell has the problems that were measured in it, where its config has a time.
type cell struct {
	regrets []float64 // time of its config over the best
	speeds  []float64 // time of a copy over its config's, where there is one
}

// measure sorts points by the line and the cell of a raster.
func measure(r *rule.Raster, points []*Point, d kernels.DeviceInfo) map[[2]int]cell {
	all := map[[2]int]cell{}
	for _, p := range points {
		q := p.Problem
		if rule.ClassOf(q) != r.Class || rule.AlignOf(q.N, q.DType.Size()) != r.Align {
			continue
		}
		a := r.CellAt(q.M, q.N, d.SMs)
		if a.Raster == nil || !p.OK(a.Variant) {
			continue
		}
		at := [2]int{a.Line, a.Cell}
		x, us := all[at], p.US[a.Variant]
		x.regrets = append(x.regrets, us/p.BestUS)
		if p.Stream > 0 {
			x.speeds = append(x.speeds, p.Stream/us)
		}
		all[at] = x
	}
	return all
}

// The measures of a picture, in pixels.
const (
	side                = 16 // of a square
	panelLeft, panelTop = 56, 44
)

// Pictures draw each raster of a map three times: its configs by their letters, the regret and the
// % of a copy's speed of the problems measured in each cell.
func Pictures(m *rule.Map, points []*Point, d kernels.DeviceInfo) (rows [][]*picture.Drawing) {
	shade := func(v float64, limits ...float64) string {
		for i, limit := range limits {
			if v < limit != (limits[0] > limits[1]) {
				return fmt.Sprint("m", i)
			}
		}
		return fmt.Sprint("m", len(limits))
	}
	for i := range m.Rasters {
		r := &m.Rasters[i]
		of := measure(r, points, d)
		letters := drawing(r, "configs by letter", d)
		regret := drawing(r, "regret: up to 1, 2, 5, 10%, more in red", d)
		speed := drawing(r, "% of a copy's speed: below 50 in red, 70, 85, 95", d)
		for line := range r.Lines {
			for cell := range r.Rows {
				v, ok := r.Pick(line, cell)
				b := r.Box(line, cell, d.SMs)
				if !ok || b.Empty() {
					continue
				}
				x := of[[2]int{line, cell}]
				left, top := panelLeft+side*float64(cell), panelTop+side*float64(line)
				tip := fmt.Sprintf("%d to %d rows of %d to %d: %s, %d problems", b.MLo, b.MHi, b.NLo, b.NHi, v, len(x.regrets))
				lost, fast := 100*(stats.GeoMean(x.regrets)-1), 100*stats.GeoMean(x.speeds)
				if len(x.regrets) > 0 {
					tip += fmt.Sprintf(", regret %.1f%%", lost)
				}
				if len(x.speeds) > 0 {
					tip += fmt.Sprintf(", %.0f%% of a copy's speed", fast)
					speed.Square(left, top, side-1, shade(fast, 50, 70, 85, 95), tip)
				}
				if len(x.regrets) > 0 {
					regret.Square(left, top, side-1, shade(lost, 10, 5, 2, 1), tip)
				}
				letters.Square(left, top, side-1, hue(slices.Index(r.Legend, v)), tip)
				letters.Add(`<text x="%s" y="%s" font-size="11" text-anchor="middle" style="fill:#000">%s</text>`,
					left+side/2-.5, top+12, r.Lines[line].Cells[cell:cell+1])
			}
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
		x.Text(panelLeft+side*float64(cell), x.Height-26, 11, "start", "dim", fmt.Sprint(r.Box(0, cell, d.SMs).MLo))
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
