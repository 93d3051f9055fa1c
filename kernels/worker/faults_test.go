//go:build unix

package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"normbench/kernels"
)

// The steps of the protocol, and what a worker does there instead of its duty. An answer
// beside "ID" is that answer, with the request's id in its place.
var (
	steps  = []string{"hello", "prefetch", "open", "check", "time", "sense", "close"}
	faults = map[string]string{
		"dies":             "",
		"hangs":            "",
		"closes":           "",
		"garbage":          "Segmentation fault",
		"truncated":        `{"id":ID,"check":{"outputs":[`,
		"wrong id":         `{"id":99}`,
		"no object":        `null`,
		"empty":            `{"id":ID}`,
		"empty parts":      `{"id":ID,"hello":{},"check":{},"timing":{},"reading":{}}`,
		"no samples":       `{"id":ID,"timing":{"seconds":[],"busy":1}}`,
		"too few samples":  `{"id":ID,"timing":{"seconds":[1e-5],"busy":1}}`,
		"negative samples": `{"id":ID,"timing":{"seconds":[1e-5,-1e-5,1e-5],"busy":1}}`,
		"zero samples":     `{"id":ID,"timing":{"seconds":[0,0,0],"busy":1}}`,
		"tiny samples":     `{"id":ID,"timing":{"seconds":[1e-12,1e-12,1e-12],"busy":1}}`,
		"huge samples":     `{"id":ID,"timing":{"seconds":[1e300,1e300,1e300],"busy":1}}`,
		"NaN samples":      `{"id":ID,"timing":{"seconds":[NaN,NaN,NaN],"busy":1}}`,
		"no such number":   `{"id":ID,"timing":{"seconds":[1e999,1,1],"busy":1}}`,
		"a missing output": `{"id":ID,"check":{"outputs":[{"name":"y","elems":165,"bad":0}],"repeats":1}}`,
		"another output":   `{"id":ID,"check":{"outputs":[{"name":"z","elems":165,"bad":0}],"repeats":1}}`,
		"output of less":   `{"id":ID,"check":{"outputs":[{"name":"y","elems":1,"bad":0},{"name":"rstd","elems":5,"bad":0}],"repeats":1}}`,
		"never run":        `{"id":ID,"check":{"outputs":[{"name":"y","elems":165,"bad":0},{"name":"rstd","elems":5,"bad":0}]}}`,
		"no status":        `{"id":ID,"failure":{"reason":"none"}}`,
		"ok for a failure": `{"id":ID,"failure":{"status":"ok","reason":"all is well"}}`,
		"long reason":      `{"id":ID,"failure":{"status":"launch","reason":"LONG"}}`,
		"hostile reason":   `{"id":ID,"failure":{"status":"launch","reason":"\u001b]0;title\u0007\nnormbench: done"}}`,
		"long error":       `{"id":ID,"error":"LONG"}`,
		"a worker's path":  `{"id":ID,"hello":{"protocol":1,"info":{"id":"../../victim","units":2}}}`,
		"no units":         `{"id":ID,"hello":{"protocol":1,"info":{"id":"gpu"}}}`,
		"two answers":      `{"id":ID}` + "\n" + `{"id":ID}`,
		"endless line":     "",
		"endless lines":    "",
	}
)

// harmless says whether a fault is what the step should answer, or is seen no earlier than in the next step.
func harmless(fault, step string) bool {
	switch step {
	case "prefetch", "close":
		return true // no answer there is anyone's result
	case "sense":
		return fault == "empty parts" // a device without sensors says as much
	case "open":
		return strings.HasPrefix(faults[fault], `{"id":ID,"`) && !strings.Contains(faults[fault], `"failure"`) && !strings.Contains(faults[fault], `"error"`) && fault != "truncated" ||
			fault == "empty" || fault == "two answers" || fault == "no such number"
	}
	return false
}

// misbehave answers rightly until a step is asked for the first time, and then does worse.
func misbehave(fault, step string) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var req request
		json.Unmarshal(line, &req)
		if req.Op == step {
			text := strings.ReplaceAll(faults[fault], "ID", strconv.Itoa(req.ID))
			switch fault {
			case "dies":
				os.Exit(3)
			case "hangs":
				time.Sleep(time.Hour)
			case "closes":
				os.Stdout.Close()
				time.Sleep(time.Hour)
			case "truncated":
				fmt.Print(text)
				os.Exit(0)
			case "endless line":
				zeros := make([]byte, 1<<16)
				for {
					if _, err := os.Stdout.Write(zeros); err != nil {
						return
					}
				}
			case "endless lines":
				for {
					if _, err := fmt.Println("{}"); err != nil {
						return
					}
				}
			}
			long := 8 << 20
			if step == "hello" {
				long = 1 << 15
			}
			fmt.Println(strings.Replace(text, "LONG", strings.Repeat("x", long), 1))
			continue
		}
		a := answer{ID: req.ID}
		switch req.Op {
		case "hello":
			a.Hello = &hello{Protocol: Protocol, Info: kernels.DeviceInfo{ID: "gpu", Units: 2}}
		case "check":
			a.Check = &kernels.Check{Repeats: 1, Outputs: []kernels.OutputCheck{{Name: "y", Elems: 165}, {Name: "rstd", Elems: 5}}}
		case "time":
			a.Timing = &kernels.Timing{Seconds: []float64{1e-5, 1e-5, 1e-5}}
		case "sense":
			a.Reading = &kernels.Reading{}
		}
		json.NewEncoder(os.Stdout).Encode(&a)
	}
}

