package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"normbench/internal/hint"
	"normbench/internal/picture"
)

// CheckPlots says what is wrong with the names of plots, with commas, or nil.
func CheckPlots(names string) error {
	if names == "" {
		return nil
	}
	for _, n := range strings.Split(names, ",") {
		if ext := filepath.Ext(n); ext != ".svg" && ext != ".png" {
			return hint.Errorf("name it .svg or .png", "cannot plot to %s", n)
		}
	}
	return nil
}

// Which colours of picture.Palette stand for our kernels, for other libraries, and for the untuned base
// where it is beside a tuned arm. The stream is grey.
var (
	oursSlots   = []int{1, 4, 7, 2}
	othersSlots = []int{0, 3, 5, 6}
	baseSlot    = 2
)

// slots are the colours of arms by what they are, so that an arm keeps its colour from plot to plot,
// whether it is A or B.
func slots(labels []string) []int {
	kinds := make([]string, len(labels))
	var ours int
	for i, l := range labels {
		if _, name, ok := strings.Cut(l, ", "); ok { // "A, normbench tuned"
			l = name
		}
		file, selector, _ := strings.Cut(l, "#")
		switch name := wordName(l); {
		case name == wordName("peer:best") || strings.HasPrefix(l, "peer") || strings.HasPrefix(selector, "peer") || strings.HasSuffix(l, "fastest peer") || strings.HasSuffix(file, ".csv"):
			kinds[i] = "other"
		case name == wordName("base") || strings.HasSuffix(l, " base"):
			kinds[i] = "base"
			ours++
		default:
			ours++
		}
	}
	list := make([]int, len(labels))
	taken := map[int]bool{}
	for i, k := range kinds {
		from := slices.Concat(oursSlots, othersSlots)
		switch {
		case k == "other":
			from = slices.Concat(othersSlots, oursSlots)
		case k == "base" && ours > 1:
			from = slices.Concat([]int{baseSlot}, from)
		}
		list[i] = from[max(slices.IndexFunc(from, func(s int) bool { return !taken[s] }), 0)]
		taken[list[i]] = true
	}
	return list
}

// A look is how plots over an axis are laid out.
type look struct {
	across int // panels beside each other at most
	style  armScale
	// measure is how large a panel is, lay how its x axis looks.
	measure func([]panel) (width, height vg.Length)
	lay     func(x *plot.Axis, in panel, shared growthAxes)
}

var (
	sideLook  = look{panelsAcross, armScale{1.1, 1.9, 1}, sidePanel, laySide}
	shapeLook = look{1, armScale{0.7, 2.4, 0.6}, shapePanel, layShapes}
)

// The measures of a plot, in points.
const (
	panelWidth, panelHeight = 250, 190
	panelsAcross            = 3
	headerLine              = 17

	shapePanelHeight        = 260 // the labels need some of it
	shapePitch, tightPitch  = 20, 11.5
	shapesAtEase, maxShapes = 48, 250
	beside                  = 58 // the y axis and the margins
)

func sidePanel([]panel) (width, height vg.Length) { return panelWidth, panelHeight }

// shapePanel gives each shape room for its label.
func shapePanel(panels []panel) (width, height vg.Length) {
	n := 0
	for _, p := range panels {
		n = max(n, len(p.shapes))
	}
	pitch := vg.Length(shapePitch)
	if n > shapesAtEase {
		pitch = max(tightPitch, shapePitch*shapesAtEase/vg.Length(n))
	}
	return beside + pitch*vg.Length(n), shapePanelHeight
}

// laySide has the same sizes in all panels, so that they compare.
func laySide(x *plot.Axis, _ panel, shared growthAxes) {
	x.Scale, x.Tick.Marker = plot.LogScale{}, binaryTicks{}
	x.Min, x.Max = shared.xLo/1.15, shared.xHi*1.15
}

