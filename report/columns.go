package report

import (
	"path"
	"slices"
	"strings"

	"normbench/internal/hint"
)

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

// shown returns what a format shows of t: the columns of --columns, else all of them.
func (l *Layout) shown(t *Table, format string) (*Table, error) {
	shown := t.forFormat(format)
	if shown.Data != nil && shown.named == nil && l.asksData(shown) {
		shown = shown.forFormat(FormatCSV)
	}
	return l.choose(shown.pick(shown.allColumns()))
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

// align returns on which side of a column its cells stand.
func (t *Table) align(column int) Align {
	if column < len(t.Align) {
		return t.Align[column]
	}
	return Left
}
