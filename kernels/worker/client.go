package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
)

// Options say how a Client runs its worker.
type Options struct {
	Command []string      // program and arguments
	Timeout time.Duration // longest silence after a request before the worker is killed
	Stderr  io.Writer     // gets what the worker says there
	// Kernels is the hash of this process's families; a worker with others
	// would measure something else under the same names, and is refused. A
	// worker that runs none of ours says "".
	Kernels string
}

// A Client is a kernels.Device in another process.
type Client struct {
	o      Options
	info   kernels.DeviceInfo
	peers  []kernels.Peer
	beside []int // processes that are not others

	proc *process // nil between a death and the next request
	id   int

	compile tally
}

// Said is trouble that the worker told of itself: it runs, and speaks the protocol.
type Said struct{ Text string }

func (s *Said) Error() string { return s.Text }

// Start starts the worker and reads its device info. The error is one line:
// what could not be started, or what the worker says is wrong.
func Start(ctx context.Context, o Options) (*Client, error) {
	c := &Client{o: o}
	a, err := c.call(ctx, &request{Op: "hello"})
	if err != nil {
		c.Close() // it lives on where it answered with an error
		return nil, err
	}
	if a.Hello == nil || a.Hello.Protocol != Protocol {
		c.Close()
		return nil, hint.Errorf("install the same normbench on both sides", "worker %q does not speak protocol %d", strings.Join(o.Command, " "), Protocol)
	}
	if k := a.Hello.Kernels; k != "" && k != o.Kernels {
		c.Close()
		return nil, hint.Errorf("install the same normbench on both sides", "worker %q has other kernels (%s) than this normbench (%s)", strings.Join(o.Command, " "), k, o.Kernels)
	}
	c.info, c.peers = a.Hello.Info, a.Hello.Peers
	return c, nil
}

// Info implements kernels.Device.
func (c *Client) Info() kernels.DeviceInfo { return c.info }

// Peers are those that the worker knows, missing ones too.
func (c *Client) Peers() []kernels.Peer { return c.peers }

// PID is the worker's process, 0 while there is none. A command that starts the
// worker in a process of its own must exec it.
func (c *Client) PID() int {
	if c.proc == nil {
		return 0
	}
	return c.proc.cmd.Process.Pid
}

// Beside implements kernels.Neighbour, as far as the device does.
func (c *Client) Beside(pids ...int) { c.beside = pids }

// Prefetch implements kernels.Device. Its trouble, if any, shows again when a
// variant is checked.
func (c *Client) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	req := &request{Op: "prefetch", Problem: &p}
	for _, v := range vs {
		req.Variants = append(req.Variants, v.String())
	}
	c.call(context.Background(), req)
}

// Sense implements kernels.Sensor.
func (c *Client) Sense(ctx context.Context) (kernels.Reading, error) {
	a, err := c.call(ctx, &request{Op: "sense", Beside: c.beside})
	if err != nil {
		return kernels.Reading{}, err
	}
	if a.Reading == nil {
		return kernels.Reading{}, errors.New("worker answered sense without a reading")
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
	return &remoteBench{c, c.proc}, nil
}

// Close ends the worker.
func (c *Client) Close() error {
	if c.proc != nil {
		c.proc.end(5 * time.Second)
		c.proc = nil
	}
	return nil
}

type remoteBench struct {
	c    *Client
	proc *process // the process that holds the problem
}

func (b *remoteBench) call(ctx context.Context, req *request) (*answer, error) {
	if b.c.proc != b.proc {
		return nil, &kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker that held the problem is gone", Broken: true}
	}
	return b.c.call(ctx, req)
}

func (b *remoteBench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	a, err := b.call(ctx, &request{Op: "check", Variants: []string{v.String()}, Repeats: repeats})
	if err != nil {
		return kernels.Check{}, err
	}
	if a.Check == nil {
		return kernels.Check{}, errors.New("worker answered check without one")
	}
	return *a.Check, nil
}

func (b *remoteBench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	a, err := b.call(ctx, &request{Op: "time", Variants: []string{v.String()}, Options: &o})
	if err != nil {
		return kernels.Timing{}, err
	}
	if a.Timing == nil {
		return kernels.Timing{}, errors.New("worker answered time without samples")
	}
	return *a.Timing, nil
}

func (b *remoteBench) Close() error {
	if b.c.proc != b.proc {
		return nil
	}
	_, err := b.c.call(context.Background(), &request{Op: "close"})
	return err
}

// call sends one request and waits for its answer. A worker that dies, falls
// silent or talks nonsense is killed and forgotten; the error is then a
// *kernels.Failure with Broken set.
func (c *Client) call(ctx context.Context, req *request) (*answer, error) {
	if c.proc == nil {
		p, err := start(c.o)
		if err != nil {
			return nil, err
		}
		c.proc = p
	}
	c.id++
	req.ID = c.id
	line, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	p := c.proc
	go p.write(append(line, '\n')) // a worker that does not read must not stop us
	broken := func(s kernels.Status, format string, args ...any) error {
		p.kill()
		c.proc = nil
		f := kernels.Failf(s, format, args...)
		f.Broken = true
		return f
	}
	timer := time.NewTimer(c.o.Timeout)
	defer timer.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return nil, broken(kernels.StatusCrash, "the worker %s", p.death())
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil || a.ID != req.ID {
			return nil, broken(kernels.StatusCrash, "the worker answered %q with nonsense: %.80q", req.Op, line)
		}
		c.compile.note(p, a.Compile)
		if a.Failure != nil {
			if a.Failure.Broken { // only a new process has a device again
				return nil, broken(a.Failure.Status, "%s", a.Failure.Reason)
			}
			return nil, kernels.Failf(a.Failure.Status, "%s", a.Failure.Reason)
		}
		if a.Error != "" {
			return nil, hint.With(&Said{a.Error}, a.Hint)
		}
		return &a, nil
	case <-timer.C:
		return nil, broken(kernels.StatusTimeout, "no answer within %s", c.o.Timeout)
	case <-ctx.Done():
		broken(kernels.StatusCrash, "")
		return nil, ctx.Err()
	}
}

// A process is one life of the worker.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan []byte // answers; closed at the end of its output
	stderr *tail
	exited chan struct{}
}

func start(o Options) (*process, error) {
	p := &process{cmd: exec.Command(o.Command[0], o.Command[1:]...), lines: make(chan []byte), exited: make(chan struct{})}
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
	ownGroup(p.cmd)
	// Descendants that keep standard error open must not hold up Wait.
	p.cmd.WaitDelay = time.Second
	err = p.cmd.Start()
	out.Close()
	if err != nil {
		stdout.Close()
		return nil, hint.Errorf("check the command, and that normbench is installed there", "worker %q does not start: %v", strings.Join(o.Command, " "), err)
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	go func() {
		defer close(p.lines)
		defer stdout.Close()
		r := bufio.NewReader(stdout)
		for {
			line, err := r.ReadBytes('\n')
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

func (p *process) write(line []byte) { p.stdin.Write(line) } // a failed write shows as the end of its output

func (p *process) kill() {
	killGroup(p.cmd)
	p.stdin.Close()
	<-p.exited
}

// end closes the worker's input and gives it a while to leave by itself.
func (p *process) end(patience time.Duration) {
	p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.kill()
	}
}

// death describes the end of the process in a few words.
func (p *process) death() string {
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

// tail passes writes on and remembers the last line.
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
	return t.next.Write(b)
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := strings.TrimSpace(string(t.line))
	return line[:min(len(line), 200)]
}
