package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"normbench/internal/hint"
)

// The formats of Render and RenderTable.
const (
	FormatText     = "text"
	FormatMarkdown = "markdown"
	FormatCSV      = "csv"
	FormatJSON     = "json"
)

// Formats lists the formats, the default first.
func Formats() []string { return []string{FormatText, FormatMarkdown, FormatCSV, FormatJSON} }

// CheckFormat refuses an unknown format, so that a command can do so before it
// starts to work.
func CheckFormat(format string) error {
	if slices.Contains(Formats(), format) {
		return nil
	}
	return hint.Errorf("use one of "+strings.Join(Formats(), ", "), "unknown format %q", format)
}

// Align says on which side of its column a cell stands.
type Align uint8

// The alignments. Numbers stand right. A JSON cell is a value of its own in json.
const (
	Left Align = iota
	Right
	JSON
)

// A Table is any table that a command prints.
type Table struct {
	Title  string   // lines above the table, the first of them its name
	Header []string // with units: "time us"
	Align  []Align  // per column; Left where it is shorter than Header
	Rows   [][]string
	Notes  []string // lines below the table; two spaces before one put it under the one before
	// Data has the columns and rows that csv and json show instead, where those above are
	// for people: a value to a field, in full, under names that stay, and none left out.
	Data *Table
	// Only text uses these, to fit a terminal; see Layout.
	Drop   []string  // columns left out where there is no room, the least important first; "a,b" go together
	Group  *Group    // rows of one kind under a heading; nil for none
	Legend []Meaning // what columns mean
}

// A Meaning explains a column.
type Meaning struct{ Column, Text string }

func (t *Table) align(column int) Align {
	if column < len(t.Align) {
		return t.Align[column]
	}
	return Left
}

// in is t as a format shows it.
func (t *Table) in(format string) *Table {
	if t.Data == nil || format != FormatCSV && format != FormatJSON {
		return t
	}
	data := *t.Data
	data.Title, data.Notes = t.Title, t.Notes
	return &data
}

// RenderTable writes t:
//
//	text      aligned columns that fit the writer's Layout
//	markdown  a pipe table
//	csv       header and rows only
//	json      {"title", "rows": [{header: cell}], "notes"}; the cells of
//	          right-aligned columns are numbers where they are such, those of JSON
//	          columns any values; both are null where empty
//
// csv and json are of its Data, where it has such.
//
// A row that is shorter than the header is filled with empty cells; of a longer
// one the rest is left out.
func RenderTable(w io.Writer, t *Table, format string) error {
	if err := CheckFormat(format); err != nil {
		return err
	}
	t = t.in(format)
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = make([]string, len(t.Header))
		for j := range min(len(row), len(t.Header)) {
			// A cell is one line, whatever text came from a compiler.
			rows[i][j] = strings.Join(strings.Fields(row[j]), " ")
		}
	}
	l := layoutOf(w)
	t, rows, err := l.choose(t, rows)
	if err != nil {
		return err
	}
	switch format {
	case FormatCSV:
		c := csv.NewWriter(w)
		c.Write(t.Header)
		return c.WriteAll(rows)
	case FormatJSON:
		return tableJSON(w, t, rows)
	}
	return drawTable(w, t, rows, format, l)
}

// writeJSON writes v as people read it.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// tableJSON keeps the columns in the order of the header, which a map would
// lose.
func tableJSON(w io.Writer, t *Table, rows [][]string) error {
	var b strings.Builder
	text := func(s string) string {
		var j strings.Builder
		e := json.NewEncoder(&j)
		e.SetEscapeHTML(false)
		_ = e.Encode(s) // a string always encodes
		return strings.TrimSuffix(j.String(), "\n")
	}
	fmt.Fprintf(&b, "{\n  \"title\": %s,\n  \"rows\": [", text(t.Title))
	for i, row := range rows {
		b.WriteString(comma(i) + "\n    {")
		for j, cell := range row {
			switch {
			case t.align(j) != Left && cell == "":
				cell = "null"
			case t.align(j) == JSON:
			case t.align(j) == Left || !isNumber(cell):
				cell = text(cell)
			}
			b.WriteString(strings.TrimPrefix(comma(j)+" ", " "))
			b.WriteString(text(t.Header[j]) + ": " + cell)
		}
		b.WriteByte('}')
	}
	b.WriteString("\n  ],\n  \"notes\": [")
	for i, n := range t.Notes {
		b.WriteString(comma(i) + "\n    " + text(n))
	}
	b.WriteString("\n  ]\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func comma(i int) string {
	if i > 0 {
		return ","
	}
	return ""
}

// isNumber says whether s is a number of JSON.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && json.Valid([]byte(s))
}

// LedBy is t as a page shows it: a phone has room for a few columns, so those of first come
// first, and what t is grouped by stands above or last.
func (t *Table) LedBy(first ...string) *Table {
	c := *t
	c.Header, c.Align, c.Rows = slices.Clone(t.Header), nil, nil
	for i := range t.Header {
		c.Align = append(c.Align, t.align(i))
	}
	for _, row := range t.Rows {
		c.Rows = append(c.Rows, append(slices.Clone(row), make([]string, max(len(t.Header)-len(row), 0))...))
	}
	drop := []string{""}
	if g := t.Group; g != nil && len(t.Rows) > 0 {
		heads := make([]string, len(c.Rows))
		for i, row := range c.Rows {
			heads[i], row[0] = g.Of(row)
		}
		if drop = append(drop, g.Hide...); len(g.Hide) == 0 {
			c.Header[0], first = "shape", append([]string{"shape"}, first...)
		}
		if heads[0] == slices.Max(heads) && heads[0] == slices.Min(heads) {
			c.Title += "\n" + heads[0]
		} else {
			c.Header, c.Align = append(c.Header, "of"), append(c.Align, Left)
			for i := range c.Rows {
				c.Rows[i] = append(c.Rows[i], heads[i])
			}
		}
	}
	var order []int
	for _, h := range first {
		if i := slices.Index(c.Header, h); i >= 0 {
			order = append(order, i)
		}
	}
	for i, h := range c.Header {
		empty := !slices.ContainsFunc(c.Rows, func(row []string) bool { return row[i] != "" })
		if !slices.Contains(drop, h) && !slices.Contains(first, h) && !empty {
			order = append(order, i)
		}
	}
	led := c.Ordered(order)
	led.Legend = nil
	for _, m := range t.Legend {
		if slices.Contains(led.Header, m.Column) {
			led.Legend = append(led.Legend, m)
		}
	}
	return led
}

// Ordered is t with some of its columns, in an order.
func (t *Table) Ordered(columns []int) *Table {
	c := *t
	c.Header, c.Align, c.Rows = pick(t.Header, columns), nil, nil
	for _, i := range columns {
		c.Align = append(c.Align, t.align(i))
	}
	for _, row := range t.Rows {
		c.Rows = append(c.Rows, pick(row, columns))
	}
	return &c
}
