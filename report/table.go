package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

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
