package console

import (
	"fmt"
	"sync"
	"time"
)

// waits are the steps that are waited for. Steps nest: the innermost one is told.
type waits struct {
	mu    sync.Mutex
	steps []*Progress
	timer *time.Timer // tells, while there are steps
}

// A Progress tells on a terminal what the program waits for.
type Progress struct {
	waits *waits
	text  string
	since time.Time
}

// Wait begins a step, which is told after every few seconds without a note until the caller ends it.
func (c *Console) Wait(format string, args ...any) *Progress {
	w := &c.waits
	s := &Progress{waits: w, text: fmt.Sprintf(format, args...), since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = append(w.steps, s); len(w.steps) == 1 {
		w.timer = time.AfterFunc(Pause, c.tell)
	}
	return s
}

// tell tells of the innermost step, if nothing was noted for a while. No step ends meanwhile.
func (c *Console) tell() {
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

// Set says what the step is at now.
func (s *Progress) Set(format string, args ...any) {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if text := fmt.Sprintf(format, args...); text != s.text {
		s.text, s.since = text, time.Now()
	}
}

// End ends the step. After the last one nothing is told any more.
func (s *Progress) End() {
	w := s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = w.steps[:len(w.steps)-1]; len(w.steps) == 0 {
		w.timer.Stop()
	}
}
