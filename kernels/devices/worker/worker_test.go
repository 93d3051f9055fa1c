//go:build unix

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// program is what this binary is, at both ends.
var program = Program{Version: "1.0", Kernels: "hash"}

const modeEnv = "NORMBENCH_TEST_WORKER"

// TestMain makes this binary a worker where the environment says which.
func TestMain(m *testing.M) {
	mode := os.Getenv(modeEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	// a foreign one runs none of our kernels, such as a peer
	is, ok := map[string]Program{"foreign": {}, "other kernels": {"1.0", "other"}, "other version": {"0.9", "hash"},
		"no version": {"", "hash"}}[mode]
	if !ok {
		is = program
	}
	var dev kernels.Device
	switch mode {
	case "broken device": // its process lives, its context does not
		dev = &devicetest.Fake{Fail: func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			if v.Family == "fault" {
				return &kernels.Failure{Status: kernels.StatusLaunch, Reason: "illegal address",
					Broken: true}
			}
			return nil
		}}
	case "slow clock":
		dev = &devicetest.Fake{Seconds: devicetest.Always(2)}
	case "rich":
		dev = newRich()
	case "fault":
		misbehave(os.Getenv("NORMBENCH_TEST_FAULT"), os.Getenv("NORMBENCH_TEST_STEP"))
		return
	case "parent of one that hangs":
		parentOfOneThatHangs()
		return
	default:
		dev = cpu.New(devicetest.Registry(families.New()))
	}
	serving := func(step time.Duration) (kernels.Device, error) {
		if r, ok := dev.(*rich); ok {
			r.step = step
		}
		if mode == "no device" {
			return nil, hint.Errorf("plug one in", "no GPU here")
		}
		return dev, nil
	}
	if mode == "ignores the end of its input" {
		go Serve(context.Background(), os.Stdin, os.Stdout, is, serving)
		time.Sleep(time.Minute)
	}
	if err := Serve(context.Background(), os.Stdin, os.Stdout, is, serving); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

var small = kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 5, N: 33,
	DType: kernels.BF16, Weight: kernels.BF16}

var good = kernels.Variant{Family: "rms_fwd/cta_reg"}

// client starts a worker, of this binary where no command is given, and holds the test to leaving
// neither a process nor a goroutine behind.
func client(t *testing.T, mode string, limit time.Duration, command ...string) (*Client, error) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Setenv(modeEnv, mode)
	// else a worker under the race detector takes a second to leave
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	if len(command) == 0 {
		command = []string{os.Args[0]}
	}
	c, err := Start(t.Context(), ClientOptions{Command: command, Timeout: limit, Program: program})
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		// This test binary has no other children.
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		assert.That(t, err == syscall.ECHILD, "a child is left: process %d", pid)
		deadline := time.Now().Add(5 * time.Second)
		for ; runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before,
					buf[:runtime.Stack(buf, true)])
			}
		}
	})
	return c, err
}

func start(t *testing.T, mode string) *Client {
	t.Helper()
	c, err := client(t, mode, time.Minute)
	assert.NoError(t, err)
	return c
}

func open(t *testing.T, c *Client) kernels.Bench {
	t.Helper()
	b, err := c.Open(t.Context(), small, kernels.Inputs{Seed: 7})
	assert.NoError(t, err)
	return b
}

func works(t *testing.T, b kernels.Bench) {
	t.Helper()
	if got, err := b.Check(t.Context(), good, 2); err != nil || !got.OK() || got.Repeats != 2 {
		t.Fatalf("check: %+v, %v", got, err)
	}
	got, err := b.Time(t.Context(), good, kernels.TimeOptions{Samples: 3, Flush: 4096,
		Stages: true})
	assert.Must(t, err == nil && len(got.Seconds) == 3 && len(got.Stages) == 1 && got.Busy > 0,
		"time: %+v, %v", got, err)
}

