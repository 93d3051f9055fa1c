package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// drawTable writes a text or markdown table, with title and notes. All that the
// tool shares with the table library is in this file.
func drawTable(w io.Writer, t *Table, rows [][]string, format string) error {
	aligns := make([]tw.Align, len(t.Header))
	for i := range aligns {
		aligns[i] = tw.AlignLeft
		if t.align(i) == Right {
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
		rows = escapePipes(rows)
	} else {
		cells.Padding = tw.CellPadding{Global: tw.PaddingNone}
		r = renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbolCustom("light").WithRow("─").WithColumn("  ").WithCenter("  "),
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.On, BetweenRows: tw.Off, ShowHeader: tw.On, ShowFooter: tw.Off},
				Lines:      tw.Lines{ShowHeaderLine: tw.On, ShowTop: tw.Off, ShowBottom: tw.Off, ShowFooterLine: tw.Off},
			},
		})
	}
	var b bytes.Buffer
	title, rest, _ := strings.Cut(t.Title, "\n")
	switch {
	case title != "" && format == FormatMarkdown:
		fmt.Fprintf(&b, "**%s**\n\n", strings.ReplaceAll(title, "<", "&lt;"))
		if rest != "" {
			fmt.Fprintf(&b, "%s\n\n", strings.ReplaceAll(rest, "<", "&lt;"))
		}
	case title != "":
		fmt.Fprintf(&b, "%s\n\n", t.Title)
	}
	var grid bytes.Buffer
	table := tablewriter.NewTable(&grid,
		tablewriter.WithRenderer(r),
		tablewriter.WithConfig(tablewriter.Config{Header: cells, Row: cells,
			Behavior: tw.Behavior{AutoHide: tw.Off, TrimSpace: tw.On}}))
	table.Header(t.Header)
	if err := table.Bulk(rows); err != nil {
		return fmt.Errorf("table %q: %w", t.Title, err)
	}
	if err := table.Render(); err != nil {
		return fmt.Errorf("table %q: %w", t.Title, err)
	}
	for line := range strings.Lines(grid.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if len(t.Notes) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range t.Notes {
		if format == FormatMarkdown {
			item := strings.TrimLeft(n, " ")
			n = n[:len(n)-len(item)] + "- " + strings.NewReplacer("~", `\~`, "<", "&lt;").Replace(item)
		}
		b.WriteString(n + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// unmarked keeps what stands in a cell from being a column or an element of its page.
var unmarked = strings.NewReplacer("|", `\|`, "<", "&lt;")

func escapePipes(rows [][]string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for j, c := range row {
			out[i][j] = unmarked.Replace(c)
		}
	}
	return out
}
