package study

import (
	"bytes"
	"cmp"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"normbench/internal/picture"
)

// ticks are the values of an axis that it names.
func ticks(values ...float64) (list plot.ConstantTicks) {
	for _, v := range values {
		list = append(list, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return list
}

// plotRegret draws the 95th percentile of regret against GPU time, a line per
// strategy through its budgets, into a .svg or .png.
func plotRegret(name string, rows []Row) error {
	p := plot.New()
	p.Title.TextStyle.Font, p.Legend.TextStyle.Font = picture.Sans(13).Font, picture.Sans(11).Font
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = picture.Sans(11.5).Font, picture.Sans(10.5).Font
	}
	p.Title.Padding = vg.Points(6)
	p.Title.Text = "What a search gives up, by the GPU time it takes"
	p.X.Label.Text = "GPU time, % of the grid's"
	p.Y.Label.Text = "95th percentile of regret, %"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks(1, 2, 5, 10, 20, 50, 100)
	p.X.Min, p.X.Max = 1, 110
	top := 0.0
	for _, r := range rows {
		top = max(top, 100*r.P95)
	}
	step := max(math.Ceil(top/8), 1)
	p.Y.Min, p.Y.Max = 0, (math.Floor(top/step)+1)*step
	var steps []float64
	for v := 0.0; v <= p.Y.Max; v += step {
		steps = append(steps, v)
	}
	p.Y.Tick.Marker = ticks(steps...)
	// Behind their signs, where no line comes: a viewer without the font has longer words.
	p.Legend.Left = true
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
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{},
		draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{}}
	for i, label := range labels {
		xys := lines[label]
		slices.SortFunc(xys, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		l, s, err := plotter.NewLinePoints(xys)
		if err != nil {
			return err
		}
		l.Color = picture.Palette[i%len(picture.Palette)]
		s.Color = l.Color
		l.Width = vg.Points(1.2)
		if label == "auto" {
			l.Width = vg.Points(2.2)
		}
		s.Shape, s.Radius = shapes[i%len(shapes)], vg.Points(3)
		p.Add(l, s)
		p.Legend.Add(label, l, s)
	}
	all, write := picture.Canvas(20*vg.Centimeter, 13*vg.Centimeter, strings.TrimPrefix(filepath.Ext(name), "."))
	p.Draw(draw.Crop(all, 8, -8, 6, -6))
	var b bytes.Buffer
	if _, err := write.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
