package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"normbench/internal/console"
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

// A printout is what a command prints for people, laid out: its tables, and what they come to.
type printout struct {
	sheets []*sheet
	end    string
}

// A sheet is a table laid out: what stands above and below it is text, its cells are lines that fit, coloured or
// escaped, and all that is left is to draw its columns. A row with an empty first cell belongs to the one before.
type sheet struct {
	*Table
	above, below string
	headings     []string // above each row, with its line ends; "" where it is the one of the row before
	dropped      []string // columns left out for the width
	stacked      bool     // a row to a line does not fit:
	lines        string   // this stands in the place of header and rows
}

// layOut lays out tables and their ending, once, in text or Markdown.
func (l *Layout) layOut(format string, end Ending, tables []*Table) *printout {
	if format == FormatMarkdown {
		l = &Layout{Wide: true} // a page of its own width
	}
	p := &printout{end: l.ending(end, format)}
	for _, t := range tables {
		p.sheets = append(p.sheets, l.sheet(t, format))
	}
	return p
}

func (l *Layout) sheet(t *Table, format string) *sheet {
	s := &sheet{Table: t, stacked: t.Below != nil && format == FormatText}
	if !l.Wide && !s.stacked {
		l.fit(s)
	}
	s.above = l.outcome(t.Outcome, format) + l.title(t.Title, format)
	if s.stacked {
		s.lines = s.stack(l)
	} else {
		s.finish(l, format)
	}
	var notes []string
	for _, m := range s.Legend {
		if format == FormatText {
			notes = append(notes, m.Column+": "+m.Text)
		}
	}
	notes = append(notes, s.Notes...)
	if len(s.dropped) > 0 {
		notes = append(notes, "not shown: "+strings.Join(s.dropped, ", ")+"; --wide shows every column")
	}
	s.below = l.notes(notes, format)
	return s
}

// width is how many columns there are for text.
func (l *Layout) width() int { return cmp.Or(l.Width, DefaultWidth) }

// fit puts a sheet's rows under headings. It takes out empty columns, and those of Drop, first to last, until the rest
// fits with long text wrapped. Then the widest text columns wrap.
func (l *Layout) fit(s *sheet) {
	if s.Group != nil {
		s.group(s.Group)
	}
	var empty []string
	for i, h := range s.Header {
		if i > 0 && len(s.Rows) > 0 && s.empty(i) {
			empty = append(empty, h)
		}
	}
	s.leaveOut(empty...)
	for _, names := range s.Drop {
		if sum(s.wrappedWidths()) <= l.width() {
			break
		}
		for name := range strings.SplitSeq(names, ",") {
			if slices.Contains(s.Header, name) {
				s.leaveOut(name)
				s.dropped = append(s.dropped, name)
			}
		}
	}
	s.stacked = !s.wrap(l.width())
}

// finish colours cells on a terminal, and escapes them in Markdown.
func (s *sheet) finish(l *Layout, format string) {
	rows := make([][]string, len(s.Rows))
	for i, row := range s.Rows {
		rows[i] = slices.Clone(row)
		for j, c := range row {
			if format == FormatMarkdown {
				rows[i][j] = unmarked.Replace(c)
			} else if l.Color && s.align(j) == Left {
				rows[i][j] = colorCell(c)
			}
		}
	}
	s.Rows = rows
}

// group puts the rows under headings, unless there are too few to need any.
func (s *sheet) group(g *Group) {
	heads, rows := g.headings(s.Rows)
	if runs := slices.Compact(slices.Clone(heads)); len(rows) < 3*len(runs) {
		return
	}
	s.Rows = rows
	s.leaveOut(g.Hide...)
	for i, h := range heads {
		switch {
		case h == "" || i > 0 && h == heads[i-1]:
			h = ""
		case i > 0:
			h = "\n" + h + "\n"
		default:
			h += "\n"
		}
		s.headings = append(s.headings, h)
	}
}

// leaveOut takes columns out.
func (s *sheet) leaveOut(names ...string) {
	s.Table = s.pick(slices.DeleteFunc(s.allColumns(),
		func(i int) bool { return slices.Contains(names, s.Header[i]) }))
}

