package report

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"normbench/internal/hint"
)

// DefaultWidth is the width of text that does not go to a terminal.
const DefaultWidth = 100

// A Layout says how tables are shown as text. A writer that has one is a LayoutWriter.
type Layout struct {
	Width   int      // columns of the terminal; 0 is DefaultWidth
	Wide    bool     // all columns, one line per row, whatever the width
	Color   bool     // colour verdicts and marks
	Columns []string // only these columns, in this order; for every format
	// known: Columns are those of the first table, as Check found. It may lack some that its kind has.
	known bool
	// chosen: a table with all of Columns was there, so later ones may lack them.
	chosen bool
}

// A LayoutWriter is a writer that knows how tables look in it.
type LayoutWriter interface {
	io.Writer
	Layout() *Layout
}

func layoutOf(w io.Writer) *Layout {
	if l, ok := w.(LayoutWriter); ok && l.Layout() != nil {
		return l.Layout()
	}
	return &Layout{}
}

// A Group is how text puts rows of one kind under a heading.
type Group struct {
	Of   func(row []string) (heading, first string) // first is the first cell below that heading
	Hide []string                                   // columns that the heading replaces
}

// ByProblem groups rows by what their first cell, a problem, computes: the rest is its shape.
var ByProblem = &Group{Of: func(row []string) (string, string) {
	parts := strings.SplitN(row[0], "/", 4)
	if len(parts) < 4 {
		return "", row[0]
	}
	return parts[0] + " " + parts[1] + " " + parts[3], parts[2]
}}

// A line is a row as text has it: a row with an empty first cell belongs to the one before,
// and long cells go on in further lines.
type line struct {
	heading string // above it; "" where it is the one of the line before
	cells   []string
}

// A sheet is a table that fits a layout.
type sheet struct {
	header  []string
	aligns  []Align
	lines   []line
	dropped []string // columns left out for the width
	stacked bool     // a row to a line does not fit
}

// pick keeps the columns that keep says yes to.
func pick[T any](list []T, keep []int) []T {
	out := make([]T, 0, len(keep))
	for _, i := range keep {
		out = append(out, list[i])
	}
	return out
}

// Check refuses Columns that t does not have, which is the first table that a command prints in a
// format, before it has rows. A star in a header stands for names that the rows bring.
func (l *Layout) Check(t *Table, format string) error {
	t = t.in(format)
	for _, name := range l.Columns {
		if !slices.ContainsFunc(t.Header, func(h string) bool {
			ok, _ := path.Match(strings.ToLower(h), strings.ToLower(strings.TrimSpace(name)))
			return ok || isColumn(h, name)
		}) {
			return noColumn(t, name)
		}
	}
	l.known = true
	return nil
}

func isColumn(header, name string) bool { return strings.EqualFold(header, strings.TrimSpace(name)) }

func noColumn(t *Table, name string) error {
	return hint.Errorf("the columns are "+strings.Join(named(t.Header), ", "), "no column %q", name)
}

// choose is t with the columns of --columns only. The first table must have them all; a
// later one that lacks any is another kind of table and stays as it is.
func (l *Layout) choose(t *Table, rows [][]string) (*Table, [][]string, error) {
	if len(l.Columns) == 0 {
		return t, rows, nil
	}
	var keep []int
	c := *t
	for _, name := range l.Columns {
		i := slices.IndexFunc(c.Header, func(h string) bool { return isColumn(h, name) })
		if i < 0 && l.chosen {
			return t, rows, nil
		}
		if i < 0 && !l.known {
			return nil, nil, noColumn(t, name)
		}
		if i < 0 { // as of a stage that no kernel has
			i = len(c.Header)
			c.Header = append(slices.Clip(c.Header), strings.TrimSpace(name))
		}
		keep = append(keep, i)
	}
	l.chosen = true
	header := c.Header
	c.Header, c.Align, c.Drop = pick(header, keep), nil, nil
	if keep[0] != 0 || t.Group != nil && len(t.Group.Hide) > 0 {
		c.Group = nil
	}
	for _, i := range keep {
		c.Align = append(c.Align, t.align(i))
	}
	chosen := make([][]string, len(rows))
	for i, row := range rows {
		chosen[i] = pick(append(slices.Clip(row), make([]string, len(header)-len(row))...), keep)
	}
	return &c, chosen, nil
}

