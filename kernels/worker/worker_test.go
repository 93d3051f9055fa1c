//go:build unix

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

const modeEnv = "NORMBENCH_TEST_WORKER"

// TestMain makes this binary a worker where the environment says which. The
// workers other than "cpu" are what one may meet at the other end of ssh.
func TestMain(m *testing.M) {
	mode := os.Getenv(modeEnv)
	if mode == "" {
		os.Exit(m.Run())
	}
	open := func() (kernels.Device, error) { return cpu.New(devicetest.Registry(families.New())), nil }
	var err error
	switch mode {
	case "cpu":
		err = Serve(context.Background(), os.Stdin, os.Stdout, "hash", open)
	case "foreign": // runs none of our kernels, such as a peer
		err = Serve(context.Background(), os.Stdin, os.Stdout, "", open)
	case "other kernels":
		err = Serve(context.Background(), os.Stdin, os.Stdout, "other", open)
	case "no device":
		err = Serve(context.Background(), os.Stdin, os.Stdout, "hash", func() (kernels.Device, error) {
			return nil, hint.Errorf("plug one in", "no GPU here")
		})
	case "broken device": // its process lives, its context does not
		err = Serve(context.Background(), os.Stdin, os.Stdout, "hash", func() (kernels.Device, error) {
			return &devicetest.Fake{Fail: func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
				if v.Family == "fault" {
					return &kernels.Failure{Status: kernels.StatusLaunch, Reason: "illegal address", Broken: true}
				}
				return nil
			}}, nil
		})
	case "neighbour":
		err = Serve(context.Background(), os.Stdin, os.Stdout, "hash", func() (kernels.Device, error) { return &neighbour{}, nil })
	case "compiling":
		err = Serve(context.Background(), os.Stdin, os.Stdout, "hash", func() (kernels.Device, error) { return &compiling{}, nil })
	case "hurried":
		h := &hurried{}
		h.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			if v.Family == "hangs" {
				time.Sleep(h.step / 3)
				return kernels.Failf(kernels.StatusCompile, "given up after %s of %s", h.step/3, h.step)
			}
			return nil
		}
		err = Serve(context.Background(), os.Stdin, os.Stdout, "hash", func() (kernels.Device, error) { return h, nil })
	case "old protocol":
		fmt.Println(`{"id":1,"hello":{"protocol":0,"kernels":"hash","info":{"id":"old"}}}`)
		io.Copy(io.Discard, os.Stdin)
	case "nonsense":
		fmt.Println("Welcome to gpu1! Have a nice day.")
		io.Copy(io.Discard, os.Stdin)
	case "wrong id":
		fmt.Println(`{"id":7}`)
		io.Copy(io.Discard, os.Stdin)
	case "half a line":
		fmt.Print(`{"id":1,"hel`)
	case "ends at once":
		fmt.Fprintln(os.Stderr, "starting")
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(4)
	case "closes its input": // and stays
		os.Stdin.Close()
		time.Sleep(time.Minute)
	case "closes its output": // and stays
		os.Stdout.Close()
		time.Sleep(time.Minute)
	case "never answers":
		io.Copy(io.Discard, os.Stdin)
	case "fault":
		misbehave(os.Getenv("NORMBENCH_TEST_FAULT"), os.Getenv("NORMBENCH_TEST_STEP"))
	case "parent of one that hangs":
		parentOfOneThatHangs()
	case "ignores the end of its input":
		go Serve(context.Background(), os.Stdin, os.Stdout, "hash", open)
		time.Sleep(time.Minute)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

var small = kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 5, N: 33, DType: kernels.BF16, Weight: kernels.BF16}

var good = kernels.Variant{Family: "rms_fwd/cta_reg"}

// client starts this binary as a worker and holds the test to leaving neither
// a process nor a goroutine behind.
func client(t *testing.T, mode string, limit time.Duration) (*Client, error) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Setenv(modeEnv, mode)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else a worker under the race detector takes a second to leave
	c, err := Start(t.Context(), Options{Command: []string{os.Args[0]}, Timeout: limit, Kernels: "hash"})
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		// This test binary has no other children.
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err != syscall.ECHILD {
			t.Errorf("a child is left: process %d, %v", pid, err)
		}
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
	return c, err
}

