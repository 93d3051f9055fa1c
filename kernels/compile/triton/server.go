package triton

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"normbench/internal/proc"
	"normbench/kernels/compile/nvrtc"
)

// A server is a process that has imported a source. What it is asked for at once its workers do at
// once.
type server struct {
	started chan struct{} // closed once the source is imported, or not
	failed  error         // then: why it is not

	child *proc.Child
	last  atomic.Int64
	asked sync.Map      // of numbers, channels of replies
	done  chan struct{} // closed once it has ended
	ended error         // then: how
}

const forever = 365 * 24 * time.Hour

type compileRequest struct {
	ID       int64
	Options  nvrtc.CompileOptions
	Describe bool    // what the decorators have, instead of code
	Seconds  float64 // the longest wait for a worker
}

// A compileReply has a value, or says what is wrong with the source.
type compileReply struct {
	ID     int64
	Value  json.RawMessage
	Failed *nvrtc.CompileError
}

// run starts the process, which has so long to import the source, and hears it until it ends, with
// ctx at the latest.
func (s *server) run(ctx context.Context, src nvrtc.Source, limit time.Duration) {
	dir, err := os.MkdirTemp("", "normbench-triton-")
	if err == nil {
		defer os.RemoveAll(dir)
		s.child, err = proc.Start(proc.StartOptions{Command: command("serve", dir), MaxLine: maxAnswer})
	}
	if err == nil {
		defer s.child.Kill()
		if err = s.child.Send(src); err == nil { // it imports the source
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

// ask reads the answer into v, or says what is wrong with the source. The error is of the process,
// which has ended then.
func (s *server) ask(r compileRequest, v any) (*nvrtc.CompileError, error) {
	answer := make(chan compileReply, 1)
	r.ID = s.last.Add(1)
	s.asked.Store(r.ID, answer)
	s.child.Send(r) // texts and numbers have no error
	hung := time.AfterFunc(time.Duration(r.Seconds*float64(time.Second))+10*time.Second, s.child.Kill)
	defer hung.Stop()
	select {
	case <-s.done:
		return nil, s.ended
	case got := <-answer:
		if got.Failed != nil {
			return got.Failed, nil
		}
		return nil, json.Unmarshal(got.Value, v)
	}
}
