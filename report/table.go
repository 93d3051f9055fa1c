package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"normbench/kernels"
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

// A Column is a column of a table with a row for each R. What people and machines read comes from
// the same function of the row.
type Column[R any] struct {
	Head   string         // for people, with its unit: "A us"; "" is not for them
	Name   string         // in csv and json: "a_us"; "" is not there
	Value  func(R) any    // a number, a string or a bool; nil and NaN are not known
	Format string         // of a number for people, such as "%.1f"
	Text   func(R) string // for people, where it is more than the value
	Means  string         // what it says, below the table
}

// sentinel is the size from which a number stands for infinity, which JSON does not have: an error that
// no tolerance measures is the largest float32.
const sentinel = 1e30

// NewTable is a table of rows, of which csv and json have the columns with a Name, in this order.
func NewTable[R any](title string, rows []R, columns []Column[R]) *Table {
	t := &Table{Title: title}
	data := &Table{data: true}
	add := func(to *Table, name, alias string, align Align, cells []string) {
		to.Header, to.Align, to.alias = append(to.Header, name), append(to.Align, align), append(to.alias, alias)
		if to.Rows == nil {
			to.Rows = make([][]string, len(rows))
		}
		for i, c := range cells {
			to.Rows[i] = append(to.Rows[i], c)
		}
	}
	for _, c := range columns {
		align, cells, texts := Left, make([]string, len(rows)), make([]string, len(rows))
		known := len(rows) == 0
		for i, r := range rows {
			if c.Value != nil {
				v := c.Value(r)
				known = known || v != nil
				cells[i] = cellText(v)
				if texts[i] = cells[i]; isNumeric(v) {
					align = Right
				}
				if c.Format != "" && cells[i] != "" {
					texts[i] = fmt.Sprintf(c.Format, v)
					if x, ok := v.(float64); ok && math.Abs(x) >= sentinel {
						texts[i] = strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(math.Copysign(math.Inf(1), x), 'g', -1, 64)), "+")
					}
				}
			}
			if c.Text != nil {
				texts[i] = c.Text(r)
			}
		}
		if c.Name != "" {
			if !known {
				align = Right // as of numbers: null in json
			}
			add(data, c.Name, c.Head, align, cells)
			t.Data, t.named = data, data
		}
		if c.Head == "" {
			continue
		}
		add(t, c.Head, c.Name, align, texts)
		if c.Means != "" {
			t.Legend = append(t.Legend, Meaning{c.Head, c.Means})
		}
	}
	return t
}

func isNumeric(v any) bool {
	switch v.(type) {
	case int, int64, float64:
		return true
	}
	return false
}

func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return ""
		}
		return Number(v)
	}
	return fmt.Sprint(v)
}

// ifAny is a value of what is there, or nil.
func ifAny[T any](x *T, value func(*T) any) any {
	if x == nil {
		return nil
	}
	return value(x)
}

// NonZero is a number, or nil for 0, which stands for one that is not known.
func NonZero[N int | int64 | float64](v N) any {
	if v == 0 {
		return nil
	}
	return v
}

// ProblemColumns are a problem as csv has it, with its compulsory traffic. People see those for
// which there is a head, in this order.
func ProblemColumns[R any](of func(R) (kernels.Problem, int64), heads ...string) []Column[R] {
	var list []Column[R]
	for i, name := range []string{"problem", "kind", "dtype", "m", "n", "bytes"} {
		c := Column[R]{Name: name, Value: func(r R) any {
			p, bytes := of(r)
			return []any{p.String(), kind(p), dtypes(p), p.M, p.N, bytes}[i]
		}}
		if i < len(heads) {
			c.Head = heads[i]
		}
		list = append(list, c)
	}
	return list
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
	Outcome *GateOutcome // of a gate, before all else; nil without one
	Title   string       // lines above the table, the first of them its name
	Header  []string     // with units: "time us"
	Align   []Align      // per column; Left where it is shorter than Header
	Rows    [][]string
	Notes   []string // lines below the table; two spaces before one put it under the one before
	Name    string   // of its rows in json behind another table, whose are "rows"
	Device  string   // that it is of: its ID, those of several with commas
	// Data has the columns and rows that csv and json show instead, where those above are
	// for people: a value to a field, in full, under names that stay, and none left out.
	Data *Table
	// Only text uses these, to fit a terminal; see Layout.
	Drop   []string  // columns to leave out for room, in this order; "a,b" go together
	Tight  bool      // break words of text rather than leave a column out
	Group  *Group    // rows of one kind under a heading; nil for none
	Legend []Meaning // what columns mean
	// Below, where set, has each row in lines, a cell to a line, with these lines behind the row's.
	Below [][]string

	// alias has another name of each column, "" for none: what csv, json and --columns call one that people
	// see, or what people see of one of Data.
	alias []string
	// named are the rows of a table for people with all columns that have a name, for --columns.
	named *Table
	data  bool // it is for csv and json: its header has the names
}

// New makes an empty table. A ">" before a header aligns its column to the right. "on cpu=on_cpu" has a name
// for csv, json and --columns behind what people see; without one both are the same.
func New(title string, headers ...string) *Table {
	t := &Table{Title: title}
	for _, h := range headers {
		text, right := strings.CutPrefix(h, ">")
		text, name, more := strings.Cut(text, "=")
		if !more {
			name = text
		}
		t.Header, t.alias = append(t.Header, text), append(t.alias, name)
		align := Left
		if right {
			align = Right
		}
		t.Align = append(t.Align, align)
	}
	return t
}

// A Meaning explains a column.
type Meaning struct{ Column, Text string }

func (t *Table) align(column int) Align {
	if column < len(t.Align) {
		return t.Align[column]
	}
	return Left
}

