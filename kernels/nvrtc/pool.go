package nvrtc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"normbench/internal/hint"
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
		return 0, hint.Errorf("use a number of processes from 0 (compile in this one) to 1024", "%s is %q", CompilersVariable, text)
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
	unfit   sync.Once                              // says that helpers do not start

	mu      sync.Mutex
	idle    []*helper
	live    map[*helper]bool
	greeted bool // a helper has started once
	inside  bool // none has, so compile in this process
	closed  bool
}

// NewPool returns a pool of at most size helpers, which command starts: a program that calls
// [ServeHelper] with the file of c. Where they do not start c compiles.
func NewPool(c *Compiler, size int, command ...string) *Pool {
	p := newPool(size, c.Compile, command...)
	p.major, p.minor = c.Version()
	return p
}

func newPool(size int, local func(Source, Options) (*Binary, error), command ...string) *Pool {
	return &Pool{command: command, local: local, start: startTimeout, timeout: unitTimeout, slots: make(chan struct{}, size), live: map[*helper]bool{}}
}

var errPoolClosed = errors.New("the compilers are closed")

// Compile is like [Compiler.Compile]. Its error is a [*CompileError] too where a helper
// did not answer.
func (p *Pool) Compile(src Source, opt Options) (*Binary, error) {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	for {
		h, used, err := p.take()
		if errors.Is(err, errPoolClosed) {
			return nil, err
		}
		if err != nil {
			return nil, lostUnit(src, err)
		}
		if h == nil || !inUTF8(src) {
			if h != nil {
				p.give(h)
			}
			return p.local(src, opt)
		}
		_, limit := p.limits()
		r, err := h.ask(request{src, opt}, limit)
		if err == nil && r.Failed == nil && r.Error == "" && (r.Binary == nil || len(r.Binary.Cubin) == 0) {
			err = errors.New("answered without a cubin")
		}
		if err != nil {
			p.drop(h)
			if p.isClosed() {
				return nil, errPoolClosed
			}
			if used && !errors.Is(err, errSlow) {
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

func (p *Pool) limits() (start, timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start, p.timeout
}

func lostUnit(src Source, err error) error {
	return &CompileError{Source: src.Name, Result: "no answer", Log: "the compile helper " + err.Error()}
}

// inUTF8 says whether JSON leaves the source as it is.
func inUTF8(src Source) bool {
	for name, text := range src.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			return false
		}
	}
	return utf8.ValidString(src.Name) && utf8.ValidString(src.Text)
}

// take returns an idle helper or a new one; none where helpers do not start.
func (p *Pool) take() (h *helper, used bool, err error) {
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
	h, err = startHelper(p.command)
	if err == nil {
		p.mu.Lock()
		p.live[h] = true
		closed := p.closed
		p.mu.Unlock()
		if closed {
			p.drop(h)
			return nil, false, errPoolClosed
		}
		var g greeting
		limit, _ := p.limits()
		err = h.read(&g, limit)
		if err == nil && g.Error != "" {
			err = errors.New("says " + strconv.Quote(g.Error))
		} else if err == nil && (g.Major != p.major || g.Minor != p.minor) {
			err = fmt.Errorf("has NVRTC %d.%d, not %d.%d", g.Major, g.Minor, p.major, p.minor)
		}
		if err == nil {
			p.mu.Lock()
			p.greeted = true
			p.mu.Unlock()
			return h, false, nil
		}
		p.drop(h)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, errPoolClosed
	}
	if p.greeted { // it is this moment's trouble, such as too little memory
		return nil, false, err
	}
	p.inside = true
	p.unfit.Do(func() {
		fmt.Fprintf(os.Stderr, "normbench: compiling in one process, which takes longer on many cores: the compile helper %v\n", err)
	})
	return nil, false, nil
}

func (p *Pool) give(h *helper) {
	p.mu.Lock()
	p.idle = append(p.idle, h)
	p.mu.Unlock()
}

func (p *Pool) drop(h *helper) {
	p.mu.Lock()
	delete(p.live, h)
	p.mu.Unlock()
	h.kill()
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
	p.live, p.idle = map[*helper]bool{}, nil
	p.mu.Unlock()
	for h := range live {
		h.kill()
	}
}

// A helper is a process that compiles one source at a time.
type helper struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.ReadCloser
	limited *io.LimitedReader
	dec     *json.Decoder
	stderr  lastWords
	once    sync.Once
	exited  chan struct{}
}

func startHelper(command []string) (*helper, error) {
	if len(command) == 0 {
		return nil, errors.New("has no command")
	}
	h := &helper{cmd: exec.Command(command[0], command[1:]...), exited: make(chan struct{})}
	if command[0] == "/proc/self/exe" {
		h.cmd.Args[0] = os.Args[0]
	}
	h.cmd.Stderr = &h.stderr
	h.cmd.WaitDelay = time.Second
	tie(h.cmd)
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("does not start: %w", err)
	}
	h.stdout, h.cmd.Stdout = stdout, out
	if h.stdin, err = h.cmd.StdinPipe(); err == nil {
		err = h.cmd.Start()
	}
	out.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("does not start: %w", err)
	}
	go func() {
		h.cmd.Wait() //nolint:errcheck // ProcessState has it
		close(h.exited)
	}()
	h.limited = &io.LimitedReader{R: stdout}
	h.dec = json.NewDecoder(h.limited)
	return h, nil
}

// kill ends the process, and with it what reads from it or writes to it.
func (h *helper) kill() {
	h.once.Do(func() {
		h.cmd.Process.Kill() //nolint:errcheck // it may be gone
		<-h.exited
		h.stdin.Close()
		h.stdout.Close()
	})
}

var errSlow = errors.New("was killed")

// ask sends a request and waits for its reply. The error is in words that go on from "the
// compile helper".
func (h *helper) ask(req request, timeout time.Duration) (r reply, err error) {
	line, err := json.Marshal(req)
	if err != nil {
		return r, err
	}
	go h.stdin.Write(append(line, '\n')) //nolint:errcheck // a helper that does not read does not reply
	return r, h.read(&r, timeout)
}

func (h *helper) read(v any, timeout time.Duration) error {
	h.limited.N = maxReply
	done := make(chan error, 1)
	go func() { done <- h.dec.Decode(v) }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
	case <-timer.C:
		h.kill()
		<-done // v is this goroutine's alone again
		return fmt.Errorf("%w: no answer within %s", errSlow, timeout)
	}
	switch {
	case err == nil:
		return nil
	case h.limited.N <= 0:
		return fmt.Errorf("answered more than %d MiB", maxReply>>20)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed):
		return errors.New(h.death())
	}
	return fmt.Errorf("answered nonsense: %w", err)
}

// death describes the end of the process in a few words.
func (h *helper) death() string {
	select {
	case <-h.exited:
	case <-time.After(time.Second):
		return "closed its output"
	}
	s := "ended: " + h.cmd.ProcessState.String()
	if s == "ended: signal: killed" {
		s += ", as when memory runs out"
	}
	if last := h.stderr.last(); last != "" {
		s += " (" + last + ")"
	}
	return s
}

// lastWords keeps the first line that a helper says on standard error, which of a crash is the reason.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b[:min(len(b), 200-len(l.text))]...)
	return len(b), nil
}

func (l *lastWords) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, _, _ := bytes.Cut(bytes.TrimSpace(l.text), []byte("\n"))
	return strings.ToValidUTF8(string(line), "?")
}
