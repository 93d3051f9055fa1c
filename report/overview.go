package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"normbench/internal/console"
	"normbench/internal/picture"
	"normbench/kernels"
)

// MaxArms is how many arms a report tells apart.
const MaxArms = 8

// An Overview is what several arms take on the same problems.
type Overview struct {
	Arms   []string      `json:"arms"` // labels
	Rows   []OverviewRow `json:"rows"` // each problem that an arm has
	Stream []StreamScore `json:"stream"`
	Timer  []string      `json:"timer,omitempty"` // see Comparison.Timer
	Notes  []string      `json:"notes,omitempty"`

	series []picture.Series // of the arms
}

// A OverviewRow is a problem with what each arm has for it.
type OverviewRow struct {
	Problem kernels.Problem `json:"problem"`
	Kind    string          `json:"kind"`
	Arms    []Value         `json:"arms"` // as Overview.Arms; without a family where there is nothing
}

// NewOverview puts arms beside each other.
func NewOverview(arms ...Side) *Overview {
	g := &Overview{Rows: []OverviewRow{}, Stream: []StreamScore{}, series: series(arms)}
	var lettered []Side
	for i, a := range arms {
		g.Arms = append(g.Arms, a.Label)
		a.Label = letter(i)
		lettered = append(lettered, a)
	}
	var failed []string
	for _, p := range problems(arms...) {
		row := OverviewRow{Problem: p, Kind: kind(p)}
		for i, a := range arms {
			c, ok := a.Cells[p]
			if !ok {
				row.Arms = append(row.Arms, Value{})
				continue
			}
			row.Arms = append(row.Arms, ValueOf(c, cmp.Or(c.Bytes, p.Bytes())))
			if c.Status != kernels.StatusOK {
				failed = append(failed, row.Arms[i].failure(p, letter(i)))
			}
		}
		g.Rows = append(g.Rows, row)
	}
	g.Stream = StreamScores(lettered...)
	g.Timer = timer(arms...)
	g.Notes = differences(arms...)
	for _, s := range g.Stream {
		if s.Kind != "" && s.N < s.Of {
			g.Notes = append(g.Notes,
				fmt.Sprintf("%s has its time and the stream's for %d of %s of %s", s.Side, s.N,
					console.Count(s.Of, "problem"), s.Kind))
		}
	}
	if len(failed) > 0 {
		g.Notes = append(g.Notes, console.Count(len(failed), "measurement")+" failed:")
		g.Notes = append(g.Notes, indentLines(failed)...)
	}
	return g
}

// letter names an arm in tables.
func letter(i int) string { return string(rune('A' + i)) }

// legend says which arm is which: "A = base, B = fastest".
func (g *Overview) legend() string {
	var parts []string
	for i, a := range g.Arms {
		parts = append(parts, letter(i)+" = "+a)
	}
	return strings.Join(parts, ", ")
}

// Tables are how near each arm comes to the stream, and what it takes on every
// problem.
func (g *Overview) Tables() (scores, rows *Table) {
	scores = StreamTable(g.Stream)
	scores.Title = strings.Join(append([]string{g.legend()}, g.Timer...), "\n")
	scores.Notes = g.Notes
	columns := ProblemColumns(func(r OverviewRow) (kernels.Problem, int64) { return r.Problem, 0 },
		"", "kind", "dtype", "M", "N")
	for _, name := range []string{"us", "stream_percent"} {
		for i := range g.Arms {
			columns = append(columns, ValueColumns(func(r OverviewRow) Value { return r.Arms[i] },
				letter(i), "", name)...)
		}
	}
	rows = NewTable("", g.Rows, columns)
	rows.Group, rows.Data = kindGroup, g.data()
	return scores, rows
}

// Render writes the tables; csv has a line per problem and arm, json is the
// Overview.
func (g *Overview) Render(w io.Writer, format string) error {
	scores, rows := g.Tables()
	return render(w, g, format, rows, scores)
}

// data has a row for each problem and arm.
func (g *Overview) data() *Table {
	type row struct {
		problem kernels.Problem
		arm     string
		value   Value
	}
	var rows []row
	for _, r := range g.Rows {
		for i, v := range r.Arms {
			if v.Status != "" {
				rows = append(rows, row{r.Problem, g.Arms[i], v})
			}
		}
	}
	columns := ProblemColumns(func(r row) (kernels.Problem, int64) { return r.problem, 0 })[:5]
	columns = append(columns, Column[row]{Name: "arm", Value: func(r row) any { return r.arm }})
	return NewTable("", rows,
		append(columns, ValueColumns(func(r row) Value { return r.value }, "", "",
			"variant", "status", "us", "lo_us", "hi_us", "gbps", "stream_percent", "reason")...)).Data
}
