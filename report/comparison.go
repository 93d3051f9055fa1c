package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// Render writes a comparison; see RenderAll.
func Render(w io.Writer, c *Comparison, format string) error {
	return RenderAll(w, []*Comparison{c}, format)
}

// RenderAll writes comparisons: of each the rows, what stands beside them, how near both sides come to the
// stream, and of recordings the geometric means and the notes. csv has the first tables alone, as one,
// and json one object; both have a row for each one-sided problem too. Markdown has the rows last,
// folded. Text and Markdown end with what was found.
func RenderAll(w io.Writer, cs []*Comparison, format string) error {
	if format == FormatMarkdown {
		for i, c := range cs {
			if i > 0 {
				if _, err := io.WriteString(w, "\n"); err != nil {
					return err
				}
			}
			if err := renderMarkdown(w, c); err != nil {
				return err
			}
		}
		return nil
	}
	var tables []*Table
	for _, c := range cs {
		tables = append(tables, c.tables(format)...)
	}
	if format == FormatCSV {
		tables = tables[:1]
		for _, c := range cs[1:] {
			tables[0].Data.Rows = append(tables[0].Data.Rows, c.Table().Data.Rows...)
		}
	}
	if format != FormatText {
		end := cs[len(cs)-1].Ending()
		end.Found = ""
		for _, c := range cs {
			end.Found = strings.TrimSpace(end.Found + " " + c.Found())
		}
		return RenderTables(w, format, end, tables...)
	}
	for i, c := range cs {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := RenderTables(w, format, c.Ending(), c.tables(format)...); err != nil {
			return err
		}
	}
	return nil
}

// tables returns those of a comparison in a format.
func (c *Comparison) tables(format string) []*Table {
	tables := []*Table{c.Table()}
	if c.beside != nil {
		tables = append(tables, c.besideTable())
	}
	if c.live != nil && len(c.live.Judged) > 0 || c.live == nil && len(c.Stream) > 0 {
		tables = append(tables, StreamTable(c.Stream))
	}
	if c.live == nil {
		tables = append(tables, meanTable(c))
	}
	if len(c.steps) > 0 {
		tables = append(tables, c.stepTable())
	}
	if c.live == nil && len(c.Rows) == 0 && format == FormatText {
		tables = tables[1:]
	}
	return tables
}

// PutBeside puts a side, such as normbench's default beside a family against itself, below the
// comparison's rows. It takes no part in them.
func (c *Comparison) PutBeside(side, best Side) {
	if with := Compare(side, best); len(with.Rows) > 0 {
		c.beside = with
	}
}

// besideTable has a row for each problem of what stands beside a comparison.
func (c *Comparison) besideTable() *Table {
	columns := ProblemColumns(func(r Row) (kernels.Problem, int64) { return r.Problem, r.Bytes },
		"", "kind", "dtype", "M", "N")
	columns = append(columns, sideColumns(func(r Row) Measurement { return r.A }, "", "", "status", "us",
		"stream_percent")...)
	for i := range columns {
		switch columns[i].Name {
		case "us":
			columns[i].Head = "us"
			columns[i].Text = func(r Row) string { return cmp.Or(Micros(r.A.medianUS()), string(r.A.Status)) }
		case "stream_percent":
			columns[i].Head, columns[i].Format = "%stream", "%.1f"
		}
	}
	columns = append(columns,
		Column[Row]{Head: "over B", Name: "over_b", Value: func(r Row) any { return NonZero(r.Speedup) },
			Text: Row.speedup, Means: "its time over B's"},
		Column[Row]{Name: "over_b_lo", Value: func(r Row) any { lo, _ := r.interval(); return NonZero(lo) }},
		Column[Row]{Name: "over_b_hi", Value: func(r Row) any { _, hi := r.interval(); return NonZero(hi) }},
		Column[Row]{Head: "family", Name: "variant", Value: func(r Row) any { return r.A.variant() },
			Text: func(r Row) string { return r.A.Variant.Family }})
	t := NewTable(c.beside.A+" beside them: neither base nor winner", c.beside.Rows, columns)
	t.Name = "beside"
	t.Group = kindGroup
	return t
}