func named(header []string) []string {
	return slices.DeleteFunc(slices.Clone(header), func(h string) bool { return h == "" })
}

// fit lays a table out: its rows under headings, without empty columns, and without those of
// t.Drop, first to last, until it fits with long text wrapped. Then the widest text columns wrap.
func (l *Layout) fit(t *Table, rows [][]string) sheet {
	p := sheet{header: slices.Clone(t.Header)}
	for i := range p.header {
		p.aligns = append(p.aligns, t.align(i))
	}
	var headings []string
	if !l.Wide && t.Group != nil {
		headings, rows = t.Group.headings(rows)
	}
	for i, row := range rows {
		p.lines = append(p.lines, line{cells: row})
		if headings != nil && (i == 0 || headings[i] != headings[i-1]) {
			p.lines[i].heading = headings[i]
		}
	}
	if l.Wide {
		return p
	}
	p.keep(func(i int) bool {
		if headings != nil && slices.Contains(t.Group.Hide, p.header[i]) {
			return false
		}
		return i == 0 || len(rows) == 0 || slices.ContainsFunc(rows, func(r []string) bool { return r[i] != "" })
	})
	width := l.Width
	if width == 0 {
		width = DefaultWidth
	}
	for _, names := range t.Drop {
		if sum(p.wrapped()) <= width {
			break
		}
		for name := range strings.SplitSeq(names, ",") {
			if at := slices.Index(p.header, name); at >= 0 {
				p.keep(func(i int) bool { return i != at })
				p.dropped = append(p.dropped, name)
			}
		}
	}
	whole := slices.Clone(p.lines)
	p.wrap(width)
	p.stacked = sum(p.widths()) > width
	if p.stacked {
		p.lines = whole
	}
	return p
}

// stack is a table that is too wide for its layout: each row is its first cell, with a line for each other
// cell below it.
func (p *sheet) stack(l *Layout) string {
	width := cmp.Or(l.Width, DefaultWidth)
	var b strings.Builder
	name := 0
	for _, h := range p.header[1:] {
		name = max(name, utf8.RuneCountInString(h))
	}
	for i, row := range p.lines {
		if row.heading != "" {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(row.heading + "\n")
		}
		if row.cells[0] != "" {
			b.WriteString(strings.Join(Wrap(row.cells[0], width), "\n") + "\n")
		}
		for k, h := range p.header[1:] {
			for n, part := range Wrap(row.cells[k+1], max(width-name-2*gap, 10)) {
				if part == "" {
					continue
				}
				if n > 0 {
					h = ""
				}
				if l.Color && p.aligns[k+1] == Left {
					part = colored(part)
				}
				fmt.Fprintf(&b, "%*s%-*s%*s%s\n", gap, "", name, h, gap, "", part)
			}
		}
	}
	return b.String()
}

// headings are the headings of the rows, and the rows below them; nil where there are too few
// rows for them.
func (g *Group) headings(rows [][]string) ([]string, [][]string) {
	heads, short := make([]string, len(rows)), make([][]string, len(rows))
	groups := 0
	for i, row := range rows {
		short[i] = slices.Clone(row)
		if row[0] == "" && i > 0 {
			heads[i] = heads[i-1]
			continue
		}
		heads[i], short[i][0] = g.Of(row)
		if i == 0 || heads[i] != heads[i-1] {
			groups++
		}
	}
	if len(rows) < 3*groups {
		return nil, rows
	}
	return heads, short
}

func (p *sheet) keep(yes func(int) bool) {
	var keep []int
	for i := range p.header {
		if yes(i) {
			keep = append(keep, i)
		}
	}
	p.header, p.aligns = pick(p.header, keep), pick(p.aligns, keep)
	for i := range p.lines {
		p.lines[i].cells = pick(p.lines[i].cells, keep)
	}
}

const gap = 2 // spaces between columns

