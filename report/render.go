package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Schema is the version of what RenderTables writes as json. Within it, keys and columns may be added.
const Schema = 1

// RenderTable writes t alone, as RenderTables has it.
func RenderTable(w io.Writer, t *Table, format string) error {
	return RenderTables(w, format, Ending{}, t)
}

// An Ending is what stands below the last table of a command: what was found, in a sentence, and what to do next.
type Ending struct{ Found, Next string }

// RenderTables writes tables and what they come to:
//
//	text      aligned columns that fit the writer's Layout
//	markdown  pipe tables
//	csv       header and rows of the first table only
//	json      {"gate", "schema", "tool", "device", "title", "rows": [{header: cell}], NAME: [...], "notes", "found", "next"}:
//	          the first table's rows, those of each other table under its name, and the notes of all. The cells of
//	          right-aligned columns are numbers where they are such, those of JSON columns any values; both are
//	          null where empty, as is a device that is not known; "gate" is there of one that has an outcome
//
// csv and json are of each table's Data, where it has such.
//
// A row that is shorter than the header is filled with empty cells; of a longer
// one the rest is left out.
func RenderTables(w io.Writer, format string, end Ending, tables ...*Table) error {
	l, tool := &Layout{}, "normbench"
	if s, ok := w.(*Screen); ok {
		l, tool = &s.Layout, strings.TrimSpace(tool+" "+s.Tool)
	}
	if tables = slices.Clone(tables); format == FormatCSV {
		tables = tables[:1]
	}
	for i, t := range tables {
		var err error
		if tables[i], err = l.shown(t, format); err != nil {
			return err
		}
	}
	switch format {
	case FormatCSV:
		return writeCSV(w, tables[0])
	case FormatJSON:
		return writeJSON(w, tool, end, tables)
	}
	return l.layOut(format, end, tables).draw(w, format)
}

// draw writes a printout.
func (p *printout) draw(w io.Writer, format string) error {
	var b bytes.Buffer
	for i, s := range p.sheets {
		if i > 0 {
			b.WriteByte('\n')
		}
		rows := s.lines
		if !s.stacked {
			var err error
			if rows, err = s.grid(format); err != nil {
				return fmt.Errorf("table %q: %w", s.Title, err)
			}
		}
		b.WriteString(s.above + rows + s.below)
	}
	b.WriteString(p.end)
	_, err := w.Write(b.Bytes())
	return err
}

// grid is the header and the rows as the table library draws them.
func (s *sheet) grid(format string) (string, error) {
	var aligns []tw.Align
	for i := range s.Header {
		aligns = append(aligns, tw.AlignLeft)
		if s.align(i) == Right {
			aligns[i] = tw.AlignRight
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
	r = &underHeadings{r, &drawn, s.headings}
	table := tablewriter.NewTable(&drawn,
		tablewriter.WithRenderer(r),
		tablewriter.WithConfig(tablewriter.Config{Header: cells, Row: cells,
			Behavior: tw.Behavior{AutoHide: tw.Off, TrimSpace: tw.On}}))
	table.Header(s.Header)
	if err := table.Bulk(s.Rows); err != nil {
		return "", err
	}
	err := table.Render()
	return trailing.ReplaceAllString(drawn.String(), "\n"), err
}

// trailing are the spaces with which the library fills a row's last cells.
var trailing = regexp.MustCompile(` +\n`)

// underHeadings is a renderer of the library that writes the next row's heading above it.
type underHeadings struct {
	tw.Renderer
	to       io.Writer
	headings []string
}

// Row draws a line of a row.
func (u *underHeadings) Row(row []string, ctx tw.Formatting) {
	if !ctx.IsSubRow && len(u.headings) > 0 {
		io.WriteString(u.to, u.headings[0])
		u.headings = u.headings[1:]
	}
	u.Renderer.Row(row, ctx)
}
