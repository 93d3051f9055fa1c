package triton

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
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
	mode    string        // of triton.py
	home    string        // the folder for its own, or "" for the system's
	started chan struct{} // closed once Triton is imported, or not
	failed  error         // then: why it is not

	child *proc.Child
	last  atomic.Int64
	asked sync.Map      // of numbers, channels of replies
	done  chan struct{} // closed once it has ended
	ended error         // then: how

	mu      sync.Mutex
	sources map[string]*imported // by keyOf
}

// An imported source has a process, unless err says why not.
type imported struct {
	done chan struct{} // closed once it is imported, or not
	err  error
}

const forever = 365 * 24 * time.Hour

type serverRequest struct {
	ID      int64
	Of      string        // the key of a source,
	Source  *nvrtc.Source // which is to be imported; or what is asked of it:
	Options nvrtc.CompileOptions
	// Describe asks for what the decorators have, instead of code.
	Describe bool
	*launchRequest
	Seconds float64 // the longest wait
}

// A serverReply has a value, or says what is wrong with the source, or how its process ended.
type serverReply struct {
	ID     int64
	Value  json.RawMessage
	Failed *nvrtc.CompileError
	Ended  string
}

// run starts the process, which has so long to import Triton, and hears it until it ends, with ctx at
// the latest.
func (s *server) run(ctx context.Context, target Target, limit time.Duration) {
	dir, err := os.MkdirTemp(s.home, "normbench-triton-")
	if err == nil {
		defer os.RemoveAll(dir)
		s.child, err = proc.Start(proc.StartOptions{Command: command(s.python, s.mode, dir), MaxLine: maxAnswer})
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
		var r serverReply
		if err = s.child.Answer(ctx, forever, &r); err != nil {
			break
		}
		if answer, ok := s.asked.LoadAndDelete(r.ID); ok {
			answer.(chan serverReply) <- r
		}
	}
	s.ended = err
	close(s.done)
}

// keyOf tells sources apart: two of one name may have other texts.
func keyOf(src nvrtc.Source) string {
	text, _ := json.Marshal(src) // texts have no error
	return fmt.Sprintf("%s %x", src.Name, sha256.Sum256(text))
}

// open has a source imported, which may take so long. All who ask for it wait, until ctx ends. The error goes on
// from "Triton's process".
func (s *server) open(ctx context.Context, src nvrtc.Source, limit time.Duration) error {
	key := keyOf(src)
	s.mu.Lock()
	o := s.sources[key]
	if o == nil {
		o = &imported{done: make(chan struct{})}
		s.sources[key] = o
		go func() { // whose ctx ends may not be the last who asks for it
			_, o.err = s.ask(context.Background(), serverRequest{Of: key, Source: &src, Seconds: limit.Seconds()},
				&struct{}{})
			close(o.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forget has a source imported again by the next who asks for it.
func (s *server) forget(src nvrtc.Source) {
	key := keyOf(src)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.sources[key]; o != nil {
		select {
		case <-o.done:
			delete(s.sources, key)
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

// ask reads the answer into v, or says what is wrong with the source. The error is that of ctx, or of a process,
// which has ended then.
func (s *server) ask(ctx context.Context, r serverRequest, v any) (*nvrtc.CompileError, error) {
	answer := make(chan serverReply, 1)
	r.ID = s.last.Add(1)
	s.asked.Store(r.ID, answer)
	defer s.asked.Delete(r.ID)
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
	case <-ctx.Done():
		return nil, ctx.Err()
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
