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
	panelWidth, panelHeight = 330, 250
	panelsAcross            = 3
	shapePanelHeight        = 350 // the labels need some of it
	shapePitch, tightPitch  = 26, 15
	shapesAtEase, maxShapes = 48, 250
	maxPanels               = 32 // more are no picture
)

// A panel is one picture of a plot: a line per arm over the side that grows, at
// one value of the other, or over all shapes of a kind.
type panel struct {
	what   string // "rms bwd bf16": those of one row of the plot
	fixed  int64
	shapes []string          // of its problems, in the order of the rows
	lines  [][]picture.Point // per arm: the side or the shape's number, and % of the stream
	last   []int             // per arm: the number of the shape of its last point
}

// rowsAlong are the rows in the order of an axis: by kind, and then as each panel has them.
func (g *Growth) rowsAlong(over *Axis) []GrowthRow {
	kinds := map[string]int{} // by their first row
	for i, r := range g.Rows {
		if _, ok := kinds[KindOf(r.Problem)]; !ok {
			kinds[KindOf(r.Problem)] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(g.Rows), func(a, b GrowthRow) int {
		by := cmp.Compare(kinds[KindOf(a.Problem)], kinds[KindOf(b.Problem)])
		if by == 0 && !over.every() {
			by = over.compare(a.Problem, b.Problem)
		}
		return by
	})
}

// panels are what there is to draw over an axis: each kind, at each fixed other
// side if the axis is one, with enough points of some arm.
func (g *Growth) panels(over *Axis) (ps []panel) {
	var before kernels.Problem
	for _, r := range g.rowsAlong(over) {
		x, fixed := over.along(r.Problem)
		if over.every() {
			fixed = 0
		}
		what := KindOf(r.Problem)
		if n := len(ps) - 1; n < 0 || ps[n].what != what || ps[n].fixed != fixed {
			ps = append(ps, panel{what: what, fixed: fixed, last: make([]int, len(g.Arms)),
				lines: make([][]picture.Point, len(g.Arms))})
			before = kernels.Problem{}
		}
		p := &ps[len(ps)-1]
		if over.every() {
			x = int64(len(p.shapes))
		}
		p.shapes = append(p.shapes, ShapeOf(r.Problem))
		for a, v := range r.Arms {
			if v.StreamPercent == 0 {
				continue
			}
			pt := picture.Point{X: float64(x), Y: v.StreamPercent,
				Tip: ShapeOf(r.Problem) + ", " + v.tip(g.series[a].Name)}
			// A line between shapes that share no side, or past one that an arm
			// lacks, would say that something lies between them.
			pt.Apart = len(p.lines[a]) > 0 && p.last[a] != len(p.shapes)-1 ||
				over.every() && before.M != r.Problem.M && before.N != r.Problem.N
			pt.Lo, pt.Hi = v.streamInterval()
			p.lines[a], p.last[a] = append(p.lines[a], pt), len(p.shapes)
		}
		before = r.Problem
	}
	return slices.DeleteFunc(ps, func(p panel) bool {
		return !slices.ContainsFunc(p.lines,
			func(l []picture.Point) bool { return len(l) >= over.least })
	})
}

// checkPanels says why there is nothing to draw over an axis, or too much, or nil.
func checkPanels(panels []panel, over *Axis) error {
	const less = "choose by --op, --pass, --dtype and --shapes"
	switch n := len(panels); {
	case n == 0:
		return over.errNothing()
	case n > maxPanels:
		return hint.Errorf(less, "%d panels over %s are too many for one plot", n, over)
	}
	for _, p := range panels {
		if n := len(p.shapes); over.every() && n > maxShapes {
			return hint.Errorf(less, "%d shapes of %s are too many for one plot", n, p.what)
		}
	}
	return nil
}

// overShapes has a plot go from shape to shape. most is how many one beside it has.
func overShapes(p *picture.Plot, shapes []string, most int) {
	pitch := max(tightPitch, shapePitch*min(1, shapesAtEase/float64(most)))
	p.Width, p.Height = 80+pitch*float64(most), shapePanelHeight
	p.X = picture.Axis{Label: OverShape.label, Lo: -0.7, Hi: float64(len(shapes)) - 0.3, Slant: true}
	for i, s := range shapes {
		p.X.Ticks = append(p.X.Ticks, picture.Tick{At: float64(i), Label: s})
	}
}

// draw draws panels over axes that they share, so that they compare.
func (g *Growth) draw(panels []panel, over *Axis) (list []*picture.Drawing) {
	x, top, most := picture.Axis{Label: over.label, Lo: math.Inf(1), Log: true}, 120.0, 0
	for _, p := range panels {
		most = max(most, len(p.shapes))
		for _, pt := range slices.Concat(p.lines...) {
			x.Lo, x.Hi, top = min(x.Lo, pt.X), max(x.Hi, pt.X), max(top, math.Ceil(pt.Y/20)*20)
		}
	}
	x.Lo, x.Hi = x.Lo/1.15, x.Hi*1.15
	for _, in := range panels {
		p := picture.Plot{Title: over.title(in), Width: panelWidth, Height: panelHeight, X: x,
			Target: 100, Y: picture.Axis{Label: "% of stream", Hi: top, Ticks: picture.Even(0, top, 20, 8)}}
		if over.every() {
			overShapes(&p, in.shapes, most)
		} else {
			p.X.Ticks = picture.Binary(x.Lo, x.Hi)
		}
		for i, l := range in.lines {
			if len(l) > 0 {
				p.Lines = append(p.Lines, picture.Line{Series: g.series[i], Points: l})
			}
		}
		list = append(list, p.Draw())
	}
	return list
}

// Plot draws the share of the stream's speed over an axis as an SVG file: a block of panels for
// each kind, over a side one for each value of the other, a line per arm, 100% as the target.
func (g *Growth) Plot(title string, over *Axis) ([]byte, error) {
	panels := g.panels(over)
	if err := checkPanels(panels, over); err != nil {
		return nil, err
	}
	drawn := g.draw(panels, over)
	most := panelsAcross
	if over.every() {
		most = 1
	}
	var rows [][]*picture.Drawing
	for len(panels) > 0 {
		n := slices.IndexFunc(panels, func(p panel) bool { return p.what != panels[0].what })
		if n < 0 {
			n = len(panels)
		}
		deep := (n + most - 1) / most
		across := (n + deep - 1) / deep // four are two rows of two
		rows = slices.AppendSeq(rows, slices.Chunk(drawn[:n], across))
		panels, drawn = panels[n:], drawn[n:]
	}
	target := picture.Series{Class: "ref", Width: 1.2,
		Name: "100%: the stream, a copy of the same tensors in the same run"}
	return picture.File(title, append(slices.Clone(g.series), target), rows), nil
}