// kindGroup groups rows by their first two columns, the kind and the dtype, under the text of their
// problems without the shape: layernorm/fwd+bias and bf16 are layernorm/fwd/bf16+bias.
var kindGroup = &Group{Of: func(row []string) (string, string) {
	base, options, has := strings.Cut(row[0], "+")
	if has {
		options = "+" + options
	}
	return base + "/" + row[1] + options, row[0]
}, Hide: []string{"kind", "dtype"}}

// sides names both sides, and their device where a report has several.
func (c *Comparison) sides() string {
	text := fmt.Sprintf("A = %s, B = %s", c.A, c.B)
	if c.Device != "" {
		text += ", on " + c.Device
	}
	return text
}

// Table is a row for each problem. It keeps to some 90 columns: the variants are in csv, which has
// the one-sided problems too.
func (c *Comparison) Table() *Table {
	title := fmt.Sprintf("%s\n%s;\n"+
		"%%stream is the time of a copy of those bytes in the same run over the kernel's time.\n%s",
		withMeanings(c.sides(), c.A, c.B), BytesRule, checked)
	t := NewTable(strings.Join(append([]string{title}, c.Timer...), "\n"), c.Rows, c.columns())
	t.Data, t.Device = NewTable("", slices.Concat(c.Rows, c.OneSided), c.columns()).Data, deviceIDs(c.Runs)
	t.Drop, t.Group = []string{"A GB/s,B GB/s", "A %stream"}, kindGroup
	if c.live != nil {
		c.live.describe(t, c.Timer)
	}
	if c.aboveStream() {
		at := 0
		if c.live != nil && c.live.Summary.Cells > 0 {
			at = 2 // behind the mean and the worst cell
		}
		t.Notes = slices.Insert(t.Notes, at, aboveStream)
	}
	return t
}

// columns are those of recordings or of a live compare, which has some more. People see the time,
// the stream's share, the speedup and the verdict of both.
func (c *Comparison) columns() []Column[Row] {
	live := c.live != nil
	heads := []string{"", "kind", "dtype", "M", "N"}
	if live {
		heads = []string{"problem"}
	}
	list := ProblemColumns(func(r Row) (kernels.Problem, int64) { return r.Problem, r.Bytes },
		heads...)
	add := func(head, name string, value func(Row) any, text func(Row) string) {
		list = append(list, Column[Row]{Head: head, Name: name, Value: value, Text: text})
	}
	both := func(groups ...string) {
		for _, names := range groups {
			for i, prefix := range []string{"a_", "b_"} {
				list = append(list, sideColumns(func(r Row) Measurement { return []Measurement{r.A, r.B}[i] },
					letter(i), prefix, strings.Fields(names)...)...)
			}
		}
	}
	judged := func(head, name string, value func(*verdict.Judgement) any) {
		add(head, name, func(r Row) any { return ifAny(r.judged, value) }, nil)
	}
	rounds := func(j *verdict.Judgement) any { return j.Rounds }
	add("", "a", func(Row) any { return c.A }, nil)
	add("", "b", func(Row) any { return c.B }, nil)
	both("variant", "status", "us lo_us hi_us", "gbps", "stream_percent")
	if live {
		for i, col := range list {
			list[i].Means = map[string]string{"A us": "median over the rounds; B us likewise",
				"B %stream": "time of a copy of the same tensors over B's time; A %stream likewise",
			}[col.Head]
			if col.Name == "a_gbps" || col.Name == "b_gbps" {
				list[i].Head = ""
			}
		}
		judged("rounds", "", rounds)
	}
	add("speedup", "speedup", func(r Row) any { return NonZero(r.Speedup) }, Row.speedup)
	judged("", "p", func(j *verdict.Judgement) any { return j.P })
	add("", "reason", func(r Row) any { return r.reason() }, nil)
	if !live {
		both("phase", "configs")
	}
	add("", "speedup_lo", func(r Row) any { lo, _ := r.interval(); return NonZero(lo) }, nil)
	add("", "speedup_hi", func(r Row) any { _, hi := r.interval(); return NonZero(hi) }, nil)
	judged("", "rounds", rounds)
	add("verdict", "verdict", func(r Row) any { return r.Verdict }, Row.verdict)
	if live {
		list = append(list, liveColumns(&c.live.Experiment)...)
	}
	return list
}

