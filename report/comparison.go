package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"normbench/kernels"
	"normbench/sweep/verdict"
)

// Render writes a comparison. Text and markdown have the rows, how near both
// sides come to the stream, the geometric means and the notes; csv has one line per row and per one-sided problem;
// json is the Comparison.
func Render(w io.Writer, c *Comparison, format string) error {
	if err := CheckFormat(format); err != nil {
		return err
	}
	if format == FormatJSON {
		return writeJSON(w, c)
	}
	rows := c.Table()
	if format == FormatCSV {
		return RenderTable(w, rows, format)
	}
	if len(c.Rows) > 0 {
		if err := RenderTable(w, rows, format); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	if len(c.Stream) > 0 {
		if err := RenderTable(w, StreamTable(c.Stream), format); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return RenderTable(w, meanTable(c), format)
}

// Table is a row for each problem.
func (c *Comparison) Table() *Table {
	t := rowTable(c)
	t.Data = csvTable(c)
	return t
}

// kindGroup groups rows by their first two columns, the kind and the dtype.
var kindGroup = &Group{Of: func(row []string) (string, string) { return row[0] + " " + row[1], row[0] }, Hide: []string{"kind", "dtype"}}

// rowTable keeps to some 90 columns: the variants are in csv and json.
func rowTable(c *Comparison) *Table {
	t := &Table{
		Title:  fmt.Sprintf("A = %s, B = %s\n%s;\n%%stream is the time of a copy of those bytes in the same run over the kernel's time.", c.A, c.B, BytesRule),
		Header: []string{"kind", "dtype", "M", "N", "A us", "B us", "A GB/s", "B GB/s", "A %stream", "B %stream", "speedup", "verdict"},
		Align:  []Align{Left, Left, Right, Right, Right, Right, Right, Right, Right, Right, Right, Left},
		Drop:   []string{"A GB/s,B GB/s", "A %stream"},
		Group:  kindGroup,
	}
	for _, line := range c.Timer {
		t.Title += "\n" + line
	}
	for _, r := range c.Rows {
		us := func(v Value) string {
			if v.US == 0 {
				return string(v.Status)
			}
			return Micros(v.US)
		}
		speedup := ""
		switch p := r.Paired; {
		case p != nil:
			speedup = ratioIn(p.Speedup, p.Lo, p.Hi)
		case r.Speedup > 0 && r.Mark != Equal:
			speedup = Ratio(r.Speedup)
		}
		t.Rows = append(t.Rows, []string{
			r.Kind, dtypes(r.Problem), strconv.FormatInt(r.Problem.M, 10), strconv.FormatInt(r.Problem.N, 10),
			us(r.A), us(r.B), Whole(r.A.GBps), Whole(r.B.GBps), tenth(r.A.StreamPercent), tenth(r.B.StreamPercent),
			speedup, r.Verdict(),
		})
	}
	return t
}

// ratioIn is a ratio with its interval, if there is one.
func ratioIn(x, lo, hi float64) string {
	if lo == 0 {
		return fmt.Sprintf("%.3fx", x)
	}
	return fmt.Sprintf("%.3fx (%.3f-%.3f)", x, lo, hi)
}

// most rows of a list below a table; the rest is counted.
const most = 20

func meanTable(c *Comparison) *Table {
	t := &Table{
		Header: []string{"geometric mean", "problems", "speedup", "faster", "same", "slower", "inconclusive"},
		Align:  []Align{Left, Right, Right, Right, Right, Right, Right},
	}
	if c.All.Equal > 0 {
		t.Header, t.Align = append(t.Header, "equal"), append(t.Align, Right)
	}
	add := func(kind string, m Mean) {
		speedup := ""
		if m.N > 0 {
			speedup = ratioIn(m.Speedup, m.Lo, m.Hi)
		}
		t.Rows = append(t.Rows, []string{kind, strconv.Itoa(m.N), speedup, strconv.Itoa(m.Faster), strconv.Itoa(m.Same), strconv.Itoa(m.Slower), strconv.Itoa(m.Unclear), strconv.Itoa(m.Equal)}[:len(t.Header)])
	}
	for _, m := range c.Kinds {
		add(m.Kind, m)
	}
	add("all", c.All)
	note := func(format string, args ...any) {
		t.Notes = append(t.Notes, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	}
	pairs, unpaired, alone, few := 0, 0, 0, 0
	for _, r := range c.Rows {
		switch {
		case r.alone:
			alone++
		case r.Mark == Equal:
		case r.Paired != nil:
			if pairs++; r.Paired.Lo == 0 {
				few++
			}
		case r.Speedup > 0:
			unpaired++
		}
	}
	note("speedup is A's time over B's; FASTER and SLOWER are about B.")
	if pairs > 0 {
		note("paired: by the finals' rounds, in which A and B took turns, with the interval that the verdict rests on. INCONCLUSIVE counts as 1.00x in the means.")
	}
	if few > 0 {
		note("no interval in %s, as the finals had too few rounds for a verdict.", count(few, "problem", "problems"))
	}
	if alone > 0 {
		note("no finals in %s: the budget left nothing but the base.", count(alone, "problem", "problems"))
	}
	if c.All.Equal > 0 {
		note("= says that both sides are one variant of one run, not measured against itself. It counts as 1.00x.")
	}
	if c.All.Lo > 0 {
		note("means have an interval at 95%% over other such shapes (%d here), all cells of a shape together.", c.All.Shapes)
	}
	if unpaired == 0 {
		return notes(t, c, note)
	}
	note("UNPAIRED: recorded, not measured in turns. Samples of one run are told apart from %g %% on,", 100*c.TieBand)
	note("of two runs from %g %%, medians alone from %g %% if their intervals are apart; where the stream moved, from twice that.", 100*verdict.Default().Unpaired, 100*c.TieBand)
	note("SAME needs the whole interval within that, and a stream that stood still. Run both with --live for less.")
	return notes(t, c, note)
}

// notes adds what stands below a table of means in any case.
func notes(t *Table, c *Comparison, note func(string, ...any)) *Table {
	for _, n := range c.Notes {
		note("%s", n)
	}
	if w := c.Worst; w != nil {
		note("worst: %s at %s.", name(w.Problem), Ratio(w.Speedup))
	}
	var failed []string
	for _, r := range c.Rows {
		for _, s := range []struct {
			side string
			v    Value
		}{{"A", r.A}, {"B", r.B}} {
			if s.v.US == 0 {
				failed = append(failed, fmt.Sprintf("%s of %s is %s: %s.", name(r.Problem), s.side, s.v.Status, strings.TrimSuffix(s.v.Reason, ".")))
			}
		}
	}
	if c.All.Without > 0 {
		note("%s out of the means, as a side failed:", count(c.All.Without, "problem is", "problems are"))
		list(t, failed)
	}
	if n := len(c.OneSided); n > 0 {
		note("%s on one side only, so the sets differ:", count(n, "problem is", "problems are"))
		var lines []string
		for _, o := range c.OneSided {
			lines = append(lines, fmt.Sprintf("%s of %s: %s.", name(o.Problem), o.Side, strings.TrimSuffix(o.Reason, ".")))
		}
		list(t, lines)
	}
	return t
}

func list(t *Table, lines []string) {
	for i, l := range lines {
		if i == most {
			t.Notes = append(t.Notes, fmt.Sprintf("  and %d more; --format csv has all", len(lines)-most))
			return
		}
		t.Notes = append(t.Notes, "  "+strings.Join(strings.Fields(l), " "))
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ProblemHeader are the columns of ProblemCells.
func ProblemHeader() []string { return []string{"problem", "kind", "dtype", "m", "n", "bytes"} }

// ProblemCells is a problem as csv has it, with its compulsory traffic.
func ProblemCells(p kernels.Problem, bytes int64) []string {
	return []string{p.String(), kind(p), dtypes(p), strconv.FormatInt(p.M, 10), strconv.FormatInt(p.N, 10), strconv.FormatInt(bytes, 10)}
}

func csvTable(c *Comparison) *Table {
	t := &Table{Header: append(ProblemHeader(), "a", "b", "a_variant", "b_variant", "a_status", "b_status",
		"a_us", "a_lo_us", "a_hi_us", "b_us", "b_lo_us", "b_hi_us", "a_gbps", "b_gbps", "a_stream_percent", "b_stream_percent",
		"speedup", "mark", "p", "reason", "a_phase", "b_phase", "a_configs", "b_configs", "speedup_lo", "speedup_hi", "rounds", "verdict")}
	configs := func(v Value) string {
		if v.Configs == 0 {
			return ""
		}
		return strconv.Itoa(v.Configs)
	}
	p := func(r Row) string {
		if r.Test == nil {
			return ""
		}
		return number(r.Test.P)
	}
	variant := func(v Value) string { return v.Family + "@" + v.Config.String() }
	for _, r := range c.Rows {
		reason := r.A.Reason
		if r.B.Reason != "" {
			reason = strings.TrimPrefix(reason+"; "+r.B.Reason, "; ")
		}
		if r.Paired != nil {
			reason = r.Paired.Reason
		}
		t.Rows = append(t.Rows, append(ProblemCells(r.Problem, r.Bytes), c.A, c.B,
			variant(r.A), variant(r.B), string(r.A.Status), string(r.B.Status),
			number(r.A.US), number(r.A.LoUS), number(r.A.HiUS), number(r.B.US), number(r.B.LoUS), number(r.B.HiUS),
			number(r.A.GBps), number(r.B.GBps), number(r.A.StreamPercent), number(r.B.StreamPercent),
			number(r.Speedup), string(r.Mark), p(r), reason, r.A.Phase, r.B.Phase, configs(r.A), configs(r.B)))
		last := &t.Rows[len(t.Rows)-1]
		if p := r.Paired; p != nil {
			*last = append(*last, number(p.Lo), number(p.Hi), strconv.Itoa(p.Rounds))
		} else {
			*last = append(*last, "", "", "")
		}
		*last = append(*last, r.Verdict())
	}
	for _, o := range c.OneSided {
		row := append(ProblemCells(o.Problem, o.Problem.Bytes()), c.A, c.B, "", "", "", "")
		row[10], row[11] = string(o.Status), "missing"
		if o.Side == "B" {
			row[10], row[11] = row[11], row[10]
		}
		row = append(row, make([]string, len(t.Header)-len(row))...)
		row[slices.Index(t.Header, "reason")] = o.Reason
		t.Rows = append(t.Rows, row)
	}
	return t
}
