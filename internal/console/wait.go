package console

import (
	"fmt"
	"sync"
	"time"
)

// A statusStack holds the waits that are under way. They nest: the innermost one is told.
type statusStack struct {
	mu    sync.Mutex
	steps []*StatusLine
	timer *time.Timer // tells, while there are steps
}

// A StatusLine tells on a terminal what the program waits for.
type StatusLine struct {
	waits *statusStack
	text  string
	since time.Time
}

// Wait begins a wait, which is told after every few seconds without a note until the caller ends it.
func (c *Console) Wait(format string, args ...any) *StatusLine {
	w := &c.waits
	s := &StatusLine{waits: w, text: fmt.Sprintf(format, args...), since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = append(w.steps, s); len(w.steps) == 1 {
		w.timer = time.AfterFunc(Pause, c.tellStatus)
	}
	return s
}

// tellStatus tells of the innermost wait, if nothing was noted for a while. No wait ends meanwhile.
func (c *Console) tellStatus() {
	w := &c.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.steps) == 0 || c.ctx.Err() != nil {
		return
	}
	if c.silence() >= Pause {
		s := w.steps[len(w.steps)-1]
		text := s.text
		if d := time.Since(s.since); d >= Pause {
			text += fmt.Sprintf(", for %.0f s", d.Seconds())
		}
		c.Notef("%s", text)
	}
	w.timer.Reset(Pause - c.silence())
}

// Set says what is waited for now.
func (s *StatusLine) Set(format string, args ...any) {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if text := fmt.Sprintf(format, args...); text != s.text {
		s.text, s.since = text, time.Now()
	}
}

// End ends the wait. After the last one nothing is told any more.
func (s *StatusLine) End() {
	w := s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = w.steps[:len(w.steps)-1]; len(w.steps) == 0 {
		w.timer.Stop()
	}
}
