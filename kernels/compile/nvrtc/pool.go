package nvrtc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"normbench/internal/hint"
	"normbench/internal/proc"
)

// CompilersVariable names the environment variable with the number of processes that compile.
const CompilersVariable = "NORMBENCH_COMPILERS"

// Compilers returns how many helper processes compile: $NORMBENCH_COMPILERS, else one for each core that
// this process may use. With 0 this process compiles itself.
func Compilers() (int, error) {
	text := os.Getenv(CompilersVariable)
	if text == "" {
		return runtime.GOMAXPROCS(0), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1024 {
		return 0, hint.Errorf("use a number of processes from 0 (compile in this one) to 1024",
			"%s is %q", CompilersVariable, text)
	}
	return n, nil
}

const (
	// unitTimeout is how long one source may take at most. The slowest of ours takes
	// some ten seconds.
	unitTimeout  = 2 * time.Minute
	startTimeout = time.Minute
	// maxReply bounds what is read of one reply. Our cubins have less than a megabyte.
	maxReply = 1 << 26
)

// A Pool compiles in helper processes, as threads of one process hold up each other in NVRTC. It starts
// helpers as work comes. One that dies, hangs or answers with nonsense costs the source that it had; the
// next source gets another.
type Pool struct {
	command []string      // of a helper
	slots   chan struct{} // one for each source at work
	idle    chan *proc.Child
	ctx     context.Context // until Close
	close   context.CancelFunc
	start   time.Duration // longest wait for a greeting
	timeout time.Duration // longest wait for a reply
	greeted atomic.Bool   // a helper has started once
}

// NewPool makes a pool of at most size helpers, which command starts: a program that calls
// [ServeHelper]. step, if not 0, is how long the process that waits for this one will wait for a
// request. The pool gives a helper up well before: a source may first wait for another's helper that
// hangs, then for its own.
func NewPool(size int, step time.Duration, command ...string) *Pool {
	p := &Pool{command: command, start: startTimeout, timeout: unitTimeout,
		slots: make(chan struct{}, size), idle: make(chan *proc.Child, size)}
	if step > 0 {
		p.timeout, p.start = min(unitTimeout, step/3), min(startTimeout, step/3)
	}
	p.ctx, p.close = context.WithCancel(context.Background())
	return p
}

var errPoolClosed = errors.New("the compilers are closed")

// Compile is like [Compiler.Compile]. Its error is a [*CompileError] too where a helper
// did not answer, and has a hint where none has ever started.
func (p *Pool) Compile(src Source, opt CompileOptions) (*Binary, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-p.ctx.Done():
		return nil, errPoolClosed
	}
	for {
		h, used, err := p.takeHelper()
		var r reply
		if err == nil {
			if r, err = p.ask(h, request{src, opt}); err != nil {
				h.Kill()
			}
		}
		switch {
		case p.ctx.Err() != nil && err != nil:
			return nil, errPoolClosed
		case used && err != nil && !errors.Is(err, proc.ErrSlow):
			continue // it may have died before: only a fresh one shows that the source is to blame
		case hint.Of(err) != "":
			return nil, err
		case err != nil:
			return nil, &CompileError{Source: src.Name, Result: "no answer",
				Log: "the compile helper " + err.Error()}
		}
		if p.idle <- h; p.ctx.Err() != nil {
			p.endIdle()
		}
		switch {
		case r.Failed != nil:
			return nil, r.Failed
		case r.Error != "":
			return nil, errors.New(r.Error)
		}
		return r.Binary, nil
	}
}

// takeHelper returns an idle helper or starts one. If none has ever started the error has a hint; later
// errors are this moment's trouble, such as too little memory.
func (p *Pool) takeHelper() (h *proc.Child, used bool, err error) {
	select {
	case h := <-p.idle:
		return h, true, nil
	default:
	}
	if h, err = p.startHelper(); err == nil {
		p.greeted.Store(true)
	} else if !p.greeted.Load() {
		err = hint.Errorf(CompilersVariable+"=0 compiles without helpers, which takes longer on many cores",
			"the compile helper %w", err)
	}
	return h, false, err
}

// startHelper starts a helper and waits for its greeting.
func (p *Pool) startHelper() (*proc.Child, error) {
	h, err := proc.Start(proc.StartOptions{Command: p.command, MaxLine: maxReply})
	if err != nil {
		return nil, fmt.Errorf("does not start: %w", err)
	}
	if err := h.Greet(p.ctx, p.start); err != nil {
		h.Kill()
		return nil, err
	}
	return h, nil
}

// endIdle ends the idle helpers.
func (p *Pool) endIdle() {
	for {
		select {
		case h := <-p.idle:
			h.Kill()
		default:
			return
		}
	}
}

// Close ends all helpers; their current sources fail.
func (p *Pool) Close() {
	p.close()
	p.endIdle()
}

// ask sends a request and waits for its reply. The error continues the words "the compile helper".
func (p *Pool) ask(h *proc.Child, req request) (r reply, err error) {
	if err := h.Send(req); err != nil {
		return r, err
	}
	err = h.Answer(p.ctx, p.timeout, &r)
	if err == nil && r.Failed == nil && r.Error == "" && (r.Binary == nil || len(r.Binary.Cubin) == 0) {
		err = errors.New("answered without a cubin")
	}
	return r, err
}
