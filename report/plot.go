package report

import (
	"fmt"
	"math"
	"slices"

	"normbench/internal/hint"
	"normbench/internal/picture"
	"normbench/kernels"
)

// pairSeries are the lines of two sides, coloured by whose kernels they have: a side keeps its colour
// from plot to plot, and no two sides share a hue. Blue is ours, and green what ours is held against if it is
// ours too: the untuned base, else A. Orange is another library's, and purple a second one's. The first is
// drawn broader, as the second lies over it: where a map picks the base, both are seen.
func pairSeries(a, b Side) []picture.Series {
	const orange, blue, green, purple = 0, 1, 2, 3
	base := func(s Side) bool { return s.holdsForAll(func(c Measurement) bool { return c.Base }) }
	slots := [2]int{blue, blue}
	switch {
	case a.isPeers() && b.isPeers():
		slots = [2]int{orange, purple}
	case a.isPeers():
		slots[0] = orange
	case b.isPeers():
		slots[1] = orange
	case base(b) && !base(a):
		slots[1] = green
	default:
		slots[0] = green
	}
	x, y := wordsOf(a.Label, b.Label)
	return []picture.Series{
		{Name: "A, " + x, Class: fmt.Sprint("s", slots[0]), Glyph: 0, Width: 2.6, Radius: 3.6},
		{Name: "B, " + y, Class: fmt.Sprint("s", slots[1]), Glyph: 1, Width: 1.4, Radius: 2.4}}
}

// HoldsForAny says whether something holds for a cell.
func (s Side) HoldsForAny(yes func(Measurement) bool) bool {
	for _, c := range s.Cells {
		if yes(c) {
			return true
		}
	}
	return false
}

// holdsForAll says whether something holds for every cell, of which there are some.
func (s Side) holdsForAll(yes func(Measurement) bool) bool {
	return len(s.Cells) > 0 && !s.HoldsForAny(func(c Measurement) bool { return !yes(c) })
}

// isPeers says whether a side's kernels are another library's.
func (s Side) isPeers() bool {
	return s.holdsForAll(func(c Measurement) bool { _, peer := kernels.PeerName(c.Variant.Family); return peer })
}

// The measures of a plot, in pixels.
const (
	plotHeight              = 350 // the labels need some of it
	shapePitch, tightPitch  = 26, 15
	shapesAtEase, maxShapes = 48, 250
	maxPlots                = 32 // more are no picture
)

// plots are what there is to draw: a plot for each kind of which a side has a time and the stream's,
// with a line per side over all shapes. They share the y axis and their size, so that they compare.
func (c *Comparison) plots() (ps []picture.Plot) {
	top, most := 120.0, 0
	heading := func(r Row) string { return withoutShape(r.Problem) }
	for what, rows := range byKind(c.sortedRows(), heading) {
		p := picture.Plot{Title: what, Height: plotHeight, Target: 100, X: picture.Axis{
			Label: "MxN, rows x columns", Lo: -0.7, Hi: float64(len(rows)) - 0.3, Slant: true}}
		for n, r := range rows {
			p.X.Ticks = append(p.X.Ticks, picture.Tick{At: float64(n), Label: shape(r.Problem)})
		}
		for side, series := range c.series {
			of := func(n int) Measurement { return []Measurement{rows[n].A, rows[n].B}[side] }
			line := picture.Curve{Series: series}
			for n, r := range rows {
				v := of(n)
				if v.streamPercent() == 0 {
					continue
				}
				pt := picture.PlotPoint{X: float64(n), Y: v.streamPercent(),
					Tip: shape(r.Problem) + ", " + v.tooltip(series.Name)}
				// A line between shapes that share no side, or past one that a side
				// lacks, would say that something lies between them.
				pt.Apart = n == 0 || of(n-1).streamPercent() == 0 ||
					rows[n-1].Problem.M != r.Problem.M && rows[n-1].Problem.N != r.Problem.N
				if v.Lo > 0 && v.Hi > 0 {
					pt.Lo, pt.Hi = 100*v.StreamUS/v.Hi, 100*v.StreamUS/v.Lo
				}
				line.Points = append(line.Points, pt)
				top = max(top, math.Ceil(pt.Y/20)*20)
			}
			if len(line.Points) > 0 {
				p.Lines = append(p.Lines, line)
			}
		}
		if len(p.Lines) > 0 {
			ps, most = append(ps, p), max(most, len(rows))
		}
	}
	for i := range ps {
		ps[i].Width = max(320, 80+float64(most)*max(tightPitch, shapePitch*min(1, shapesAtEase/float64(most))))
		ps[i].Y = picture.Axis{Label: "% of stream", Hi: top, Ticks: picture.EvenTicks(0, top, 20, 8)}
	}
	return ps
}

// Plot draws the share of the stream's speed as an SVG file: a plot for each kind, a line per
// side, 100% as the target. An error says why there is nothing to draw, or too much.
func (c *Comparison) Plot(title string) ([]byte, error) {
	const less = "choose by --op, --pass, --dtype and --shapes"
	plots := c.plots()
	switch n := len(plots); {
	case n == 0:
		return nil, hint.Errorf("`normbench bench`, `sweep` and `compare` time the stream beside the kernels",
			"nothing to draw: no problem has a time and the stream's")
	case n > maxPlots:
		return nil, hint.Errorf(less, "%d panels are too many for one plot", n)
	}
	var rows [][]*picture.Drawing
	for _, p := range plots {
		if n := len(p.X.Ticks); n > maxShapes {
			return nil, hint.Errorf(less, "%d shapes of %s are too many for one plot", n, p.Title)
		}
		rows = append(rows, []*picture.Drawing{p.Draw()})
	}
	target := picture.Series{Class: "ref", Width: 1.2,
		Name: "100%: the stream, a copy of the same tensors in the same run"}
	return picture.File(title, append(slices.Clone(c.series), target), rows), nil
}
