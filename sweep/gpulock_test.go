package sweep

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/search"
)

// A sharing is one of several devices on one GPU. It says so where two are at work at once.
type sharing struct {
	*devicetest.Fake
	timed   atomic.Int32
	compile func(v kernels.Variant)
	pid     int
	beside  atomic.Pointer[[]int]
}

func (s *sharing) PID() int                    { return s.pid }
func (s *sharing) IgnoreProcesses(pids ...int) { s.beside.Store(&pids) }

func (s *sharing) Prepare(_ context.Context, _ kernels.Problem, v kernels.Variant) error {
	if s.compile != nil {
		s.compile(v)
	}
	return nil
}

func newSharing(t *testing.T, pid int, inside *atomic.Int32) *sharing {
	s := &sharing{Fake: fake(), pid: pid}
	s.DeviceInfo = devicetest.H200()
	s.DeviceInfo.UUID = "GPU-1"
	s.Hook = func(_ context.Context, op string, _ kernels.Variant) error {
		assert.Equal(t, inside.Add(1), 1, "devices of one GPU at work at once")
		time.Sleep(50 * time.Microsecond)
		inside.Add(-1)
		if op == "time" {
			s.timed.Add(1)
		}
		return nil
	}
	return s
}

// Devices of one GPU take turns on it, and one measures while another compiles: the second
// has its first kernel only when the first device has taken some times.
func TestOneGPUByTurns(t *testing.T) {
	for _, grid := range []bool{false, true} {
		var inside atomic.Int32
		a, b := newSharing(t, 11, &inside), newSharing(t, 12, &inside)
		b.compile = func(v kernels.Variant) {
			if isStream(v) {
				return
			}
			for start := time.Now(); a.timed.Load() < 4; time.Sleep(time.Millisecond) {
				if time.Since(start) > 10*time.Second {
					t.Error("the one device compiles, and the other does not measure meanwhile")
					return
				}
			}
		}
		o := searching(search.Auto, search.Budget{})
		if grid {
			o = options(6)
		}
		o.More = func(problems int) ([]kernels.Device, error) {
			assert.Equal(t, problems, 3, "problems to share")
			return []kernels.Device{b}, nil
		}
		ts := tasks(t, 12, "rmsnorm/bwd/300x1024/bf16", "rmsnorm/bwd/500x2048/bf16",
			"rmsnorm/fwd/300x1024/bf16")
		sum, err := Run(t.Context(), registry, []kernels.Device{a}, ts, &memorySink{}, o)
		assert.NoError(t, err)
		assert.That(t, a.timed.Load() != 0 && b.timed.Load() != 0,
			"a grid %t: %d and %d timings", grid, a.timed.Load(), b.timed.Load())
		assert.That(t, len(sum.Each) == 1 && sum.Each[0] == sum.Busy && sum.Busy > 0,
			"a grid %t: one GPU was at work for %v, on average %s", grid, sum.Each, sum.Busy)
		x, y := a.beside.Load(), b.beside.Load()
		assert.That(t, x != nil && y != nil && len(*x) == 1 && (*x)[0] == 12 && (*y)[0] == 11,
			"a grid %t: %v and %v are no others", grid, x, y)
	}
}
