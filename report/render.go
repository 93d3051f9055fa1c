package report

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// drawTable writes a text or markdown table, with title and notes.
func drawTable(w io.Writer, t *Table, format string, l *Layout) error {
	if format == FormatMarkdown {
		l = &Layout{Wide: true} // a page of its own width
	}
	p := l.fit(t)
	var b bytes.Buffer
	l.writeTitle(&b, t.Title, format)
	switch {
	case format == FormatMarkdown:
		p.writeMarkdown(&b)
	case p.stacked:
		b.WriteString(p.stack(l))
	default:
		p.writeText(&b, l)
	}
	l.writeNotes(&b, &p, format)
	_, err := w.Write(b.Bytes())
	return err
}

// writeText writes columns with a line below the header, and headings between the rows.
func (p *sheet) writeText(b *bytes.Buffer, l *Layout) {
	widths := p.widths()
	between := strings.Repeat(" ", gap)
	var rule []string
	for _, w := range widths {
		rule = append(rule, strings.Repeat("─", w))
	}
	write := func(cells []string) {
		b.WriteString(strings.TrimRight(strings.Join(cells, between), " ") + "\n")
	}
	write(p.padded(p.Header, widths))
	if len(p.Rows) > 0 {
		write(rule)
	}
	for i, row := range p.Rows {
		b.WriteString(p.heading(i))
		parts := make([][]string, len(row)) // lines of each cell
		high := 1
		for j, cell := range row {
			parts[j] = strings.Split(cell, "\n")
			high = max(high, len(parts[j]))
		}
		for n := range high {
			cells := make([]string, len(row))
			for j := range parts {
				if n < len(parts[j]) {
					cells[j] = parts[j][n]
				}
			}
			lined := p.padded(cells, widths)
			for j := range lined {
				if n == 0 && l.Color && p.align(j) == Left {
					lined[j] = colorCell(cells[j]) + lined[j][len(cells[j]):]
				}
			}
			write(lined)
		}
	}
}

// writeMarkdown writes the table of a page, whose source has columns too.
func (p *sheet) writeMarkdown(b *bytes.Buffer) {
	for _, row := range p.Rows {
		for j := range row {
			row[j] = unmarked.Replace(row[j])
		}
	}
	widths := p.widths()
	var rule []string
	for j, w := range widths {
		if dashes := strings.Repeat("-", w+1); p.align(j) == Right {
			rule = append(rule, dashes+":")
		} else {
			rule = append(rule, ":"+dashes)
		}
	}
	b.WriteString("| " + strings.Join(p.padded(p.Header, widths), " | ") + " |\n")
	b.WriteString("|" + strings.Join(rule, "|") + "|\n")
	for _, row := range p.Rows {
		b.WriteString("| " + strings.Join(p.padded(row, widths), " | ") + " |\n")
	}
}

// padded are cells as wide as their columns.
func (p *sheet) padded(cells []string, widths []int) []string {
	out := make([]string, len(cells))
	for j, cell := range cells {
		room := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
		if out[j] = cell + room; p.align(j) == Right {
			out[j] = room + cell
		}
	}
	return out
}

func (l *Layout) writeTitle(b *bytes.Buffer, title, format string) {
	if title == "" {
		return
	}
	if format == FormatMarkdown {
		first, rest, _ := strings.Cut(strings.ReplaceAll(title, "<", "&lt;"), "\n")
		b.WriteString("**" + first + "**\n\n")
		if rest != "" {
			b.WriteString(rest + "\n\n")
		}
		return
	}
	for line := range strings.SplitSeq(title, "\n") {
		b.WriteString(l.prose(line) + "\n")
	}
	b.WriteByte('\n')
}

// writeNotes writes what columns mean, the notes, and what was left out.
func (l *Layout) writeNotes(b *bytes.Buffer, p *sheet, format string) {
	var notes []string
	for _, m := range p.Legend {
		if format == FormatText {
			notes = append(notes, m.Column+": "+m.Text)
		}
	}
	notes = append(notes, p.Notes...)
	if len(p.dropped) > 0 {
		left := strings.Join(p.dropped, ", ")
		notes = append(notes, "not shown: "+left+"; --wide shows every column")
	}
	for i, n := range notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		if format == FormatMarkdown {
			item := strings.TrimLeft(n, " ")
			n = n[:len(n)-len(item)] + "- " + unmarkedNote.Replace(item)
		}
		b.WriteString(l.prose(n) + "\n")
	}
}

var unmarkedNote = strings.NewReplacer("~", `\~`, "<", "&lt;")

// unmarked keeps what stands in a cell from being a column or an element of its page.
var unmarked = strings.NewReplacer("|", `\|`, "<", "&lt;")
