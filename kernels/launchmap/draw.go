package launchmap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
)

// Size of a drawn neighbourhood, in cells on each side of the pick.
const (
	drawLines = 3
	drawCells = 5
)

// Draw draws the cells around an answer as lines of text: their letters, the answer's in brackets, then
// the configs of the letters, which are also in nearby. It returns nil where the answer has no cell.
func (b *Book) Draw(a Answer) (lines, nearby []string) {
	r := a.Raster
	if r == nil {
		return nil, nil
	}
	lo, hi := max(a.Cell-drawCells, 0), min(a.Cell+drawCells+1, len(r.Rows))
	head := fmt.Sprintf("%6s", "N \\ M")
	for _, bound := range r.Rows[lo:hi] {
		head += fmt.Sprintf(" %7d", bound.Last(b.Device.SMs))
	}
	lines = append(lines, head)
	var used []kernels.Variant
	for i := max(a.Line-drawLines, 0); i < min(a.Line+drawLines+1, len(r.Lines)); i++ {
		text := fmt.Sprintf("%6d", r.Lines[i].From)
		for j := lo; j < hi; j++ {
			letter := r.Lines[i].Cells[j : j+1]
			if i == a.Line && j == a.Cell {
				text += "     [" + letter + "]"
			} else {
				text += fmt.Sprintf(" %6s ", letter)
			}
			if v, ok := r.Pick(i, j); ok && !slices.Contains(used, v) {
				used = append(used, v)
			}
		}
		lines = append(lines, strings.TrimRight(text, " "))
	}
	for _, v := range used {
		nearby = append(nearby, v.String())
		lines = append(lines, fmt.Sprintf("%c = %s", Letters[slices.Index(r.Legend, v)], v))
	}
	return lines, nearby
}

// evidence describes in words what a config rests on.
var evidence = map[byte]string{Measured: "measured there", Neighbour: "measured in cells nearby",
	Borrowed: "borrowed", ByHand: "written by hand"}

// fallbackName names the base that answers where the map does not.
func (b *Book) fallbackName() string {
	if family := b.analytic.BaseOf; family != "" {
		return "the default of " + family
	}
	return analyticBase
}

// Step names the map that answers for a class, or the base that does in its place.
func (b *Book) Step(c Class) string {
	if step := b.ForClass(c); step.Map != nil {
		return step.String()
	}
	return b.fallbackName()
}

// Explain says what the book's answer for a problem rests on.
func (b *Book) Explain(p kernels.Problem, a *Answer) string {
	switch {
	case a.Match == MatchOutside:
		return fmt.Sprintf("outside: maps are for M 1 to %d, N %d to %d and M*N up to %d; %s answers",
			MaxM, MinN, MaxN, MaxElems, b.fallbackName())
	case b.Map == nil && b.analytic.BaseOf != "":
		return b.fallbackName() + ", as no tuned table is given"
	case b.Map == nil:
		return b.fallbackName() + ": no map is for the device"
	case a.Raster == nil:
		return fmt.Sprintf("the map has no cell of %s for it: a config of %s for the whole cell", ClassOf(p),
			b.fallbackName())
	}
	box := a.Raster.Box(a.Line, a.Cell, b.Device.SMs)
	columns := fmt.Sprintf("%d to %d", box.NLo, box.NHi)
	if n := box.Width(); n > 0 {
		columns = fmt.Sprint(n)
	}
	text := fmt.Sprintf("the cell of N %s, M %d to %d of %s, %s", columns, box.MLo, box.MHi, a.Raster.Title(), cmp.Or(evidence[a.Evidence()], "borrowed"))
	if a.Match == MatchMoved {
		text += ", whose own config is refused: that of the nearest cell"
	}
	if n := a.Raster.Problems; n > 0 {
		text += fmt.Sprintf("; the raster has %d measured problems, regret %.1f%%", n, a.Raster.Regret)
	}
	return text
}