// forFormat returns t as a format shows it.
func (t *Table) forFormat(format string) *Table {
	if format != FormatCSV && format != FormatJSON {
		return t
	}
	data := *t
	if t.Data != nil {
		data = *t.Data
	}
	if data.alias != nil && !data.data {
		data.Header, data.alias = data.alias, data.Header
	}
	data.Title, data.Notes, data.Name, data.Device, data.named = t.Title, t.Notes, t.Name, t.Device, nil
	data.Outcome = t.Outcome
	data.data = true
	return &data
}

// pick is t with some of its columns, in an order. Rows are as long as its header then, and each
// cell is one line, whatever text came from a compiler.
func (t *Table) pick(columns []int) *Table {
	c := *t
	c.Header, c.Align, c.Rows, c.Legend, c.alias = nil, nil, nil, nil, nil
	for _, i := range columns {
		c.Header, c.Align = append(c.Header, t.Header[i]), append(c.Align, t.align(i))
		if t.alias != nil {
			c.alias = append(c.alias, t.alias[i])
		}
	}
	for _, row := range t.Rows {
		cells := make([]string, len(columns))
		for k, i := range columns {
			if i < len(row) {
				cells[k] = strings.Join(strings.Fields(row[i]), " ")
			}
		}
		c.Rows = append(c.Rows, cells)
	}
	for _, m := range t.Legend {
		if slices.Contains(c.Header, m.Column) {
			c.Legend = append(c.Legend, m)
		}
	}
	return &c
}

// allColumns lists the numbers of t's columns.
func (t *Table) allColumns() (columns []int) {
	for i := range t.Header {
		columns = append(columns, i)
	}
	return columns
}

// empty says that no row of a whole table has anything in a column.
func (t *Table) empty(column int) bool {
	return !slices.ContainsFunc(t.Rows, func(row []string) bool { return row[column] != "" })
}

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
	if format == FormatCSV {
		tables = tables[:1]
	}
	chosen := make([]*Table, len(tables))
	for i, t := range tables {
		t = t.forFormat(format)
		if t.Data != nil && t.named == nil && l.asksData(t) {
			t = t.forFormat(FormatCSV)
		}
		t, err := l.choose(t.pick(t.allColumns()))
		if err != nil {
			return err
		}
		chosen[i] = t
	}
	switch format {
	case FormatCSV:
		t := chosen[0]
		for _, row := range t.Rows {
			for i, cell := range row {
				row[i] = inert(cell)
			}
		}
		return csv.NewWriter(w).WriteAll(slices.Insert(t.Rows, 0, t.Header))
	case FormatJSON:
		return tablesJSON(w, tool, end, chosen)
	}
	for i, t := range chosen {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := drawTable(w, t, format, l); err != nil {
			return err
		}
	}
	return end.write(w, format, l)
}

// write writes the ending below the tables for people.
func (end Ending) write(w io.Writer, format string, l *Layout) error {
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
	_, err := io.WriteString(w, b.String())
	return err
}

// inert is a cell of csv that no spreadsheet runs: a text that would be a formula there is quoted. A
// verdict such as "= base" is none, and a number stays one.
func inert(cell string) string {
	if cell == "" || !strings.ContainsRune("=+-@", rune(cell[0])) || cell == "= A" || cell == "= base" {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell
	}
	return "'" + cell
}

// jsonText is a string in JSON.
func jsonText(s string) string {
	b, _ := jsontext.AppendQuote(nil, s) // of text that is not UTF-8 too
	return string(b)
}

// tablesJSON writes the tables as one object. It keeps the columns in the order of the header, which a map
// would lose.
func tablesJSON(w io.Writer, tool string, end Ending, tables []*Table) error {
	first := tables[0]
	device := "null"
	if first.Device != "" {
		device = jsonText(first.Device)
	}
	var b strings.Builder
	b.WriteString("{\n")
	if first.Outcome != nil {
		b.WriteString("  \"gate\": " + first.Outcome.json() + ",\n")
	}
	fmt.Fprintf(&b, "  \"schema\": %d,\n  \"tool\": %s,\n  \"device\": %s,\n  \"title\": %s", Schema, jsonText(tool),
		device, jsonText(first.Title))
	var names, notes []string
	rows := map[string][]string{}
	for _, t := range tables {
		name := cmp.Or(t.Name, "rows")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		rows[name] = append(rows[name], t.objects()...)
		for _, n := range t.Notes {
			notes = append(notes, "\n    "+jsonText(n))
		}
	}
	for _, name := range names {
		fmt.Fprintf(&b, ",\n  %s: [%s\n  ]", jsonText(name), strings.Join(rows[name], ","))
	}
	fmt.Fprintf(&b, ",\n  \"notes\": [%s\n  ]", strings.Join(notes, ","))
	if end.Found != "" {
		fmt.Fprintf(&b, ",\n  \"found\": %s", jsonText(end.Found))
	}
	if end.Next != "" {
		fmt.Fprintf(&b, ",\n  \"next\": %s", jsonText(end.Next))
	}
	b.WriteString("\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// objects returns the rows in JSON.
func (t *Table) objects() []string {
	rows := make([]string, len(t.Rows))
	for i, row := range t.Rows {
		fields := make([]string, len(row))
		for j, cell := range row {
			number := cell != "" && strings.ContainsRune("-0123456789", rune(cell[0])) &&
				json.Valid([]byte(cell))
			switch align := t.align(j); {
			case align != Left && cell == "":
				cell = "null"
			case align == Left || align == Right && !number:
				cell = jsonText(cell)
			}
			fields[j] = jsonText(t.Header[j]) + ": " + cell
		}
		rows[i] = "\n    {" + strings.Join(fields, ", ") + "}"
	}
	return rows
}
