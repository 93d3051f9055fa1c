package learn

import (
	"fmt"
	"math"
	"slices"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/rule"
)

// A Square is a cell of a map with what its problems say.
type Square struct {
	rule.Box
	Line, Cell int
	Variant    kernels.Variant
	Number     int // of the variant in the legend
	Problems   int // measured in it,
	Regret     float64
	Percent    float64 // of the speed of a copy, in the mean of these; 0 where that is not known
}

// A Panel is a raster as squares.
type Panel struct {
	Title   string
	Raster  *rule.Raster
	Squares []Square
}

// Panels are the rasters of a map with the means of the measured problems of each cell. Regret is
// over those where the cell's config was measured.
func Panels(m *rule.Map, points []*Point, d kernels.DeviceInfo) (panels []Panel) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		p := Panel{Title: r.Title(), Raster: r}
		for line := range r.Lines {
			for cell := range r.Rows {
				s := Square{Box: r.Box(line, cell, d.SMs), Line: line, Cell: cell}
				var ok bool
				if s.Variant, ok = r.Pick(line, cell); ok && !s.Empty() {
					s.Number = slices.Index(r.Legend, s.Variant)
					s.measure(points)
					p.Squares = append(p.Squares, s)
				}
			}
		}
		panels = append(panels, p)
	}
	return panels
}

// measure fills in the means over the problems of a square.
func (s *Square) measure(points []*Point) {
	speeds := 0.0
	for _, p := range points {
		if q := p.Problem; q.N < s.NLo || q.N > s.NHi || q.M < s.MLo || q.M > s.MHi || !p.OK(s.Variant) ||
			rule.AlignOf(q.N, q.DType.Size()) != s.Align || rule.ClassOf(q) != s.Class {
			continue
		}
		s.Problems++
		s.Regret += math.Log(p.US[s.Variant] / p.BestUS)
		if p.Stream > 0 {
			s.Percent += math.Log(100 * p.Stream / p.US[s.Variant])
			speeds++
		}
	}
	if s.Problems > 0 {
		s.Regret = math.Exp(s.Regret / float64(s.Problems))
	}
	if speeds > 0 {
		s.Percent = math.Exp(s.Percent / speeds)
	}
}

// The measures of a picture, in pixels.
const (
	side                = 16 // of a square
	panelLeft, panelTop = 56, 44
)

// Draw draws a panel three times: its configs by their letters, the regret and the % of a copy's
// speed of the problems measured in each cell.
func (p *Panel) Draw(d kernels.DeviceInfo) (list []*picture.Drawing) {
	shade := func(v float64, limits ...float64) string {
		for i, limit := range limits {
			if v < limit != (limits[0] > limits[1]) {
				return fmt.Sprint("m", i)
			}
		}
		return fmt.Sprint("m", len(limits))
	}
	for _, what := range []struct {
		title string
		fill  func(s Square) string
	}{
		{"configs by letter", func(s Square) string { return hue(s.Number) }},
		{"regret: up to 1, 2, 5, 10%, more in red",
			func(s Square) string { return shade(100*(s.Regret-1), 10, 5, 2, 1) }},
		{"% of a copy's speed: below 50 in red, 70, 85, 95",
			func(s Square) string { return shade(s.Percent, 50, 70, 85, 95) }},
	} {
		x := &picture.Drawing{Title: p.Title + ": " + what.title,
			Width:  max(330, panelLeft+side*float64(len(p.Raster.Rows))+20),
			Height: panelTop + side*float64(len(p.Raster.Lines)) + 40}
		x.Text(panelLeft, 16, 14, "start", "fg", p.Title)
		x.Text(panelLeft, 34, 12, "start", "dim", what.title)
		for _, s := range p.Squares {
			left, top := panelLeft+side*float64(s.Cell), panelTop+side*float64(s.Line)
			fill, letters := what.fill(s), len(list) == 0
			tip := fmt.Sprintf("%d to %d rows of %d to %d: %s, %d problems", s.MLo, s.MHi, s.NLo,
				s.NHi, s.Variant, s.Problems)
			if s.Problems > 0 {
				tip += fmt.Sprintf(", regret %.1f%%, %.0f%% of a copy's speed", 100*(s.Regret-1),
					s.Percent)
			}
			if !letters && (s.Problems == 0 || len(list) == 2 && s.Percent == 0) {
				fill, tip = "none", ""
			}
			x.Square(left, top, side-1, fill, tip)
			if letters {
				x.Add(`<text x="%s" y="%s" font-size="11" text-anchor="middle" style="fill:#000">%s</text>`, left+side/2-.5, top+12, p.Raster.Lines[s.Line].Cells[s.Cell:s.Cell+1])
			}
		}
		// Every other line has its first columns, every fourth cell its first rows.
		for line := 0; line < len(p.Raster.Lines); line += 2 {
			x.Text(panelLeft-4, panelTop+side*float64(line)+12, 11, "end", "dim",
				fmt.Sprint(p.Raster.Lines[line].From))
		}
		for cell := 0; cell < len(p.Raster.Rows); cell += 4 {
			lo := int64(1)
			if cell > 0 {
				lo = p.Raster.Rows[cell-1].Last(d.SMs) + 1
			}
			x.Text(panelLeft+side*float64(cell), x.Height-26, 11, "start", "dim", fmt.Sprint(lo))
		}
		x.Text(panelLeft, x.Height-10, 11, "start", "dim", "rows from; down: columns from")
		list = append(list, x)
	}
	return list
}

// Plot draws a map as an SVG file.
func Plot(m *rule.Map, points []*Point, d kernels.DeviceInfo) []byte {
	var rows [][]*picture.Drawing
	for _, p := range Panels(m, points, d) {
		rows = append(rows, p.Draw(d))
	}
	return picture.File("", nil, rows)
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
