package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/hint"
)

// A GatePart is one family of a gate: compared with the one of another checkout, or checked alone. Without a
// family it is about several that were neither.
type GatePart struct {
	Family     string
	Outcome    *GateOutcome
	Comparison *Comparison // nil where nothing was timed
	Checks     *Table      // of verify; nil where there are none
}

// GateText returns what a pull request is told, in Markdown of up to limit bytes: what came of it, then each
// family with its rows folded. about says what was compared with what. Where all rows are too many, those
// of the last families are left out.
func GateText(mark, about string, o *GateOutcome, parts []GatePart, limit int) (string, error) {
	var all []skim
	judged := 0
	for _, p := range parts {
		if p.Family != "" {
			judged++
		}
	}
	for _, p := range parts {
		if p.Family == "" {
			if !strings.Contains(o.Reason, p.Outcome.Reason) { // of a gate that fails, the reason is that alone
				all = append(all, skim{head: unmarkedNote.Replace(p.Outcome.Reason) + "\n\n"})
			}
			continue
		}
		m, err := p.skim(judged > 1)
		if err != nil {
			return "", err
		}
		all = append(all, m)
	}
	for kept := len(all); ; kept-- {
		text := gateText(mark, about, o, all, kept)
		if len(text) <= limit {
			return text, nil
		}
		if kept == 0 {
			return "", hint.Errorf("name fewer kernels or shapes", "the gate's text has %d characters, and may have %d",
				len(text), limit)
		}
	}
}

// longestLine is how many bytes a line about a cell has: a compiler may have said more.
const longestLine = 300

func gateText(mark, about string, o *GateOutcome, all []skim, kept int) string {
	var b bytes.Buffer
	l := &Layout{Wide: true}
	short := *o
	short.Lines = nil
	for _, line := range o.Lines {
		if len(line) > longestLine {
			line = strings.ToValidUTF8(line[:longestLine], "") + " ..."
		}
		short.Lines = append(short.Lines, line)
	}
	b.WriteString(mark)
	b.WriteString(l.outcome(&short, FormatMarkdown) + about + "\n")
	for i, m := range all {
		b.WriteString("\n" + m.head)
		if i < kept {
			b.WriteString(m.above + m.rows)
		}
	}
	if left := len(all) - kept; left > 0 {
		b.WriteString("\nThe rows are left out, as this text has a limit; the job's files have them.\n")
	}
	return b.String()
}

// gateColumns are those of the rows: a comment is narrow, and the files have all.
var gateColumns = []string{"problem", "verdict", "speedup", "A us", "B us", "B %stream", "what moved"}

// skim returns a part in Markdown. Beside others it has a heading.
func (p *GatePart) skim(several bool) (m skim, err error) {
	if p.Comparison != nil {
		l := &Layout{Columns: gateColumns, Wide: true}
		if m, err = p.Comparison.markdown(l); err != nil {
			return m, err
		}
	}
	if m.head = ""; several {
		m.head = fmt.Sprintf("#### %s: %s\n\n", unmarked.Replace(p.Family), unmarkedNote.Replace(p.Outcome.String()))
	}
	if p.Checks != nil {
		var b bytes.Buffer
		t := p.Checks.pick(p.Checks.allColumns())
		t = t.pick(slices.DeleteFunc(t.allColumns(), t.empty))
		if err := RenderTable(&b, t, FormatMarkdown); err != nil {
			return m, err
		}
		m.rows += fold("checks", b.String())
	}
	return m, nil
}