func start1(t *testing.T, mode string, limit time.Duration) *Client {
	t.Helper()
	c, err := client(t, mode, limit)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c *Client) kernels.Bench {
	t.Helper()
	b, err := c.Open(t.Context(), small, 7)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func works(t *testing.T, b kernels.Bench) {
	t.Helper()
	if got, err := b.Check(t.Context(), good, 2); err != nil || !got.OK() || got.Repeats != 2 {
		t.Fatalf("check: %+v, %v", got, err)
	}
	got, err := b.Time(t.Context(), good, kernels.TimeOptions{Samples: 3, Flush: 4096, Stages: true})
	if err != nil || len(got.Seconds) != 3 || len(got.Stages) != 1 || got.Busy <= 0 {
		t.Fatalf("time: %+v, %v", got, err)
	}
}

// failed wants a broken Failure, a bench that says it is gone, and a client that starts anew.
func failed(t *testing.T, c *Client, b kernels.Bench, err error, want kernels.Status, reason string) {
	t.Helper()
	var f *kernels.Failure
	if !errors.As(err, &f) || f.Status != want || !f.Broken || !strings.Contains(f.Reason, reason) || strings.Contains(f.Reason, "\n") {
		t.Fatalf("%#v (%v), want %s, broken, with %q", err, err, want, reason)
	}
	c.o.Timeout = time.Minute
	if _, err := b.Check(t.Context(), good, 1); !errors.As(err, &f) || f.Status != kernels.StatusCrash || !f.Broken {
		t.Errorf("the old bench answers %v", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("close of the old bench: %v", err)
	}
	b = open(t, c)
	works(t, b)
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestClient(t *testing.T) {
	c := start1(t, "cpu", time.Minute)
	if c.Info().Kind != kernels.KindCPU || c.Info().SMs < 1 {
		t.Errorf("info %+v", c.Info())
	}
	c.Prefetch(small, []kernels.Variant{good})
	works(t, open(t, c))
	works(t, open(t, c)) // opening the next problem closes the last
	// Trouble that is nobody's result keeps its hint across the wire.
	var f *kernels.Failure
	huge := small
	huge.M, huge.N = 1<<31, 1<<17
	if _, err := c.Open(t.Context(), huge, 7); err == nil || errors.As(err, &f) || hint.Of(err) == "" {
		t.Errorf("open %s: %v, hint %q", huge, err, hint.Of(err))
	}
	// A refusal is a result, and the worker stays as it is.
	b := open(t, c)
	pid := c.PID()
	if _, err := b.Check(t.Context(), kernels.Variant{Family: "nobody"}, 1); !errors.As(err, &f) || f.Status != kernels.StatusRefused || f.Broken {
		t.Errorf("check of nobody: %v", err)
	}
	works(t, b)
	if c.PID() != pid {
		t.Error("a refusal started another worker")
	}
}

func TestForeignWorkerNeedsNoHash(t *testing.T) {
	works(t, open(t, start1(t, "foreign", time.Minute)))
}

// neighbour is a device with peers that says what it was told is beside it.
type neighbour struct {
	devicetest.Fake
	beside []int
}

func (n *neighbour) Beside(pids ...int) { n.beside = pids }
func (n *neighbour) Sense(context.Context) (r kernels.Reading, err error) {
	for _, pid := range n.beside {
		r.Others = append(r.Others, fmt.Sprint(pid))
	}
	return r, nil
}
func (n *neighbour) Peers() []kernels.Peer {
	return []kernels.Peer{{Name: "a", System: "A", Version: "1"}, {Name: "b", System: "B", Missing: "not installed"}}
}

// Peers come with the hello, neighbours go with each sense, none with none.
func TestPeersAndNeighbours(t *testing.T) {
	c := start1(t, "neighbour", 5*time.Second)
	if got, want := c.Peers(), (&neighbour{}).Peers(); !slices.Equal(got, want) {
		t.Errorf("peers %+v, want %+v", got, want)
	}
	if c.PID() == 0 || c.PID() == os.Getpid() {
		t.Errorf("its process is %d", c.PID())
	}
	for _, pids := range [][]int{{7, 8}, {9}, nil} {
		c.Beside(pids...)
		r, err := c.Sense(t.Context())
		var want []string
		for _, pid := range pids {
			want = append(want, fmt.Sprint(pid))
		}
		if err != nil || !slices.Equal(r.Others, want) {
			t.Errorf("beside %v: %v, %v", pids, r.Others, err)
		}
	}
}

// Whatever takes a worker down costs the problem that it had: the next one opens in another.
func TestLost(t *testing.T) {
	for _, test := range []struct {
		name, mode, family string
		limit              time.Duration // of the answer
		kill               time.Duration // when it is killed, where it is
		status             kernels.Status
		reason             string
	}{
		{"killed while idle", "cpu", good.Family, 0, -1, kernels.StatusCrash, "killed"},
		{"killed while busy", "cpu", devicetest.Spin, 0, 100 * time.Millisecond, kernels.StatusCrash, "killed"},
		{"hangs", "cpu", devicetest.Spin, 300 * time.Millisecond, 0, kernels.StatusTimeout, "300ms"},
		// The last line of its standard error tells why a worker ended.
		{"crashes", "cpu", devicetest.Crash, 0, 0, kernels.StatusCrash, "exit status 3 (test/crash: exit status 3 as asked)"},
		// A process whose device has faulted is not asked again, even if it lives.
		{"faults", "broken device", "fault", 0, 0, kernels.StatusLaunch, "illegal address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start1(t, test.mode, time.Minute)
			b, pid := open(t, c), c.PID()
			if test.limit > 0 {
				c.o.Timeout = test.limit
			}
			switch kill := func() { syscall.Kill(pid, syscall.SIGKILL) }; {
			case test.kill < 0:
				kill()
			case test.kill > 0:
				time.AfterFunc(test.kill, kill)
			}
			_, err := b.Check(t.Context(), kernels.Variant{Family: test.family}, 1)
			failed(t, c, b, err, test.status, test.reason)
			if c.PID() == pid {
				t.Error("the same process serves on")
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	for _, test := range []struct {
		mode, want string
		status     kernels.Status // "" for an error that is nobody's result
		hint       bool
	}{
		{"old protocol", "does not speak protocol 1", "", true},
		{"other kernels", "has other kernels (other) than this normbench (hash)", "", true},
		{"no device", "no GPU here", "", true},
		{"nonsense", "Welcome to gpu1!", kernels.StatusCrash, false},
		{"wrong id", `{\"id\":7}`, kernels.StatusCrash, false},
		{"half a line", "ended: exit status 0", kernels.StatusCrash, false},
		{"ends at once", "ended: exit status 4 (no licence)", kernels.StatusCrash, false},
		{"closes its output", "closed its output", kernels.StatusCrash, false},
		{"closes its input", "no answer within 300ms", kernels.StatusTimeout, false},
		{"never answers", "no answer within 300ms", kernels.StatusTimeout, false},
	} {
		t.Run(test.mode, func(t *testing.T) {
			limit := time.Minute
			if test.status == kernels.StatusTimeout {
				limit = 300 * time.Millisecond
			}
			c, err := client(t, test.mode, limit)
			if err == nil || c != nil {
				t.Fatalf("started, with %v", err)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || (hint.Of(err) != "") != test.hint {
				t.Errorf("%q with hint %q, want %q", err, hint.Of(err), test.want)
			}
			var f *kernels.Failure
			if errors.As(err, &f) != (test.status != "") || f != nil && f.Status != test.status {
				t.Errorf("%#v, want the status %q", err, test.status)
			}
		})
	}
}

// serve runs Serve on requests and returns its answers.
func serve(input string) (answers []answer, raw string, err error) {
	var out bytes.Buffer
	r := families.New()
	err = Serve(context.Background(), strings.NewReader(input), &out, "hash", func() (kernels.Device, error) {
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

// Whatever is asked in the wrong order or without what it needs has an error
// for an answer, and the next request an answer of its own.
func TestServeMistakes(t *testing.T) {
	const openIt = `{"id":1,"op":"open","problem":"rmsnorm/fwd/8x8/bf16"}` + "\n"
	for _, test := range []struct{ input, want string }{
		{`{"id":2,"op":"check","variants":["rms_fwd/cta_reg@"]}`, "check without an open problem"},
		{`{"id":2,"op":"open"}`, "open without a problem"},
		{`{"id":2,"op":"prefetch"}`, "prefetch without a problem"},
		{`{"id":2,"op":"dance"}`, `unknown op "dance"`},
		{openIt + `{"id":2,"op":"check"}`, "check takes one variant"},
		{openIt + `{"id":2,"op":"check","variants":["a@","b@"]}`, "check takes one variant"},
		{openIt + `{"id":2,"op":"check","variants":["what"]}`, `malformed variant "what"`},
		{openIt + `{"id":2,"op":"check","variants":["rms_fwd/cta_reg@"],"repeats":99999999999}`, "99999999999 repeats"},
		{openIt + `{"id":2,"op":"time","variants":["rms_fwd/cta_reg@"]}`, "time without options"},
		{openIt + `{"id":2,"op":"time","variants":["rms_fwd/cta_reg@"],"options":{"samples":-1}}`, "-1 samples"},
		{openIt + `{"id":2,"op":"time","variants":["rms_fwd/cta_reg@"],"options":{"samples":99999999999}}`, "99999999999 samples"},
		{openIt + `{"id":2,"op":"time","variants":["rms_fwd/cta_reg@"],"options":{"samples":1,"flush":-8}}`, "flush of -8 bytes"},
	} {
		answers, raw, err := serve(test.input + "\n" + `{"id":3,"op":"hello"}` + "\n")
		if err != nil || len(answers) < 2 {
			t.Errorf("%s: %v\n%s", test.input, err, raw)
			continue
		}
		a, last := answers[len(answers)-2], answers[len(answers)-1]
		if a.ID != 2 || !strings.Contains(a.Error, test.want) || a.Failure != nil {
			t.Errorf("%s: answer %+v, want the error %q", test.input, a, test.want)
		}
		if last.ID != 3 || last.Hello == nil || last.Hello.Protocol != Protocol || last.Hello.Kernels != "hash" {
			t.Errorf("%s: then hello is answered with %+v", test.input, last)
		}
	}
}

// Lines that are no requests end the worker with an error: there is no id to
// answer to.
func TestServeMalformed(t *testing.T) {
	for _, input := range []string{"hello\n", "[]\n", `{"id":"1"}` + "\n", `{"id":1,"op":"open","problem":"x"}` + "\n"} {
		if _, raw, err := serve(input); err == nil || !strings.Contains(err.Error(), "malformed request") {
			t.Errorf("%q: %v, %s", input, err, raw)
		}
	}
	// The end of the input, even within a line, is the orderly end.
	for _, input := range []string{"", `{"id":1,"op":"he`} {
		if _, raw, err := serve(input); err != nil || raw != "" {
			t.Errorf("%q: %v, %s", input, err, raw)
		}
	}
}

// Another is a process of its own, by the same command, in an environment with more; what it
// says stays with it.
func TestAnother(t *testing.T) {
	var said bytes.Buffer
	c := start1(t, "cpu", 5*time.Second)
	c.o.Stderr = &said
	d, err := c.Another(t.Context(), modeEnv+"=neighbour")
	if err == nil {
		defer d.Close()
	}
	if err != nil || d.PID() == 0 || d.PID() == c.PID() {
		t.Fatalf("%v", err)
	}
	if len(d.Peers()) == 0 {
		t.Error("the environment did not reach it")
	}
	if d.o.Stderr != nil || c.o.Stderr != &said || len(c.o.Env) != 0 {
		t.Errorf("the two share %+v", c.o)
	}
}