// layShapes names each shape, aslant: level they would overlap.
func layShapes(x *plot.Axis, in panel, _ growthAxes) {
	x.Min, x.Max = -0.7, float64(len(in.shapes))-0.3
	ticks := make(plot.ConstantTicks, len(in.shapes))
	for i, s := range in.shapes {
		ticks[i] = plot.Tick{Value: float64(i), Label: s}
	}
	x.Tick.Marker = ticks
	x.Tick.Label.Rotation = math.Pi / 3
	// They end below their ticks, with space to the axis: a viewer without the
	// font has longer words.
	x.Tick.Label.XAlign, x.Tick.Label.YAlign = 1.15*draw.XRight, draw.YCenter
	x.Label.Padding = vg.Points(7)
}

// Plot draws the share of the stream's speed over an axis: a block of panels for
// each kind, over a side one for each value of the other, a line per arm, 100% as
// the target. format is svg or png.
func (g *Growth) Plot(w io.Writer, title string, over *Axis, format string) error {
	if err := g.CheckPanels(over); err != nil {
		return err
	}
	panels := g.panels(over)
	var blocks [][]panel
	across := 1
	for i, p := range panels {
		if i == 0 || p.what != panels[i-1].what {
			blocks = append(blocks, nil)
		}
		last := &blocks[len(blocks)-1]
		*last = append(*last, p)
	}
	for _, b := range blocks { // four are two rows of two
		rows := (len(b) + over.look.across - 1) / over.look.across
		across = max(across, (len(b)+rows-1)/rows)
	}
	var tiles [][]*plot.Plot
	scale := growthScale(panels)
	for _, b := range blocks {
		for i, p := range b {
			if i%across == 0 {
				tiles = append(tiles, make([]*plot.Plot, across))
			}
			tiles[len(tiles)-1][i%across] = g.panelPlot(p, over, scale)
		}
	}
	header := vg.Length(headerLine*(len(g.Arms)+3)) + 8
	width, height := over.look.measure(panels)
	width, height = width*vg.Length(across), height*vg.Length(len(tiles))+header
	if across == 1 {
		width = max(width, 1.5*panelWidth, g.headerWidth(title))
	}
	all, write := picture.Canvas(width, height, format)
	g.header(draw.Crop(all, 10, -10, height-header, -6), title, over)
	grid := draw.Crop(all, 8, -8, 6, -header)
	cells := plot.Align(tiles, draw.Tiles{Rows: len(tiles), Cols: across, PadX: 12, PadY: 10}, grid)
	for i, row := range tiles {
		for j, p := range row {
			if p != nil {
				p.Draw(cells[i][j])
			}
		}
	}
	_, err := write.WriteTo(w)
	return err
}

// armGlyphs tell arms apart without colours.
var armGlyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// An armScale is how thick the thinnest line and the smallest glyph are, and how
// much thicker the thickest, in points.
type armScale struct{ line, glyph, more float64 }

// armStyle draws the first of several arms broadest, as each lies over those
// before it: where a rule picks the base, both are seen.
func (g *Growth) armStyle(i int, over *Axis) (draw.LineStyle, draw.GlyphStyle) {
	c := picture.Palette[slots(g.Arms)[i]]
	more := over.look.style.more * float64(len(g.Arms)-1-i) / float64(max(len(g.Arms)-1, 1))
	return draw.LineStyle{Color: c, Width: vg.Points(over.look.style.line + more)}, draw.GlyphStyle{Color: c, Radius: vg.Points(over.look.style.glyph + more), Shape: armGlyphs[i%len(armGlyphs)]}
}

var targetStyle = draw.LineStyle{Color: color.Gray{0x40}, Width: vg.Points(0.8), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}

// header writes the title and which line is which.
func (g *Growth) header(c draw.Canvas, title string, over *Axis) {
	y := c.Max.Y - headerLine
	c.FillText(picture.Sans(13), vg.Point{X: c.Min.X, Y: y}, title)
	y -= 3
	entry := func(style draw.LineStyle, glyph *draw.GlyphStyle, text string) {
		y -= headerLine
		mid := y + 3
		c.StrokeLine2(style, c.Min.X, mid, c.Min.X+24, mid)
		if glyph != nil {
			c.DrawGlyph(*glyph, vg.Point{X: c.Min.X + 12, Y: mid})
		}
		c.FillText(picture.Sans(10.5), vg.Point{X: c.Min.X + 30, Y: y}, text)
	}
	for i, a := range ShortNames(g.Arms) {
		line, glyph := g.armStyle(i, over)
		entry(line, &glyph, a)
	}
	entry(targetStyle, nil, "100%: the stream, a copy of the same tensors in the same run")
}

