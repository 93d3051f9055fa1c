package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	"normbench/internal/console"
)

// renderMarkdown writes a comparison for a page that people skim, such as a pull request: what came of
// it, the means, and the rows folded.
func renderMarkdown(w io.Writer, c *Comparison) error {
	l := &Layout{}
	if s, ok := w.(*Screen); ok {
		l = &s.Layout
	}
	l.Wide = true // a page of its own width
	m, err := c.markdown(l)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, m.head+m.above+m.rows)
	return err
}

// A skim is a comparison in Markdown, in the order in which people read it.
type skim struct{ head, above, rows string }

func (c *Comparison) markdown(l *Layout) (m skim, err error) {
	rows := c.Table()
	outcome := cmp.Or(rows.Outcome, &GateOutcome{Reason: c.Found()})
	title, notes := rows.Title, rows.Notes
	rows.Title, rows.Notes, rows.Outcome = "", nil, nil
	draw := func(b *bytes.Buffer, t *Table) {
		if err == nil {
			s := &Screen{Writer: b, Layout: *l}
			err = RenderTable(s, t, FormatMarkdown)
			l.chosen = s.Layout.chosen // the columns of --columns are the rows'
			b.WriteByte('\n')
		}
	}
	var head, above, table bytes.Buffer
	l.writeOutcome(&head, outcome, FormatMarkdown)
	draw(&table, rows)
	l.writeTitle(&above, title, FormatMarkdown)
	if len(c.steps) > 0 {
		draw(&above, c.stepTable())
	}
	var below []string
	if c.live == nil {
		draw(&above, meanTable(c))
		if c.beside != nil {
			draw(&above, c.besideTable())
		}
	} else { // its mean and its worst cell are the first of its notes
		n := 0
		if c.live.Summary.Cells > 0 {
			n = 2
		}
		l.writeNotes(&above, &sheet{Table: &Table{Notes: notes[:n]}}, FormatMarkdown)
		above.WriteByte('\n')
		below = notes[n:]
	}
	if len(c.Rows) == 0 && c.live == nil {
		return skim{head.String(), strings.TrimRight(above.String(), "\n") + "\n", ""}, err
	}
	if c.live == nil || len(c.live.Judged) > 0 {
		draw(&table, StreamTable(c.Stream))
	}
	l.writeNotes(&table, &sheet{Table: &Table{Notes: below}}, FormatMarkdown)
	end := c.Ending()
	if outcome.Kind == "" { // the headline has it
		end.Found = ""
	}
	if err == nil {
		err = end.write(&above, FormatMarkdown, l)
	}
	above.WriteByte('\n')
	return skim{head.String(), blank.ReplaceAllString(above.String(), "\n\n"), fold(console.Count(len(c.Rows), "row"), table.String())}, err
}

// fold returns a text that is shown when its summary is clicked.
func fold(summary, text string) string {
	return fmt.Sprintf("<details><summary>%s</summary>\n\n%s\n\n</details>\n", summary,
		blank.ReplaceAllString(strings.Trim(text, "\n"), "\n\n"))
}

// blank are more empty lines than one.
var blank = regexp.MustCompile(`\n{3,}`)

// writeOutcome writes an outcome above all else. One without a kind is a sentence, where there is one.
func (l *Layout) writeOutcome(b *bytes.Buffer, o *GateOutcome, format string) {
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
		b.WriteString(l.outcomeColor(o, l.wrapLine(head)) + "\n")
	}
	l.writeNotes(b, &sheet{Table: &Table{Notes: o.lines()}}, format)
	b.WriteByte('\n')
}

// outcomeColor colours a headline as the verdicts are.
func (l *Layout) outcomeColor(o *GateOutcome, text string) string {
	color := map[string]string{"PASS": "32", "FAIL": "31", "UNDECIDED": "33"}[o.Kind.Word()]
	if !l.Color || o.Kind == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
