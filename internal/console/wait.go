package console

import (
	"fmt"
	"sync"
	"time"
)

// waits are the steps that are waited for. Steps nest: the innermost one is told.
type waits struct {
	mu    sync.Mutex
	steps []*Step
	quit  chan struct{}  // ends the goroutine that tells
	ended sync.WaitGroup // of it
}

// A Step is something that a program waits for.
type Step struct {
	waits *waits
	text  string
	since time.Time
}

// Wait begins a step, which is told after every few seconds without a note until the caller ends it.
func (c *Console) Wait(format string, args ...any) *Step {
	w := &c.waits
	s := &Step{waits: w, text: fmt.Sprintf(format, args...), since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = append(w.steps, s); len(w.steps) == 1 {
		quit := make(chan struct{})
		w.quit = quit
		w.ended.Go(func() { c.tell(quit) })
	}
	return s
}

func (c *Console) tell(quit chan struct{}) {
	for pause := Pause; ; pause = max(Pause-c.silence(), 0) {
		select {
		case <-quit:
			return
		case <-time.After(pause):
		}
		if c.silence() < Pause {
			continue
		}
		c.waits.mu.Lock()
		if len(c.waits.steps) == 0 { // the last one has just ended
			c.waits.mu.Unlock()
			return
		}
		s := c.waits.steps[len(c.waits.steps)-1]
		text := s.text
		if d := time.Since(s.since); d >= Pause {
			text += fmt.Sprintf(", for %.0f s", d.Seconds())
		}
		c.waits.mu.Unlock()
		if c.ctx.Err() == nil {
			c.Notef("%s", text)
		}
	}
}

// Set says what the step is at now.
func (s *Step) Set(format string, args ...any) {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if text := fmt.Sprintf(format, args...); text != s.text {
		s.text, s.since = text, time.Now()
	}
}

// End ends the step. After the last one nothing is told any more.
func (s *Step) End() {
	w := s.waits
	w.mu.Lock()
	w.steps = w.steps[:len(w.steps)-1]
	last := len(w.steps) == 0
	if last {
		close(w.quit)
	}
	w.mu.Unlock()
	if last {
		w.ended.Wait()
	}
}
