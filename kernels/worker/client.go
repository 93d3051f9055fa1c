package worker

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Options say how a Client runs its worker.
type Options struct {
	Command []string      // program and arguments
	Env     []string      // NAME=VALUE, over those of this process
	Timeout time.Duration // longest silence after a request before the worker is killed
	Stderr  io.Writer     // gets what the worker says there
	Unkept  func(string)  // gets kernels.CompileStats.Unkept, with each answer that has one
	// Kernels is the hash of this process's families; a worker with others
	// would measure something else under the same names, and is refused. A
	// worker that runs none of ours says "".
	Kernels string
	// Builds says that its checks compile and compare nothing.
	Builds bool
}

// Pauses stand before the starts of a worker again, one after each death in a row without
// an open problem in between. After the last one it is gone.
var Pauses = []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second}

// leave is how long a stopped command waits for its worker to leave by itself.
const leave = 2 * time.Second

// A Client is a kernels.Device in another process.
type Client struct {
	o      Options
	ctx    context.Context // of Start: when it is done, nothing waits for the worker
	info   kernels.DeviceInfo
	peers  []kernels.Peer
	beside []int // processes that are not others
	pauses []time.Duration

	proc   *process // nil between a death and the next request
	pid    atomic.Int64
	id     int
	prove  time.Duration // most that a worker started again may take over hello
	deaths int           // in a row, without an open problem in between
	last   string        // why, the last time
	gone   *kernels.Gone // once it is not started any more

	compile tally
}

// Said is trouble that the worker told of itself: it runs, and speaks the protocol.
type Said struct{ Text string }

func (s *Said) Error() string { return s.Text }

// saidHelp is for trouble without a hint of the worker's own.
const saidHelp = "the worker says so itself: mend it there, or leave it out; the same command goes on from there"

const sameHelp = "install the same normbench on both sides"

// Start starts the worker and reads its device info. The error is one line:
// what could not be started, or what the worker says is wrong.
func Start(ctx context.Context, o Options) (*Client, error) {
	c := &Client{o: o, ctx: ctx, pauses: Pauses}
	start := time.Now()
	h, err := c.hello(ctx, o.Timeout)
	if err != nil {
		c.Close() // it lives on where it answered with an error
		return nil, err
	}
	c.prove = min(o.Timeout, max(10*time.Second, 4*time.Since(start)))
	c.info, c.peers = h.Info, h.Peers
	return c, nil
}

// hello starts a process and has it say what it is.
func (c *Client) hello(ctx context.Context, limit time.Duration) (*hello, error) {
	p, err := start(c.o)
	if err != nil {
		return nil, err
	}
	c.proc = p
	c.pid.Store(int64(p.cmd.Process.Pid))
	a, err := c.ask(ctx, &request{Op: "hello", TimeoutS: c.o.Timeout.Seconds()}, limit)
	if err != nil {
		return nil, err
	}
	p.limit.Store(maxAnswer)
	if a.Hello.Protocol != Protocol {
		return nil, hint.Errorf(sameHelp, "%s does not speak protocol %d", c, Protocol)
	}
	if k := a.Hello.Kernels; k != "" && k != c.o.Kernels {
		return nil, hint.Errorf(sameHelp, "%s has other kernels (%s) than this normbench (%s)", c, k, c.o.Kernels)
	}
	return a.Hello, nil
}

// String names the worker by its command.
func (c *Client) String() string {
	return fmt.Sprintf("worker %q", kernels.Printable(strings.Join(c.o.Command, " "), maxReason))
}

// again starts the worker after it has died, with a pause where it keeps dying. The
// error is a *kernels.Gone once it has died too often, or came back as another device.
func (c *Client) again(ctx context.Context) error {
	for c.gone == nil {
		if c.deaths > len(c.pauses) {
			c.gone = &kernels.Gone{Device: c.String(), Reason: fmt.Sprintf("%s (%d times in a row)", c.last, c.deaths)}
			break
		}
		if c.deaths > 0 {
			select {
			case <-time.After(c.pauses[c.deaths-1]):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		h, err := c.hello(ctx, c.prove)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			var f *kernels.Failure
			if c.last = err.Error(); errors.As(err, &f) {
				c.last = f.Reason
			}
			if c.proc != nil { // it says itself what is wrong
				c.died()
			} else if f == nil {
				c.deaths++ // it was not even started
			}
			continue
		}
		if was, is := c.info, h.Info; was.ID != is.ID || was.Arch != is.Arch || was.SMs != is.SMs || was.Driver != is.Driver || was.Compiler != is.Compiler {
			c.died()
			c.gone = &kernels.Gone{Device: c.String(), Reason: fmt.Sprintf("it came back as another device, %s with %d SMs, driver %q and compiler %q", is.ID, is.SMs, is.Driver, is.Compiler)}
			break
		}
		return nil
	}
	return hint.With(c.gone, "mend it or leave it out; the same command goes on from there")
}

// died ends the process.
func (c *Client) died() {
	c.proc.kill()
	c.proc = nil
	c.pid.Store(0)
	c.deaths++
}

// Another starts a second worker by the same command, with more in its environment. What
// both say on standard error the first says alone.
func (c *Client) Another(ctx context.Context, env ...string) (*Client, error) {
	o := c.o
	o.Env, o.Stderr = append(slices.Clip(o.Env), env...), nil
	return Start(ctx, o)
}

// Info implements kernels.Device.
func (c *Client) Info() kernels.DeviceInfo { return c.info }

// Peers are those that the worker knows, missing ones too.
func (c *Client) Peers() []kernels.Peer { return c.peers }

// PID is the worker's process, 0 while there is none. A command that starts the
// worker in a process of its own must exec it. Any goroutine may ask.
func (c *Client) PID() int { return int(c.pid.Load()) }

// Beside implements kernels.Neighbour, as far as the device does.
func (c *Client) Beside(pids ...int) { c.beside = pids }

// Prefetch implements kernels.Device. Its trouble, if any, shows again when a
// variant is checked.
func (c *Client) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	req := &request{Op: "prefetch", Problem: &p}
	for _, v := range vs {
		req.Variants = append(req.Variants, v.String())
	}
	c.call(c.ctx, req)
}

