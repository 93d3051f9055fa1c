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
	// Start is the longest time until a worker has started, where a scheduler may have its command wait:
	// it is not ended before, and asked to leave before it is killed. 0 is for a command that starts at
	// once, within Timeout.
	Start  time.Duration
	Stderr io.Writer    // gets what the worker says there
	Unkept func(string) // is told why what is compiled does not stay, with each answer that says so
	// Program is this process's. A worker of another version, or with other kernels, would measure
	// something else under the same names, and is refused.
	Program Program
	// Builds says that its checks compile and compare nothing.
	Builds bool
}

// A Program says which normbench runs. Two with an equal one measure the same.
type Program struct {
	Version string // "" where it does not matter
	Kernels string // hash of the families' sources; "" of a worker that runs none of ours
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

	proc     *proc.Child   // nil between a death and the next request
	greeting *request      // what the process has not answered yet: it starts
	within   time.Duration // that it must have since it was started,
	until    time.Time     // so until then
	pid      atomic.Int64
	id       int
	prove    time.Duration // most that a request waits for a worker to start again
}

// errStarting is receive's while a process may still start.
var errStarting = errors.New("it has not started yet")

// Trouble is what the worker told of itself: it runs, and speaks the protocol.
type Trouble struct{ Text string }

func (t *Trouble) Error() string { return t.Text }

// troubleHelp is for trouble without a hint of the worker's own.
const troubleHelp = "the worker says so itself: mend it there, or leave it out; " +
	"the same command goes on from there"

const sameHelp = "install the same normbench on both sides"

const sameKernelsHelp = "install the same normbench on both sides; give both the same --kernels"

// Start starts the worker and reads its device info. The error is one line:
// what could not be started, or what the worker says is wrong.
func Start(ctx context.Context, o ClientOptions) (*Client, error) {
	c := &Client{o: o, ctx: ctx}
	start, limit := time.Now(), cmp.Or(o.Start, o.Timeout)
	h, err := c.hello(ctx, limit, limit)
	if err != nil {
		c.Close() // it lives on where it answered with an error
		return nil, err
	}
	if c.prove = min(10*time.Second, o.Start); o.Start == 0 {
		c.prove = min(o.Timeout, max(10*time.Second, 4*time.Since(start)))
	}
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

// hello has a process say what it is, and starts one where there is none. It waits no longer than a
// limit. The error is then errStarting if the process may go on starting, up to another limit.
func (c *Client) hello(ctx context.Context, limit, startLimit time.Duration) (*hello, error) {
	if c.greeting == nil {
		o := proc.StartOptions{Command: c.o.Command, Env: c.o.Env, Stderr: c.o.Stderr, MaxLine: maxAnswer}
		if c.o.Start > 0 {
			o.Leave = leave
		}
		p, err := proc.Start(o)
		if err != nil {
			return nil, hint.Errorf(startHelp(err), "%s does not start: %v", c, err)
		}
		c.proc, c.within, c.until = p, startLimit, time.Now().Add(startLimit)
		c.pid.Store(int64(p.PID()))
		c.greeting = &request{Op: "hello", TimeoutS: c.o.Timeout.Seconds()}
		if err := c.send(c.greeting); err != nil {
			return nil, err
		}
	}
	a, err := c.receive(ctx, c.greeting, min(limit, max(time.Until(c.until), 0)))
	if errors.Is(err, errStarting) {
		return nil, err
	}
	c.greeting = nil
	if err != nil {
		return nil, err
	}
	return a.Hello, c.checkProgram(a.Hello)
}

// checkProgram refuses a worker that is another program than this one.
func (c *Client) checkProgram(h *hello) error {
	its := "a normbench without a version"
	if h.Version != "" {
		its = "normbench " + h.Version
	}
	mine, ours := c.o.Program, h.Kernels != "" // else it runs none of our kernels, as a peer's
	switch {
	case h.Protocol != Protocol:
		return hint.Errorf(sameHelp, "%s is %s, which does not speak protocol %d of normbench %s", c, its, Protocol,
			mine.Version)
	case ours && mine.Version != "" && h.Version != mine.Version:
		return hint.Errorf(sameHelp, "%s is %s, and this is normbench %s", c, its, mine.Version)
	case ours && h.Kernels != mine.Kernels:
		return hint.Errorf(sameKernelsHelp, "%s is %s with other kernels (%s) than this one (%s)", c, its, h.Kernels,
			mine.Kernels)
	}
	return nil
}

// String names the worker by its command.
func (c *Client) String() string {
	return fmt.Sprintf("worker %q", kernels.MakePrintable(strings.Join(c.o.Command, " "), maxReason))
}

// restart starts the worker after it has died, and waits no longer than a limit. One that comes back as
// another device is a *kernels.DeviceLoss.
func (c *Client) restart(ctx context.Context, limit time.Duration) error {
	h, err := c.hello(ctx, limit, cmp.Or(c.o.Start, c.prove))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errStarting) {
		return &kernels.Failure{Status: kernels.StatusTimeout, Reason: "it has not started again within " +
			limit.String(), Broken: true, Before: true}
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

// Away says whether the worker was lost and has not started again.
func (c *Client) Away() bool { return c.proc == nil || c.greeting != nil }

// Await waits until a worker that was lost has started again, as long as its start may take.
func (c *Client) Await(ctx context.Context) error {
	if !c.Away() {
		return nil
	}
	return c.restart(ctx, cmp.Or(c.o.Start, c.prove))
}

// Patience is how long nothing may be answered until the worker is given up.
func (c *Client) Patience() time.Duration { return 3 * c.o.Timeout }

// kill ends the process.
func (c *Client) kill() {
	c.proc.Kill()
	c.proc, c.greeting = nil, nil
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
	if c.greeting != nil { // the end of its input means nothing to a command that waits for its turn
		c.kill()
	}
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

func (b *remoteBench) HashRows(ctx context.Context, v kernels.Variant, rows int64) (kernels.RowHashes, error) {
	a, err := b.call(ctx, &request{Op: "hash", Variants: []kernels.Variant{v}, Rows: rows})
	if err != nil {
		return nil, err
	}
	return a.Hashes, nil
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
	if c.Away() {
		if err := c.restart(ctx, c.prove); err != nil {
			return nil, err
		}
	}
	return c.ask(ctx, req, c.o.Timeout)
}

// ask is call of a process that runs.
func (c *Client) ask(ctx context.Context, req *request, limit time.Duration) (a *answer, err error) {
	if err := c.send(req); err != nil {
		return nil, err
	}
	return c.receive(ctx, req, limit)
}

// send sends a request.
func (c *Client) send(req *request) error {
	c.id++
	req.ID = c.id
	return c.proc.Send(req)
}

// receive waits for the answer of a request that was sent. A process that starts is left alone until it
// must have.
func (c *Client) receive(ctx context.Context, req *request, limit time.Duration) (a *answer, err error) {
	line, err := c.proc.ReadLine(ctx, time.Now().Add(limit))
	if errors.Is(err, proc.ErrSlow) && req == c.greeting {
		if time.Now().Before(c.until) {
			return nil, errStarting
		}
		limit = c.within
	}
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
