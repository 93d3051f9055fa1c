package report

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"normbench/internal/hint"
	"normbench/sweep/study"
)

// CheckPlots says what is wrong with the names of plots, with commas, or nil.
func CheckPlots(names string) error {
	if names == "" {
		return nil
	}
	for _, n := range strings.Split(names, ",") {
		if ext := filepath.Ext(n); ext != ".svg" && ext != ".png" {
			return hint.Errorf("name it regret.svg or regret.png", "cannot plot to %q", n)
		}
	}
	return nil
}

// The colours of Okabe and Ito, which those tell apart who are colour-blind too.
var colours = []color.Color{
	color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	color.RGBA{0x80, 0x80, 0x80, 0xff}, color.RGBA{0x00, 0x00, 0x00, 0xff},
}

// PlotRegret draws the 95th percentile of regret against GPU time, a line per
// strategy through its budgets, into files with commas between their names.
func PlotRegret(names string, rows []study.Row) error {
	if names == "" {
		return nil
	}
	p := plot.New()
	p.Title.Text = "What a search gives up, by the GPU time it takes"
	p.X.Label.Text = "GPU time, % of the grid's"
	p.Y.Label.Text = "regret over the grid's best, %: 95th percentile"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, percentTicks{1, 2, 5, 10, 20, 50, 100}
	p.Y.Min, p.Y.Tick.Marker = 0, percentTicks{0, 1, 2, 3, 5, 10, 15, 20, 25}
	p.X.Min, p.X.Max = 1.5, 110
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(3)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	var labels []string
	lines := map[string]plotter.XYs{}
	for _, r := range rows {
		if !slices.Contains(labels, r.Label) {
			labels = append(labels, r.Label)
		}
		lines[r.Label] = append(lines[r.Label], plotter.XY{X: 100 * r.GPU, Y: 100 * r.P95})
	}
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{}}
	for i, label := range labels {
		xys := lines[label]
		slices.SortFunc(xys, func(a, b plotter.XY) int {
			if a.X < b.X {
				return -1
			}
			return 1
		})
		l, s, err := plotter.NewLinePoints(xys)
		if err != nil {
			return fmt.Errorf("plot %s: %w", names, err)
		}
		l.Color, s.Color = colours[i%len(colours)], colours[i%len(colours)]
		l.Width = vg.Points(1.2)
		if label == "auto" {
			l.Width = vg.Points(2.2)
		}
		s.Shape, s.Radius = shapes[i%len(shapes)], vg.Points(3)
		p.Add(l, s)
		p.Legend.Add(label, l, s)
	}
	for _, n := range strings.Split(names, ",") {
		if err := p.Save(17*vg.Centimeter, 11*vg.Centimeter, n); err != nil {
			return hint.Errorf("choose a folder that you may write to", "plot %s: %w", n, err)
		}
	}
	return nil
}

// percentTicks are ticks at given values.
type percentTicks []float64

// Ticks implements plot.Ticker.
func (t percentTicks) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range t {
		if v >= lo && v <= hi {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
		}
	}
	return ticks
}