// Prepare implements kernels.Preparer, as far as the device does. What the worker says is in
// its way shows again when the variant is checked.
func (c *Client) Prepare(ctx context.Context, p kernels.Problem, v kernels.Variant) error {
	_, err := c.call(ctx, &request{Op: "prepare", Problem: &p, Variants: []string{v.String()}})
	var said *Said
	if errors.As(err, &said) {
		return nil
	}
	return err
}

// Sense implements kernels.Sensor.
func (c *Client) Sense(ctx context.Context) (kernels.Reading, error) {
	a, err := c.call(ctx, &request{Op: "sense", Beside: c.beside})
	var f *kernels.Failure
	if errors.As(err, &f) && !f.Broken { // of no variant
		return kernels.Reading{}, hint.With(&Said{"sensors: " + f.Reason}, saidHelp)
	}
	if err != nil {
		return kernels.Reading{}, err
	}
	return *a.Reading, nil
}

// Open implements kernels.Device.
func (c *Client) Open(ctx context.Context, p kernels.Problem, seed uint64) (kernels.Bench, error) {
	if err := p.CheckFits(c.info); err != nil {
		return nil, err
	}
	if _, err := c.call(ctx, &request{Op: "open", Problem: &p, Seed: seed}); err != nil {
		return nil, err
	}
	c.deaths = 0
	return &remoteBench{c, c.proc, p}, nil
}

// Close ends the worker.
func (c *Client) Close() error {
	if c.proc != nil {
		c.proc.end(c.ctx, 5*time.Second)
		c.proc = nil
		c.pid.Store(0)
	}
	return nil
}

type remoteBench struct {
	c    *Client
	proc *process // the process that holds the problem
	p    kernels.Problem
}

func (b *remoteBench) call(ctx context.Context, req *request) (*answer, error) {
	if b.c.proc != b.proc {
		return nil, &kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker that held the problem is gone", Broken: true, Before: true}
	}
	req.on = b.p
	return b.c.call(ctx, req)
}

func (b *remoteBench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	a, err := b.call(ctx, &request{Op: "check", Variants: []string{v.String()}, Repeats: repeats})
	if err != nil {
		return kernels.Check{}, err
	}
	return *a.Check, nil
}

func (b *remoteBench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	a, err := b.call(ctx, &request{Op: "time", Variants: []string{v.String()}, Options: &o})
	if err != nil {
		return kernels.Timing{}, err
	}
	return *a.Timing, nil
}

func (b *remoteBench) Close() error {
	if b.c.proc != b.proc {
		return nil
	}
	ctx, cancel := patient(b.c.ctx)
	defer cancel()
	_, err := b.c.call(ctx, &request{Op: "close"})
	return err
}

// patient is a context that ends a while after ctx.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(leave):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// call sends one request and waits for its answer. A worker that dies, falls
// silent or talks nonsense is killed and forgotten; the error is then a
// *kernels.Failure with Broken set.
func (c *Client) call(ctx context.Context, req *request) (*answer, error) {
	if c.proc == nil {
		if err := c.again(ctx); err != nil {
			return nil, err
		}
	}
	return c.ask(ctx, req, c.o.Timeout)
}

