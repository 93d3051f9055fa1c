package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"normbench/kernels"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
)

// progress tells the person at the terminal how a run goes: a bar with rate and
// ETA, and a line for each finished problem with the best variant so far. Where
// standard error is no terminal there is no bar, and a plain line at most every
// few seconds instead.
type progress struct {
	w        io.Writer
	columns  func() int // nil where w is no terminal
	drawn    time.Time  // when the bar was
	shown    int        // columns that it takes, 0 where there is none
	start    time.Time
	lastLine time.Time
	unit     string // of Event.Done: "variants", or "problems" of a search, whose records come when they are done
	best     map[kernels.Problem]sweep.Event
	base     map[kernels.Problem]*record.Record
	failed   map[kernels.Problem]int
	refused  map[kernels.Problem]int // by the device
}

const plainEvery = 5 * time.Second

func newProgress(w io.Writer, unit string) *progress {
	p := &progress{w: w, start: time.Now(), lastLine: time.Now(), unit: unit,
		best: map[kernels.Problem]sweep.Event{}, base: map[kernels.Problem]*record.Record{}, failed: map[kernels.Problem]int{}, refused: map[kernels.Problem]int{}}
	if r, ok := terminal(w); ok {
		p.w, p.columns = r.Writer, r.columns
	}
	return p
}

// A row is a terminal.
type row struct {
	io.Writer
	columns func() int // asked each time: windows change
}

// terminal says whether w is one.
func terminal(w io.Writer) (row, bool) {
	if r, ok := w.(row); ok { // a test's
		return r, true
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return row{}, false
	}
	return row{f, func() int {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
		return 80
	}}, true
}

// bar is a line of at most so many columns: first its bar is shortened, then its end.
func bar(before, after string, done, total, columns int) string {
	free := columns - utf8.RuneCountInString(before+after) - len(" ||")
	wide := min(max(free, 0), 12)
	full := wide * done / max(total, 1)
	runes := []rune(before + " |" + strings.Repeat("█", full) + strings.Repeat(" ", wide-full) + "|" + after)
	return string(runes[:min(len(runes), max(columns, 0))])
}

// draw draws the bar anew. It leaves the last column empty, because some terminals then go on
// to the next line. If a line wrapped, only its last row would be cleared.
func (p *progress) draw(e sweep.Event) {
	if time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.clear()
	text := bar(fmt.Sprintf("%s %3d%%", p.short(e.Record.Problem), 100*e.Done/max(e.Total, 1)),
		fmt.Sprintf(" (%d/%d, %s)", e.Done, e.Total, p.pace(e)), e.Done, e.Total, p.columns()-1)
	io.WriteString(p.w, text)
	p.drawn, p.shown = time.Now(), utf8.RuneCountInString(text)
}

// clear takes the bar away.
func (p *progress) clear() {
	if p.shown > 0 {
		io.WriteString(p.w, "\r"+strings.Repeat(" ", max(min(p.shown, p.columns()-1), 0))+"\r")
		p.shown = 0
	}
}

// observe is told of every record.
func (p *progress) observe(e sweep.Event) {
	r := e.Record
	if e.Left == 0 || e.Median > 0 && r.Family != "stream" {
		p.note(e)
	}
	if r.Family == "stream" {
		return
	}
	switch r.Status {
	case kernels.StatusOK, record.StatusPruned:
	case kernels.StatusRefused:
		p.refused[r.Problem]++
	default:
		p.failed[r.Problem]++
	}
	if p.columns != nil {
		p.draw(e)
	}
	if e.Left == 0 {
		p.println(fmt.Sprintf("[%d/%d] %s", e.Done, e.Total, p.line(r.Problem)))
	} else if p.columns == nil && p.unit == "variants" && time.Since(p.lastLine) > plainEvery {
		p.println(fmt.Sprintf("[%d/%d, %s] %s", e.Done, e.Total, p.pace(e), p.line(r.Problem)))
	}
}

func (p *progress) note(e sweep.Event) {
	r := e.Record
	if e.Median == 0 || r.Family == "stream" {
		return
	}
	if r.Base {
		p.base[r.Problem] = r
	}
	b, ok := p.best[r.Problem] // what the finals chose may be slower than what the search saw
	if r.Chosen != "" || !ok || b.Record.Chosen == "" && e.Median < b.Median {
		p.best[r.Problem] = e
	}
}

// line is what is known of a problem so far.
func (p *progress) line(pr kernels.Problem) string {
	s := pr.String()
	if n := p.failed[pr]; n > 0 {
		s += fmt.Sprintf(": %d failed", n)
	}
	if n := p.refused[pr]; n > 0 {
		s += fmt.Sprintf(": %d refused", n)
	}
	b, ok := p.best[pr]
	if !ok {
		return s + ": nothing right so far"
	}
	word := "best"
	if b.Record.Chosen != "" {
		word = "chosen"
	}
	s += fmt.Sprintf(": %s %.1f us", word, b.Median)
	if st := b.Record.StreamUS; st > 0 {
		s += fmt.Sprintf(" (%.0f%% of stream%s)", 100*st/b.Median, gain(p.base[pr], b.Record))
	}
	return s + " " + b.Record.Variant().String()
}

// gain is what the table will say of two records of one problem, ", 1.11x base", or "" where it
// says nothing: base may be nil, or be of the search and not of the finals.
func gain(base, best *record.Record) string {
	if base == nil || base.Run != best.Run {
		return ""
	}
	side := func(r *record.Record) report.Side {
		x := record.Summarize(r, &record.Run{ID: r.Run})
		return report.Side{Cells: map[kernels.Problem]report.Cell{r.Problem: report.CellOf(x)}}
	}
	row := report.Compare(side(base), side(best)).Rows[0]
	if row.Mark == report.Equal {
		return ", " + row.Verdict()
	}
	return fmt.Sprintf(", %.2fx base, %s", row.Speedup, row.Verdict())
}

// short is line for beside the bar.
func (p *progress) short(pr kernels.Problem) string {
	s := fmt.Sprintf("%s %dx%d", pr.Pass, pr.M, pr.N)
	if b, ok := p.best[pr]; ok {
		s += fmt.Sprintf(" best %.1f us", b.Median)
	}
	return s
}

// pace is the rate and, once a twentieth is done, the time left: the first variants pay for what
// all of them need, such as the first problem's answers.
func (p *progress) pace(e sweep.Event) string {
	elapsed := time.Since(p.start)
	if 20*e.Done < e.Total {
		return fmt.Sprintf("%.0f %s/min", float64(e.Done)/elapsed.Minutes(), p.unit)
	}
	left := time.Duration(float64(elapsed) / float64(max(e.Done, 1)) * float64(e.Total-e.Done))
	return fmt.Sprintf("%.0f %s/min, %s left", float64(e.Done)/elapsed.Minutes(), p.unit, left.Round(time.Second))
}

func (p *progress) println(s string) {
	p.clear()
	if p.columns != nil {
		if runes := []rune(s); len(runes) >= p.columns() {
			s = string(runes[:max(p.columns()-2, 0)]) + "…"
		}
	}
	fmt.Fprintln(&plain{Writer: p.w}, s)
	p.lastLine = time.Now()
}

func (p *progress) finish() { p.clear() }
