//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cuda"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
)

// TestMain makes this binary a worker where the environment asks for one.
func TestMain(m *testing.M) {
	if os.Getenv("NORMBENCH_TEST_WORKER") == "" {
		os.Exit(m.Run())
	}
	err := worker.Serve(context.Background(), os.Stdin, os.Stdout, worker.Program{Kernels: "test"}, func(step time.Duration) (
		kernels.Device, error) {
		return cuda.Open(devicetest.Registry(families.New()), 0, step)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// open starts a worker on GPU 0, or skips the test where there is none.
func open(t *testing.T, limit time.Duration) kernels.Device {
	t.Setenv("NORMBENCH_TEST_WORKER", "cuda")
	c, err := worker.Start(t.Context(), worker.ClientOptions{Command: []string{os.Args[0]},
		Timeout: limit, Program: worker.Program{Kernels: "test"}})
	assert.Needs(t, "CUDA", err)
	return c
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) kernels.Device { return open(t, time.Minute) },
		devicetest.Registry(families.New()))
}

func TestWorkerSurvives(t *testing.T) { devicetest.Survive(t, open) }