// failed wants a broken Failure, a bench that says it is gone, and a client that starts anew.
func failed(t *testing.T, c *Client, b kernels.Bench, err error, want kernels.Status,
	reason string) {
	t.Helper()
	var f *kernels.Failure
	assert.Must(t, errors.As(err, &f) && f.Status == want && f.Broken &&
		strings.Contains(f.Reason, reason) && !strings.Contains(f.Reason, "\n"),
		"%#v (%v), want %s, broken, with %q", err, err, want, reason)
	c.o.Timeout = time.Minute
	_, err = b.Check(t.Context(), good, 1)
	assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusCrash && f.Broken,
		"the old bench answers %v", err)
	assert.NoError(t, b.Close(), "close of the old bench")
	b = open(t, c)
	works(t, b)
	assert.NoError(t, b.Close(), "close")
}

// rich is a device with all that devices may leave out.
type rich struct {
	devicetest.SensorFake
	step time.Duration
}

func newRich() *rich {
	r := &rich{SensorFake: devicetest.SensorFake{Fake: &devicetest.Fake{}}}
	r.Reading = func(int) (reading kernels.Reading) {
		for _, pid := range r.PIDs {
			reading.Others = append(reading.Others, fmt.Sprint(pid))
		}
		return reading
	}
	r.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
		if v.Family == "hangs" {
			return kernels.Failf(kernels.StatusCompile, "given up after %s of %s", r.step/3, r.step)
		}
		return nil
	}
	return r
}

func (r *rich) Peers() []kernels.Peer {
	return []kernels.Peer{{Name: "a", System: "A", Version: "1"}, {Name: "b", System: "B",
		Missing: "not installed"}}
}

func (r *rich) CacheWarning() string { return "a full disk" }

// Peers come with the hello, neighbours go with each sense, none with none, and that cubins do not
// stay comes with each answer. A device knows how long its client waits.
func TestOptionalPartsOfMessagesArrive(t *testing.T) {
	c := start(t, "rich")
	said := ""
	c.o.Unkept = func(text string) { said += text + "; " }
	c.Prefetch(small, nil)
	c.Prefetch(small, nil)
	assert.Equal(t, said, "a full disk; a full disk; ", "said")
	got, want := c.Peers(), newRich().Peers()
	assert.That(t, slices.Equal(got, want), "peers %+v, want %+v", got, want)
	for _, pids := range [][]int{{7, 8}, {9}, nil} {
		c.IgnoreProcesses(pids...)
		r, err := c.Sense(t.Context())
		assert.That(t, err == nil &&
			slices.Equal(r.Others, strings.Fields(strings.Trim(fmt.Sprint(pids), "[]"))),
			"beside %v: %v, %v", pids, r.Others, err)
	}
	b, pid := open(t, c), c.PID()
	var f *kernels.Failure
	_, err := b.Check(t.Context(), kernels.Variant{Family: "hangs"}, 1)
	assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusCompile && !f.Broken &&
		f.Reason == "given up after 20s of 1m0s", "%+v, %v", f, err)
	works(t, b)
	assert.That(t, c.PID() == pid && pid != 0 && pid != os.Getpid(),
		"its process is %d, and was %d", c.PID(), pid)
	// Another is a process of its own by the same command, in an environment with more.
	another, err := c.StartAnother(t.Context(), modeEnv+"=cpu")
	assert.NoError(t, err)
	defer another.Close()
	assert.That(t, another.PID() != 0 && another.PID() != pid && another.Info().Kind == kernels.KindCPU &&
		another.o.Stderr == nil && len(c.o.Env) == 0, "%+v", another.o)
}

