package triton

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

const (
	// startTimeout is how long a process may take to import Triton, or a source, such as one with
	// PyTorch, and compileTimeout how long a kernel may take.
	startTimeout   = 3 * time.Minute
	compileTimeout = 2 * time.Minute
)

// A Target is the GPU that is compiled for, with the figures that modules ask for when they are
// imported.
type Target struct {
	Name, Arch             string
	SMs, Shared, Registers int
	Memory, Cache          int64
}

// TargetOf returns a device as a target.
func TargetOf(d kernels.DeviceInfo) Target {
	return Target{Name: d.Name, Arch: d.Arch, SMs: d.SMs, Shared: d.SharedPerBlock,
		Registers: d.RegsPerSM, Memory: d.MemoryBytes, Cache: d.CacheBytes}
}

// A Service has Triton compile. One process imports Triton, and forks one for each Python source,
// which imports it. These fork workers that compile: as many as kernels are asked for at once, of some
// 100 MB each.
type Service struct {
	ctx    context.Context
	close  context.CancelFunc
	step   time.Duration // see nvrtc.NewPool
	mode   string        // of triton.py
	home   string        // the folder for its processes' own, or "" for the system's
	python string
	target func() Target

	mu      sync.Mutex
	now     *server
	running sync.WaitGroup
}

// NewService returns a Service without processes. The step is nvrtc.NewPool's. The target is asked for once there is
// something to compile.
func NewService(step time.Duration, target func() Target) *Service {
	c := &Service{step: step, mode: "serve", target: target}
	c.ctx, c.close = context.WithCancel(context.Background())
	return c
}

// UsePython has a Python compile, as Python reads its name, and returns c.
func (c *Service) UsePython(python string) *Service {
	c.python = python
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
	b := &nvrtc.Binary{}
	failed, err := c.ask(c.ctx, src, start, serverRequest{Options: opt, Seconds: limit.Seconds()}, b)
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

// Target returns what code depends on beside its texts and options: a module may look at the card's figures.
func (c *Service) Target() string { return fmt.Sprint(c.target()) }

// ask asks for something of a source, which is imported first, within start. The error is that of ctx, or goes on
// from "Triton's process".
func (c *Service) ask(ctx context.Context, src nvrtc.Source, start time.Duration, r serverRequest, v any) (
	failed *nvrtc.CompileError, err error) {
	r.Of = keyOf(src)
	for range 2 { // what ended the process may be what another kernel did to it
		s, bad := c.server(ctx, start)
		if bad != nil {
			return nil, bad
		}
		if err = s.open(ctx, src, start); err == nil {
			if failed, err = s.ask(ctx, r, v); err == nil {
				return failed, nil
			}
		} else if !s.hasEnded() { // its import is to blame, or it is not done
			s.forget(src)
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.forget(src)
	}
	return nil, err
}

// server returns the process, which the first who asks starts, and who finds it ended. The error is that of ctx, or
// goes on from "Triton's process".
func (c *Service) server(ctx context.Context, limit time.Duration) (*server, error) {
	c.mu.Lock()
	if c.now != nil && c.now.hasEnded() {
		c.now = nil
	}
	s := c.now
	if s == nil {
		s = &server{python: c.python, mode: c.mode, home: c.home, started: make(chan struct{}), done: make(chan struct{}),
			sources: map[string]*imported{}}
		c.now = s
		c.running.Go(func() { s.run(c.ctx, c.target(), limit) })
	}
	c.mu.Unlock()
	select {
	case <-s.started:
		return s, s.failed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends Triton's processes. Nothing is compiled behind it.
func (c *Service) Close() {
	c.close()
	c.running.Wait()
}
