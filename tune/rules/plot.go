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
)

// Plot draws the boxes of the rules over columns and rows per multiprocessor,
// one panel per class, with the measured shapes as dots. White is the default.
// format is svg or png.
func (s *Set) Plot(w io.Writer, shapes []kernels.Problem, format string) error {
	const width, height = 560, 300 // points, per panel
	cols := min(2, len(s.Classes))
	rows := (len(s.Classes) + cols - 1) / cols
	W, H := vg.Length(cols*width), vg.Length(rows*height)
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
	for i := range s.Classes {
		p, err := s.panel(&s.Classes[i], shapes)
		if err != nil {
			return err
		}
		x, y := vg.Length(i%cols*width), vg.Length((rows-1-i/cols)*height)
		p.Draw(draw.Crop(all, x+8, x+width-W-8, y+8, y+height-H-8))
	}
	_, err := write.WriteTo(w)
	return err
}

func (s *Set) panel(l *List, shapes []kernels.Problem) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = l.Class.String()
	p.X.Label.Text, p.Y.Label.Text = "N, columns", "M/SM, rows per multiprocessor"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = powers{}, powers{}
	h := l.Hull
	p.X.Min, p.X.Max = float64(h.NMin)*0.8, float64(h.NMax)*1.25
	p.Y.Min, p.Y.Max = 0.7, math.Max(float64(h.MMax)*1.4, 2)
	p.Legend.Top, p.Legend.XOffs = true, vg.Points(-4)
	p.Legend.TextStyle.Font.Size = vg.Points(7)
	p.Legend.ThumbnailWidth = vg.Points(10)
	hues := palette.Rainbow(max(len(l.Rules), 1), 0, palette.Hue(0.85), 0.55, 0.95, 1).Colors()
	var labels plotter.XYLabels
	for i := range l.Rules {
		r := &l.Rules[i]
		n0, n1, m0, m1 := r.bounds(h, max(s.Device.Units, 1))
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
			return nil, err
		}
		box.Color, box.LineStyle.Width = hues[i], vg.Points(0.5)
		p.Add(box)
		labels.XYs = append(labels.XYs, plotter.XY{X: math.Sqrt(x0 * x1), Y: math.Sqrt(y0 * y1)})
		labels.Labels = append(labels.Labels, fmt.Sprint(i+1))
		_, design, _ := strings.Cut(r.Recipe.String(), "/")
		if a := (Box{RowsMultiple: r.RowsMultiple, RowAlign: r.RowAlign, RowUneven: r.RowUneven}); a != (Box{}) {
			design += " (" + a.String() + ")"
		}
		p.Legend.Add(fmt.Sprintf("%d  %s", i+1, design), swatch{hues[i]})
	}
	var dots plotter.XYs
	for _, q := range shapes {
		if ClassOf(q) == l.Class {
			dots = append(dots, plotter.XY{X: float64(q.N), Y: float64(RowsPerSM(q.M, max(s.Device.Units, 1)))})
		}
	}
	if len(dots) > 0 {
		d, err := plotter.NewScatter(dots)
		if err != nil {
			return nil, err
		}
		d.GlyphStyle = draw.GlyphStyle{Color: color.Gray{60}, Radius: vg.Points(1.5), Shape: draw.CircleGlyph{}}
		p.Add(d)
	}
	if len(labels.Labels) > 0 {
		t, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		for i := range t.TextStyle {
			t.TextStyle[i].XAlign, t.TextStyle[i].YAlign = draw.XCenter, draw.YCenter
		}
		p.Add(t)
	}
	return p, nil
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

// swatch is a filled square in a legend.
type swatch struct{ color color.Color }

// Thumbnail implements plot.Thumbnailer.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Min.X, Y: c.Max.Y}})
}
