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
	var above, table bytes.Buffer
	head := l.outcome(outcome, FormatMarkdown)
	draw(&table, rows)
	above.WriteString(l.title(title, FormatMarkdown))
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
		above.WriteString(l.notes(notes[:n], FormatMarkdown) + "\n")
		below = notes[n:]
	}
	if len(c.Rows) == 0 && c.live == nil {
		return skim{head, strings.TrimRight(above.String(), "\n") + "\n", ""}, err
	}
	if c.live == nil || len(c.live.Judged) > 0 {
		draw(&table, StreamTable(c.Stream))
	}
	table.WriteString(l.notes(below, FormatMarkdown))
	end := c.Ending()
	if outcome.Kind == "" { // the headline has it
		end.Found = ""
	}
	above.WriteString(l.ending(end, FormatMarkdown) + "\n")
	return skim{head, blank.ReplaceAllString(above.String(), "\n\n"), fold(console.Count(len(c.Rows), "row"), table.String())}, err
}

// fold returns a text that is shown when its summary is clicked.
func fold(summary, text string) string {
	return fmt.Sprintf("<details><summary>%s</summary>\n\n%s\n\n</details>\n", summary,
		blank.ReplaceAllString(strings.Trim(text, "\n"), "\n\n"))
}

// blank are more empty lines than one.
var blank = regexp.MustCompile(`\n{3,}`)
