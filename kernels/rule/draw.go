package rule

import (
	"cmp"
	"fmt"
	"strings"

	"normbench/kernels"
)

// Size of a drawn neighbourhood, in cells on each side of the pick.
const (
	drawLines = 3
	drawCells = 5
)

// Draw is the neighbourhood of an answer by lines: the letters around it with the pick in brackets, then the configs of the letters. It is
// nil where the map has no such cell.
func (b *Book) Draw(a Answer) (lines []string) {
	r := a.Raster
	if r == nil {
		return nil
	}
	lo, hi := max(a.Cell-drawCells, 0), min(a.Cell+drawCells+1, len(r.Rows))
	head := fmt.Sprintf("%6s", "N \\ M")
	for j := lo; j < hi; j++ {
		head += fmt.Sprintf(" %7d", r.Rows[j].Last(b.Device.SMs))
	}
	lines = append(lines, head)
	used := []byte{}
	for i := max(a.Line-drawLines, 0); i < min(a.Line+drawLines+1, len(r.Lines)); i++ {
		text := fmt.Sprintf("%6d", r.Lines[i].From)
		for j := lo; j < hi; j++ {
			letter := r.Lines[i].Cells[j]
			if i == a.Line && j == a.Cell {
				text += fmt.Sprintf("     [%c]", letter)
			} else {
				text += fmt.Sprintf(" %6c ", letter)
			}
			if letter != Nothing && !strings.ContainsRune(string(used), rune(letter)) {
				used = append(used, letter)
			}
		}
		lines = append(lines, strings.TrimRight(text, " "))
	}
	for _, letter := range used {
		lines = append(lines, fmt.Sprintf("%c = %s", letter, r.Legend[letterOf(letter)]))
	}
	return lines
}

// Neighbours are the configs of the cells around an answer's that are not its own, each once.
func (r *Raster) Neighbours(line, cell int) (list []kernels.Variant) {
	own, _ := r.Pick(line, cell)
	seen := map[kernels.Variant]bool{own: true}
	for _, d := range [][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}} {
		i, j := line+d[0], cell+d[1]
		if i < 0 || j < 0 || i >= len(r.Lines) || j >= len(r.Rows) {
			continue
		}
		if v, ok := r.Pick(i, j); ok && !seen[v] {
			seen[v] = true
			list = append(list, v)
		}
	}
	return list
}

// Why says what the book's answer for a problem rests on.
func (b *Book) Why(p kernels.Problem, a *Answer) string {
	switch {
	case a.Match == MatchOutside:
		return fmt.Sprintf("outside: maps are for M 1 to %d, N %d to %d and M*N up to %d; the analytic base answers",
			MaxM, MinN, MaxN, MaxElems)
	case b.Map == nil:
		return "the analytic base: no map is for the device"
	case a.Raster == nil:
		return fmt.Sprintf("the map has no cell of %s for it: the analytic base's config for the whole cell", ClassOf(p))
	}
	rests := map[byte]string{Measured: "measured there", Neighbour: "measured in cells nearby", ByHand: "written by hand"}
	nLo, nHi, mLo, mHi := a.Raster.Span(a.Line, a.Cell, b.Device.SMs)
	text := fmt.Sprintf("the cell of N %d to %d, M %d to %d of %s, %s", nLo, nHi, mLo, mHi, a.Raster.Title(),
		cmp.Or(rests[a.Evidence()], "borrowed"))
	if a.Match == MatchMoved {
		text += ", whose own config is refused: that of the nearest cell"
	}
	if n := a.Raster.Problems; n > 0 {
		text += fmt.Sprintf("; the raster has %d measured problems, regret %.1f%%", n, a.Raster.Regret)
	}
	return text
}
