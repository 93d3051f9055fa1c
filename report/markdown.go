package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"normbench/internal/console"
)

// renderMarkdown writes a comparison for a page that people skim, such as a pull request: what came of
// it, the means, and the rows folded.
func renderMarkdown(w io.Writer, c *Comparison) error {
	rows := c.Table()
	title, notes := rows.Title, rows.Notes
	rows.Title, rows.Notes = "", nil
	outcome := rows.Outcome
	rows.Outcome = nil
	l := &Layout{}
	if s, ok := w.(*Screen); ok {
		l = &s.Layout
	}
	draw := func(t *Table) string {
		var b bytes.Buffer
		// a screen of the same layout, which remembers that the columns of --columns are the rows'
		if err := RenderTable(&Screen{Writer: &b, Layout: *l}, t, FormatMarkdown); err != nil {
			return ""
		}
		return b.String()
	}
	var table bytes.Buffer
	if err := RenderTable(&Screen{Writer: &table, Layout: *l}, rows, FormatMarkdown); err != nil {
		return err
	}
	l.chosen = true
	var b bytes.Buffer
	l.writeOutcome(&b, cmp.Or(outcome, &Outcome{Reason: c.sentence()}), FormatMarkdown)
	l.writeTitle(&b, title, FormatMarkdown)
	if len(c.steps) > 0 {
		b.WriteString(draw(c.stepTable()) + "\n")
	}
	if c.live == nil {
		b.WriteString(draw(meanTable(c)) + "\n")
	} else { // its mean is the first of its notes
		above := notes[:min(2, len(notes))]
		if c.live.Summary.Cells == 0 {
			above = nil
		}
		l.writeNotes(&b, &sheet{Table: &Table{Notes: slices.Clone(above)}}, FormatMarkdown)
		notes = notes[len(above):]
		b.WriteString("\n")
	}
	if len(c.Rows) > 0 || c.live != nil {
		fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n%s\n", console.Count(len(c.Rows), "row"), table.String())
	}
	if c.live != nil && len(c.live.Judged) > 0 || c.live == nil && len(c.Stream) > 0 {
		b.WriteString(draw(StreamTable(c.Stream)) + "\n")
	}
	if c.live != nil {
		l.writeNotes(&b, &sheet{Table: &Table{Notes: notes}}, FormatMarkdown)
	}
	text := strings.TrimRight(b.String(), "\n") + "\n"
	if len(c.Rows) > 0 || c.live != nil {
		text += "\n</details>\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// sentence is a comparison in one sentence, for where no gate was asked for.
func (c *Comparison) sentence() string {
	m := c.All
	if m.N == 0 {
		return ""
	}
	s := fmt.Sprintf("%.3fx as fast over %s: %d faster, %d same, %d slower, %d inconclusive", m.Speedup,
		console.Count(m.N, "problem"), m.Faster, m.Same, m.Slower, m.Unclear)
	for _, x := range []struct {
		n    int
		what string
	}{{m.Unpaired, "not paired"}, {m.Equal, "equal"}, {m.Without, "without a time"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	return s
}

// writeOutcome writes an outcome above all else. One without a kind is a sentence, where there is one.
func (l *Layout) writeOutcome(b *bytes.Buffer, o *Outcome, format string) {
	head := o.Reason
	if o.Kind != "" {
		head = o.String()
	}
	if head == "" {
		return
	}
	if format == FormatMarkdown {
		b.WriteString("### " + unmarkedNote.Replace(head) + "\n")
	} else {
		b.WriteString(l.outcomeColor(o, l.prose(head)) + "\n")
	}
	l.writeNotes(b, &sheet{Table: &Table{Notes: o.lines()}}, format)
	b.WriteByte('\n')
}

// outcomeColor colours a headline as the verdicts are.
func (l *Layout) outcomeColor(o *Outcome, text string) string {
	color := map[string]string{"PASS": "32", "FAIL": "31", "UNDECIDED": "33"}[o.Kind.Word()]
	if !l.Color || o.Kind == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
