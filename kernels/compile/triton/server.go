package triton

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"normbench/internal/proc"
	"normbench/kernels/compile/nvrtc"
)

// A server is a process of triton.py that has imported Triton. It imports each source in a process
// that it forks. What it is asked for at once is done at once.
type server struct {
	python  string
	started chan struct{} // closed once Triton is imported, or not
	failed  error         // then: why it is not

	child *proc.Child
	last  atomic.Int64
	asked sync.Map      // of numbers, channels of replies
	done  chan struct{} // closed once it has ended
	ended error         // then: how

	mu      sync.Mutex
	sources map[string]*imported // by name
}

// An imported source has a process, unless err says why not.
type imported struct {
	done chan struct{} // closed once it is imported, or not
	err  error
}

const forever = 365 * 24 * time.Hour

type compileRequest struct {
	ID      int64
	Source  *nvrtc.Source // to import; or
	Of      string        // the name of one that is imported, and what is asked of it:
	Options nvrtc.CompileOptions
	// Describe asks for what the decorators have, instead of code.
	Describe bool
	Seconds  float64 // the longest wait
}

// A compileReply has a value, or says what is wrong with the source, or how its process ended.
type compileReply struct {
	ID     int64
	Value  json.RawMessage
	Failed *nvrtc.CompileError
	Ended  string
}

// run starts the process, which has so long to import Triton, and hears it until it ends, with ctx at
// the latest.
func (s *server) run(ctx context.Context, target Target, limit time.Duration) {
	dir, err := os.MkdirTemp("", "normbench-triton-")
	if err == nil {
		defer os.RemoveAll(dir)
		s.child, err = proc.Start(proc.StartOptions{Command: command(s.python, "serve", dir), MaxLine: maxAnswer})
	}
	if err == nil {
		defer s.child.Kill()
		if err = s.child.Send(target); err == nil {
			err = s.child.Greet(ctx, limit)
		}
	}
	s.failed = err
	close(s.started)
	for err == nil {
		var r compileReply
		if err = s.child.Answer(ctx, forever, &r); err != nil {
			break
		}
		if answer, ok := s.asked.LoadAndDelete(r.ID); ok {
			answer.(chan compileReply) <- r
		}
	}
	s.ended = err
	close(s.done)
}

// open has a source imported, which may take so long. The first who asks waits for it, and so do
// others. The error goes on from "Triton's process".
func (s *server) open(src nvrtc.Source, limit time.Duration) error {
	s.mu.Lock()
	o := s.sources[src.Name]
	if o == nil {
		o = &imported{done: make(chan struct{})}
		s.sources[src.Name] = o
		s.mu.Unlock()
		_, o.err = s.ask(compileRequest{Source: &src, Seconds: limit.Seconds()}, &struct{}{})
		close(o.done)
	} else {
		s.mu.Unlock()
		<-o.done
	}
	return o.err
}

// forget has a source imported again by the next who asks for it.
func (s *server) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.sources[name]; o != nil {
		select {
		case <-o.done:
			delete(s.sources, name)
		default: // another imports it already
		}
	}
}

// hasEnded says whether the process itself has.
func (s *server) hasEnded() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// ask reads the answer into v, or says what is wrong with the source. The error is of a process, which
// has ended then.
func (s *server) ask(r compileRequest, v any) (*nvrtc.CompileError, error) {
	answer := make(chan compileReply, 1)
	r.ID = s.last.Add(1)
	s.asked.Store(r.ID, answer)
	s.child.Send(r) // texts and numbers have no error
	patience := time.Duration(r.Seconds*float64(time.Second)) + 10*time.Second
	if r.Source != nil {
		patience += startTimeout // the first one has PyTorch imported ahead
	}
	hung := time.AfterFunc(patience, s.child.Kill)
	defer hung.Stop()
	select {
	case <-s.done:
		return nil, s.ended
	case got := <-answer:
		switch {
		case got.Ended != "":
			return nil, errors.New(got.Ended)
		case got.Failed != nil:
			return got.Failed, nil
		}
		return nil, json.Unmarshal(got.Value, v)
	}
}
