package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/worker"
)

// smallCache makes a flush short.
const smallCache = 16 << 20

// TestMain makes this binary a worker where the environment asks for one, so
// that the suite runs across a real process boundary too.
func TestMain(m *testing.M) {
	if os.Getenv("NORMBENCH_TEST_WORKER") == "" {
		os.Setenv("NORMBENCH_TEST_WORKER", "cpu") // of what the tests start
		os.Setenv("GORACE", "atexit_sleep_ms=0")  // else it takes a second to leave under the race detector
		os.Exit(m.Run())
	}
	err := worker.Serve(context.Background(), os.Stdin, os.Stdout, "test", func() (kernels.Device, error) {
		return cpu.New(devicetest.Registry(families.New())).WithCache(smallCache), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func open(t *testing.T, limit time.Duration) kernels.Device {
	c, err := worker.Start(t.Context(), worker.Options{Command: []string{os.Args[0]}, Timeout: limit, Kernels: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestInWorker(t *testing.T) {
	t.Parallel()
	devicetest.Run(t, func(t *testing.T) kernels.Device { return open(t, time.Minute) }, devicetest.Registry(families.New()))
}

func TestWorkerSurvives(t *testing.T) {
	t.Parallel()
	devicetest.Survive(t, open)
}

// A done context ends a run between two launches, with the context's error.
func TestCancelled(t *testing.T) {
	r := families.New()
	b, err := cpu.New(r).Open(t.Context(), kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Bwd, M: 4, N: 64, DType: kernels.BF16, Weight: kernels.BF16}, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := kernels.Variant{Family: "rms_bwd/reg_persist"}
	if _, err := b.Check(ctx, v, 1); err != context.Canceled {
		t.Errorf("check: %v", err)
	}
	if _, err := b.Time(ctx, v, kernels.TimeOptions{Samples: 1}); err != context.Canceled {
		t.Errorf("time: %v", err)
	}
}

// A host stage that panics (an index out of range, say) is a failure of its
// variant, not the end of the sweep.
func TestPanicIsAFailure(t *testing.T) {
	r := devicetest.Registry(families.New())
	f, err := r.Lookup(devicetest.Wrong)
	if err != nil {
		t.Fatal(err)
	}
	f.Host = map[string]kernels.HostStage{"wrong": func(h *kernels.HostRun, pid int) { h.Mem["nothing"].At(0) }}
	b, err := cpu.New(r).Open(t.Context(), kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 4, N: 64, DType: kernels.BF16, Weight: kernels.BF16}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(t.Context(), kernels.Variant{Family: devicetest.Wrong}, 1); err == nil || err.(*kernels.Failure).Status != kernels.StatusCrash {
		t.Errorf("check of a stage that panics: %v", err)
	}
}

// TestOpenStops holds Open to the context: it may take seconds.
func TestOpenStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	p := devicetest.Problem(t, "rmsnorm/bwd/2048x1024/fp32")
	if b, err := cpu.New(families.New()).Open(ctx, p, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("of a context that is done: %v, %v", b, err)
	}
}
