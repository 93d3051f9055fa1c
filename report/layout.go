package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"normbench/internal/console"
	"normbench/internal/hint"
)

// DefaultWidth is the width of text that does not go to a terminal.
const DefaultWidth = 100

// A Layout says how tables are shown as text. A Screen has one.
type Layout struct {
	Width   int      // columns of the terminal; 0 is DefaultWidth
	Wide    bool     // all columns, one line per row, whatever the width
	Color   bool     // colour verdicts
	Columns []string // only these columns, in this order; for every format
	// known says that Check found Columns in the first table that the command will print. Such a table
	// may lack some of them when it is printed, as those of stages that no kernel had: they are empty then.
	known bool
	// chosen: a table with all of Columns was there, so later ones may lack them.
	chosen bool
}

// A Screen is a writer that knows how tables look in it.
type Screen struct {
	io.Writer
	Layout Layout
	Tool   string // version of normbench, for json
}

// A Group is how text puts rows of one kind under a heading.
type Group struct {
	Of   func(row []string) (heading, first string) // first is the first cell below that heading
	Hide []string                                   // columns that the heading replaces
}

// ByProblem groups rows by what their first cell, a problem, computes: its text without the shape, as
// rmsnorm/fwd/bf16+residual. The first cell below is the shape.
var ByProblem = &Group{Of: func(row []string) (string, string) {
	parts := strings.SplitN(row[0], "/", 4)
	if len(parts) < 4 {
		return "", row[0]
	}
	return parts[0] + "/" + parts[1] + "/" + parts[3], parts[2]
}}

// A sheet is a table that fits a layout. A row with an empty first cell belongs to the one before,
// and long cells go on in further rows.
type sheet struct {
	*Table
	headings []string // above each row; "" where it is the one of the row before
	dropped  []string // columns left out for the width
	stacked  bool     // a row to a line does not fit
}

// Check refuses Columns that t does not have, which is the first table that a command prints in a
// format, before it has rows. A star in a name stands for names that the rows bring.
func (l *Layout) Check(t *Table, format string) error {
	t = t.forFormat(format)
	names := slices.Concat(t.Header, t.alias)
	if t.named != nil {
		names = append(names, t.named.Header...)
	}
	for _, name := range l.Columns {
		if !slices.ContainsFunc(names, func(h string) bool {
			ok, _ := path.Match(strings.ToLower(h), strings.ToLower(strings.TrimSpace(name)))
			return ok || isColumn(h, name)
		}) {
			return noColumn(t, name)
		}
	}
	l.known = true
	return nil
}

func isColumn(header, name string) bool {
	return header != "" && strings.EqualFold(header, strings.TrimSpace(name))
}

// names returns the columns' names in csv and json, which --columns takes in every format, and others what people
// see above the same columns. A name is "" where people see what csv and json do not have.
func (t *Table) names() (names, others []string) {
	if t.data || t.alias == nil {
		return t.Header, t.alias
	}
	return t.alias, t.Header
}

func noColumn(t *Table, name string) error {
	names, _ := t.names()
	if t.named != nil {
		names = t.named.Header
	}
	return hint.Errorf("the columns are "+strings.Join(names, ", "), "no column %q", name)
}

// find returns the column of t that a name stands for: its name in csv and json, or what people see above it. A column
// that people do not see is added to t. It is negative where there is none.
func (t *Table) find(name string) int {
	column := func(h string) bool { return isColumn(h, name) }
	names, others := t.names()
	if i := slices.IndexFunc(names, column); i >= 0 {
		return i
	}
	if t.named != nil {
		if i := slices.IndexFunc(t.named.Header, column); i >= 0 {
			for len(t.Align) < len(t.Header) {
				t.Align = append(t.Align, Left)
			}
			t.Header, t.alias = append(t.Header, t.named.Header[i]), append(t.alias, t.named.Header[i])
			t.Align = append(t.Align, t.named.align(i))
			for k := range t.Rows {
				t.Rows[k] = append(t.Rows[k], t.named.Rows[k][i])
			}
			return len(t.Header) - 1
		}
	}
	return slices.IndexFunc(others, column)
}

