package learn

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/rule"
)

// A Square is a cell of a map with what its problems say.
type Square struct {
	NLo, NHi, MLo, MHi int64
	Line, Cell         int
	Variant            kernels.Variant
	Number             int // of the variant in the legend
	Problems           int // measured in it,
	Regret             float64
	Percent            float64 // of the speed of a copy, in the mean of these; 0 where that is not known
}

// A Panel is a raster as squares.
type Panel struct {
	Title   string
	Raster  *rule.Raster
	Squares []Square
}

// Panels are the rasters of a map with the means of the measured problems of each cell. Regret is over those where the
// cell's config was measured.
func Panels(m *rule.Map, points []*Point, d kernels.DeviceInfo) (panels []Panel) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		p := Panel{Title: r.Title(), Raster: r}
		at := map[[2]int]int{}
		for line := range r.Lines {
			for cell := range r.Rows {
				v, ok := r.Pick(line, cell)
				s := Square{Line: line, Cell: cell, Variant: v}
				if s.NLo, s.NHi, s.MLo, s.MHi = r.Span(line, cell, d.SMs); ok && s.NLo <= s.NHi && s.MLo <= s.MHi {
					for k := range r.Legend {
						if r.Legend[k] == v {
							s.Number = k
						}
					}
					at[[2]int{line, cell}] = len(p.Squares)
					p.Squares = append(p.Squares, s)
				}
			}
		}
		speeds := make([]int, len(p.Squares))
		for _, q := range points {
			if rule.ClassOf(q.Problem) != r.Class || rule.AlignOf(q.Problem.N, q.Problem.DType.Size()) != r.Align {
				continue
			}
			line, cell, ok := r.At(q.Problem.M, q.Problem.N, d.SMs)
			k, there := at[[2]int{line, cell}]
			if !ok || !there || q.US[p.Squares[k].Variant] == 0 {
				continue
			}
			s, us := &p.Squares[k], q.US[p.Squares[k].Variant]
			s.Problems++
			s.Regret += math.Log(us / q.BestUS)
			if q.Stream > 0 {
				s.Percent += math.Log(100 * q.Stream / us)
				speeds[k]++
			}
		}
		for k := range p.Squares {
			if s := &p.Squares[k]; s.Problems > 0 {
				if s.Regret = math.Exp(s.Regret / float64(s.Problems)); speeds[k] > 0 {
					s.Percent = math.Exp(s.Percent / float64(speeds[k]))
				}
			}
		}
		panels = append(panels, p)
	}
	return panels
}

// The measures of a picture, in points.
const (
	side               = 12 // of a square
	panelLeft          = 52
	panelTop           = 40
	panelRight, bottom = 22, 26
)

// A shade is a colour for each value up to it. All of them are dark enough on white, and differ in lightness.
type shade struct {
	most float64
	c    color.Color
}

var (
	regretShades = []shade{{1.01, grey(0xd9, 0xe8, 0xf6)}, {1.02, grey(0x9e, 0xc5, 0xe8)}, {1.05, grey(0x4f, 0x93, 0xc9)},
		{1.10, grey(0x1c, 0x5c, 0x9c)}, {math.Inf(1), grey(0x8c, 0x1d, 0x18)}}
	speedShades = []shade{{50, grey(0x8c, 0x1d, 0x18)}, {70, grey(0x1c, 0x5c, 0x9c)}, {85, grey(0x4f, 0x93, 0xc9)},
		{95, grey(0x9e, 0xc5, 0xe8)}, {math.Inf(1), grey(0xd9, 0xe8, 0xf6)}}
	unmeasured = grey(0xf2, 0xf2, 0xf2)
)

func grey(r, g, b uint8) color.Color { return color.RGBA{r, g, b, 0xff} }

func colour(shades []shade, v float64) color.Color {
	for _, s := range shades {
		if v <= s.most {
			return s.c
		}
	}
	return color.Black
}

