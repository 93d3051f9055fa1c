//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// harmless says whether a fault is what the step should answer, or is seen no earlier than in the
// next step.
func harmless(fault, step string) bool {
	switch step {
	case "prefetch", "close":
		return true // no answer there is anyone's result
	case "sense":
		return fault == "empty parts" // a device without sensors says as much
	case "prepare":
		// what the device says shows again in check
		return fault == "long error" || harmless(fault, "open")
	case "open":
		return strings.HasPrefix(devicetest.Faults[fault], `{"id":ID,"`) &&
			!strings.Contains(devicetest.Faults[fault], `"failure"`) &&
			!strings.Contains(devicetest.Faults[fault], `"error"`) && fault != "truncated" ||
			fault == "empty" || fault == "two answers" || fault == "no such number"
	}
	return false
}

// misbehave answers rightly until a step is asked for, and then does worse.
func misbehave(fault, step string) {
	honest := func(in io.Reader, out io.Writer) {
		Serve(context.Background(), in, out, Program{}, func(time.Duration) (kernels.Device, error) {
			return &devicetest.Fake{Seconds: devicetest.Always(1e-5)}, nil
		})
	}
	devicetest.Misbehave(os.Stdin, os.Stdout, honest, fault,
		func(asked string) bool { return asked == step })
}

// Every misbehaviour at every step ends without its timeout, but for a hang, and in bounded memory
// with an error of one line. It never passes for a check or for times, and never panics.
func TestMisbehaviourIsAnErrorOfOneLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	injected := 0
	var group errgroup.Group
	group.SetLimit(8)
	for fault := range devicetest.Faults {
		for _, step := range append([]string{"hash"}, devicetest.Steps...) {
			injected++
			group.Go(func() error {
				limit := time.Hour // what waits for it does not end
				if fault == "hangs" {
					limit = 200 * time.Millisecond
				}
				name := fault + " in " + step
				c, err := startAt(t.Context(), fault, step, limit)
				if step == "hello" {
					if err == nil {
						c.Close()
						t.Errorf("%s: it started", name)
						return nil
					}
					oneLine(t, name, err)
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
				} else {
					seen := session(t, c, name)
					// a busy machine may be late before
					if seen != step && !harmless(fault, step) && fault != "hangs" {
						t.Errorf("%s: seen in %q", name, seen)
					}
					c.Close()
				}
				return nil
			})
		}
	}
	group.Wait() //nolint:errcheck // each has said its own
	runtime.ReadMemStats(&after)
	if sum := (after.Sys - before.Sys) >> 20; sum > 512 { // eight at a time
		t.Errorf("%d faults took %d MiB", injected, sum)
	}
	t.Logf("%d faults", injected)
}

// FuzzDecode holds that what decode returns is whole, whatever a worker says.
func FuzzDecode(f *testing.F) {
	steps := []string{"hello", "check", "time", "sense", "open", "hash"}
	for _, text := range slices.Sorted(maps.Values(devicetest.Faults)) {
		text = strings.NewReplacer("ID", "1", "1e-5*", "1e-5,1e-5,1e-5", "LONG", strings.Repeat("x",
			5000)).Replace(text)
		for step := range steps {
			f.Add(text, step)
		}
	}
	f.Add(`{"id":1,"check":{}}`, 1)
	f.Add(`{"id":1,"timing":{"seconds":[]}}`, 2)
	f.Add(`{"id":1,"hello":{"protocol":1,"info":{"id":"a\u001b[2J","sms":-1}}}`, 0)
	f.Add(`{"id":1,"hashes":{"y":[1,2,3]}}`, 5)
	f.Add(`{"id":1,"hashes":{"y":[1,2,3],"z":[1]}}`, 5)
	f.Add(`{"id":1,"hashes":{"y":[1,2]}}`, 5)
	f.Add(`{"id":1,"check":`+strings.Repeat(`{"a":`, 2000), 1)
	f.Fuzz(func(t *testing.T, line string, step int) {
		req := &request{ID: 1, Op: steps[uint(step)%uint(len(steps))],
			Variants: []kernels.Variant{good}, Repeats: 1, Rows: 3, Options: &kernels.TimeOptions{
				Samples: 3}, on: small}
		a, err := decode([]byte(line), req, false)
		if err != nil || a.Error != "" || a.Failure != nil {
			assert.That(t, err == nil || !strings.ContainsAny(err.Error(), "\n\x1b"),
				"error %q", err)
			return
		}
		switch req.Op {
		case "hello":
			assert.That(t,
				a.Hello.Protocol != Protocol || kernels.CheckID(a.Hello.Info.ID) == nil &&
					a.Hello.Info.SMs >= 1,
				"%+v", a.Hello)
		case "check":
			assert.That(t, len(a.Check.Outputs) == 2 && a.Check.Repeats == 1, "%+v", a.Check)
		case "time":
			assert.That(t, len(a.Timing.Seconds) == 3 && slices.Min(a.Timing.Seconds) > 0,
				"%+v", a.Timing)
		case "hash":
			assert.That(t, len(a.Hashes) > 0 && len(a.Hashes) == len(a.Hashes["y"])/3+len(a.Hashes["rstd"])/3, "%+v", a.Hashes)
		case "sense":
			assert.That(t, a.Reading != nil, "no reading")
		}
	})
}

