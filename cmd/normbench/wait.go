package main

import (
	"fmt"
	"sync"
	"time"
)

// waits says every few seconds on standard error what a command is at, while it prints nothing
// else. Steps nest: the innermost one speaks.
type waits struct {
	mu    sync.Mutex
	steps []*step
	quit  chan struct{}  // ends the goroutine that speaks
	ended sync.WaitGroup // of it
}

// A step is something that a command waits for.
type step struct {
	waits *waits
	text  string
	since time.Time
}

// waitFor begins a step; the caller ends it.
func (e *env) waitFor(format string, args ...any) *step {
	w := e.waits
	s := &step{waits: w, text: fmt.Sprintf(format, args...), since: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps = append(w.steps, s); len(w.steps) == 1 {
		quit := make(chan struct{})
		w.quit = quit
		w.ended.Go(func() { e.speak(quit) })
	}
	return s
}

func (e *env) speak(quit chan struct{}) {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		e.waits.mu.Lock()
		if len(e.waits.steps) == 0 { // the last one has just ended
			e.waits.mu.Unlock()
			return
		}
		s := e.waits.steps[len(e.waits.steps)-1]
		text := s.text
		if d := time.Since(s.since); d >= plainEvery {
			text += fmt.Sprintf(", for %.0f s", d.Seconds())
		}
		e.waits.mu.Unlock()
		if e.ctx.Err() == nil {
			e.notef("%s", text)
		}
	}
}

// set says what the step is at now.
func (s *step) set(format string, args ...any) {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if text := fmt.Sprintf(format, args...); text != s.text {
		s.text, s.since = text, time.Now()
	}
}

// end takes the step off. After the last one nothing is said any more.
func (s *step) end() {
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