// Plot draws a map: for each raster its configs by their letters, the regret and the % of a copy's speed of the problems
// measured in each cell. format is svg or png.
func Plot(w io.Writer, format string, m *rule.Map, points []*Point, d kernels.DeviceInfo) error {
	panels := Panels(m, points, d)
	across, down := 1, 1
	for _, p := range panels {
		across, down = max(across, len(p.Raster.Rows)), max(down, len(p.Raster.Lines))
	}
	width, height := vg.Length(panelLeft+side*across+panelRight), vg.Length(panelTop+side*down+bottom)
	all, write := picture.Canvas(3*width, height*vg.Length(max(len(panels), 1)), format)
	small, title := picture.Sans(8), picture.Sans(11)
	for i, p := range panels {
		top := height * vg.Length(len(panels)-i)
		for k, of := range []struct {
			title string
			fill  func(s Square) color.Color
		}{
			{"configs by letter", func(s Square) color.Color { return hue(s.Number) }},
			{"regret: up to 1, 2, 5, 10%, more in red", func(s Square) color.Color { return colour(regretShades, s.Regret) }},
			{"% of a copy's speed: below 50 in red, 70, 85, 95", func(s Square) color.Color { return colour(speedShades, s.Percent) }},
		} {
			left := width * vg.Length(k)
			all.FillText(title, vg.Point{X: left + panelLeft, Y: top - 14}, p.Title)
			all.FillText(small, vg.Point{X: left + panelLeft, Y: top - 26}, of.title)
			for _, s := range p.Squares {
				x, y := left+panelLeft+side*vg.Length(s.Cell), top-panelTop-side*vg.Length(s.Line+1)
				c := of.fill(s)
				if k > 0 && (s.Problems == 0 || k == 2 && s.Percent == 0) {
					c = unmeasured
				}
				all.FillPolygon(c, []vg.Point{{X: x, Y: y}, {X: x + side - 1, Y: y}, {X: x + side - 1, Y: y + side - 1}, {X: x, Y: y + side - 1}})
				if k == 0 {
					all.FillText(small, vg.Point{X: x + 3, Y: y + 3}, p.Raster.Lines[s.Line].Cells[s.Cell:s.Cell+1])
				}
			}
			axes(all, p.Raster, left, top, small, d)
		}
	}
	_, err := write.WriteTo(w)
	return err
}

// axes name the first columns of every other line, and the first rows of every fourth cell.
func axes(all draw.Canvas, r *rule.Raster, left, top vg.Length, small draw.TextStyle, d kernels.DeviceInfo) {
	for line := 0; line < len(r.Lines); line += 2 {
		label := fmt.Sprint(r.Lines[line].From)
		all.FillText(small, vg.Point{X: left + panelLeft - 4 - vg.Length(5*len(label)), Y: top - panelTop - side*vg.Length(line+1) + 3}, label)
	}
	y := top - panelTop - side*vg.Length(len(r.Lines)) - 11
	for cell := 0; cell < len(r.Rows); cell += 4 {
		lo := int64(1)
		if cell > 0 {
			lo = r.Rows[cell-1].Last(d.SMs) + 1
		}
		all.FillText(small, vg.Point{X: left + panelLeft + side*vg.Length(cell), Y: y}, fmt.Sprintf("%d", lo))
	}
	all.FillText(small, vg.Point{X: left + panelLeft, Y: y - 10}, "rows from; down: columns from")
}

// hue is a light colour of its own for each of a legend's configs: letters tell those apart that are alike.
func hue(n int) color.Color {
	h := math.Mod(float64(n)*0.618034, 1) * 6
	light := 0.93 - 0.12*float64(n%3)
	f := func(k float64) uint8 {
		x := math.Mod(h+k, 6)
		return uint8(255 * light * (1 - 0.35*min(max(math.Abs(x-3)-1, 0), 1)))
	}
	return color.RGBA{f(0), f(4), f(2), 0xff}
}