// stack is a table that is too wide for its layout: each row is its first cell, with a line for
// each other cell below it.
func (s *sheet) stack(l *Layout) string {
	var b strings.Builder
	name, width := 0, l.width()
	if l.Wide {
		width = math.MaxInt32
	}
	for _, h := range s.Header[1:] {
		name = max(name, utf8.RuneCountInString(h))
	}
	for i, row := range s.Rows {
		if s.headings != nil {
			b.WriteString(s.headings[i])
		}
		if i > 0 && s.Below != nil {
			b.WriteString("\n")
		}
		if row[0] != "" {
			b.WriteString(broken(row[0], width) + "\n")
		}
		for k, h := range s.Header[1:] {
			for part := range strings.SplitSeq(broken(row[k+1], max(width-name-2*gap, 10)), "\n") {
				if part == "" {
					continue
				}
				if l.Color && s.align(k+1) == Left {
					part = colorCell(part)
				}
				fmt.Fprintf(&b, "%*s%-*s%*s%s\n", gap, "", name, h, gap, "", part)
				h = ""
			}
		}
		if s.Below != nil {
			for _, line := range s.Below[i] {
				fmt.Fprintf(&b, "%*s%s\n", gap, "", line)
			}
		}
	}
	return b.String()
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

func (s *sheet) widths() []int {
	w := make([]int, len(s.Header))
	for i, h := range s.Header {
		w[i] = utf8.RuneCountInString(h)
		for _, row := range s.Rows {
			for line := range strings.SplitSeq(row[i], "\n") {
				w[i] = max(w[i], utf8.RuneCountInString(line))
			}
		}
	}
	return w
}

// wrappedWidths are the widths where long text wraps, which is better than to leave a column out.
func (s *sheet) wrappedWidths() []int {
	w, most := s.widths(), 26
	if s.Tight {
		most = leastWidth
	}
	for i := range w {
		if s.align(i) == Left {
			w[i] = min(w[i], max(most, utf8.RuneCountInString(s.Header[i])))
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
func (s *sheet) wrap(width int) bool {
	w := s.widths()
	for sum(w) > width {
		widest := -1
		for i := range w {
			if s.align(i) == Left && w[i] > leastWidth && (widest < 0 || w[i] > w[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // words may still break so that it fits
		}
		w[widest] = max(leastWidth, w[widest]-max(1, min(sum(w)-width, w[widest]/4)))
	}
	whole := s.Rows
	s.Rows = nil
	for _, row := range whole {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = broken(c, max(w[i], 1))
		}
		s.Rows = append(s.Rows, cells)
	}
	if sum(s.widths()) > width {
		s.Rows = whole
		return false
	}
	return true
}

// broken breaks a text into lines of a width.
func broken(text string, width int) string { return strings.Join(console.Wrap(text, width), "\n") }

// wrapLine wraps a title's or note's line to the width; what goes on is indented by two more.
func (l *Layout) wrapLine(text string) string {
	width := l.width()
	if l.Wide || utf8.RuneCountInString(text) <= width {
		return text
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return indent + strings.ReplaceAll(broken(text, max(20, width-len(indent)-2)), "\n", "\n"+indent+"  ")
}

// outcome returns the text of a gate's outcome above all else: "" without one. One without a kind is a sentence.
func (l *Layout) outcome(o *GateOutcome, format string) string {
	if o == nil {
		return ""
	}
	head := o.Reason
	if o.Kind != "" {
		head = o.String()
	}
	if head == "" {
		return ""
	}
	if format == FormatMarkdown {
		head = "### " + unmarkedNote.Replace(head)
	} else {
		head = l.outcomeColor(o, l.wrapLine(head))
	}
	return head + "\n" + l.notes(o.lines(), format) + "\n"
}

// outcomeColor colours a headline as the verdicts are.
func (l *Layout) outcomeColor(o *GateOutcome, text string) string {
	color := map[string]string{"PASS": "32", "FAIL": "31", "UNDECIDED": "33"}[o.Kind.Word()]
	if !l.Color || o.Kind == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// title returns the lines above a table.
func (l *Layout) title(title, format string) string {
	if title == "" {
		return ""
	}
	if format == FormatMarkdown {
		first, rest, _ := strings.Cut(strings.ReplaceAll(title, "<", "&lt;"), "\n")
		if rest != "" {
			rest += "\n\n"
		}
		return "**" + first + "**\n\n" + rest
	}
	var b strings.Builder
	for line := range strings.SplitSeq(title, "\n") {
		b.WriteString(l.wrapLine(line) + "\n")
	}
	return b.String() + "\n"
}

// notes returns the lines below a table, behind an empty one.
func (l *Layout) notes(notes []string, format string) string {
	var b strings.Builder
	for i, n := range notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		if format == FormatMarkdown {
			item := strings.TrimLeft(n, " ")
			n = n[:len(n)-len(item)] + "- " + unmarkedNote.Replace(item)
		}
		b.WriteString(l.wrapLine(n) + "\n")
	}
	return b.String()
}

// ending returns the lines below the last table.
func (l *Layout) ending(end Ending, format string) string {
	var b strings.Builder
	for _, line := range []struct{ word, text string }{{"found", end.Found}, {"next", end.Next}} {
		text := strings.Join(strings.Fields(line.text), " ")
		switch {
		case text == "":
		case format == FormatMarkdown:
			fmt.Fprintf(&b, "\n**%s:** %s\n", line.word, unmarkedNote.Replace(text))
		default:
			if b.Len() == 0 {
				b.WriteByte('\n')
			}
			b.WriteString(l.wrapLine(line.word+": "+text) + "\n")
		}
	}
	return b.String()
}

var unmarkedNote = strings.NewReplacer("~", `\~`, "<", "&lt;")

// unmarked keeps what stands in a cell from being a column or an element of its page.
var unmarked = strings.NewReplacer("|", `\|`, "<", "&lt;")

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
