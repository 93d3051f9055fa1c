//go:build cuda

package cupti

import (
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/cuda/driver"
	"normbench/kernels/nvrtc"
)

//go:embed testdata/gpu.cu
var gpuSource string

// TestGPU holds CUPTI's times against what kernels wait for, on a real GPU. NORMBENCH_REQUIRE_CUDA=1
// makes what is missing a failure: a GPU, CUPTI or NVRTC.
func TestGPU(t *testing.T) {
	n, err := driver.Count()
	if err == nil && n == 0 {
		err = errors.New("no CUDA device")
	}
	assert.Needs(t, "CUDA", err)
	compiler, err := nvrtc.Find()
	assert.Needs(t, "CUDA", err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := driver.Open(0)
	assert.NoError(t, err)
	defer c.Close()
	binary, err := compiler.Compile(nvrtc.Source{Name: "gpu.cu", Text: gpuSource},
		nvrtc.Options{Arch: fmt.Sprintf("sm_%d%d", c.Info().Major, c.Info().Minor)})
	assert.NoError(t, err)
	module, err := c.LoadModule(binary.Cubin)
	assert.NoError(t, err)
	launch := func(name string, ns uint64) driver.Step {
		f, err := module.Function(name)
		assert.NoError(t, err)
		return driver.Step{Kind: driver.StepLaunch, Func: f, Grid: [3]int{1, 1, 1},
			Block: [3]int{1, 1, 1}, Args: []uint64{ns}}
	}
	stream, err := c.NewStream()
	assert.NoError(t, err)
	const bytes = 64 << 20
	p, err := c.Alloc(2 * bytes)
	assert.NoError(t, err)

	// A sample is five steps, of which the first, a spin, is no stage.
	names := []string{"k1", "memset", "memcpy", "_Z2k2y"}
	work := []driver.Step{
		launch("spin", 200_000),
		launch("k1", 100_000),
		{Kind: driver.StepMemset8, Ptr: p, Value: 1, Bytes: bytes},
		{Kind: driver.StepCopy, Ptr: p + bytes, Src: p, Bytes: bytes},
		launch("_Z2k2y", 30_000),
	}
	const samples = 50
	tracer, err := Open()
	assert.Needs(t, "CUDA", err)
	traced := func(steps []driver.Step, launches []string, samples int) []float64 {
		t.Helper()
		assert.NoError(t, tracer.Start())
		assert.NoError(t, c.Enqueue(stream, steps))
		assert.NoError(t, stream.Synchronize())
		list, err := tracer.Stop()
		assert.NoError(t, err)
		stages, _, err := Stages(list, launches, samples, "spin")
		assert.NoError(t, err)
		var medians []float64 // in us
		for _, s := range stages {
			slices.Sort(s)
			medians = append(medians, s[len(s)/2]*1e6)
		}
		return medians
	}
	medians := traced(slices.Repeat(work, samples), names, samples)
	t.Logf("by %s: %.2f us of %s", tracer.path, medians, names)
	for j, want := range map[int]float64{0: 100, 3: 30} {
		if got := medians[j]; got < want-1 || got > want+10 {
			t.Errorf("%s spins for %g us and takes %.2f", names[j], want, got)
		}
	}

	// More records than a buffer holds, in one call, so that CUPTI asks for buffers amid launches.
	const many = 60_000
	empty := slices.Repeat([]driver.Step{launch("k1", 0)}, many)
	t.Logf("an empty kernel takes %.2f us", traced(empty, []string{"k1"}, many))

	// What ran untraced is in no later trace.
	assert.NoError(t, c.Enqueue(stream, empty[:10]))
	assert.NoError(t, stream.Synchronize())
	assert.NoError(t, tracer.Start())
	if list, err := tracer.Stop(); err != nil || len(list) != 0 {
		t.Errorf("%d activities of nothing, %v", len(list), err)
	}
}
