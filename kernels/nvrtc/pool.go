package nvrtc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/internal/proc"
)

// CompilersVariable sets how many processes compile.
const CompilersVariable = "NORMBENCH_COMPILERS"

// Compilers is how many helper processes compile: $NORMBENCH_COMPILERS, else one for each core
// that this process may use. With 0 sources are compiled in this process.
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
	// unitTimeout is how long one source may take at most (see Within). The slowest of ours takes
	// some ten seconds.
	unitTimeout  = 2 * time.Minute
	startTimeout = time.Minute
	// maxReply bounds what is read of one reply. Our cubins have less than a megabyte.
	maxReply = 1 << 26
)

// A Pool compiles in helper processes, as threads of one process hold up each other in NVRTC.
// Helpers are started as work comes. One that dies, hangs or talks nonsense costs the
// source that it had, and the next source gets another.
type Pool struct {
	command []string // of a helper
	major   int      // the version of NVRTC that helpers must have
	minor   int
	local   func(Source, Options) (*Binary, error) // where helpers do not start
	start   time.Duration                          // longest wait for a greeting
	timeout time.Duration                          // longest wait for a reply
	slots   chan struct{}                          // one for each source at work

	mu      sync.Mutex
	idle    []*proc.Child
	live    map[*proc.Child]bool
	greeted bool // a helper has started once
	inside  bool // none has, so compile in this process
	closed  bool
}

// NewPool returns a pool of at most size helpers, which command starts: a program that calls
// [ServeHelper] with the file of c. Where they do not start c compiles.
func NewPool(c *Compiler, size int, command ...string) *Pool {
	major, minor := c.Version()
	return newPool(size, major, minor, c.Compile, command...)
}

func newPool(size, major, minor int, local func(Source, Options) (*Binary, error),
	command ...string) *Pool {
	return &Pool{command: command, major: major, minor: minor, local: local,
		start: startTimeout, timeout: unitTimeout,
		slots: make(chan struct{}, size), live: map[*proc.Child]bool{}}
}

var errPoolClosed = errors.New("the compilers are closed")

// Compile is like [Compiler.Compile]. Its error is a [*CompileError] too where a helper
// did not answer.
func (p *Pool) Compile(src Source, opt Options) (*Binary, error) {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	for {
		h, used, err := p.take()
		switch {
		case errors.Is(err, errPoolClosed):
			return nil, err
		case err != nil:
			return nil, lostUnit(src, err)
		case h == nil:
			return p.local(src, opt)
		}
		r, err := p.ask(h, request{src, opt})
		if err != nil {
			p.drop(h)
			if p.isClosed() {
				return nil, errPoolClosed
			}
			if used && !errors.Is(err, proc.ErrSlow) {
				continue // it may have died before: only a fresh one shows that the source is to blame
			}
			return nil, lostUnit(src, err)
		}
		p.give(h)
		if r.Failed != nil {
			return nil, r.Failed
		}
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return r.Binary, nil
	}
}

// Within has the pool give a helper up before who waits for a step gives this process up: a
// source waits for one that hangs at most, and then for its own.
func (p *Pool) Within(step time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timeout, p.start = min(unitTimeout, step/3), min(startTimeout, step/3)
}

func lostUnit(src Source, err error) error {
	return &CompileError{Source: src.Name, Result: "no answer", Log: "the compile helper " + err.Error()}
}

// take returns an idle helper or a new one; none where helpers do not start.
func (p *Pool) take() (h *proc.Child, used bool, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, errPoolClosed
	}
	if n := len(p.idle); n > 0 {
		h, p.idle = p.idle[n-1], p.idle[:n-1]
		p.mu.Unlock()
		return h, true, nil
	}
	inside := p.inside
	p.mu.Unlock()
	if inside {
		return nil, false, nil
	}
	h, err = p.startHelper()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, false, errPoolClosed
	case err == nil:
		p.greeted = true
		return h, false, nil
	case p.greeted: // it is this moment's trouble, such as too little memory
		return nil, false, err
	case !p.inside:
		p.inside = true
		fmt.Fprintf(os.Stderr, "normbench: compiling in one process, which takes longer on many "+
			"cores: the compile helper %v\n", err)
	}
	return nil, false, nil
}

func (p *Pool) startHelper() (*proc.Child, error) {
	h, err := proc.Start(proc.Options{Command: p.command, MaxLine: maxReply})
	if err != nil {
		return nil, fmt.Errorf("does not start: %w", err)
	}
	p.mu.Lock()
	p.live[h] = true // Close ends it from now on
	closed, limit := p.closed, p.start
	p.mu.Unlock()
	var g greeting
	if !closed {
		err = h.Answer(context.Background(), limit, &g)
	}
	switch {
	case err != nil:
	case g.Error != "":
		err = errors.New("says " + strconv.Quote(g.Error))
	case g.Major != p.major || g.Minor != p.minor:
		err = fmt.Errorf("has version %d.%d, not %d.%d", g.Major, g.Minor, p.major, p.minor)
	}
	if closed || err != nil {
		p.drop(h)
	}
	return h, err
}

func (p *Pool) give(h *proc.Child) {
	p.mu.Lock()
	p.idle = append(p.idle, h)
	p.mu.Unlock()
}

func (p *Pool) drop(h *proc.Child) {
	p.mu.Lock()
	delete(p.live, h)
	p.mu.Unlock()
	h.Kill()
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Close ends the helpers. What they were at fails.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	live := p.live
	p.live, p.idle = map[*proc.Child]bool{}, nil
	p.mu.Unlock()
	for h := range live {
		h.Kill()
	}
}

// ask sends a request and waits for its reply. The error is in words that go on from "the compile
// helper".
func (p *Pool) ask(h *proc.Child, req request) (r reply, err error) {
	line, err := json.Marshal(req)
	if err != nil {
		return r, err
	}
	h.Send(line)
	p.mu.Lock()
	limit := p.timeout
	p.mu.Unlock()
	err = h.Answer(context.Background(), limit, &r)
	if err == nil && r.Failed == nil && r.Error == "" && (r.Binary == nil || len(r.Binary.Cubin) == 0) {
		err = errors.New("answered without a cubin")
	}
	return r, err
}
