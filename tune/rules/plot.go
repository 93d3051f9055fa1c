package rules

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// Plot draws the boxes of the rules over columns and rows per SM,
// one panel per class, with the measured shapes as dots. White is the default.
// format is svg or png.
func Plot(s *Set, w io.Writer, shapes []kernels.Problem, format string) error {
	const width, height, legend = 560, 300, 210 // points, per panel; its legend stands right of it
	cols := min(2, len(s.Lists))
	rows := (len(s.Lists) + cols - 1) / cols
	panels := make([]*plot.Plot, len(s.Lists))
	legends := make([][]entry, len(s.Lists))
	tall := vg.Length(height)
	for i := range s.Lists {
		var err error
		if panels[i], legends[i], err = panel(s, &s.Lists[i], shapes, legend-3*legendLine); err != nil {
			return err
		}
		lines := 4
		for _, e := range legends[i] {
			lines += len(e.lines)
		}
		tall = max(tall, vg.Length(lines)*legendLine)
	}
	W, H := vg.Length(cols*width), vg.Length(rows)*tall
	var out vg.CanvasSizer
	var write io.WriterTo
	if format == "png" {
		c := vgimg.NewWith(vgimg.UseWH(W, H), vgimg.UseDPI(96))
		out, write = c, vgimg.PngCanvas{Canvas: c}
	} else {
		c := vgsvg.New(W, H)
		out, write = c, c
	}
	all := draw.New(out)
	for i, p := range panels {
		x, y := vg.Length(i%cols*width), vg.Length(rows-1-i/cols)*tall
		c := draw.Crop(all, x+8, x+width-W-8, y+8, y+tall-H-8)
		p.Draw(draw.Crop(c, 0, -legend, 0, 0))
		at := vg.Point{X: c.Max.X - legend + 4, Y: c.Max.Y - 3*legendLine}
		for _, e := range legends[i] {
			c.FillPolygon(e.color, []vg.Point{at, {X: at.X + 7, Y: at.Y}, {X: at.X + 7, Y: at.Y + 7}, {X: at.X, Y: at.Y + 7}})
			for _, line := range e.lines {
				c.FillText(legendStyle(), vg.Point{X: at.X + 12, Y: at.Y + 1}, line)
				at.Y -= legendLine
			}
		}
	}
	_, err := write.WriteTo(w)
	return err
}

const legendLine = 10 // points

func legendStyle() draw.TextStyle {
	style := plot.New().Legend.TextStyle
	style.Font.Size = vg.Points(7)
	return style
}

// An entry is a rule in the legend.
type entry struct {
	color color.Color
	lines []string
}

// wrap breaks text behind dots and blanks where it is wider than room.
func wrap(text string, room vg.Length) (lines []string) {
	style, line := legendStyle(), ""
	for _, word := range strings.FieldsFunc(strings.NewReplacer(".", ".\x00", "@", "@\x00", " ", " \x00").Replace(text), func(r rune) bool { return r == 0 }) {
		if line != "" && style.Width(line+word) > room {
			lines, line = append(lines, line), "    "
		}
		line += word
	}
	return append(lines, line)
}

// panel is the plot of a class, and its legend in lines of at most room.
func panel(s *Set, l *List, shapes []kernels.Problem, room vg.Length) (*plot.Plot, []entry, error) {
	var legend []entry
	p := plot.New()
	p.Title.Text = l.Class.String()
	p.X.Label.Text, p.Y.Label.Text = "N, columns", "M/SM, rows per SM"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = powers{}, powers{}
	h := l.Hull
	p.X.Min, p.X.Max = float64(h.NMin)*0.8, float64(h.NMax)*1.25
	p.Y.Min, p.Y.Max = 0.7, math.Max(float64(h.MMax)*1.4, 2)
	hues := palette.Rainbow(max(len(l.Rules), 2), 0, palette.Hue(0.85), 0.55, 0.95, 1).Colors()
	var labels plotter.XYLabels
	for i := range l.Rules {
		r := &l.Rules[i]
		n0, n1, m0, m1 := bounds(r.Box, h, max(s.Device.SMs, 1))
		if n0 >= n1 || m0 >= m1 {
			continue
		}
		// Bounds are exclusive below; half a row down is where "none" would be.
		x0, x1 := math.Max(float64(n0), float64(h.NMin)*0.85), float64(n1)
		y0, y1 := math.Max(float64(m0), 0.75), float64(m1)
		if n1 == h.NMax {
			x1 *= 1.15
		}
		if m1 == 1 {
			y1 = 1.25
		}
		box, err := plotter.NewPolygon(plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
		if err != nil {
			return nil, nil, err
		}
		box.Color, box.LineStyle.Width = hues[i], vg.Points(0.5)
		p.Add(box)
		labels.XYs = append(labels.XYs, plotter.XY{X: math.Sqrt(x0 * x1), Y: math.Sqrt(y0 * y1)})
		labels.Labels = append(labels.Labels, fmt.Sprint(i+1))
		_, design, _ := strings.Cut(r.Recipe.String(), "/")
		if a := (Box{RowAlign: r.RowAlign, RowUneven: r.RowUneven}); a != (Box{}) {
			design += " (" + a.String() + ")"
		}
		legend = append(legend, entry{hues[i], wrap(fmt.Sprintf("%d  %s", i+1, design), room)})
	}
	var dots plotter.XYs
	for _, q := range shapes {
		if launchrule.ClassOf(q) == l.Class {
			dots = append(dots, plotter.XY{X: float64(q.N), Y: float64(launchrule.RowsPerSM(q.M, max(s.Device.SMs, 1)))})
		}
	}
	if len(dots) > 0 {
		d, err := plotter.NewScatter(dots)
		if err != nil {
			return nil, nil, err
		}
		d.GlyphStyle = draw.GlyphStyle{Color: color.Gray{60}, Radius: vg.Points(1.5), Shape: draw.CircleGlyph{}}
		p.Add(d)
	}
	if len(labels.Labels) > 0 {
		t, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, nil, err
		}
		for i := range t.TextStyle {
			t.TextStyle[i].XAlign, t.TextStyle[i].YAlign = draw.XCenter, draw.YCenter
		}
		p.Add(t)
	}
	return p, legend, nil
}

// powers puts ticks at powers of four.
type powers struct{}

func (powers) Ticks(lo, hi float64) []plot.Tick {
	var ts []plot.Tick
	for v := 1.0; v <= hi && v <= 65536; v *= 4 {
		if v >= lo {
			ts = append(ts, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
		}
	}
	return ts
}