// Whatever takes a worker down costs the problem that it had: the next one opens in another.
// devicetest.Survive has those that crash and hang by themselves.
func TestALostWorkerCostsOneProblem(t *testing.T) {
	for _, test := range []struct {
		name, mode, family string
		kill               time.Duration // when it is killed, where it is
		status             kernels.Status
		reason             string
	}{
		{"killed while idle", "cpu", good.Family, -1, kernels.StatusCrash,
			"killed, as when memory runs out"},
		{"killed while busy", "cpu", devicetest.Spin, 100 * time.Millisecond,
			kernels.StatusCrash, "killed"},
		// A process whose device has faulted is not asked again, even if it lives.
		{"faults", "broken device", "fault", 0, kernels.StatusLaunch, "illegal address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t, test.mode)
			b, pid := open(t, c), c.PID()
			switch kill := func() { syscall.Kill(pid, syscall.SIGKILL) }; {
			case test.kill < 0:
				kill()
			case test.kill > 0:
				time.AfterFunc(test.kill, kill)
			}
			_, err := b.Check(t.Context(), kernels.Variant{Family: test.family}, 1)
			failed(t, c, b, err, test.status, test.reason)
			assert.That(t, c.PID() != pid, "the same process serves on")
		})
	}
}

// What one may meet at the other end of ssh, as a script or a mode of this binary, is a failure, or
// an error that is nobody's result and has a hint: testdata/starts.txt.
func TestWhatIsNoWorkerIsRefusedAtItsStart(t *testing.T) {
	assert.Lines(t, "testdata/starts.txt", func(script string) (text string) {
		t.Run(script, func(t *testing.T) {
			limit, mode, command := time.Minute, "", []string{"sh", "-c", script}
			if name, ok := strings.CutPrefix(script, "mode "); ok {
				mode, command = name, nil
			} else if strings.HasSuffix(script, "# silent") {
				limit = 300 * time.Millisecond
			}
			c, err := client(t, mode, limit, command...)
			assert.Must(t, err != nil && c == nil, "started, with %v", err)
			var f *kernels.Failure
			text = err.Error()
			assert.That(t, errors.As(err, &f) == (hint.Of(err) == "") && !strings.Contains(text, "\n"),
				"%q, hint %q", err, hint.Of(err))
			text = strings.ReplaceAll(text, os.Args[0], "THIS")
		})
		return text
	})
	works(t, open(t, start(t, "foreign"))) // which needs no hash
}

// serve runs Serve on requests and returns its answers.
func serve(input string) (answers []answer, raw string, err error) {
	var out bytes.Buffer
	r := families.New()
	err = Serve(context.Background(), strings.NewReader(input), &out, Program{Kernels: "hash"},
		func(time.Duration) (kernels.Device, error) {
			return &devicetest.Fake{Registry: r}, nil
		})
	for line := range strings.Lines(out.String()) {
		var a answer
		if e := json.Unmarshal([]byte(line), &a); e != nil {
			return nil, out.String(), fmt.Errorf("answer %q: %w", line, e)
		}
		answers = append(answers, a)
	}
	return answers, out.String(), err
}

// Whatever is asked in the wrong order or without what it needs has an error for an answer, and the
// next request an answer of its own. Lines that are no requests end the worker with an error; the
// end of the input, even within a line, is the orderly end.
func TestMistakenRequestsHaveErrorsForAnswers(t *testing.T) {
	assert.Lines(t, "testdata/requests.txt", func(input string) string {
		input, opened := strings.CutPrefix(input, "open ")
		if opened {
			input = `{"id":1,"op":"open","problem":"rmsnorm/fwd/8x8/bf16","inputs":{"seed":1}}` + "\n" + input
		}
		answers, raw, err := serve(input + "\n" + `{"id":3,"op":"hello"}` + "\n")
		if err != nil {
			assert.Equal(t, raw, "", input, "is answered by")
			return strings.SplitAfter(err.Error(), "standard input")[0] // the rest is Go's
		}
		a, last := answers[len(answers)-2], answers[len(answers)-1]
		assert.That(t, a.ID == 2 && a.Failure == nil && a.Error != "", "%s: answer %+v", input, a)
		assert.That(t, last.ID == 3 && last.Hello != nil && last.Hello.Protocol == Protocol &&
			last.Hello.Kernels == "hash", "%s: then hello is answered with %+v", input, last)
		return a.Error
	})
	for _, input := range []string{"", `{"id":1,"op":"he`} {
		_, raw, err := serve(input)
		assert.That(t, err == nil && raw == "", "%q: %v, %s", input, err, raw)
	}
}

