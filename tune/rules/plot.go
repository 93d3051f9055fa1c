package rules

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
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
	const width, height, legend = 700, 330, 270 // points, per panel; its legend stands right of it
	panels := make([]*plot.Plot, len(s.Lists))
	legends := make([][]entry, len(s.Lists))
	var talls []vg.Length
	var H vg.Length
	for i := range s.Lists {
		var err error
		if panels[i], legends[i], err = panel(s, &s.Lists[i], shapes, legend-3*legendLine); err != nil {
			return err
		}
		lines := 4
		for _, e := range legends[i] {
			lines += len(e.lines)
		}
		talls = append(talls, max(height, vg.Length(lines)*legendLine))
		H += talls[i]
	}
	all, write := Canvas(width, H, format)
	top := all.Max.Y
	for i, p := range panels {
		c := draw.Crop(all, 8, -8, top-talls[i]+8-all.Min.Y, top-8-all.Max.Y)
		top -= talls[i]
		p.Draw(draw.Crop(c, 0, -legend, 0, 0))
		at := vg.Point{X: c.Max.X - legend + 4, Y: c.Max.Y - 3*legendLine}
		for _, e := range legends[i] {
			c.FillPolygon(e.color, []vg.Point{at, {X: at.X + 9, Y: at.Y}, {X: at.X + 9, Y: at.Y + 9}, {X: at.X, Y: at.Y + 9}})
			for _, line := range e.lines {
				c.FillText(Sans(legendSize), vg.Point{X: at.X + 15, Y: at.Y + 1}, line)
				at.Y -= legendLine
			}
		}
	}
	_, err := write.WriteTo(w)
	return err
}

// The text of legends, in points.
const legendSize, legendLine = 9.5, 13

// Canvas is a white picture, svg or png.
func Canvas(width, height vg.Length, format string) (draw.Canvas, io.WriterTo) {
	var out vg.CanvasSizer
	var write io.WriterTo
	if format == "png" {
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96))
		out, write = c, vgimg.PngCanvas{Canvas: c}
	} else {
		c := vgsvg.New(width, height)
		out, write = c, svg{c}
	}
	all := draw.New(out)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	return all, write
}

// An svg names further fonts, for a viewer that lacks the first.
type svg struct{ io.WriterTo }

func (s svg) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if _, err := s.WriterTo.WriteTo(&b); err != nil {
		return 0, err
	}
	n, err := strings.NewReplacer("font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;").WriteString(w, b.String())
	return int64(n), err
}

// Sans is the text of plots.
func Sans(points float64) draw.TextStyle {
	return draw.TextStyle{Color: color.Black, Handler: plot.DefaultTextHandler,
		Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(points)}}
}

// LogPlot is a plot with the fonts of all plots, and logarithmic axes.
func LogPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font, p.Title.Padding = Sans(12).Font, vg.Points(5)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font, a.Scale = Sans(11).Font, Sans(10).Font, plot.LogScale{}
	}
	return p
}

// Powers are ticks at the powers of a number, and at the ends of what is drawn.
type Powers struct{ Base, Lo, Hi float64 }

// Ticks implements plot.Ticker.
func (t Powers) Ticks(lo, hi float64) []plot.Tick {
	ts := []plot.Tick{{Value: t.Lo, Label: fmt.Sprintf("%.0f", t.Lo)}}
	room := math.Pow(hi/lo, 0.12) // for a label
	for v := 1.0; v <= t.Hi; v *= t.Base {
		if v >= t.Lo*room && v*room <= t.Hi {
			ts = append(ts, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
		}
	}
	if t.Hi > t.Lo {
		ts = append(ts, plot.Tick{Value: t.Hi, Label: fmt.Sprintf("%.0f", t.Hi)})
	}
	return ts
}

// An entry is a rule in the legend.
type entry struct {
	color color.Color
	lines []string
}

// wrap breaks text behind dots and blanks where it is wider than room.
func wrap(text string, room vg.Length) (lines []string) {
	style, line := Sans(legendSize), ""
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
	p := LogPlot(l.Class.String(), "N, columns", "M/SM, rows per SM")
	h := l.Hull
	p.X.Tick.Marker, p.Y.Tick.Marker = Powers{4, max(float64(h.NMin), 1), float64(h.NMax)}, Powers{4, 1, max(float64(h.MMax), 1)}
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
			t.TextStyle[i].Font = Sans(10).Font
			t.TextStyle[i].XAlign, t.TextStyle[i].YAlign = draw.XCenter, draw.YCenter
		}
		p.Add(t)
	}
	return p, legend, nil
}
