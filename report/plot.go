package report

import (
	"cmp"
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

// series are the colours of sides by whose kernels they have, so that an arm keeps its colour from
// plot to plot: blue is ours, orange another library's, green the untuned base beside a tuned arm.
// The first is drawn broadest, as each lies over those before it: where a map picks the base, both
// are seen.
func series(sides []Side) []picture.Series {
	ours, others := []int{1, 4, 7, 2}, []int{0, 3, 5, 6}
	list := make([]picture.Series, len(sides))
	base := func(s Side) bool { return s.all(func(c Cell) bool { return c.Base }) }
	tuned := slices.ContainsFunc(sides, func(s Side) bool { return !s.other() && !base(s) })
	taken := map[int]bool{}
	names := Names(sides)
	for i, s := range sides {
		from := slices.Concat(ours, others)
		if s.other() {
			from = slices.Concat(others, ours)
		} else if tuned && base(s) {
			from = slices.Concat([]int{2}, from)
		}
		slot := from[max(slices.IndexFunc(from, func(s int) bool { return !taken[s] }), 0)]
		taken[slot] = true
		more := float64(len(sides)-1-i) / float64(max(len(sides)-1, 1))
		list[i] = picture.Series{Name: names[i], Class: fmt.Sprint("s", slot), Glyph: i,
			Width: 1.4 + 1.2*more, Radius: 2.4 + 1.2*more}
	}
	return list
}

// pairSeries are the series of a comparison, which names its sides A and B.
func pairSeries(a, b Side) []picture.Series {
	list := series([]Side{a, b})
	for i := range list {
		list[i].Name = letter(i) + ", " + list[i].Name
	}
	return list
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

// Names are the sides' names for legends, or their labels where two names are the same.
func Names(sides []Side) []string {
	var names, labels []string
	for _, s := range sides {
		names, labels = append(names, cmp.Or(s.Name, s.Label)), append(labels, s.Label)
	}
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) < len(names) {
		return labels
	}
	return names
}

// The measures of a plot, in pixels.
const (
	panelHeight             = 350 // the labels need some of it
	shapePitch, tightPitch  = 26, 15
	shapesAtEase, maxShapes = 48, 250
	maxPanels               = 32 // more are no picture
)

// A panel is one picture of a plot: a line per arm over all shapes of a kind, one beside the other.
type panel struct {
	what   string            // "rms bwd bf16"
	shapes []string          // of its problems, in the order of the rows
	lines  [][]picture.Point // per arm: the shape's number, and % of the stream
	last   []int             // per arm: the number of the shape of its last point
}

// panels are what there is to draw: each kind of which some arm has a time and the stream's.
func (g *Overview) panels() (ps []panel) {
	for what, rows := range byKind(g.Rows, func(r OverviewRow) string { return KindOf(r.Problem) }) {
		p := panel{what: what, last: make([]int, len(g.Arms)),
			lines: make([][]picture.Point, len(g.Arms))}
		var before kernels.Problem
		for n, r := range rows {
			p.shapes = append(p.shapes, ShapeOf(r.Problem))
			for a, v := range r.Arms {
				if v.StreamPercent == 0 {
					continue
				}
				pt := picture.Point{X: float64(n), Y: v.StreamPercent,
					Tip: ShapeOf(r.Problem) + ", " + v.tip(g.series[a].Name)}
				// A line between shapes that share no side, or past one that an arm
				// lacks, would say that something lies between them.
				pt.Apart = len(p.lines[a]) > 0 && p.last[a] != n ||
					before.M != r.Problem.M && before.N != r.Problem.N
				pt.Lo, pt.Hi = v.streamInterval()
				p.lines[a], p.last[a] = append(p.lines[a], pt), n+1
			}
			before = r.Problem
		}
		if slices.ContainsFunc(p.lines, func(l []picture.Point) bool { return len(l) > 0 }) {
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
func (g *Overview) draw(panels []panel) (list []*picture.Drawing) {
	top, most := 120.0, 0
	for _, p := range panels {
		most = max(most, len(p.shapes))
		for _, pt := range slices.Concat(p.lines...) {
			top = max(top, math.Ceil(pt.Y/20)*20)
		}
	}
	for _, in := range panels {
		p := picture.Plot{Title: in.what, Target: 100,
			Y: picture.Axis{Label: "% of stream", Hi: top, Ticks: picture.Even(0, top, 20, 8)}}
		overShapes(&p, in.shapes, most)
		for i, l := range in.lines {
			if len(l) > 0 {
				p.Lines = append(p.Lines, picture.Line{Series: g.series[i], Points: l})
			}
		}
		list = append(list, p.Draw())
	}
	return list
}

// Plot draws the share of the stream's speed as an SVG file: a panel for each kind, a line per arm,
// 100% as the target.
func (g *Overview) Plot(title string) ([]byte, error) {
	panels := g.panels()
	if err := checkPanels(panels); err != nil {
		return nil, err
	}
	target := picture.Series{Class: "ref", Width: 1.2,
		Name: "100%: the stream, a copy of the same tensors in the same run"}
	rows := slices.Collect(slices.Chunk(g.draw(panels), 1))
	return picture.File(title, append(slices.Clone(g.series), target), rows), nil
}
