//go:build cuda

package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"gorgonia.org/cu"

	"normbench/internal/assert"
	"normbench/kernels/devices/devicetest"
)

// open opens device 0 or skips. NORMBENCH_REQUIRE_CUDA=1 makes a missing device a failure.
func open(t testing.TB) *Context {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := Open(0)
	assert.Needs(t, "CUDA", err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
	})
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Without a device the error is one line of ours and the process lives, although cu's init
// exits when cuInit fails.
func TestNoDeviceIsOneErrorAndNoExit(t *testing.T) {
	n, err := Count()
	if err == nil && n > 0 {
		t.Skipf("%d devices", n)
	}
	c, err := Open(0)
	assert.Must(t, err != nil && c == nil && !strings.Contains(err.Error(), "\n"),
		"got %v, %v", c, err)
	var e *Error
	assert.That(t, errors.Is(err, ErrNoDriver) || errors.As(err, &e),
		"neither ErrNoDriver nor *Error: %v", err)
	t.Log(err)
}

// What an error says, and whether it leaves the context unusable: testdata/errors.txt.
func TestErrorSaysWhetherTheContextIsLost(t *testing.T) {
	assert.Lines(t, "testdata/errors.txt", func(input string) string {
		e := assert.Value[Error](t, input)
		return fmt.Sprint(&e, ", sticky ", IsSticky(&e))
	})
	assert.That(t, !IsSticky(nil) && !IsSticky(ErrNoDriver) && newError("x", 0) == nil &&
		wrap("x", nil) == nil, "no error is one")
	var e *Error
	err := wrap("cuCtxCreate", cu.OutOfMemory)
	assert.That(t, errors.As(err, &e) && e.Code == CodeOutOfMemory,
		"got %#v from an error of cu", err)
}

func TestEnqueueRefusesWhatNoStepIs(t *testing.T) {
	var c Context
	for _, steps := range [][]Command{
		{{Kind: 99}},
		{{Kind: CommandLaunch, Args: make([]uint64, maxArgs+1)}},
		{{Kind: CommandLaunch, Args: make([]uint64, 1), Firsts: make([]uint64, maxArgs+1)}},
		{{Kind: CommandCopy, Bytes: -1}},
	} {
		err := c.Enqueue(Stream{}, steps)
		assert.That(t, err != nil && strings.HasPrefix(err.Error(), "step 0: "),
			"%+v: got %v", steps[0], err)
	}
	assert.NoError(t, c.Enqueue(Stream{}, nil))
}

func TestMemoryIsCopiedSetAndTimed(t *testing.T) {
	c := open(t)
	t.Logf("%+v", c.Info())
	s := must(c.NewStream())
	const n = 1 << 20
	p := must(c.Alloc(2 * n))
	before := must(c.NewEvent())
	after := must(c.NewEvent())
	assert.That(t, must(before.Reached()), "an event that was never recorded is not reached")
	assert.NoError(t, c.Enqueue(s, []Command{
		{Kind: CommandRecord, Event: before},
		{Kind: CommandMemset8, Ptr: p, Value: 0x04, Bytes: n},
		{Kind: CommandMemset8, Ptr: p, Value: 0xff, Bytes: 1},
		{Kind: CommandCopy, Ptr: p + n, Src: p, Bytes: n},
		{Kind: CommandRecord, Event: after},
	}))
	assert.NoError(t, s.Synchronize())
	got := make([]byte, n)
	assert.NoError(t, c.CopyFromDevice(got, p+n))
	assert.That(t, got[0] == 0xff && got[1] == 4 && got[n-1] == 4,
		"got % x … % x", got[:4], got[n-4:])
	assert.That(t, must(after.Reached()), "not reached behind what has ended")
	d, err := after.Elapsed(before)
	assert.That(t, err == nil && d > 0 && d <= 1, "elapsed %g s, %v", d, err)
	assert.NoError(t, c.Free(p))
}

// TestFakeDriverAnswersThroughTheTrampolines runs TestTrampolinesReachTheDriver in a process that
// finds a fake libcuda.so.1, so that the trampolines, the layout of steps and the errors are tested without a GPU.
func TestFakeDriverAnswersThroughTheTrampolines(t *testing.T) {
	devicetest.RunWithLibrary(t, "libcuda.so.1", "testdata/fakecuda.c",
		"TestTrampolinesReachTheDriver|TestMemoryIsCopiedSetAndTimed",
		"NORMBENCH_FAKE_CUDA=1", "NORMBENCH_REQUIRE_CUDA=1")
}

