// Package proc runs child processes that speak lines of JSON: a line in, a line
// out. A child that dies, hangs or does not stop talking costs no more than itself.
package proc

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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// StartOptions say how Start runs a child.
type StartOptions struct {
	Command []string  // program and arguments
	Env     []string  // NAME=VALUE, over those of this process
	Stderr  io.Writer // gets what the child says there; may be nil
	MaxLine int       // bytes of its longest line
	// Leave is how long Kill waits for the child to leave by itself, asked by a signal: srun gives its job
	// back then. 0 kills at once.
	Leave time.Duration
}

// A Child is a process. Send and ReadLine belong to one goroutine at a time; any may Kill it.
type Child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	lines  chan []byte // closed at the end of its output
	max    int         // bytes of a line
	leave  time.Duration
	long   atomic.Bool // a line was longer
	stderr tail
	exited chan struct{}
	ended  sync.Once
	done   chan struct{} // closed once nobody reads lines any more
}

// secretRE matches names of variables with credentials, as CI systems and clouds have them.
var secretRE = regexp.MustCompile(
	`(?i)(TOKEN|SECRET|PASSW(OR)?D|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY|_JWT|_PAT$)`)

// isSecret says whether a variable holds a credential, which no child gets, as it may run other
// libraries' code.
func isSecret(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return secretRE.MatchString(name)
}

// Start starts a child in a process group of its own. It gets this process's environment
// without what is named as a credential, and dies with this process where the system can do that.
func Start(o StartOptions) (*Child, error) {
	c := &Child{cmd: exec.Command(o.Command[0], o.Command[1:]...), max: o.MaxLine, leave: o.Leave, lines: make(chan []byte),
		stderr: tail{next: o.Stderr}, exited: make(chan struct{}), done: make(chan struct{})}
	if o.Command[0] == "/proc/self/exe" {
		c.cmd.Args[0] = os.Args[0]
	}
	c.cmd.Env = append(slices.DeleteFunc(os.Environ(), isSecret), o.Env...)
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = time.Second // descendants that keep standard error open must not hold up Wait
	ownGroup(c.cmd)
	var out *os.File
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.stdout, out, err = os.Pipe(); err != nil {
		return nil, err
	}
	defer out.Close()
	c.cmd.Stdout = out
	started := make(chan error)
	go func() {
		// The death of a process is told by the thread that started it, which so lives as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		c.stdout.Close()
		return nil, err
	}
	go c.read()
	return c, nil
}

// read reads the child's lines until its output ends.
func (c *Child) read() {
	defer close(c.lines)
	lines := bufio.NewScanner(c.stdout)
	lines.Buffer(nil, c.max)
	lines.Split(splitWholeLines)
	for lines.Scan() {
		select {
		case c.lines <- bytes.Clone(lines.Bytes()):
		case <-c.done:
			return
		}
	}
	c.long.Store(errors.Is(lines.Err(), bufio.ErrTooLong))
}

// splitWholeLines is a bufio.SplitFunc that drops a last line without its end.
func splitWholeLines(data []byte, _ bool) (n int, line []byte, err error) {
	if n = bytes.IndexByte(data, '\n') + 1; n > 0 {
		line = data[:n]
	}
	return n, line, nil
}

// PID returns the id of the child's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Send sends the child a line of JSON. It does not wait: a child that does not read does not answer
// either.
func (c *Child) Send(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		go c.stdin.Write(append(line, '\n'))
	}
	return err
}

// ErrSlow is ReadLine's error if no line came in time.
var ErrSlow = errors.New("no answer")

// ReadLine reads the child's next line. The error is ErrSlow after the deadline, ctx's, or says how the
// child ended, in words that continue its name.
func (c *Child) ReadLine(ctx context.Context, deadline time.Time) ([]byte, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return nil, errors.New(c.describeEnd())
		}
		return line, nil
	case <-timer.C:
		return nil, ErrSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Answer reads the child's next line into v. The error continues the child's name, and is an ErrSlow if
// no line came within the limit.
func (c *Child) Answer(ctx context.Context, limit time.Duration, v any) error {
	line, err := c.ReadLine(ctx, time.Now().Add(limit))
	if errors.Is(err, ErrSlow) {
		return fmt.Errorf("was killed: %w within %s", err, limit)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("answered nonsense: %w", err)
	}
	return nil
}

// Greet reads the child's first line: empty JSON, or the reason why it cannot serve. The error is as
// Answer's.
func (c *Child) Greet(ctx context.Context, limit time.Duration) error {
	var greeting struct{ Error string }
	err := c.Answer(ctx, limit, &greeting)
	if err == nil && greeting.Error != "" {
		err = fmt.Errorf("says %q", greeting.Error)
	}
	return err
}

// Kill kills the child and all that it has started.
func (c *Child) Kill() {
	c.ended.Do(func() {
		if c.leave > 0 {
			askGroup(c.cmd)
			select {
			case <-c.exited:
			case <-time.After(c.leave):
			}
		}
		killGroup(c.cmd)
		c.stdin.Close()
		<-c.exited
		c.stopReading()
	})
}

// stopReading closes the child's output: a descendant may keep it open.
func (c *Child) stopReading() {
	close(c.done)
	c.stdout.Close()
}

// Close closes the child's input, waits up to patience, or until ctx ends, for it to exit, and then
// kills it.
func (c *Child) Close(ctx context.Context, patience time.Duration) {
	c.stdin.Close()
	select {
	case <-c.exited:
		c.ended.Do(c.stopReading)
		return
	case <-ctx.Done():
	case <-time.After(patience):
	}
	c.Kill()
}

// describeEnd says in a few words how the process ended.
func (c *Child) describeEnd() string {
	if c.long.Load() {
		return fmt.Sprintf("answered with a line of more than %d KiB", c.max>>10)
	}
	select {
	case <-c.exited:
	case <-time.After(time.Second):
		return "closed its output"
	}
	s := "ended: " + c.cmd.ProcessState.String()
	if strings.HasSuffix(s, "signal: killed") {
		s += ", as when memory runs out"
	}
	if said := c.stderr.reason(); said != "" {
		s += fmt.Sprintf(" (%s)", said)
	}
	return s
}
