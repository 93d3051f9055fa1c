package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// writeCSV writes a table's header and rows.
func writeCSV(w io.Writer, t *Table) error {
	for _, row := range t.Rows {
		for i, cell := range row {
			row[i] = inert(cell)
		}
	}
	return csv.NewWriter(w).WriteAll(slices.Insert(t.Rows, 0, t.Header))
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

// writeJSON writes the tables as one object. It keeps the columns in the order of the header, which a map
// would lose.
func writeJSON(w io.Writer, tool string, end Ending, tables []*Table) error {
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
