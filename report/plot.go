package report

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"normbench/internal/hint"
	"normbench/internal/picture"
	"normbench/kernels"
)

// CheckPlot says what is wrong with the name of a plot, or nil.
func CheckPlot(name string) error {
	if name != "" && filepath.Ext(name) != ".svg" {
		return hint.Errorf("name it .svg; a browser opens it, and `rsvg-convert x.svg -o x.png` makes "+
			"a PNG of it", "cannot plot to %s", name)
	}
	return nil
}

// pairSeries are the lines of two sides, coloured by whose kernels they have: a side keeps its colour
// from plot to plot. Blue is ours, orange another library's, green the untuned base beside a tuned
// side. The first is drawn broader, as the second lies over it: where a map picks the base,
// both are seen.
func pairSeries(a, b Side) []picture.Series {
	var slots [2]int
	for i, s := range []Side{a, b} {
		o := []Side{b, a}[i]
		switch base := func(s Side) bool { return s.all(func(c Cell) bool { return c.Base }) }; {
		case s.other():
			slots[i] = 0
		case base(s) && !base(o) && !o.other():
			slots[i] = 2
		default:
			slots[i] = 1
		}
	}
	if slots[0] == slots[1] {
		slots[1] += 3
	}
	return []picture.Series{
		{Name: "A, " + a.Label, Class: fmt.Sprint("s", slots[0]), Glyph: 0, Width: 2.6, Radius: 3.6},
		{Name: "B, " + b.Label, Class: fmt.Sprint("s", slots[1]), Glyph: 1, Width: 1.4, Radius: 2.4}}
}

// all says whether what is asked holds for every cell, of which there are some.
func (s Side) all(yes func(Cell) bool) bool {
	for _, c := range s.Cells {
		if !yes(c) {
			return false
		}
	}
	return len(s.Cells) > 0
}

// other says that a side's kernels are another library's.
func (s Side) other() bool {
	return s.all(func(c Cell) bool { _, peer := kernels.PeerName(c.Variant.Family); return peer })
}

// The measures of a plot, in pixels.
const (
	panelHeight             = 350 // the labels need some of it
	shapePitch, tightPitch  = 26, 15
	shapesAtEase, maxShapes = 48, 250
	maxPanels               = 32 // more are no picture
)

// A panel is one picture of a plot: a line per side over all shapes of a kind.
type panel struct {
	what   string             // "rms bwd bf16"
	shapes []string           // of its problems, in the order of the rows
	lines  [2][]picture.Point // per side: the shape's number, and % of the stream
	last   [2]int             // per side: the number of the shape of its last point
}

// panels are what there is to draw: each kind of which a side has a time and the stream's.
func (c *Comparison) panels() (ps []panel) {
	for what, rows := range byKind(c.inOrder(), func(r Row) string { return KindOf(r.Problem) }) {
		p := panel{what: what}
		var before kernels.Problem
		for n, r := range rows {
			p.shapes = append(p.shapes, ShapeOf(r.Problem))
			for a, v := range []Value{r.A, r.B} {
				if v.StreamPercent == 0 {
					continue
				}
				pt := picture.Point{X: float64(n), Y: v.StreamPercent,
					Tip: ShapeOf(r.Problem) + ", " + v.tip(c.series[a].Name)}
				// A line between shapes that share no side, or past one that a side
				// lacks, would say that something lies between them.
				pt.Apart = len(p.lines[a]) > 0 && p.last[a] != n ||
					before.M != r.Problem.M && before.N != r.Problem.N
				pt.Lo, pt.Hi = v.streamInterval()
				p.lines[a], p.last[a] = append(p.lines[a], pt), n+1
			}
			before = r.Problem
		}
		if len(p.lines[0])+len(p.lines[1]) > 0 {
			ps = append(ps, p)
		}
	}
	return ps
}

// checkPanels says why there is nothing to draw, or too much, or nil.
func checkPanels(panels []panel) error {
	const less = "choose by --op, --pass, --dtype and --shapes"
	switch n := len(panels); {
	case n == 0:
		return hint.Errorf("`normbench bench`, `sweep` and `compare` time the stream beside the kernels",
			"nothing to draw: no problem has a time and the stream's")
	case n > maxPanels:
		return hint.Errorf(less, "%d panels are too many for one plot", n)
	}
	for _, p := range panels {
		if n := len(p.shapes); n > maxShapes {
			return hint.Errorf(less, "%d shapes of %s are too many for one plot", n, p.what)
		}
	}
	return nil
}

// overShapes has a plot go from shape to shape. most is how many one beside it has.
func overShapes(p *picture.Plot, shapes []string, most int) {
	pitch := max(tightPitch, shapePitch*min(1, shapesAtEase/float64(most)))
	p.Width, p.Height = 80+pitch*float64(most), panelHeight
	p.X = picture.Axis{Label: "MxN, rows x columns", Lo: -0.7, Hi: float64(len(shapes)) - 0.3,
		Slant: true}
	for i, s := range shapes {
		p.X.Ticks = append(p.X.Ticks, picture.Tick{At: float64(i), Label: s})
	}
}

// draw draws panels over axes that they share, so that they compare.
func (c *Comparison) draw(panels []panel) (list []*picture.Drawing) {
	top, most := 120.0, 0
	for _, p := range panels {
		most = max(most, len(p.shapes))
		for _, pt := range slices.Concat(p.lines[:]...) {
			top = max(top, math.Ceil(pt.Y/20)*20)
		}
	}
	for _, in := range panels {
		p := picture.Plot{Title: in.what, Target: 100,
			Y: picture.Axis{Label: "% of stream", Hi: top, Ticks: picture.Even(0, top, 20, 8)}}
		overShapes(&p, in.shapes, most)
		for i, l := range in.lines {
			if len(l) > 0 {
				p.Lines = append(p.Lines, picture.Line{Series: c.series[i], Points: l})
			}
		}
		list = append(list, p.Draw())
	}
	return list
}

// Plot draws the share of the stream's speed as an SVG file: a panel for each kind, a line per
// side, 100% as the target.
func (c *Comparison) Plot(title string) ([]byte, error) {
	panels := c.panels()
	if err := checkPanels(panels); err != nil {
		return nil, err
	}
	target := picture.Series{Class: "ref", Width: 1.2,
		Name: "100%: the stream, a copy of the same tensors in the same run"}
	rows := slices.Collect(slices.Chunk(c.draw(panels), 1))
	return picture.File(title, append(slices.Clone(c.series), target), rows), nil
}