// Times that together are longer than the answer took are no times, on a cpu neither.
func TestTimesLongerThanTheirAnswerAreRefused(t *testing.T) {
	timing := func(seconds ...float64) *kernels.Timing { return &kernels.Timing{Seconds: seconds} }
	assert.NoError(t, checkSum(timing(0.3, 0.3, 0.3), time.Second))
	assert.NoError(t, checkSum(timing(1e-5, 1e-5), 0), "clocks differ")
	staged := timing(0.3, 0.3)
	staged.Stages = []kernels.StageSeconds{{Seconds: []float64{0.3, 0.3}}, {Seconds: []float64{0.2, 0.2}}}
	assert.NoError(t, checkSum(staged, time.Second), "stages are of the runs")
	staged.Stages[0].Seconds[1] = 86400
	assert.Error(t, checkSum(staged, time.Second), "its times add up to 8.64e+04 s, and the answer took 1")

	b := open(t, start(t, "slow clock"))
	_, err := b.Time(t.Context(), good, kernels.TimeOptions{Samples: 3})
	var f *kernels.Failure
	assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusUnfit && !f.Broken &&
		strings.Contains(f.Reason, "its times add up to 6 s"), "%v", err)
}

// A command that waits for a scheduler is left alone until its limit: what is asked meanwhile fails soon, the same
// process waits on, and Await waits with it. One that nobody waits for any more is asked to leave.
func TestPendingCommandIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	mark := func(name string) string { return filepath.Join(dir, name) }
	script := fmt.Sprintf(`trap 'touch %[1]s/asked; exit' TERM
		echo $$ >>%[1]s/pids
		while test -e %[1]s/full; do sleep 0.02; done
		exec %[2]s`, dir, os.Args[0])
	t.Setenv(modeEnv, "cpu")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	o := ClientOptions{Command: []string{"sh", "-c", script}, Timeout: time.Minute, Start: time.Hour, Program: program}
	c, err := Start(t.Context(), o)
	assert.NoError(t, err)
	defer c.Close()
	b := open(t, c)
	assert.NoError(t, os.WriteFile(mark("full"), nil, 0o666))
	syscall.Kill(c.PID(), syscall.SIGKILL)
	_, err = b.Check(t.Context(), good, 1)
	var f *kernels.Failure
	assert.Must(t, errors.As(err, &f) && f.Broken && !f.Before, "%v", err)
	c.prove = 20 * time.Millisecond
	for range 3 {
		_, err = c.Open(t.Context(), small, kernels.Inputs{Seed: 7})
		assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusTimeout && f.Broken && f.Before &&
			f.Reason == "it has not started again within 20ms", "%v", err)
	}
	assert.NoError(t, os.Remove(mark("full")))
	assert.NoError(t, c.Await(t.Context()))
	assert.NoError(t, c.Await(t.Context()), "of one that is there")
	works(t, open(t, c))
	begun := func() int {
		pids, err := os.ReadFile(mark("pids"))
		assert.NoError(t, err)
		return strings.Count(string(pids), "\n")
	}
	assert.Equal(t, begun(), 2, "processes")

	assert.NoError(t, os.WriteFile(mark("full"), nil, 0o666))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for begun() < 3 { // it has its trap
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	_, err = Start(ctx, o)
	assert.That(t, errors.Is(err, context.Canceled), "%v", err)
	_, err = os.Stat(mark("asked"))
	assert.NoError(t, err, "it was killed at once")

	o.Start = 50 * time.Millisecond
	_, err = Start(t.Context(), o)
	assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusTimeout && f.Reason == "no answer within 50ms", "%v",
		err)
}