func (p *sheet) widths() []int {
	w := make([]int, len(p.header))
	for i, h := range p.header {
		w[i] = utf8.RuneCountInString(h)
		for _, l := range p.lines {
			w[i] = max(w[i], utf8.RuneCountInString(l.cells[i]))
		}
	}
	return w
}

// wrapped are the widths where long text wraps, which is better than to leave a column out.
func (p *sheet) wrapped() []int {
	const most = 26
	w := p.widths()
	for i := range w {
		if p.aligns[i] == Left {
			w[i] = min(w[i], max(most, utf8.RuneCountInString(p.header[i])))
		}
	}
	return w
}

// sum is the width of a table with such columns.
func sum(widths []int) int {
	n := -gap
	for _, w := range widths {
		n += w + gap
	}
	return n
}

// wrap makes the widest text columns narrower, none below 20, until the table fits.
func (p *sheet) wrap(width int) {
	const least = 20
	w := p.widths()
	limit := map[int]int{}
	for sum(w) > width {
		widest := -1
		for i := range w {
			if p.aligns[i] == Left && w[i] > least && (widest < 0 || w[i] > w[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		w[widest] = max(least, w[widest]-max(1, min(sum(w)-width, w[widest]/4)))
		limit[widest] = w[widest]
	}
	if len(limit) == 0 {
		return
	}
	var lines []line
	for _, l := range p.lines {
		parts, high := make([][]string, len(l.cells)), 1
		for i, c := range l.cells {
			parts[i] = []string{c}
			if n, ok := limit[i]; ok {
				parts[i] = Wrap(c, n)
			}
			high = max(high, len(parts[i]))
		}
		for k := range high {
			next := line{cells: make([]string, len(l.cells))}
			if k == 0 {
				next.heading = l.heading
			}
			for i := range parts {
				if k < len(parts[i]) {
					next.cells[i] = parts[i][k]
				}
			}
			lines = append(lines, next)
		}
	}
	p.lines = lines
}

// Wrap breaks text into lines of at most width runes: between words, and a longer word behind
// one of its marks if it has any.
func Wrap(text string, width int) []string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(text) {
		if current != "" && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width {
			current += " " + word
			continue
		}
		if current != "" {
			lines = append(lines, current)
		}
		for utf8.RuneCountInString(word) > width {
			r := []rune(word)
			at := width
			if i := strings.LastIndexAny(string(r[:width]), "/@.,=-_"); i > 0 {
				at = utf8.RuneCountInString(string(r[:width])[:i]) + 1
			}
			lines = append(lines, string(r[:at]))
			word = string(r[at:])
		}
		current = word
	}
	if current != "" || len(lines) == 0 {
		lines = append(lines, current)
	}
	return lines
}

// prose is a title's or note's line within the width; what goes on is indented by two more.
func (l *Layout) prose(text string) string {
	width := l.Width
	if width == 0 {
		width = DefaultWidth
	}
	if l.Wide || utf8.RuneCountInString(text) <= width {
		return text
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return indent + strings.Join(Wrap(text, max(20, width-len(indent)-2)), "\n"+indent+"  ")
}

// classes say what verdicts and marks are: good, bad, or open.
var classes = map[string]string{
	"FASTER": "good", "+": "good", "ok": "good", "SAME": "same", "=": "same", "INCONCLUSIVE": "open", "?": "open",
	"SLOWER": "bad", "-": "bad", "FAILED": "bad", "WRONG": "bad", "CRASH": "bad", "HANG": "bad", "wrong:": "bad",
}

// cellClass is the class of a cell that begins with a verdict, or with a status such as TIMEOUT: and its reason.
func cellClass(cell string) string {
	first, _, _ := strings.Cut(cell, " ")
	if class := classes[first]; class != "" || len(first) < 4 || !strings.HasSuffix(first, ":") || strings.ToUpper(first) != first {
		return class
	}
	return "bad"
}

// colored is a text cell with its colour, if it begins with a verdict.
func colored(cell string) string {
	if c := map[string]string{"good": "32", "bad": "31", "open": "33"}[cellClass(cell)]; c != "" {
		return "\x1b[" + c + "m" + cell + "\x1b[0m"
	}
	return cell
}
