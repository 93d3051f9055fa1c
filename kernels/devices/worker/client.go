package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/proc"
	"normbench/kernels"
)

// ClientOptions say how a Client runs its worker.
type ClientOptions struct {
	Command []string      // program and arguments
	Env     []string      // NAME=VALUE, over those of this process
	Timeout time.Duration // longest silence after a request before the worker is killed
	Stderr  io.Writer     // gets what the worker says there
	Unkept  func(string)  // is told why what is compiled does not stay, with each answer that says so
	// Kernels is the hash of this process's families; a worker with others
	// would measure something else under the same names, and is refused. A
	// worker that runs none of ours says "".
	Kernels string
	// Builds says that its checks compile and compare nothing.
	Builds bool
}

// leave is how long a stopped command waits for its worker to leave by itself.
const leave = 2 * time.Second

// A Client is a kernels.Device in another process.
type Client struct {
	o      ClientOptions
	ctx    context.Context // of Start: when it is done, nothing waits for the worker
	info   kernels.DeviceInfo
	peers  []kernels.Peer
	beside []int // processes that are not others

	proc  *proc.Child // nil between a death and the next request
	pid   atomic.Int64
	id    int
	prove time.Duration // most that a worker started again may take over hello
}

// Trouble is what the worker told of itself: it runs, and speaks the protocol.
type Trouble struct{ Text string }

func (t *Trouble) Error() string { return t.Text }

// troubleHelp is for trouble without a hint of the worker's own.
const troubleHelp = "the worker says so itself: mend it there, or leave it out; " +
	"the same command goes on from there"

const sameHelp = "install the same normbench on both sides"

// Start starts the worker and reads its device info. The error is one line:
// what could not be started, or what the worker says is wrong.
func Start(ctx context.Context, o ClientOptions) (*Client, error) {
	c := &Client{o: o, ctx: ctx}
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

// startHelp is the next step where a command does not start.
func startHelp(err error) string {
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
		return "the system has no room for another process: end some, or raise the limits with `ulimit -u` and -v"
	}
	return cmp.Or(durable.KnownHelp(err), "check the command, and that normbench is installed there")
}

// hello starts a process and has it say what it is.
func (c *Client) hello(ctx context.Context, limit time.Duration) (*hello, error) {
	p, err := proc.Start(proc.StartOptions{Command: c.o.Command, Env: c.o.Env, Stderr: c.o.Stderr,
		MaxLine: maxAnswer})
	if err != nil {
		return nil, hint.Errorf(startHelp(err), "%s does not start: %v", c, err)
	}
	c.proc = p
	c.pid.Store(int64(p.PID()))
	a, err := c.ask(ctx, &request{Op: "hello", TimeoutS: c.o.Timeout.Seconds()}, limit)
	if err != nil {
		return nil, err
	}
	if a.Hello.Protocol != Protocol {
		return nil, hint.Errorf(sameHelp, "%s does not speak protocol %d", c, Protocol)
	}
	if k := a.Hello.Kernels; k != "" && k != c.o.Kernels {
		return nil, hint.Errorf(sameHelp, "%s has other kernels (%s) than this normbench (%s)", c,
			k, c.o.Kernels)
	}
	return a.Hello, nil
}

// String names the worker by its command.
func (c *Client) String() string {
	return fmt.Sprintf("worker %q", kernels.MakePrintable(strings.Join(c.o.Command, " "), maxReason))
}

// restart starts the worker after it has died. One that comes back as another device is a
// *kernels.DeviceLoss.
func (c *Client) restart(ctx context.Context) error {
	h, err := c.hello(ctx, c.prove)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.proc != nil && err != nil { // it says itself what is wrong
		c.kill()
	}
	if err != nil {
		reason := err.Error()
		if f := (*kernels.Failure)(nil); errors.As(err, &f) {
			reason = f.Reason
		}
		return &kernels.Failure{Status: kernels.StatusCrash, Reason: reason, Broken: true, Before: true}
	}
	if was, is := c.info, h.Info; was.ID != is.ID || was.Arch != is.Arch || was.SMs != is.SMs ||
		was.Driver != is.Driver || was.Compiler != is.Compiler {
		c.kill()
		return hint.With(&kernels.DeviceLoss{Device: c.String(),
			Reason: fmt.Sprintf("it came back as another device, %s with %d SMs, driver %q and "+
				"compiler %q", is.ID, is.SMs, is.Driver, is.Compiler)},
			"mend it or leave it out; the same command goes on from there")
	}
	return nil
}

// Patience is how long nothing may be answered until the worker is given up.
func (c *Client) Patience() time.Duration { return 3 * c.o.Timeout }

// kill ends the process.
func (c *Client) kill() {
	c.proc.Kill()
	c.proc = nil
	c.pid.Store(0)
}

// StartAnother starts a second worker by the same command, with more in its environment. What
// both say on standard error the first says alone.
func (c *Client) StartAnother(ctx context.Context, env ...string) (*Client, error) {
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

// IgnoreProcesses implements kernels.ProcessIgnorer, as far as the device does.
func (c *Client) IgnoreProcesses(pids ...int) { c.beside = pids }

// Prefetch implements kernels.Device. Its trouble, if any, shows again when a
// variant is checked.
func (c *Client) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	c.call(c.ctx, &request{Op: "prefetch", Problem: &p, Variants: vs})
}

