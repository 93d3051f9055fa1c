//go:build cuda && cgo && linux && (amd64 || arm64)

package cupti

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"normbench/kernels/cuda/driver"
	"normbench/kernels/nvrtc"
)

const gpuSource = `
__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ void wait(unsigned long long ns) {
  const unsigned long long start = now();
  while (now() - start < ns) {}
}
extern "C" __global__ void spin(unsigned long long ns) { wait(ns); }
extern "C" __global__ void k1(unsigned long long ns) { wait(ns); }
__global__ void k2(unsigned long long ns) { wait(ns); }
`

// TestGPU holds CUPTI's times against events, on a real GPU. NORMBENCH_REQUIRE_CUDA=1 makes what is
// missing a failure: a GPU, CUPTI or NVRTC.
func TestGPU(t *testing.T) {
	need := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		if os.Getenv("NORMBENCH_REQUIRE_CUDA") == "1" {
			t.Fatalf("NORMBENCH_REQUIRE_CUDA is set, but: %v", err)
		}
		t.Skip(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	n, err := driver.Count()
	if err == nil && n == 0 {
		err = errors.New("no CUDA device")
	}
	need(err)
	compiler, err := nvrtc.Find()
	need(err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := driver.Open(0)
	must(err)
	defer c.Close()
	binary, err := compiler.Compile(nvrtc.Source{Name: "gpu.cu", Text: gpuSource},
		nvrtc.Options{Arch: fmt.Sprintf("sm_%d%d", c.Info().Major, c.Info().Minor)})
	must(err)
	module, err := c.LoadModule(binary.Cubin)
	must(err)
	launch := func(name string, ns uint64) driver.Step {
		f, err := module.Function(name)
		must(err)
		return driver.Step{Kind: driver.StepLaunch, Func: f, Grid: [3]int{1, 1, 1}, Block: [3]int{1, 1, 1}, Args: []uint64{ns}}
	}
	stream, err := c.NewStream()
	must(err)
	const bytes = 64 << 20
	p, err := c.Alloc(2 * bytes)
	must(err)

	// A sample is five steps with an event around each. The first, a spin, is no stage: it lets the
	// host get ahead.
	names := []string{"k1", "memset", "memcpy", "k2"}
	work := []driver.Step{
		launch("spin", 200_000),
		launch("k1", 100_000),
		{Kind: driver.StepMemset8, Ptr: p, Value: 1, Bytes: bytes},
		{Kind: driver.StepCopy, Ptr: p + bytes, Src: p, Bytes: bytes},
		launch("_Z2k2y", 30_000),
	}
	const samples = 50
	var steps []driver.Step
	events := make([][]driver.Event, samples)
	for i := range events {
		for _, w := range work {
			e, err := c.NewEvent()
			must(err)
			events[i] = append(events[i], e)
			steps = append(steps, w, driver.Step{Kind: driver.StepRecord, Event: e})
		}
	}
	timed := func() (perStage [][]float64) {
		t.Helper()
		must(c.Enqueue(stream, steps))
		must(stream.Synchronize())
		perStage = make([][]float64, len(names))
		for _, e := range events {
			for j := range names {
				s, err := e[j+1].Elapsed(e[j])
				must(err)
				perStage[j] = append(perStage[j], s)
			}
		}
		return perStage
	}
	timed()
	before := timed()

	start := time.Now()
	tracer, err := Open()
	need(err)
	t.Logf("CUPTI %d from %s, opened in %v", tracer.Version(), tracer.Path(), time.Since(start))
	start = time.Now()
	must(tracer.Start())
	t.Logf("Start: %v", time.Since(start))
	traced := timed()
	start = time.Now()
	list, err := tracer.Stop()
	must(err)
	t.Logf("Stop: %v, %d activities, the first %+v", time.Since(start), len(list), list[:min(5, len(list))])
	after := timed()

	stages, gaps, err := Stages(list, names, samples, func(name string) bool { return name == "spin" })
	must(err)
	median := func(s []float64) float64 {
		s = slices.Sorted(slices.Values(s))
		return s[len(s)/2] * 1e6
	}
	t.Logf("medians in us: %8s %8s %8s %8s %8s", "CUPTI", "events", "before", "after", "gap")
	for j, name := range names {
		gap := 0.0
		if j < len(gaps) {
			gap = median(gaps[j])
		}
		t.Logf("%14s %8.2f %8.2f %8.2f %8.2f %8.2f", name, median(stages[j]), median(traced[j]), median(before[j]), median(after[j]), gap)
		// Events see the kernel and the overhead around it. With tracing on that is some
		// microseconds, and CUPTI's clock is fitted to the host's.
		if d := median(traced[j]) - median(stages[j]); d < -1 || d > 25 {
			t.Errorf("%s takes %.2f us by CUPTI and %.2f us by events", name, median(stages[j]), median(traced[j]))
		}
	}
	for j, want := range map[int]float64{0: 100, 3: 30} {
		if got := median(stages[j]); got < want-1 || got > want+10 {
			t.Errorf("%s spins for %g us and takes %.2f", names[j], want, got)
		}
	}

	// More records than a buffer holds, in one call, so that CUPTI asks for buffers amid launches.
	const many = 60_000
	steps = steps[:0]
	for range many {
		steps = append(steps, launch("k1", 0))
	}
	must(tracer.Start())
	must(c.Enqueue(stream, steps))
	must(stream.Synchronize())
	list, err = tracer.Stop()
	must(err)
	stages, _, err = Stages(list, []string{"k1"}, many, nil)
	must(err)
	all, held := buffers()
	t.Logf("an empty kernel takes %.2f us; %d buffers, %d held", median(stages[0]), all, held)

	// What ran untraced is in no later trace.
	must(c.Enqueue(stream, steps[:10]))
	must(stream.Synchronize())
	must(tracer.Start())
	if list, err = tracer.Stop(); err != nil || len(list) != 0 {
		t.Errorf("%d activities of nothing, %v", len(list), err)
	}
}
