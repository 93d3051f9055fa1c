package triton

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/kernels/compile/nvrtc"
)

const (
	// startTimeout is how long a process may take to import a source, such as one with PyTorch, and
	// compileTimeout how long a kernel may take.
	startTimeout   = 3 * time.Minute
	compileTimeout = 2 * time.Minute
)

// A Service has Triton compile. For each Python source it has a process that imports it once, and
// forks workers that compile: as many as kernels are asked for at once, of some 100 MB each.
type Service struct {
	ctx   context.Context
	close context.CancelFunc
	step  time.Duration // see nvrtc.NewPool

	mu      sync.Mutex
	servers map[string]*server // by the names of their sources
	running sync.WaitGroup
}

// NewService is a Service without processes. The step is nvrtc.NewPool's.
func NewService(step time.Duration) *Service {
	c := &Service{step: step, servers: map[string]*server{}}
	c.ctx, c.close = context.WithCancel(context.Background())
	return c
}

// Compile makes a cubin of a function of a Python source. Its error has a hint where it is not the
// kernel's.
func (c *Service) Compile(src nvrtc.Source, opt nvrtc.CompileOptions) (*nvrtc.Binary, error) {
	start, limit := startTimeout, compileTimeout
	help := "import it in that Python by hand"
	if c.step > 0 { // one after the other they take less than a step
		start, limit = min(start, c.step*3/5), min(limit, c.step/3)
		help += "; a longer --timeout gives it longer"
	}
	b, failed, err := &nvrtc.Binary{}, (*nvrtc.CompileError)(nil), error(nil)
	for range 2 { // what ended the process may be what another kernel did to it
		var s *server
		if s, err = c.server(src, start); err != nil {
			break
		}
		if failed, err = s.ask(compileRequest{Options: opt, Seconds: limit.Seconds()}, b); err == nil {
			break
		}
		c.forget(src, s)
	}
	switch {
	case c.ctx.Err() != nil:
		return nil, errors.New("the compilers are closed")
	case err != nil:
		return nil, hint.Errorf(help, "compile %s: Triton's process %w", src.Name, err)
	case failed != nil:
		return nil, failed
	case len(b.Cubin) == 0:
		return nil, fmt.Errorf("compile %s: Triton answered without a cubin", src.Name)
	}
	return b, nil
}

// server is the process of a source, which the first who asks starts. The error goes on from
// "Triton's process".
func (c *Service) server(src nvrtc.Source, limit time.Duration) (*server, error) {
	c.mu.Lock()
	s := c.servers[src.Name]
	if s == nil {
		s = &server{started: make(chan struct{}), done: make(chan struct{})}
		c.servers[src.Name] = s
		c.running.Go(func() { s.run(c.ctx, src, limit) })
	}
	c.mu.Unlock()
	if <-s.started; s.failed != nil {
		c.forget(src, s)
	}
	return s, s.failed
}

// forget has the next who asks start another.
func (c *Service) forget(src nvrtc.Source, s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers[src.Name] == s {
		delete(c.servers, src.Name)
	}
}

// Close ends Triton's processes. Nothing is compiled behind it.
func (c *Service) Close() {
	c.close()
	c.running.Wait()
}
