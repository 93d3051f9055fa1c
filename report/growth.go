package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/picture"
	"normbench/kernels"
)

// MaxArms is how many arms a report tells apart.
const MaxArms = 8

// A Growth is what several arms take on the same problems: how time grows with a
// side of the matrix, or goes from shape to shape.
type Growth struct {
	Arms   []string      `json:"arms"` // labels
	Rows   []GrowthRow   `json:"rows"` // each problem that an arm has, those that grow together in a row
	Stream []StreamScore `json:"stream"`
	Timer  []string      `json:"timer,omitempty"` // see Comparison.Timer
	Notes  []string      `json:"notes,omitempty"`

	series []picture.Series // of the arms
}

// A GrowthRow is a problem with what each arm has for it.
type GrowthRow struct {
	Problem kernels.Problem `json:"problem"`
	Kind    string          `json:"kind"`
	Arms    []Value         `json:"arms"` // in the order of Growth.Arms; without a family where an arm has nothing
	Told    *Told           `json:"told,omitempty"`
}

// Told is the speedup of the second of two arms over the first, as text, and its verdict.
type Told struct {
	Speedup string `json:"speedup"`
	Verdict string `json:"verdict"`
}

// Compared is what a recorded comparison says of each problem of two arms.
func Compared(a, b Side) map[kernels.Problem]Told {
	c := Compare(a, b)
	t := rowTable(c)
	speedup, verdict := slices.Index(t.Header, "speedup"), slices.Index(t.Header, "verdict")
	told := map[kernels.Problem]Told{}
	for i, r := range c.Rows {
		told[r.Problem] = Told{t.Rows[i][speedup], t.Rows[i][verdict]}
	}
	return told
}

// Tell adds what is told of the problems to the rows.
func (g *Growth) Tell(told map[kernels.Problem]Told) {
	for i := range g.Rows {
		if x, ok := told[g.Rows[i].Problem]; ok {
			g.Rows[i].Told = &x
		}
	}
}

// Grow puts arms beside each other. over orders the rows; nil is the order of all
// other tables.
func Grow(over *Axis, arms ...Side) *Growth {
	g := &Growth{Rows: []GrowthRow{}, Stream: []StreamScore{}, series: series(arms)}
	var lettered []Side
	for i, a := range arms {
		g.Arms = append(g.Arms, a.Label)
		a.Label = letter(i)
		lettered = append(lettered, a)
	}
	ps := problems(arms...)
	if over != nil {
		slices.SortStableFunc(ps, func(a, b kernels.Problem) int {
			return cmp.Or(cmp.Compare(b.Op, a.Op), cmp.Compare(b.Pass, a.Pass), cmp.Compare(kind(a), kind(b)), cmp.Compare(dtypes(a), dtypes(b)), over.compare(a, b))
		})
	}
	var failed []string
	for _, p := range ps {
		row := GrowthRow{Problem: p, Kind: kind(p)}
		for i, a := range arms {
			c, ok := a.Cells[p]
			if !ok {
				row.Arms = append(row.Arms, Value{})
				continue
			}
			row.Arms = append(row.Arms, value(c, cmp.Or(c.Bytes, p.Bytes())))
			if c.Status != kernels.StatusOK {
				failed = append(failed, fmt.Sprintf("%s of %s is %s: %s", name(p), letter(i), c.Status, strings.TrimSuffix(c.Reason, ".")))
			}
		}
		g.Rows = append(g.Rows, row)
	}
	g.Stream = StreamScores(lettered...)
	g.Timer = timer(arms...)
	for _, what := range []struct {
		name string
		of   func(Cell) string
	}{{"devices", func(c Cell) string { return c.Device }}, {"protocols", func(c Cell) string { return c.Protocol }}} {
		if w := words(what.of, arms...); len(w) > 1 {
			g.Notes = append(g.Notes, fmt.Sprintf("several %s, so the code is not all that differs: %s", what.name, strings.Join(w, ", ")))
		}
	}
	for _, s := range g.Stream {
		if s.Kind != "" && s.N < s.Of {
			g.Notes = append(g.Notes, fmt.Sprintf("%s has its time and the stream's for %d of %s of %s", s.Side, s.N, count(s.Of, "problem", "problems"), s.Kind))
		}
	}
	if len(failed) > 0 {
		g.Notes = append(g.Notes, count(len(failed), "measurement", "measurements")+" failed:")
		for i, f := range failed {
			if i == most {
				g.Notes = append(g.Notes, fmt.Sprintf("  and %d more; --format csv has all", len(failed)-most))
				break
			}
			g.Notes = append(g.Notes, "  "+f)
		}
	}
	return g
}