// Prepare implements kernels.Preparer, as far as the device does. What the worker says is in
// its way shows again when the variant is checked.
func (c *Client) Prepare(ctx context.Context, p kernels.Problem, v kernels.Variant) error {
	_, err := c.call(ctx, &request{Op: "prepare", Problem: &p, Variants: []kernels.Variant{v}})
	var trouble *Trouble
	if errors.As(err, &trouble) {
		return nil
	}
	return err
}

// Sense implements kernels.Sensor.
func (c *Client) Sense(ctx context.Context) (kernels.Reading, error) {
	a, err := c.call(ctx, &request{Op: "sense", Beside: c.beside})
	var f *kernels.Failure
	if errors.As(err, &f) && !f.Broken { // of no variant
		return kernels.Reading{}, hint.With(&Trouble{"sensors: " + f.Reason}, troubleHelp)
	}
	if err != nil {
		return kernels.Reading{}, err
	}
	return *a.Reading, nil
}

// Open implements kernels.Device.
func (c *Client) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	if err := p.CheckFits(c.info); err != nil {
		return nil, err
	}
	if _, err := c.call(ctx, &request{Op: "open", Problem: &p, Inputs: &in}); err != nil {
		return nil, err
	}
	return &remoteBench{c, c.proc, p}, nil
}

// Close ends the worker.
func (c *Client) Close() error {
	if c.proc != nil {
		ctx, cancel := c.closingContext()
		defer cancel()
		c.proc.Close(ctx, 5*time.Second)
		c.proc = nil
		c.pid.Store(0)
	}
	return nil
}

type remoteBench struct {
	c    *Client
	proc *proc.Child // the process that holds the problem
	p    kernels.Problem
}

func (b *remoteBench) call(ctx context.Context, req *request) (*answer, error) {
	if b.c.proc != b.proc {
		return nil, &kernels.Failure{Status: kernels.StatusCrash,
			Reason: "the worker that held the problem is gone", Broken: true, Before: true}
	}
	req.on = b.p
	return b.c.call(ctx, req)
}

func (b *remoteBench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	a, err := b.call(ctx, &request{Op: "check", Variants: []kernels.Variant{v}, Repeats: repeats})
	if err != nil {
		return kernels.Check{}, err
	}
	return *a.Check, nil
}

func (b *remoteBench) Time(ctx context.Context, v kernels.Variant,
	o kernels.TimeOptions) (kernels.Timing, error) {
	start := time.Now()
	a, err := b.call(ctx, &request{Op: "time", Variants: []kernels.Variant{v}, Options: &o})
	if err != nil {
		return kernels.Timing{}, err
	}
	if err := checkSum(a.Timing, time.Since(start)); err != nil {
		return kernels.Timing{}, err
	}
	return *a.Timing, nil
}

func (b *remoteBench) Close() error {
	if b.c.proc != b.proc {
		return nil
	}
	ctx, cancel := b.c.closingContext()
	defer cancel()
	_, err := b.c.call(ctx, &request{Op: "close"})
	return err
}

// closingContext makes the context of what comes last: Start's, or where that is done, one of a few seconds.
func (c *Client) closingContext() (context.Context, context.CancelFunc) {
	if c.ctx.Err() == nil {
		return context.WithCancel(c.ctx)
	}
	return context.WithTimeout(context.Background(), leave)
}

// call sends one request and waits for its answer. A worker that dies, falls
// silent or talks nonsense is killed and forgotten; the error is then a
// *kernels.Failure with Broken set.
func (c *Client) call(ctx context.Context, req *request) (*answer, error) {
	if c.proc == nil {
		if err := c.restart(ctx); err != nil {
			return nil, err
		}
	}
	return c.ask(ctx, req, c.o.Timeout)
}

// ask is call of a process that runs.
func (c *Client) ask(ctx context.Context, req *request, limit time.Duration) (a *answer, err error) {
	c.id++
	req.ID = c.id
	if err := c.proc.Send(req); err != nil {
		return nil, err
	}
	line, err := c.proc.ReadLine(ctx, time.Now().Add(limit))
	if err == nil {
		if a, err = decode(line, req, c.o.Builds); err != nil {
			err = fmt.Errorf("answered %q with %w", req.Op, err)
		}
	}
	broken := func(s kernels.Status, format string, args ...any) error {
		c.kill()
		f := kernels.Failf(s, format, args...)
		f.Broken = true
		return f
	}
	switch {
	case errors.Is(err, proc.ErrSlow):
		return nil, broken(kernels.StatusTimeout, "no answer within %s", limit)
	case err != nil && err == ctx.Err():
		c.kill()
		return nil, err
	case err != nil:
		return nil, broken(kernels.StatusCrash, "the worker %v", err)
	}
	if a.Unkept != "" && c.o.Unkept != nil {
		c.o.Unkept(kernels.MakePrintable(a.Unkept, maxReason))
	}
	switch f := a.Failure; {
	case f != nil && f.Broken: // only a new process has a device again
		return nil, broken(f.Status, "%s", f.Reason)
	case f != nil:
		return nil, f
	case a.Error != "":
		return nil, hint.With(&Trouble{a.Error}, cmp.Or(a.Hint, troubleHelp))
	}
	return a, nil
}
