package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// drawTable writes a text or markdown table, with title and notes. All that the
// tool shares with the table library is in this file.
func drawTable(w io.Writer, t *Table, format string, l *Layout) error {
	if format == FormatMarkdown {
		l = &Layout{Wide: true} // a page of its own width
	}
	p := l.fit(t)
	p.stacked = p.stacked && format == FormatText
	drawn, err := p.grid(format, l)
	if err != nil {
		return fmt.Errorf("table %q: %w", t.Title, err)
	}
	var b bytes.Buffer
	if t.Outcome != nil {
		l.writeOutcome(&b, t.Outcome, format)
	}
	l.writeTitle(&b, t.Title, format)
	if p.stacked {
		b.WriteString(p.stack(l))
	} else {
		p.writeGrid(&b, drawn)
	}
	l.writeNotes(&b, &p, format)
	_, err = w.Write(b.Bytes())
	return err
}

// writeGrid writes a drawn table, with its headings between the rows.
func (p *sheet) writeGrid(b *bytes.Buffer, drawn string) {
	lines := slices.Collect(strings.Lines(drawn))
	write := func(n int) {
		n = min(n, len(lines))
		for _, line := range lines[:n] {
			b.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		lines = lines[n:]
	}
	write(2) // the header and its line
	for i, row := range p.Rows {
		high := 1
		for _, c := range row {
			high = max(high, 1+strings.Count(c, "\n"))
		}
		b.WriteString(p.heading(i))
		write(high)
	}
}

// grid is the header and the rows as the table library draws them.
func (p *sheet) grid(format string, l *Layout) (string, error) {
	var aligns []tw.Align
	for i := range p.Header {
		aligns = append(aligns, tw.AlignLeft)
		if p.align(i) == Right {
			aligns[i] = tw.AlignRight
		}
	}
	grid := make([][]string, len(p.Rows))
	for i, row := range p.Rows {
		grid[i] = slices.Clone(row)
		for j, c := range row {
			if format == FormatMarkdown {
				grid[i][j] = unmarked.Replace(c)
			} else if l.Color && p.align(j) == Left {
				grid[i][j] = colorCell(c)
			}
		}
	}
	cells := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: aligns},
	}
	var r tw.Renderer
	if format == FormatMarkdown {
		r = renderer.NewMarkdown()
	} else {
		cells.Padding = tw.CellPadding{Global: tw.PaddingNone}
		r = renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbolCustom("light").WithRow("─").WithColumn("  ").WithCenter("  "),
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.On, BetweenRows: tw.Off,
					ShowHeader: tw.On, ShowFooter: tw.Off},
				Lines: tw.Lines{ShowHeaderLine: tw.On, ShowTop: tw.Off, ShowBottom: tw.Off,
					ShowFooterLine: tw.Off},
			},
		})
	}
	var drawn strings.Builder
	table := tablewriter.NewTable(&drawn,
		tablewriter.WithRenderer(r),
		tablewriter.WithConfig(tablewriter.Config{Header: cells, Row: cells,
			Behavior: tw.Behavior{AutoHide: tw.Off, TrimSpace: tw.On}}))
	table.Header(p.Header)
	if err := table.Bulk(grid); err != nil {
		return "", err
	}
	err := table.Render()
	return drawn.String(), err
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
		b.WriteString(l.wrapLine(line) + "\n")
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
		b.WriteString(l.wrapLine(n) + "\n")
	}
}

var unmarkedNote = strings.NewReplacer("~", `\~`, "<", "&lt;")

// unmarked keeps what stands in a cell from being a column or an element of its page.
var unmarked = strings.NewReplacer("|", `\|`, "<", "&lt;")