func TestTrampolinesReachTheDriver(t *testing.T) {
	if os.Getenv("NORMBENCH_FAKE_CUDA") == "" {
		t.Skip("run by TestFakeDriverAnswersThroughTheTrampolines")
	}
	c := open(t)
	info := c.Info()
	assert.That(t, info.Name == "Fake" && info.DriverVersion == 11070 && info.SMs == 16 &&
		info.SharedPerBlockOptin == 97 && strings.HasPrefix(info.UUID, "GPU-abababab-"),
		"info: %+v", info)
	m := must(c.LoadModule([]byte("\x7fELF\x00x"))) // with a NUL inside, as cubins have
	f := must(m.Function("k"))
	assert.NoError(t, f.SetMaxDynamicShared(65536))
	regs, local, shared, threads, err := f.Attributes()
	assert.That(t, err == nil && regs == 104 && local == 103 && shared == 101 && threads == 100 &&
		must(f.Occupancy(256, 0)) == 8, "attributes %d %d %d %d, %v", regs, local, shared, threads, err)
	s := must(c.NewStream())
	p := must(c.Alloc(240))
	args := func(i uint64) []uint64 {
		return []uint64{uint64(p) + 80*i, 1<<40 + i, uint64(math.Float32bits(1.5))}
	}
	grid, block := [3]int{1, 2, 3}, [3]int{4, 5, 6}
	assert.NoError(t, c.Enqueue(s, []Command{
		{Kind: CommandLaunch, Func: f, Grid: grid, Block: block, Shared: 7, Args: args(0)},
		{Kind: CommandMemset8, Ptr: p + 80, Value: 0xee, Bytes: 160},
		{Kind: CommandLaunch, Func: f, Grid: grid, Block: block, Shared: 7, Args: args(1)},
		{Kind: CommandLaunch, Func: f, Grid: grid, Block: block, Shared: 7, Args: args(2)},
	}))
	data := make([]byte, 240)
	assert.NoError(t, c.CopyFromDevice(data, p))
	for i := range uint64(3) {
		want := []uint64{1, 2, 3, 4, 5, 6, 7, 0x57, 1<<40 + i, uint64(math.Float32bits(1.5))}
		for j := range want {
			assert.Equal(t, binary.LittleEndian.Uint64(data[80*i+8*uint64(j):]), want[j],
				"launch", i, "value", j)
		}
	}

	// The second argument is a struct of two slots, behind a launch whose arguments have one each.
	wide := []uint64{uint64(p), 1<<41 + 7, 99, uint64(math.Float32bits(2.5))}
	assert.NoError(t, c.Enqueue(s, []Command{
		{Kind: CommandLaunch, Func: f, Grid: grid, Block: block, Args: args(1)},
		{Kind: CommandLaunch, Func: f, Grid: grid, Block: block, Args: wide, Firsts: []uint64{0, 1, 3}},
	}))
	assert.NoError(t, c.CopyFromDevice(data, p))
	assert.Equal(t, binary.LittleEndian.Uint64(data[64:]), uint64(1<<41+7), "a struct's first slot")
	assert.Equal(t, binary.LittleEndian.Uint64(data[72:]), uint64(math.Float32bits(2.5)), "what follows it")

	event := must(c.NewEvent())
	assert.NoError(t, c.Enqueue(s, []Command{{Kind: CommandRecord, Event: event}}))
	assert.That(t, !must(event.Reached()), "reached before the host has waited")
	assert.NoError(t, s.Synchronize())
	assert.That(t, must(event.Reached()), "not reached after the host has waited")

	var e *Error
	_, err = c.Alloc(1 << 50)
	assert.That(t, errors.As(err, &e) && e.Name == "CUDA_ERROR_OUT_OF_MEMORY" && e.Call == "cuMemAlloc",
		"got %v", err)
	// A function that the driver lacks.
	cluster := Command{Kind: CommandLaunch, Func: f, Grid: grid, Block: block, Args: args(0),
		Cluster: [3]int{2, 1, 1}}
	err = c.Enqueue(s, []Command{cluster})
	assert.That(t, errors.As(err, &e) && e.Code == 801 && e.Call == "cuLaunchKernelEx", // not supported
		"got %v", err)
	err = c.Enqueue(s, []Command{{Kind: CommandMemset8, Ptr: p, Bytes: 1}, {Kind: CommandLaunch, Func: f}})
	assert.That(t, err != nil && err.Error() == "step 1: cuLaunchKernel: CUDA error 1",
		"got %v", err)
}
