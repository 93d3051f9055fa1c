package cpu_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
)

// smallCache makes a flush short.
const smallCache = 16 << 20

// TestMain makes this binary a worker where the environment asks for one, so
// that the suite runs across a real process boundary too.
func TestMain(m *testing.M) {
	if os.Getenv("NORMBENCH_TEST_WORKER") == "" {
		os.Setenv("NORMBENCH_TEST_WORKER", "cpu") // of what the tests start
		// else it takes a second to leave under the race detector
		os.Setenv("GORACE", "atexit_sleep_ms=0")
		os.Exit(m.Run())
	}
	err := worker.Serve(context.Background(), os.Stdin, os.Stdout, worker.Program{Kernels: "test"}, func(time.Duration) (
		kernels.Device, error) {
		return cpu.New(devicetest.Registry(families.New())).WithCache(smallCache), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func open(t *testing.T, limit time.Duration) kernels.Device {
	c, err := worker.Start(t.Context(), worker.ClientOptions{Command: []string{os.Args[0]},
		Timeout: limit, Program: worker.Program{Kernels: "test"}})
	assert.NoError(t, err)
	return c
}

func TestConformanceInAWorker(t *testing.T) {
	t.Parallel()
	devicetest.Run(t, func(t *testing.T) kernels.Device { return open(t, time.Minute) },
		devicetest.Registry(families.New()))
}

func TestWorkerSurvives(t *testing.T) {
	t.Parallel()
	devicetest.Survive(t, open)
}

// A done context ends a run between two launches, with the context's error. So it ends opening, which
// may take seconds.
func TestDoneContextEndsARun(t *testing.T) {
	b, err := cpu.New(families.New()).Open(t.Context(), devicetest.Problem(t, "rmsnorm/bwd/4x64/bf16"), kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := kernels.Variant{Family: "rms_bwd/reg_persist"}
	_, err = b.Check(ctx, v, 1)
	assert.Equal(t, err, context.Canceled, "check")
	_, err = b.Time(ctx, v, kernels.TimeOptions{Samples: 1})
	assert.Equal(t, err, context.Canceled, "time")
	p := devicetest.Problem(t, "rmsnorm/bwd/2048x1024/fp32")
	_, err = cpu.New(families.New()).Open(ctx, p, kernels.Inputs{Seed: 1})
	assert.Equal(t, err, context.Canceled, "open")
}

// A host stage that panics (an index out of range, say) is a failure of its
// variant, not the end of the sweep.
func TestPanicIsAFailure(t *testing.T) {
	r := devicetest.Registry(families.New())
	f, err := r.Lookup(devicetest.Wrong)
	assert.NoError(t, err)
	f.Host = map[string]kernels.HostStage{
		"wrong": func(h *kernels.HostRun, pid int) { h.Mem["nothing"].At(0) }}
	b, err := cpu.New(r).Open(t.Context(), devicetest.Problem(t, "rmsnorm/fwd/4x64/bf16"), kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	_, err = b.Check(t.Context(), kernels.Variant{Family: devicetest.Wrong}, 1)
	assert.Error(t, err, "crash: host stage wrong: ")
}
