package learn

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// Plot draws two maps of rows by columns for each class: what the rules reach on the measured problems, in
// percent of the speed of a copy, and their regret, the time over the best known. format is svg or png.
func (r *Result) Plot(w io.Writer, format string) error {
	const width, height = 430, 320 // points, per panel
	maps := r.Maps()
	W, H := vg.Length(2*width), vg.Length(height*len(maps))
	all, write := picture.Canvas(W, H, format)
	for i, m := range maps {
		for side, panel := range []struct {
			title string
			scale scale
			value func(Dot) (float64, bool)
		}{
			{m.Class.String() + ": % of a copy's speed", scale{lo: 20, hi: 100, unit: "%"}, func(d Dot) (float64, bool) { return d.Percent, d.Percent > 0 }},
			{"regret: time over the best known, less one", scale{lo: 0, hi: 20, unit: "%", worst: true}, func(d Dot) (float64, bool) { return 100 * d.Regret, true }},
		} {
			s := panel.scale
			p, err := m.panel(panel.title, panel.value, s)
			if err != nil {
				return err
			}
			x, y := vg.Length(side*width), vg.Length((len(maps)-1-i)*height)
			area := draw.Crop(all, x+8, x+width-W-58, y+8, y+height-H-8)
			p.Draw(area)
			s.draw(draw.Crop(all, x+width-50, x+width-W-4, y+46, y+height-H-34))
		}
	}
	_, err := write.WriteTo(w)
	return err
}

// A scale gives numbers colours.
type scale struct {
	lo, hi float64
	unit   string
	worst  bool // high is bad
}

func (s scale) at(x float64) color.Color {
	t := min(max((x-s.lo)/(s.hi-s.lo), 0), 1)
	if s.worst {
		t = 1 - t
	}
	m := moreland.Kindlmann() // dark is bad, whatever a reader sees of hues
	m.SetMin(0)
	m.SetMax(1)
	c, err := m.At(0.05 + 0.85*t)
	if err != nil {
		return color.Black
	}
	return c
}

// draw is the scale as a bar with numbers.
func (s scale) draw(c draw.Canvas) {
	const steps = 40
	style := picture.Sans(9.5)
	style.YAlign = draw.YCenter
	for i := range steps {
		y0 := c.Min.Y + (c.Max.Y-c.Min.Y)*vg.Length(i)/steps
		y1 := c.Min.Y + (c.Max.Y-c.Min.Y)*vg.Length(i+1)/steps
		x := s.lo + (s.hi-s.lo)*(float64(i)+0.5)/steps
		c.FillPolygon(s.at(x), []vg.Point{{X: c.Min.X, Y: y0}, {X: c.Min.X + 10, Y: y0}, {X: c.Min.X + 10, Y: y1}, {X: c.Min.X, Y: y1}})
	}
	for i := range 5 {
		x := s.lo + (s.hi-s.lo)*float64(i)/4
		c.FillText(style, vg.Point{X: c.Min.X + 13, Y: c.Min.Y + (c.Max.Y-c.Min.Y)*vg.Length(i)/4}, fmt.Sprintf("%.3g%s", x, s.unit))
	}
}

// A Dot is a measured problem with what the rules reach there.
type Dot struct {
	Problem kernels.Problem
	Fresh   bool    // drawn at random
	Percent float64 // of the speed of a copy; 0 where the copy has no time
	Regret  float64 // time over the best known, less one
	Known   bool    // the time of the rules' answer was measured, not expected
}

// A Map is the dots of a class.
type Map struct {
	Class launchrule.Class
	Dots  []Dot
}

// Maps are the measured problems of each class.
func (r *Result) Maps() (maps []Map) {
	for k, c := range r.classes {
		m := Map{Class: c.Class}
		for i, p := range c.points {
			g, known := c.answer(&r.fits[k], i)
			m.Dots = append(m.Dots, Dot{p.Problem, p.Fresh, 100 * p.Stream / (p.BestUS * math.Exp(g)), math.Expm1(g), known})
		}
		maps = append(maps, m)
	}
	return maps
}

// panel is a plot with a dot for each problem. Fresh draws are squares.
func (m *Map) panel(title string, value func(Dot) (float64, bool), s scale) (*plot.Plot, error) {
	p := logPlot(title, "N, columns", "M, rows")
	x, y := powers{Base: 4, Lo: math.Inf(1)}, powers{Base: 16, Lo: math.Inf(1)}
	var dots plotter.XYs
	var values []float64
	var fresh []bool
	for _, q := range m.Dots {
		v, ok := value(q)
		if !ok {
			continue
		}
		n, m := float64(q.Problem.N), float64(q.Problem.M)
		x.Lo, x.Hi, y.Lo, y.Hi = min(x.Lo, n), max(x.Hi, n), min(y.Lo, m), max(y.Hi, m)
		dots, values, fresh = append(dots, plotter.XY{X: n, Y: m}), append(values, v), append(fresh, q.Fresh)
	}
	if len(dots) == 0 {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 2, 1, 2
		return p, nil
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x.Lo/1.3, x.Hi*1.3, y.Lo/1.5, y.Hi*1.5
	p.X.Tick.Marker, p.Y.Tick.Marker = x, y
	d, err := plotter.NewScatter(dots)
	if err != nil {
		return nil, err
	}
	d.GlyphStyleFunc = func(i int) draw.GlyphStyle {
		g := draw.GlyphStyle{Color: s.at(values[i]), Radius: vg.Points(2.2), Shape: draw.CircleGlyph{}}
		if fresh[i] {
			g.Shape = draw.BoxGlyph{}
		}
		return g
	}
	p.Add(d)
	return p, nil
}

// logPlot is a plot with the fonts of all plots, and logarithmic axes.
func logPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font, p.Title.Padding = picture.Sans(12).Font, vg.Points(5)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font, a.Scale = picture.Sans(11).Font, picture.Sans(10).Font, plot.LogScale{}
	}
	return p
}

// powers are ticks at the powers of a number, and at the ends of what is drawn.
type powers struct{ Base, Lo, Hi float64 }

// Ticks implements plot.Ticker.
func (t powers) Ticks(lo, hi float64) []plot.Tick {
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