// headerWidth is what the longest line of the header takes, with something over:
// a viewer without the font has longer words.
func (g *Growth) headerWidth(title string) vg.Length {
	w := picture.Sans(13).Width(title)
	for _, a := range ShortNames(g.Arms) {
		w = max(w, 30+picture.Sans(10.5).Width(a))
	}
	return 20 + 1.15*w
}

// A growthAxes is the axes that all panels share, so that they compare.
type growthAxes struct{ xLo, xHi, yHi float64 }

func growthScale(panels []panel) growthAxes {
	a := growthAxes{math.Inf(1), 0, 120}
	for _, p := range panels {
		for _, l := range p.lines {
			for _, pt := range l {
				a.xLo, a.xHi = math.Min(a.xLo, float64(pt.x)), math.Max(a.xHi, float64(pt.x))
				a.yHi = math.Max(a.yHi, math.Ceil(pt.share/20)*20)
			}
		}
	}
	return a
}

func (g *Growth) panelPlot(in panel, over *Axis, scale growthAxes) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.Title.Text = over.title(in)
	p.Title.TextStyle.Font, p.Title.Padding = picture.Sans(11).Font, vg.Points(4)
	p.X.Label.Text, p.Y.Label.Text = over.label, "% of stream"
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, scale.yHi, evenTicks(20)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Label.Padding = picture.Sans(10).Font, vg.Points(2)
		a.Tick.Label.Font, a.Padding = picture.Sans(9.5).Font, 0
	}
	over.look.lay(&p.X, in, scale)
	lines := plotter.NewGrid()
	lines.Vertical.Color, lines.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	target := &plotter.Line{XYs: plotter.XYs{{X: p.X.Min, Y: 100}, {X: p.X.Max, Y: 100}}, LineStyle: targetStyle}
	p.Add(lines, target)
	for i, l := range in.lines {
		if len(l) == 0 {
			continue
		}
		line, dot := g.armStyle(i, over)
		xys := make(plotter.XYs, len(l))
		first := 0 // of a piece of the line
		for j, pt := range l {
			xys[j] = plotter.XY{X: float64(pt.x), Y: pt.share}
			if next := j + 1; next == len(l) || l[next].apart {
				p.Add(&plotter.Line{XYs: xys[first:next], LineStyle: line})
				first = next
			}
		}
		p.Add(&plotter.Scatter{XYs: xys, GlyphStyle: dot})
	}
	return p
}

// binaryTicks are a few powers of two: 1, 16, 256, 4096, 64Ki, 1Mi.
type binaryTicks struct{}

// Ticks implements plot.Ticker.
func (binaryTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Ceil(math.Log2(lo))), int(math.Floor(math.Log2(hi)))
	step := max(1, (last-first+5)/6)
	var ticks []plot.Tick
	for e := max(first, 0); e <= last; e += step {
		ticks = append(ticks, plot.Tick{Value: math.Exp2(float64(e)), Label: binary(int64(1) << e)})
	}
	if len(ticks) < 2 { // the sides lie between two powers
		ticks = nil
		for _, v := range []float64{math.Ceil(lo), math.Floor(hi)} {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprint(v)})
		}
	}
	return ticks
}

// binary writes a power of two: as it is up to 8192, then in Ki and Mi.
func binary(v int64) string {
	switch {
	case v >= 1<<20:
		return fmt.Sprintf("%dMi", v>>20)
	case v >= 1<<14:
		return fmt.Sprintf("%dKi", v>>10)
	}
	return fmt.Sprint(v)
}

// evenTicks are at most eight steps from 0, of the number or 2, 5, 10 times as much.
type evenTicks float64

func (first evenTicks) step(hi float64) float64 {
	step := float64(first)
	for i := 0; hi/step > 8; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	return step
}

// Ticks implements plot.Ticker.
func (first evenTicks) Ticks(_, hi float64) []plot.Tick {
	step := first.step(hi)
	var ticks []plot.Tick
	for v := 0.0; v <= hi; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}