// letter names an arm in tables.
func letter(i int) string { return string(rune('A' + i)) }

// words are the different answers of cells, sorted, but for the empty one.
func words(of func(Cell) string, sides ...Side) []string {
	seen := map[string]bool{}
	for _, s := range sides {
		for _, c := range s.Cells {
			if w := of(c); w != "" {
				seen[w] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// legend says which arm is which: "A = base, B = fastest".
func (g *Growth) legend() string {
	var parts []string
	for i, a := range g.Arms {
		parts = append(parts, letter(i)+" = "+a)
	}
	return strings.Join(parts, ", ")
}

// Tables are how near each arm comes to the stream, and what it takes on every
// problem.
func (g *Growth) Tables() (scores, rows *Table) {
	scores = StreamTable(g.Stream)
	scores.Title = strings.Join(append([]string{g.legend()}, g.Timer...), "\n")
	scores.Notes = g.Notes
	rows = &Table{Header: []string{"kind", "dtype", "M", "N"}, Align: []Align{Left, Left, Right, Right}, Group: kindGroup}
	for _, unit := range []string{" us", " %stream"} {
		for i := range g.Arms {
			rows.Header, rows.Align = append(rows.Header, letter(i)+unit), append(rows.Align, Right)
		}
	}
	told := slices.ContainsFunc(g.Rows, func(r GrowthRow) bool { return r.Told != nil })
	if told {
		rows.Header, rows.Align = append(rows.Header, "speedup", "verdict"), append(rows.Align, Right, Left)
	}
	for _, r := range g.Rows {
		row := []string{r.Kind, dtypes(r.Problem), strconv.FormatInt(r.Problem.M, 10), strconv.FormatInt(r.Problem.N, 10)}
		for _, v := range r.Arms {
			if v.US == 0 {
				row = append(row, string(v.Status))
			} else {
				row = append(row, Micros(v.US))
			}
		}
		for _, v := range r.Arms {
			row = append(row, tenth(v.StreamPercent))
		}
		switch {
		case r.Told != nil:
			row = append(row, r.Told.Speedup, r.Told.Verdict)
		case told:
			row = append(row, "", "")
		}
		rows.Rows = append(rows.Rows, row)
	}
	return scores, rows
}

// Render writes the tables; csv has a line per problem and arm, json is the
// Growth.
func (g *Growth) Render(w io.Writer, format string) error {
	if err := CheckFormat(format); err != nil {
		return err
	}
	switch format {
	case FormatJSON:
		return writeJSON(w, g)
	case FormatCSV:
		return RenderTable(w, g.csvTable(), format)
	}
	scores, rows := g.Tables()
	if err := RenderTable(w, rows, format); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return RenderTable(w, scores, format)
}

func (g *Growth) csvTable() *Table {
	t := &Table{Header: []string{"problem", "kind", "dtype", "m", "n", "arm", "variant", "status", "us", "lo_us", "hi_us", "gbps", "stream_percent", "reason"}}
	for _, r := range g.Rows {
		for i, v := range r.Arms {
			if v.Status == "" {
				continue
			}
			t.Rows = append(t.Rows, []string{r.Problem.String(), r.Kind, dtypes(r.Problem), fmt.Sprint(r.Problem.M), fmt.Sprint(r.Problem.N),
				g.Arms[i], v.Family + "@" + v.Config.String(), string(v.Status),
				number(v.US), number(v.LoUS), number(v.HiUS), number(v.GBps), number(v.StreamPercent), v.Reason})
		}
	}
	return t
}