// asksData says whether Columns are names that only the rows for csv and json have.
func (l *Layout) asksData(t *Table) bool {
	data, missing := t.forFormat(FormatCSV), false
	for _, name := range l.Columns {
		if data.find(name) < 0 {
			return false
		}
		missing = missing || t.find(name) < 0
	}
	return missing
}

// choose is t with the columns of --columns only. The first table must have them all; a
// later one that lacks any is another kind of table and stays as it is.
func (l *Layout) choose(t *Table) (*Table, error) {
	if len(l.Columns) == 0 {
		return t, nil
	}
	var keep []int
	c := *t.pick(t.allColumns()) // find adds columns
	for _, name := range l.Columns {
		i := c.find(name)
		switch {
		case i < 0 && l.chosen:
			return t, nil
		case i < 0 && !l.known:
			return nil, noColumn(t, name)
		case i < 0: // as of a stage that no kernel has
			i = len(c.Header)
			c.Header = append(c.Header, strings.TrimSpace(name))
			if c.alias != nil {
				c.alias = append(c.alias, "")
			}
		}
		keep = append(keep, i)
	}
	l.chosen = true
	if c.Header[keep[0]] == "problem" {
		c.Group = ByProblem
	} else if keep[0] != 0 || t.Group != nil && len(t.Group.Hide) > 0 {
		c.Group = nil
	}
	c.Drop = nil
	return c.pick(keep), nil
}

// width is how many columns there are for text.
func (l *Layout) width() int { return cmp.Or(l.Width, DefaultWidth) }

// fit lays a table out: its rows under headings, without empty columns, and without those of
// t.Drop, first to last, until it fits with long text wrapped. Then the widest text columns wrap.
func (l *Layout) fit(t *Table) sheet {
	p := sheet{Table: t.pick(t.allColumns()), stacked: t.Below != nil}
	if l.Wide || p.stacked {
		return p
	}
	if t.Group != nil {
		p.group(t.Group)
	}
	var empty []string
	for i, h := range p.Header {
		if i > 0 && len(p.Rows) > 0 && p.empty(i) {
			empty = append(empty, h)
		}
	}
	p.leaveOut(empty...)
	for _, names := range t.Drop {
		if sum(p.wrappedWidths()) <= l.width() {
			break
		}
		for name := range strings.SplitSeq(names, ",") {
			if slices.Contains(p.Header, name) {
				p.leaveOut(name)
				p.dropped = append(p.dropped, name)
			}
		}
	}
	p.stacked = !p.wrap(l.width())
	return p
}

// group puts the rows under headings, unless there are too few to need any.
func (p *sheet) group(g *Group) {
	heads, rows := g.headings(p.Rows)
	if runs := slices.Compact(slices.Clone(heads)); len(rows) < 3*len(runs) {
		return
	}
	p.Rows = rows
	p.leaveOut(g.Hide...)
	for i, h := range heads {
		if i > 0 && h == heads[i-1] {
			h = ""
		}
		p.headings = append(p.headings, h)
	}
}

// leaveOut takes columns out.
func (p *sheet) leaveOut(names ...string) {
	p.Table = p.pick(slices.DeleteFunc(p.allColumns(),
		func(i int) bool { return slices.Contains(names, p.Header[i]) }))
}

// stack is a table that is too wide for its layout: each row is its first cell, with a line for
// each other cell below it.
func (p *sheet) stack(l *Layout) string {
	var b strings.Builder
	name, width := 0, l.width()
	if l.Wide {
		width = math.MaxInt32
	}
	for _, h := range p.Header[1:] {
		name = max(name, utf8.RuneCountInString(h))
	}
	for i, row := range p.Rows {
		if b.WriteString(p.heading(i)); i > 0 && p.Below != nil {
			b.WriteString("\n")
		}
		if row[0] != "" {
			b.WriteString(strings.Join(console.Wrap(row[0], width), "\n") + "\n")
		}
		for k, h := range p.Header[1:] {
			for n, part := range console.Wrap(row[k+1], max(width-name-2*gap, 10)) {
				if part == "" {
					continue
				}
				if n > 0 {
					h = ""
				}
				if l.Color && p.align(k+1) == Left {
					part = colorCell(part)
				}
				fmt.Fprintf(&b, "%*s%-*s%*s%s\n", gap, "", name, h, gap, "", part)
			}
		}
		if p.Below != nil {
			for _, line := range p.Below[i] {
				fmt.Fprintf(&b, "%*s%s\n", gap, "", line)
			}
		}
	}
	return b.String()
}