// Every misbehaviour at every step ends in time and in bounded memory with an error of
// one line. It never passes for a check or for times, and never panics.
func TestFaults(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	injected := 0
	var group sync.WaitGroup
	slots := make(chan bool, 8)
	for fault := range faults {
		for _, step := range steps {
			injected++
			slots <- true
			group.Go(func() {
				defer func() { <-slots }()
				limit := time.Minute
				if fault == "hangs" {
					limit = 200 * time.Millisecond
				}
				start := time.Now()
				name := fault + " in " + step
				c, err := startAt(t.Context(), fault, step, limit)
				if step == "hello" {
					if err == nil {
						c.Close()
						t.Errorf("%s: it started", name)
						return
					}
					oneLine(t, name, err)
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
				} else {
					seen := session(t, c, name)
					if seen != step && !harmless(fault, step) && fault != "hangs" { // a busy machine may be late before
						t.Errorf("%s: seen in %q", name, seen)
					}
					c.Close()
				}
				if d := time.Since(start); d > 15*time.Second {
					t.Errorf("%s: it took %s", name, d)
				}
			})
		}
	}
	group.Wait()
	runtime.ReadMemStats(&after)
	if sum := (after.Sys - before.Sys) >> 20; sum > 512 { // eight at a time
		t.Errorf("%d faults took %d MiB", injected, sum)
	}
	t.Logf("%d faults", injected)
}

// startAt is Start of a worker that misbehaves, with a limit that honest starts of this binary keep
// on a busy machine too.
func startAt(ctx context.Context, fault, step string, limit time.Duration) (*Client, error) {
	o := Options{Command: []string{"env", modeEnv + "=fault", "NORMBENCH_TEST_FAULT=" + fault, "NORMBENCH_TEST_STEP=" + step, os.Args[0]}, Timeout: limit}
	if step != "hello" {
		o.Timeout = time.Minute
	}
	c, err := Start(ctx, o)
	if err == nil {
		c.o.Timeout, c.pauses = limit, []time.Duration{0, 0, 0}
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
	b, err := c.Open(t.Context(), small, 7)
	if !note("open", err) {
		return seen
	}
	if got, err := b.Check(t.Context(), good, 1); note("check", err) && (len(got.Outputs) != 2 || got.Repeats != 1) {
		t.Errorf("%s: passes for the check %+v", name, got)
	}
	if got, err := b.Time(t.Context(), good, kernels.TimeOptions{Samples: 3}); note("time", err) && (len(got.Seconds) != 3 || got.Seconds[1] != 1e-5) {
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
	if text := err.Error(); strings.ContainsAny(text, "\n\x1b\a") || len(text) > maxReason+200 || errors.As(err, &f) && f.Reason == "" {
		t.Errorf("%s: the error is %.300q", name, text)
	}
}

// A worker that dies at once again and again is given up, and says why; one that comes back
// as another device is not taken for the first.
func TestGone(t *testing.T) {
	c := start1(t, "cpu", time.Minute)
	b := open(t, c)
	c.pauses = []time.Duration{0, time.Millisecond, time.Millisecond}
	command := c.o.Command
	c.o.Command = []string{"sh", "-c", "echo connection refused >&2; exit 255"}
	c.proc.kill()
	if _, err := b.Check(t.Context(), good, 1); err == nil {
		t.Error("a dead worker answers")
	}
	for range 3 {
		_, err := c.Open(t.Context(), small, 7)
		var gone *kernels.Gone
		var f *kernels.Failure
		if !errors.As(err, &gone) || errors.As(err, &f) || !strings.Contains(err.Error(), "exit status 255 (connection refused) (4 times in a row)") {
			t.Fatalf("%v", err)
		}
	}
	if c.Prefetch(small, []kernels.Variant{good}); c.proc != nil {
		t.Error("it was started again")
	}

	c = start1(t, "cpu", time.Minute)
	c.o.Command = command
	c.info.Units += 7
	c.died()
	if _, err := c.Open(t.Context(), small, 7); err == nil || !strings.Contains(err.Error(), "came back as another device") {
		t.Errorf("%v", err)
	}
}

// A stopped command waits two seconds at most for a worker that hangs in what nobody waits
// for.
func TestStopHanging(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"prefetch", "close"} {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := startAt(ctx, "hangs", step, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c.o.Timeout = time.Minute
		time.AfterFunc(50*time.Millisecond, cancel)
		start := time.Now()
		if c.Prefetch(small, []kernels.Variant{good}); step == "close" {
			b, err := c.Open(t.Context(), small, 7)
			if err != nil {
				t.Fatal(err)
			}
			b.Close()
		}
		c.Close()
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("hanging in %s: it took %s", step, d)
		}
	}
}

// A parent that is killed takes a worker with it that hangs.
func TestOrphan(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the parent's death is told on Linux only")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), modeEnv+"=parent of one that hangs")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil || pid == 0 {
		t.Fatal(pid, err)
	}
	parent.Process.Kill()
	parent.Wait()
	for deadline := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the worker lives on")
		}
	}
}

// alive says whether a process runs; one that is dead and not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// parentOfOneThatHangs says the worker's process ID and waits to be killed.
func parentOfOneThatHangs() {
	os.Setenv(modeEnv, "ignores the end of its input")
	c, err := Start(context.Background(), Options{Command: []string{os.Args[0]}, Timeout: time.Minute, Kernels: "hash"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.PID())
	time.Sleep(time.Hour)
}
