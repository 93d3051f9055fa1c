package console

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Tick is the time between two drawings of a terminal's line.
const Tick = time.Second

// A statusStack holds the steps that are waited for. The last one that began is told, until it ends.
type statusStack struct {
	mu    sync.Mutex
	steps []*StatusLine
	timer *time.Timer // tells, while there are steps
}

// A StatusLine is a step that the program waits for. It tells of it on the terminal.
type StatusLine struct {
	waits *statusStack
	clear func() // of the terminal's line
	text  string
	since time.Time // when the text was set
	begun time.Time
	part  Amount
	at    time.Time // when the part was set
}

// An Amount says how much of a step is done.
type Amount struct {
	Done, Total int    // Total is 0 where it is not known
	Unit        string // of both: "problems"
	Left        time.Duration
}

// Wait begins a step and tells of it: on a terminal in a line that is drawn anew every second, elsewhere
// in a note after every few seconds of silence. The caller ends it.
func (c *Console) Wait(format string, args ...any) *StatusLine {
	w, now := &c.waits, time.Now()
	s := &StatusLine{waits: w, clear: c.clearLine, text: fmt.Sprintf(format, args...), since: now, begun: now}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = append(w.steps, s); len(w.steps) == 1 {
		w.timer = time.AfterFunc(c.pause(), c.tellStatus)
	}
	return s
}

// pause returns the time between two tellings.
func (c *Console) pause() time.Duration {
	if _, ok := c.line(); ok {
		return Tick
	}
	return Pause
}

// tellStatus tells of the innermost step: on a terminal's line, elsewhere if nothing was noted for a
// while. It holds the lock, so that no step ends meanwhile.
func (c *Console) tellStatus() {
	w := &c.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.steps) == 0 || c.ctx.Err() != nil {
		return
	}
	s := w.steps[len(w.steps)-1]
	if t, ok := c.line(); ok {
		c.drawLine(t, s.told(Tick))
		w.timer.Reset(Tick)
		return
	}
	if c.silence() >= Pause {
		c.Notef("%s", s.told(Pause))
	}
	w.timer.Reset(Pause - c.silence())
}

// told writes what a step says: how far it is, what it does, and for how long if that is at least long.
func (s *StatusLine) told(long time.Duration) string {
	text := s.text
	if n := s.part; n.Unit != "" {
		if text != "" {
			text = " " + text
		}
		text = "[" + s.pace() + "]" + text
	}
	if d := time.Since(s.since); d >= long {
		text += fmt.Sprintf(", for %.0f s", d.Seconds())
	}
	return text
}

// pace writes the count, the rate and, once a twentieth is done, the time left, which counts down.
// Earlier the first ones take longest, as they pay for what all need, such as the first problem's
// answers.
func (s *StatusLine) pace() string {
	n, took, since := s.part, s.at.Sub(s.begun), time.Since(s.at)
	text := fmt.Sprint(n.Done)
	if n.Total > 0 {
		text += fmt.Sprintf("/%d", n.Total)
	}
	if n.Done > 0 && took > 0 {
		text += fmt.Sprintf(", %.0f %s/min", float64(n.Done)/took.Minutes(), n.Unit)
	}
	left := n.Left - since
	switch {
	case n.Left > 0:
	case n.Total == 0 || n.Done == 0 || 20*n.Done < n.Total:
		return text
	default:
		of := func(took time.Duration, done int) time.Duration {
			return time.Duration(float64(took) / float64(done) * float64(n.Total-done))
		}
		left = max(of(took, n.Done)-since, of(took+since, n.Done+1)) // or as if the next one were done now
	}
	return fmt.Sprintf("%s, %s left", text, max(left, 0).Round(time.Second))
}

// Set says what the step does now.
func (s *StatusLine) Set(format string, args ...any) {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if text := fmt.Sprintf(format, args...); text != s.text {
		s.text, s.since = text, time.Now()
	}
}

// Reach says how much of the step is done now.
func (s *StatusLine) Reach(n Amount) {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	s.part, s.at = n, time.Now()
}

// End ends the step. After the last one nothing is told any more.
func (s *StatusLine) End() {
	w := s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = slices.DeleteFunc(w.steps, func(other *StatusLine) bool { return other == s })
	if len(w.steps) == 0 {
		w.timer.Stop()
		s.clear()
	}
}
