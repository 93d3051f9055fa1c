package report

import (
	"fmt"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
)

// A Progress tells how a run goes: a note for each finished problem with what the finals chose or, of
// a run without finals, with the least median; and after every few silent seconds one of what is
// measured. It claims no more than the table that follows.
type Progress struct {
	console  *console.Console
	step     *console.StatusLine
	start    time.Time
	unit     string
	problems map[contest]*problemProgress
}

// A contest is a problem with the family that is measured against itself on it, if one is.
type contest struct {
	problem kernels.Problem
	baseOf  string
}

// A problemProgress is what is known of a problem so far.
type problemProgress struct {
	best, base      sweep.ProgressEvent // base is the last of the base
	failed, refused int                 // refused by the device
}

// NewProgress begins a run. unit is of Event.Done: "variants", or "problems" of a search, whose
// records come when they are done.
func NewProgress(c *console.Console, unit string) *Progress {
	return &Progress{console: c, step: c.Wait("measuring the first %s", unit),
		start: time.Now(), unit: unit, problems: map[contest]*problemProgress{}}
}

// End ends a run.
func (p *Progress) End() { p.step.End() }

// Observe is told of every record.
func (p *Progress) Observe(e sweep.ProgressEvent) {
	r := e.Record
	of := contest{r.Problem, r.BaseOf}
	x := p.problems[of]
	if x == nil {
		x = &problemProgress{}
		p.problems[of] = x
	}
	if r.Family == record.Stream {
		return
	}
	x.note(e)
	switch r.Status {
	case kernels.StatusOK:
	case kernels.StatusRefused:
		x.refused++
	default:
		x.failed++
	}
	now := ""
	switch {
	case e.Left == 0:
		p.console.Notef("[%d/%d] %s%s", e.Done, e.Total, r.Problem, x)
	case x.best.Record != nil:
		now = fmt.Sprintf(" %s, least median %.1f us", r.Problem, x.best.Median)
	}
	p.step.Set("[%d/%d, %s]%s", e.Done, e.Total, p.paceText(e), now)
}

func (x *problemProgress) note(e sweep.ProgressEvent) {
	r := e.Record
	if e.Median == 0 || r.BaseOf != "" && r.Family != r.BaseOf { // it stands beside the family
		return
	}
	if r.Base {
		x.base = e
	}
	// What the finals chose may be slower than what the search saw.
	old := x.best.Record
	if r.Chosen != "" || old == nil || old.Chosen == "" && e.Median < x.best.Median {
		x.best = e
	}
}

func (x *problemProgress) String() (s string) {
	if x.failed > 0 {
		s += fmt.Sprintf(": %d failed", x.failed)
	}
	if x.refused > 0 {
		s += fmt.Sprintf(": %d refused", x.refused)
	}
	best, word := x.best, "least median"
	if best.Record == nil {
		return s + ": nothing right so far"
	}
	if best.Record.Chosen != "" {
		word = "chosen"
		if b := x.base; b.Record != nil && b.Record.Run == best.Record.Run && b.Median < best.Median {
			best = b // as tune.Pick has it: the medians of all samples do not confirm the choice
		}
	}
	s += fmt.Sprintf(": %s %.1f us", word, best.Median)
	if st := best.Record.StreamUS; st > 0 {
		s += fmt.Sprintf(" (%.0f%% of stream%s)", 100*st/best.Median, gain(x.base.Record, best.Record))
	}
	return s + " " + best.Record.Variant().String()
}

// gain says what the table will say of two records of one problem, ", 1.11x base, FASTER" or
// ", not paired", or "" where it says nothing: base may be nil, or be of the search and not of the
// finals.
func gain(base, best *record.Record) string {
	if base == nil || base.Run != best.Run {
		return ""
	}
	side := func(r *record.Record) Side {
		x := record.Summarize(r, &record.Run{ID: r.Run})
		return Side{Cells: map[kernels.Problem]Measurement{r.Problem: {Outcome: x}}}
	}
	row := Compare(side(base), side(best)).Rows[0]
	if row.isOneVariant() || row.Verdict == NotPaired {
		return ", " + string(row.Verdict)
	}
	return fmt.Sprintf(", %.2fx base, %s", row.Speedup, row.Verdict)
}

// paceText tells the rate and, once a twentieth is done, the time left: the first variants pay for what
// all of them need, such as the first problem's answers.
func (p *Progress) paceText(e sweep.ProgressEvent) string {
	elapsed := time.Since(p.start)
	text := fmt.Sprintf("%.0f %s/min", float64(e.Done)/elapsed.Minutes(), p.unit)
	if 20*e.Done < e.Total {
		return text
	}
	left := time.Duration(float64(elapsed) / float64(max(e.Done, 1)) * float64(e.Total-e.Done))
	return fmt.Sprintf("%s, %s left", text, left.Round(time.Second))
}

// RunNotes say how a run went.
func RunNotes(s sweep.Totals, devices []kernels.Device) (notes []string) {
	notes = append(notes, runNote(s, devices))
	for _, g := range s.Gone {
		notes = append(notes, console.OneLine(g))
	}
	return notes
}

// runNote counts the variants of a run.
func runNote(s sweep.Totals, devices []kernels.Device) string {
	text := console.Count(s.Measured-s.Refused, "variant") + " measured"
	add := func(n int, format string) {
		if n > 0 {
			text += fmt.Sprintf(format, n)
		}
	}
	add(s.Failed, ", %d of them failed")
	if _, replayed := devices[0].(*replay.Device); replayed {
		add(s.Refused, ", the recording has no times of %d more")
	} else {
		add(s.Refused, ", the device cannot run %d more")
	}
	add(s.Skipped, ", %d were there already")
	if s.Measured > 0 && s.Wall > 0 {
		text += fmt.Sprintf("; %.1f s, %.0f variants/min", s.Wall.Seconds(),
			float64(s.Measured)/s.Wall.Minutes())
		part := func(d time.Duration) float64 { return max(100*d.Seconds()/s.Wall.Seconds(), 0) }
		if s.Busy <= s.Wall { // a replay does not take the time that it tells
			var each []string
			for _, d := range s.Each {
				each = append(each, fmt.Sprintf("%.0f%%", part(d)))
			}
			text += fmt.Sprintf(", device at work %s of the time", strings.Join(each, " and "))
		}
	}
	return text
}