// ask is call of a process that runs.
func (c *Client) ask(ctx context.Context, req *request, limit time.Duration) (*answer, error) {
	c.id++
	req.ID = c.id
	line, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	p := c.proc
	go p.write(append(line, '\n')) // a worker that does not read must not stop us
	broken := func(s kernels.Status, format string, args ...any) error {
		c.died()
		f := kernels.Failf(s, format, args...)
		f.Broken = true
		c.last = f.Reason
		return f
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for stale := 0; ; stale++ {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return nil, broken(kernels.StatusCrash, "the worker %s", p.death())
			}
			a, err := decode(line, req, c.o.Builds)
			if err == errStale && stale < maxStale {
				continue
			}
			if err != nil {
				return nil, broken(kernels.StatusCrash, "the worker answered %q with %v", req.Op, err)
			}
			if c.compile.note(p, a.Compile); c.o.Unkept != nil && a.Compile != nil && a.Compile.Unkept != "" {
				c.o.Unkept(kernels.Printable(a.Compile.Unkept, maxReason))
			}
			if a.Failure != nil {
				if a.Failure.Broken { // only a new process has a device again
					return nil, broken(a.Failure.Status, "%s", a.Failure.Reason)
				}
				return nil, kernels.Failf(a.Failure.Status, "%s", a.Failure.Reason)
			}
			if a.Error != "" {
				return nil, hint.With(&Said{a.Error}, cmp.Or(a.Hint, saidHelp))
			}
			return a, nil
		case <-timer.C:
			return nil, broken(kernels.StatusTimeout, "no answer within %s", limit)
		case <-ctx.Done():
			broken(kernels.StatusCrash, "")
			return nil, ctx.Err()
		}
	}
}

// A process is one life of the worker.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan []byte  // answers; closed at the end of its output
	limit  atomic.Int64 // bytes of the longest line
	long   atomic.Bool  // a line was longer
	stderr *tail
	exited chan struct{}
}

// secretRE matches names of variables with credentials, as those of CI systems and clouds.
var secretRE = regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSW(OR)?D|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY|_JWT|_PAT$)`)

// isSecret says whether a worker, which may run other libraries' code, is not given a variable.
func isSecret(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return secretRE.MatchString(name)
}

func start(o Options) (*process, error) {
	p := &process{cmd: exec.Command(o.Command[0], o.Command[1:]...), lines: make(chan []byte), exited: make(chan struct{})}
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), isSecret), o.Env...)
	p.stderr = &tail{next: o.Stderr}
	p.cmd.Stderr = p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.cmd.Stdout = stdin, out
	p.limit.Store(maxHello)
	ownGroup(p.cmd)
	// Descendants that keep standard error open must not hold up Wait.
	p.cmd.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		// The death of a process is told by the thread that started it, which so lives as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.exited)
		}
	}()
	err = <-started
	out.Close()
	if err != nil {
		stdout.Close()
		return nil, hint.Errorf("check the command, and that normbench is installed there", "worker %q does not start: %v", strings.Join(o.Command, " "), err)
	}
	go func() {
		defer close(p.lines)
		defer stdout.Close()
		r := bufio.NewReader(stdout)
		for {
			line, err := p.readLine(r)
			if err != nil {
				return
			}
			select {
			case p.lines <- line:
			case <-p.exited:
				// The client may still want the last answer of a dying worker.
				select {
				case p.lines <- line:
				case <-time.After(time.Second):
					return
				}
			}
		}
	}()
	return p, nil
}

// readLine reads a line of no more than p.limit bytes.
func (p *process) readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(line)+len(part)) > p.limit.Load() {
			p.long.Store(true)
			return nil, bufio.ErrTooLong
		}
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func (p *process) write(line []byte) { p.stdin.Write(line) } // a failed write shows as the end of its output

func (p *process) kill() {
	killGroup(p.cmd)
	p.stdin.Close()
	<-p.exited
}

// end closes the worker's input and gives it a while to leave by itself, less where ctx is
// done.
func (p *process) end(ctx context.Context, patience time.Duration) {
	p.stdin.Close()
	stopped, cancel := patient(ctx)
	defer cancel()
	select {
	case <-p.exited:
		return
	case <-stopped.Done():
	case <-time.After(patience):
	}
	p.kill()
}

// death describes the end of the process in a few words.
func (p *process) death() string {
	if p.long.Load() {
		return fmt.Sprintf("answers with a line of more than %d KiB", p.limit.Load()>>10)
	}
	select {
	case <-p.exited:
	case <-time.After(time.Second):
		return "closed its output"
	}
	s := "ended: " + p.cmd.ProcessState.String()
	if last := p.stderr.last(); last != "" {
		s += fmt.Sprintf(" (%s)", last)
	}
	return s
}

// tail passes lines on, but nothing that a terminal would act on, and remembers the last.
type tail struct {
	mu   sync.Mutex
	next io.Writer
	line []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = append(t.line, b...)
	if i := bytes.LastIndexByte(bytes.TrimRight(t.line, "\n"), '\n'); i >= 0 {
		t.line = t.line[i+1:]
	}
	t.line = t.line[:min(len(t.line), 4096)]
	if t.next == nil {
		return len(b), nil
	}
	_, err := io.WriteString(t.next, strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(string(b), "\r\n", "\n")))
	return len(b), err
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return kernels.Printable(strings.TrimSpace(string(t.line)), 200)
}