// heading is the heading above a row, if it has one.
func (p *sheet) heading(row int) string {
	switch {
	case row >= len(p.headings) || p.headings[row] == "":
		return ""
	case row == 0:
		return p.headings[row] + "\n"
	}
	return "\n" + p.headings[row] + "\n"
}

// headings are the headings of the rows, and the rows below them.
func (g *Group) headings(rows [][]string) (heads []string, short [][]string) {
	for i, row := range rows {
		row = slices.Clone(row)
		if row[0] == "" && i > 0 {
			heads = append(heads, heads[i-1])
		} else {
			head, first := g.Of(row)
			heads, row[0] = append(heads, head), first
		}
		short = append(short, row)
	}
	return heads, short
}

const gap = 2 // spaces between columns

func (p *sheet) widths() []int {
	w := make([]int, len(p.Header))
	for i, h := range p.Header {
		w[i] = utf8.RuneCountInString(h)
		for _, row := range p.Rows {
			for line := range strings.SplitSeq(row[i], "\n") {
				w[i] = max(w[i], utf8.RuneCountInString(line))
			}
		}
	}
	return w
}

// wrappedWidths are the widths where long text wraps, which is better than to leave a column out.
func (p *sheet) wrappedWidths() []int {
	w, most := p.widths(), 26
	if p.Tight {
		most = leastWidth
	}
	for i := range w {
		if p.align(i) == Left {
			w[i] = min(w[i], max(most, utf8.RuneCountInString(p.Header[i])))
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

// leastWidth is what no text column is made narrower than.
const leastWidth = 20

// wrap makes the widest text columns narrower, none below leastWidth, until the table fits, and breaks
// their cells into lines. It is false where that does not help.
func (p *sheet) wrap(width int) bool {
	w := p.widths()
	for sum(w) > width {
		widest := -1
		for i := range w {
			if p.align(i) == Left && w[i] > leastWidth && (widest < 0 || w[i] > w[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // words may still break so that it fits
		}
		w[widest] = max(leastWidth, w[widest]-max(1, min(sum(w)-width, w[widest]/4)))
	}
	whole := p.Rows
	p.Rows = nil
	for _, row := range whole {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = strings.Join(console.Wrap(c, max(w[i], 1)), "\n")
		}
		p.Rows = append(p.Rows, cells)
	}
	if sum(p.widths()) > width {
		p.Rows = whole
		return false
	}
	return true
}

// wrapLine wraps a title's or note's line to the width; what goes on is indented by two more.
func (l *Layout) wrapLine(text string) string {
	width := l.width()
	if l.Wide || utf8.RuneCountInString(text) <= width {
		return text
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return indent + strings.Join(console.Wrap(text, max(20, width-len(indent)-2)), "\n"+indent+"  ")
}

// classes say what verdicts are: good, bad, or open.
var classes = map[string]string{
	"FASTER": "good", "ok": "good", "SAME": "same", "=": "same",
	"INCONCLUSIVE": "open", "SLOWER": "bad", "FAILED": "bad",
	"WRONG": "bad", "CRASH": "bad", "HANG": "bad", "wrong:": "bad",
}

// cellClass is the class of a cell that begins with a verdict, or with a status such as TIMEOUT:
// and its reason.
func cellClass(cell string) string {
	first, _, _ := strings.Cut(cell, " ")
	if class := classes[first]; class != "" || len(first) < 4 || !strings.HasSuffix(first, ":") ||
		strings.ToUpper(first) != first {
		return class
	}
	return "bad"
}

// colorCell is a text cell with its colour, if it begins with a verdict.
func colorCell(cell string) string {
	first, rest, more := strings.Cut(cell, "\n")
	if c := map[string]string{"good": "32", "bad": "31", "open": "33"}[cellClass(first)]; c != "" {
		first = "\x1b[" + c + "m" + first + "\x1b[0m"
	}
	if more {
		first += "\n" + rest
	}
	return first
}