// measurementColumns lays out the columns of a side, whose name stands before theirs.
var measurementColumns = []Column[Measurement]{
	{Name: "variant", Value: Measurement.variant},
	{Name: "status", Value: func(c Measurement) any { return c.Status }},
	{Name: "us", Head: " us", Value: func(c Measurement) any { return NonZero(c.medianUS()) }, Text: func(c Measurement) string {
		return cmp.Or(Micros(c.medianUS()), string(c.Status))
	}},
	{Name: "lo_us", Value: func(c Measurement) any { return NonZero(c.Lo) }},
	{Name: "hi_us", Value: func(c Measurement) any { return NonZero(c.Hi) }},
	{Name: "gbps", Head: " GB/s", Value: func(c Measurement) any { return NonZero(c.gbps()) },
		Text: func(c Measurement) string { return FormatRate(c.gbps()) }},
	{Name: "stream_percent", Head: " %stream",
		Value: func(c Measurement) any { return NonZero(c.streamPercent()) }, Format: "%.1f"},
	{Name: "phase", Value: func(c Measurement) any {
		if c.Configs == 0 || c.medianUS() == 0 {
			return ""
		}
		return phaseName(c.run().Protocol.Phase)
	}},
	{Name: "configs", Value: func(c Measurement) any {
		if c.medianUS() == 0 {
			return nil
		}
		return NonZero(c.Configs)
	}},
	{Name: "reason", Value: func(c Measurement) any { return c.Reason }},
}

// letter names a side in tables.
func letter(i int) string { return string(rune('A' + i)) }

// sideColumns are columns of a side by their names in csv. Before the names of all stands prefix,
// before the heads letter; without a letter they are not for people.
func sideColumns[R any](of func(R) Measurement, letter, prefix string, names ...string) (list []Column[R]) {
	for _, name := range names {
		v := measurementColumns[slices.IndexFunc(measurementColumns,
			func(c Column[Measurement]) bool { return c.Name == name })]
		c := Column[R]{Name: prefix + name, Value: func(r R) any { return v.Value(of(r)) }}
		if v.Head != "" && letter != "" {
			c.Head, c.Format = letter+v.Head, v.Format
			if v.Text != nil {
				c.Text = func(r R) string { return v.Text(of(r)) }
			}
		}
		list = append(list, c)
	}
	return list
}

// variant is the side's in csv, nil where it has none.
func (c Measurement) variant() any {
	if c.Variant.Family == "" {
		return nil
	}
	return c.Variant.String()
}

// speedup is the row's for people: that of the rounds with its interval, where there are such.
func (r Row) speedup() string {
	switch lo, hi := r.interval(); {
	case r.judged != nil:
		return ratioIn(r.Speedup, lo, hi)
	case r.Speedup > 0 && !r.isOneVariant():
		return Ratio(r.Speedup)
	}
	return ""
}

// verdict is the row's for people, with what stands against it.
func (r Row) verdict() string {
	switch {
	case r.Unproven.medianUS() > 0:
		return fmt.Sprintf("kept base: %s us not proven", Micros(r.Unproven.medianUS()))
	case r.duel != nil && r.judged == nil:
		return strings.ToUpper(string(r.duel.Status)) + ": " + r.duel.Reason
	case r.duel != nil && r.judged.Gate != r.judged.Verdict:
		return string(r.Verdict) + " (not beyond doubt among so many cells)"
	}
	return string(r.Verdict)
}

func (r Row) reason() string {
	a, b := r.A.Reason, r.B.Reason
	switch {
	case r.Unproven.medianUS() > 0:
		return r.unprovenNote()
	case r.judged != nil:
		return r.judged.Reason
	case a != "" && b != "" && a != b:
		return a + "; " + b
	}
	return cmp.Or(a, b)
}

// unprovenNote says which variant has a shorter median than the base that was kept, and what the rounds
// have against it: noise, or a second copy of the base that differs as much.
func (r Row) unprovenNote() string {
	u := r.Unproven
	text := fmt.Sprintf("%s has a median of %s us, and nothing proves it faster", u.Variant, Micros(u.medianUS()))
	if x, y := r.A.Finals(), u.Finals(); len(x.Rounds) > 0 && len(x.Rounds) == len(y.Rounds) {
		step := stats.TimerStep(slices.Concat(r.A.SamplesUS, u.SamplesUS))
		j := verdict.JudgeRounds(x.Rounds, y.Rounds, x.BaseAgain, step, max(x.Of, y.Of)-1)
		if j.Reason != "" {
			text += ": " + j.Reason
		}
	}
	return text
}

