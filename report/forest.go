package report

import (
	"fmt"

	"normbench/internal/console"
	"normbench/internal/picture"
	"normbench/sweep/verdict"
)

// The marks of verdicts in a forest: told apart without colours too.
var marks = []picture.Series{
	{Name: string(verdict.Faster), Class: "good", Glyph: 1, Radius: 3},
	{Name: string(verdict.Slower), Class: "bad", Glyph: 2, Radius: 3.4},
	{Name: string(verdict.Same), Class: "same", Glyph: 0, Radius: 3},
	{Name: string(verdict.Inconclusive), Class: "open", Glyph: 3, Radius: 3},
	{Name: "no verdict: not measured in turns", Class: "same", Glyph: 6, Radius: 2.6},
}

// mark returns that of a row's verdict.
func (r *Row) mark() picture.Series {
	for _, m := range marks {
		if m.Name == string(r.Verdict) {
			return m
		}
	}
	return marks[len(marks)-1]
}

// forest draws the speedups of each kind with their intervals, all to one scale, under the marks that are in
// them. Shapes stand in the order of the table.
func (c *Comparison) forest() Figures {
	a, b := c.Words()
	f := Figures{Title: "Speedup of B over A", Help: fmt.Sprintf("A is %s, B is %s. A mark is A's time over B's: "+
		"right of 1x B is faster. A line is its interval.", a, b)}
	if c.live != nil {
		f.Help = fmt.Sprintf("%s, %.1f%% by the rounds.", f.Help[:len(f.Help)-1], 100*(1-c.live.Rule.Plan.Looks[0].Alpha))
	}
	lo, hi := 0.99, 1.01
	var list []picture.Forest
	seen, alike := map[string]bool{}, 0
	for what, rows := range byKind(c.Rows, func(r Row) string { return withoutShape(r.Problem) }) {
		p := picture.Forest{Title: what, Label: "speedup of B over A"}
		for i := range rows {
			r := &rows[i]
			if r.isOneVariant() {
				alike++
			}
			if r.Speedup == 0 || r.isOneVariant() {
				continue
			}
			x := picture.ForestRow{Series: r.mark(), Label: shape(r.Problem), X: r.Speedup,
				Text: fmt.Sprintf("%.3fx", r.Speedup)}
			x.Lo, x.Hi = r.interval()
			x.Tip = fmt.Sprintf("%s: %s, %s; A %s us, B %s us", x.Label, ratioIn(x.X, x.Lo, x.Hi), r.Verdict,
				Micros(r.A.medianUS()), Micros(r.B.medianUS()))
			lo, hi, seen[x.Name] = min(lo, x.X), max(hi, x.X), true
			if x.Lo > 0 {
				lo, hi = min(lo, x.Lo), max(hi, x.Hi)
			}
			p.Rows = append(p.Rows, x)
		}
		if len(p.Rows) > 0 {
			list = append(list, p)
		}
	}
	if alike > 0 {
		f.Help += fmt.Sprintf(" %s with one variant on both sides left out.", console.Count(alike, "problem"))
	}
	for _, m := range marks {
		if seen[m.Name] {
			f.Series = append(f.Series, m)
		}
	}
	for i := range list {
		list[i].Lo, list[i].Hi = lo, hi
		f.Drawings = append(f.Drawings, list[i].Draw())
	}
	return f
}
