//go:build cuda

package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"gorgonia.org/cu"

	"normbench/kernels/nvrtc"
)

const floorSource = `
extern "C" __global__ void empty() {}
extern "C" __global__ void spin(unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}
`

// floorKernels opens a device on the calling thread, which it locks.
func floorKernels(ordinal int) (c *Context, empty, spin Function, err error) {
	runtime.LockOSThread()
	if c, err = Open(ordinal); err != nil {
		return
	}
	compiler, err := nvrtc.Find()
	if err != nil {
		return
	}
	b, err := compiler.Compile(nvrtc.Source{Name: "floor.cu", Text: floorSource},
		nvrtc.Options{Arch: fmt.Sprintf("sm_%d%d", c.info.Major, c.info.Minor)})
	if err != nil {
		return
	}
	m, err := c.LoadModule(b.Cubin)
	if err != nil {
		return
	}
	empty, err1 := m.Function("empty")
	spin, err2 := m.Function("spin")
	return c, empty, spin, errors.Join(err1, err2)
}

// floorOf logs the median time between two events with 0, 1 and 2 empty launches between them, in
// a stream of its own or the default stream, led by a spin or not.
func floorOf(t *testing.T, name string, events cu.EventFlags, own, led bool) error {
	c, empty, spin, err := floorKernels(0)
	if err != nil {
		return err
	}
	defer c.Close()
	s := Stream{cu.NoStream}
	a, err1 := cu.MakeEvent(events)
	b, err2 := cu.MakeEvent(events)
	if own {
		s, err = c.NewStream()
	}
	if err := errors.Join(err, err1, err2); err != nil {
		return err
	}
	one, text := [3]int{1, 1, 1}, ""
	for launches := range 3 {
		steps := []Step{{Kind: StepRecord, Event: Event{a}}}
		if led {
			steps = slices.Insert(steps, 0, Step{Kind: StepLaunch, Func: spin, Grid: one, Block: one, Args: []uint64{100_000}})
		}
		for range launches {
			steps = append(steps, Step{Kind: StepLaunch, Func: empty, Grid: one, Block: [3]int{32, 1, 1}})
		}
		steps = append(steps, Step{Kind: StepRecord, Event: Event{b}})
		var us []float64
		for range 201 {
			if err := errors.Join(c.Enqueue(s, steps), s.Synchronize()); err != nil {
				return err
			}
			x, err := Event{b}.Elapsed(Event{a})
			if err != nil {
				return err
			}
			us = append(us, 1e6*x)
		}
		slices.Sort(us)
		text += fmt.Sprintf("  %d launches %.2f us (%.2f-%.2f)", launches, us[100], us[20], us[180])
	}
	t.Logf("%-40s%s", name, text)
	return nil
}

// TestFloor prints what two events in a row, and one and two empty launches between them, take in
// several settings. It decides nothing: `driver.test -test.run '^TestFloor$' -test.v`.
func TestFloor(t *testing.T) {
	n, err := Count()
	if err != nil || n == 0 {
		t.Skip("no CUDA device")
	}
	// measure logs a setting; it opens device 0 on a thread that ends with it.
	measure := func(name string, events cu.EventFlags, own, led bool) {
		done := make(chan error)
		go func() { done <- floorOf(t, name, events, own, led) }()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	usual := func(name string) { measure(name, cu.DefaultEvent, true, true) }
	t.Logf("%d devices, CUDA_VISIBLE_DEVICES=%q", n, os.Getenv("CUDA_VISIBLE_DEVICES"))
	usual("one context")
	measure("without a spin ahead", cu.DefaultEvent, true, false)
	measure("events with blocking sync", cu.BlockingSyncEvent, true, true)
	measure("default stream", cu.DefaultEvent, false, true)
	for ordinal := range min(n, 2) {
		ready, stop, ended := make(chan error), make(chan bool), make(chan error)
		go func() {
			c, _, spin, err := floorKernels(ordinal)
			ready <- err
			if err != nil {
				return
			}
			<-stop // idle until here
			for busy := true; busy && err == nil; {
				err = spin.Launch(Stream{cu.NoStream}, [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, []uint64{1_000_000})
				if err == nil {
					err = c.Synchronize()
				}
				select {
				case <-stop:
					busy = false
				default:
				}
			}
			ended <- err
		}()
		if err := <-ready; err != nil {
			t.Errorf("device %d: %v", ordinal, err)
			continue
		}
		usual(fmt.Sprintf("a second context on device %d, idle", ordinal))
		stop <- true
		usual(fmt.Sprintf("a second context on device %d, at work", ordinal))
		stop <- true
		if err := <-ended; err != nil {
			t.Errorf("device %d: %v", ordinal, err)
		}
	}
	usual("one context, again")
	if n > 1 && os.Getenv("CUDA_VISIBLE_DEVICES") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFloor$", "-test.v")
		cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=0")
		out, err := cmd.CombinedOutput()
		t.Logf("%v\n%s", err, out)
	}
}