// ratioIn is a ratio with its interval, if there is one.
func ratioIn(x, lo, hi float64) string {
	if lo == 0 {
		return fmt.Sprintf("%.3fx", x)
	}
	return fmt.Sprintf("%.3fx (%.3f-%.3f)", x, lo, hi)
}

func meanTable(c *Comparison) *Table {
	number := func(head string, of func(Mean) int) Column[Mean] {
		return Column[Mean]{Head: head, Name: strings.ReplaceAll(head, " ", "_"), Value: func(m Mean) any { return of(m) }}
	}
	columns := []Column[Mean]{
		{Head: "geometric mean", Name: "kind", Value: func(m Mean) any { return cmp.Or(m.Kind, "all") }},
		number("problems", func(m Mean) int { return m.N }),
		{Head: "speedup", Name: "speedup", Value: func(m Mean) any { return NonZero(m.Speedup) },
			Text: func(m Mean) string {
				if m.N == 0 {
					return ""
				}
				return ratioIn(m.Speedup, m.Lo, m.Hi)
			}},
		{Name: "speedup_lo", Value: func(m Mean) any { return NonZero(m.Lo) }},
		{Name: "speedup_hi", Value: func(m Mean) any { return NonZero(m.Hi) }},
		number("faster", func(m Mean) int { return m.Faster }),
		number("same", func(m Mean) int { return m.Same }),
		number("slower", func(m Mean) int { return m.Slower }),
		number("inconclusive", func(m Mean) int { return m.Unclear })}
	if c.All.Unpaired > 0 {
		columns = append(columns, number("not paired", func(m Mean) int { return m.Unpaired }))
	}
	if c.All.Equal > 0 {
		columns = append(columns, number("equal", func(m Mean) int { return m.Equal }))
	}
	t := NewTable("", append(slices.Clone(c.Kinds), c.All), columns)
	t.Name = "means"
	t.Notes = append([]string{"speedup is A's time over B's; FASTER and SLOWER are about B."},
		c.rowNotes(methodNotes)...)
	if c.All.Lo > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("means have an interval at 95%% over other such "+
			"shapes (%d here), all cells of a shape together.", c.All.Shapes))
	}
	for i := range c.Rows {
		if r := &c.Rows[i]; r.judged != nil {
			t.Notes = append(t.Notes, lateNotes(r.Problem.String(), r.judged)...)
		}
	}
	t.Notes = append(t.Notes, c.Notes...)
	if w := c.Worst; w != nil {
		t.Notes = append(t.Notes, fmt.Sprintf("worst: %s at %s.", w.Problem.String(),
			Ratio(w.Speedup)))
	}
	t.Notes = append(t.Notes, c.missingNotes()...)
	return t
}

// missingNotes notes which problems have no speedup, and why.
func (c *Comparison) missingNotes() (notes []string) {
	var failed, single []string
	for _, r := range c.Rows {
		for i, v := range []Measurement{r.A, r.B} {
			if v.medianUS() == 0 {
				failed = append(failed, v.failure(r.Problem, letter(i))+".")
			}
		}
	}
	for _, r := range c.OneSided {
		for i, v := range []Measurement{r.A, r.B} {
			if v.Status != Missing {
				reason := strings.TrimSuffix(v.Reason, ".")
				single = append(single, fmt.Sprintf("%s of %s: %s.", r.Problem.String(), letter(i), reason))
			}
		}
	}
	if n := c.All.Without; n > 0 {
		notes = append(notes,
			console.Count(n, "problem")+" left out of the means, as a side failed:")
		notes = append(notes, indentLines(failed)...)
	}
	if n := len(single); n > 0 {
		notes = append(notes,
			console.Count(n, "problem")+" on one side only, so the sets differ:")
		notes = append(notes, indentLines(single)...)
	}
	return notes
}

// failure says why a side has no time.
func (c Measurement) failure(p kernels.Problem, side string) string {
	return fmt.Sprintf("%s of %s is %s: %s", p.String(), side, c.Status,
		strings.TrimSuffix(c.Reason, "."))
}

// indentLines are lines below another note. After twenty the rest is counted.
func indentLines(lines []string) (notes []string) {
	const most = 20
	for i, l := range lines {
		if i == most {
			return append(notes, fmt.Sprintf("  and %d more; --format csv has all",
				len(lines)-most))
		}
		notes = append(notes, "  "+strings.Join(strings.Fields(l), " "))
	}
	return notes
}
