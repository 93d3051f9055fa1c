package report

import (
	"fmt"
	"slices"
	"strings"
	"sync"
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
	// Device is named in each note, where several kinds are measured at the same time; "" for one.
	Device string

	console  *console.Console
	step     *console.StatusLine
	unit     string
	problems map[contest]*problemProgress

	mu      sync.Mutex
	text    string   // of the step
	waiting []string // what else is waited for
}

// A contest is a problem with the family that is measured against itself on it, if one is.
type contest struct {
	problem kernels.Problem
	baseOf  string
}

// A problemProgress is what is known of a problem so far.
type problemProgress struct {
	best, base      sweep.ProgressEvent // base is the last of the base
	entries         []*record.Outcome
	runs            map[string]*record.Run // of the entries, by their IDs
	failed, refused int                    // refused by the device
}

// NewProgress begins a run. unit is of Event.Done and total: "variants", or "problems" of a search, whose
// records come when they are done.
func NewProgress(c *console.Console, unit string, total int) *Progress {
	text := "measuring the first " + unit
	step := c.Wait("%s", text)
	step.Reach(console.Amount{Total: total, Unit: unit})
	return &Progress{console: c, step: step, unit: unit, text: text, problems: map[contest]*problemProgress{}}
}

// Waiting tells of a device that was lost, and that it is waited for, until the end is called.
func (p *Progress) Waiting(what string, why error) (end func()) {
	p.console.Notef("%s; its problem is given back, and it is started again", console.OneLine(why.Error()))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, what)
	p.tell()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.waiting, what)
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.tell()
	}
}

// set sets what the run is at.
func (p *Progress) set(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
	p.tell()
}

// tell tells what the run is at, and waits for. The caller holds mu.
func (p *Progress) tell() {
	text := p.text
	if n := len(p.waiting); n > 0 {
		text = strings.TrimPrefix(text+"; waiting for "+p.waiting[0], "; ")
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
	}
	p.step.Set("%s", text)
}

// End ends a run.
func (p *Progress) End() { p.step.End() }

// Observe is told of every record.
func (p *Progress) Observe(e sweep.ProgressEvent) {
	r := e.Record
	of := contest{r.Problem, r.BaseOf}
	x := p.problems[of]
	if x == nil {
		x = &problemProgress{runs: map[string]*record.Run{}}
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
	switch {
	case e.Left == 0:
		on := ""
		if p.Device != "" {
			on = p.Device + ": "
		}
		p.console.Notef("[%d/%d] %s%s%s", e.Done, e.Total, on, r.Problem, x)
		p.set("")
	case x.best.Record != nil:
		p.set(fmt.Sprintf("%s, least median %.1f us", r.Problem, x.best.Median))
	}
	p.step.Reach(console.Amount{Done: e.Done, Total: e.Total, Unit: p.unit})
}

func (x *problemProgress) note(e sweep.ProgressEvent) {
	r := e.Record
	if e.Median == 0 || r.BaseOf != "" && r.Family != r.BaseOf { // it stands beside the family
		return
	}
	if r.Base {
		x.base = e
	}
	x.entries = append(x.entries, x.entry(e.Record))
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
		s += fmt.Sprintf(" (%.0f%% of stream%s)", 100*st/best.Median, x.gain(best.Record))
	}
	return s + " " + best.Record.Variant().String()
}

// entry returns a record's, whose run is one with that of the other records of the run.
func (x *problemProgress) entry(r *record.Record) *record.Outcome {
	if x.runs[r.Run] == nil {
		x.runs[r.Run] = &record.Run{ID: r.Run}
	}
	e := record.Summarize(r, x.runs[r.Run])
	return &e
}

// gain says what the table will say of a record and the base's, ", 1.11x base, FASTER", ", not paired" or
// ", kept base: 11.2 us not proven", or "" where it says nothing: there may be no base, or one of the
// search and not of the finals.
func (x *problemProgress) gain(best *record.Record) string {
	base := x.base.Record
	if base == nil || base.Run != best.Run {
		return ""
	}
	side := func(r *record.Record) Side {
		return Side{Cells: map[kernels.Problem]Measurement{r.Problem: {Outcome: *x.entry(r)}}}
	}
	row := Compare(side(base), side(best)).Rows[0]
	if u := FasterThanBase(x.entries, best.Variant()); u != nil {
		row.Unproven = Measurement{Outcome: *u}
	}
	if row.isOneVariant() || row.Verdict == NotPaired {
		return ", " + row.verdict()
	}
	return fmt.Sprintf(", %.2fx base, %s", row.Speedup, row.Verdict)
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
	if s.Deaths > 0 {
		text += ", the device died " + console.Count(s.Deaths, "time") + " and was started again"
	}
	return text
}