// startAt is Start of a worker that misbehaves, with a limit that honest starts of this binary keep
// on a busy machine too.
func startAt(ctx context.Context, fault, step string, limit time.Duration) (*Client, error) {
	o := ClientOptions{Command: []string{"env", modeEnv + "=fault", "NORMBENCH_TEST_FAULT=" + fault,
		"NORMBENCH_TEST_STEP=" + step, os.Args[0]}, Timeout: limit}
	if step != "hello" {
		o.Timeout = time.Minute
	}
	c, err := Start(ctx, o)
	if err == nil {
		c.o.Timeout = limit
	}
	return c, err
}

// session asks for all that there is, and returns the first step that had an error.
func session(t *testing.T, c *Client, name string) (seen string) {
	note := func(step string, err error) bool {
		if err != nil {
			oneLine(t, name, err)
			if seen == "" {
				seen = step
			}
		}
		return err == nil
	}
	c.Prefetch(small, []kernels.Variant{good})
	b, err := c.Open(t.Context(), small, kernels.Inputs{Seed: 7})
	if !note("open", err) {
		return seen
	}
	note("prepare", c.Prepare(t.Context(), small, good))
	got, err := b.Check(t.Context(), good, 1)
	assert.That(t, !note("check", err) || len(got.Outputs) == 2 && got.Repeats == 1,
		"%s: passes for the check %+v", name, got)
	hashes, err := kernels.HashRows(t.Context(), b, good, 3)
	assert.That(t, !note("hash", err) || len(hashes["y"]) == 3, "%s: passes for the hashes %v", name, hashes)
	if got, err := b.Time(t.Context(), good, kernels.TimeOptions{Samples: 3}); note("time", err) &&
		(len(got.Seconds) != 3 || got.Seconds[1] != 1e-5) {
		t.Errorf("%s: passes for the times %v", name, got.Seconds)
	}
	_, err = c.Sense(t.Context())
	note("sense", err)
	note("close", b.Close())
	return seen
}

func oneLine(t *testing.T, name string, err error) {
	t.Helper()
	var f *kernels.Failure
	text := err.Error()
	assert.That(t, !strings.ContainsAny(text, "\n\x1b\a") && len(text) <= maxReason+200 &&
		(!errors.As(err, &f) || f.Reason != ""), "%s: the error is %.300q", name, text)
}

// A worker that does not start again says why, and blames nobody; one that comes back as another
// device is not taken for the first.
func TestWorkerThatDoesNotStartAgainSaysWhy(t *testing.T) {
	c := start(t, "cpu")
	b := open(t, c)
	command := c.o.Command
	c.o.Command = []string{"sh", "-c", "echo connection refused >&2; exit 255"}
	c.proc.Kill()
	_, err := b.Check(t.Context(), good, 1)
	assert.That(t, err != nil, "a dead worker answers")
	for range 3 {
		_, err := c.Open(t.Context(), small, kernels.Inputs{Seed: 7})
		var f *kernels.Failure
		assert.Must(t, errors.As(err, &f) && f.Broken && f.Before &&
			strings.Contains(err.Error(), "exit status 255 (connection refused)"), "%v", err)
	}
	c.o.Command = command
	for _, change := range []func(*kernels.DeviceInfo){
		func(d *kernels.DeviceInfo) { d.ID = "another" },
		func(d *kernels.DeviceInfo) { d.Arch += "1" },
		func(d *kernels.DeviceInfo) { d.SMs += 7 },
		func(d *kernels.DeviceInfo) { d.Driver += "1" },
		func(d *kernels.DeviceInfo) { d.Compiler += "1" },
	} {
		c, gone := start(t, "cpu"), (*kernels.DeviceLoss)(nil)
		change(&c.info)
		c.kill()
		_, err := c.Open(t.Context(), small, kernels.Inputs{Seed: 7})
		assert.That(t, errors.As(err, &gone) &&
			strings.Contains(err.Error(), "came back as another device"), "%v", err)
	}
}

// A stopped command waits two seconds at most for a worker that hangs in what nobody waits
// for.
func TestStopDoesNotWaitForAWorkerThatHangs(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"prefetch", "close"} {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := startAt(ctx, "hangs", step, time.Minute)
		assert.NoError(t, err)
		c.o.Timeout = time.Minute
		time.AfterFunc(50*time.Millisecond, cancel)
		start := time.Now()
		if c.Prefetch(small, []kernels.Variant{good}); step == "close" {
			b, err := c.Open(t.Context(), small, kernels.Inputs{Seed: 7})
			assert.NoError(t, err)
			b.Close()
		}
		c.Close()
		d := time.Since(start)
		assert.That(t, d <= 4*time.Second, "hanging in %s: it took %s", step, d)
	}
}

// A parent that is killed takes a worker with it that hangs.
func TestKilledParentLeavesNoWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the parent's death is told on Linux only")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), modeEnv+"=parent of one that hangs")
	out, err := parent.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, parent.Start())
	var pid int
	_, err = fmt.Fscan(out, &pid)
	assert.Must(t, err == nil && pid != 0, "%v %v", pid, err)
	parent.Process.Kill()
	parent.Wait()
	devicetest.WaitForEnd(t, pid)
}

// parentOfOneThatHangs says the worker's process ID and waits to be killed.
func parentOfOneThatHangs() {
	os.Setenv(modeEnv, "ignores the end of its input")
	c, err := Start(context.Background(), ClientOptions{Command: []string{os.Args[0]},
		Timeout: time.Minute, Program: program})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.PID())
	time.Sleep(time.Hour)
}
