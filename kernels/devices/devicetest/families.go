package devicetest

import (
	_ "embed"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"normbench/kernels"
)

//go:embed testkernels.cu
var source string

const sourceName = "testkernels.cu"

// The test families, by name. All serve every rmsnorm forward.
const (
	Wrong     = "test/wrong"     // one element of y, whose index is knob p, is 1000
	Unwritten = "test/unwritten" // one element of y, whose index is knob p, is left as it was
	Spin      = "test/spin"      // never ends
	Crash     = "test/crash"     // ends its process (cpu) or faults (cuda)
	Racy      = "test/racy"      // right, but not with the same bits every time
	Spoiling  = "test/spoiling"  // right, and changes the element of x whose index is knob p
	Overrun   = "test/overrun"   // right, and writes the first element behind y (cuda)
	Lazy      = "test/lazy"      // right in its first four runs on some inputs, then does nothing
)

// faultyFamilies makes kernels that misbehave on purpose, hidden, in both host and CUDA form. norm is a right
// one. Spin and Crash must run in a worker process only: on the cpu device they hang or end the process
// that runs them.
func faultyFamilies(norm kernels.HostStage) []*kernels.Family {
	// spoil changes the element, if it is of a row of the CTA's.
	spoil := func(h *kernels.HostRun, pid int, change func(y *kernels.Memory, i int64)) {
		if i := h.Arg("element"); i/h.Problem.N%int64(h.Launch.Grid[0]) == int64(pid) {
			change(h.Mem["y"], i)
		}
	}
	return []*kernels.Family{
		family(Wrong, "wrong", func(h *kernels.HostRun, pid int) {
			norm(h, pid)
			spoil(h, pid, func(y *kernels.Memory, i int64) { y.Set(i, 1000) })
		}),
		family(Unwritten, "unwritten", func(h *kernels.HostRun, pid int) {
			var was []byte // as bits: a NaN does not survive being widened
			bits := func(y *kernels.Memory, i int64) []byte { return y.Bytes[i*y.DType.Size():][:y.DType.Size()] }
			spoil(h, pid, func(y *kernels.Memory, i int64) { was = slices.Clone(bits(y, i)) })
			norm(h, pid)
			spoil(h, pid, func(y *kernels.Memory, i int64) { copy(bits(y, i), was) })
		}),
		family(Spin, "spin", func(*kernels.HostRun, int) {
			for {
				time.Sleep(time.Millisecond)
			}
		}),
		family(Crash, "crash", func(*kernels.HostRun, int) {
			fmt.Fprintln(os.Stderr, "test/crash: exit status 3 as asked")
			os.Exit(3)
		}),
		family(Racy, "racy", func(h *kernels.HostRun, pid int) {
			norm(h, pid)
			if pid == 0 {
				r := kernels.Elements[float32](h.Mem["rstd"])
				r[0] = math.Float32frombits(math.Float32bits(r[0]) ^ runs.Add(1)&1)
			}
		}),
		family(Spoiling, "spoiling", func(h *kernels.HostRun, pid int) {
			norm(h, pid)
			spoil(h, pid, func(_ *kernels.Memory, i int64) { h.Mem["x"].Set(i, -h.Mem["x"].At(i)-1) })
		}),
		family(Overrun, "overrun", norm), // Go sees that by itself
		family(Lazy, "lazy", func(h *kernels.HostRun, pid int) {
			if countRuns(h.Mem["x"], pid == 0) < 4 {
				norm(h, pid)
			}
		}),
	}
}

// lazy counts the runs of test/lazy on the last inputs it has seen.
var lazy struct {
	sync.Mutex
	x    *kernels.Memory
	runs int
}

// countRuns counts the runs of test/lazy on x so far.
func countRuns(x *kernels.Memory, first bool) int {
	lazy.Lock()
	defer lazy.Unlock()
	if lazy.x != x {
		lazy.x, lazy.runs = x, 0
	}
	if first {
		lazy.runs++
		return lazy.runs - 1
	}
	return max(lazy.runs-1, 0)
}

// runs counts the runs of test/racy, as its CUDA form does.
var runs atomic.Uint32

// Registry is base with the test families in addition, which do what its plain one does.
func Registry(base *kernels.Registry) *kernels.Registry {
	plain, err := base.Lookup("rms_fwd/plain")
	if err != nil {
		panic(err)
	}
	return &kernels.Registry{
		Families: append(slices.Clone(base.Families), faultyFamilies(plain.Host["forward"])...),
		Default:  base.Default,
		File: func(name string) (string, error) {
			if name == sourceName {
				return source, nil
			}
			return base.File(name)
		},
	}
}

func family(name, entry string, host kernels.HostStage) *kernels.Family {
	return &kernels.Family{
		Name: name, Op: kernels.RMSNorm, Pass: kernels.Fwd,
		Doc:    "misbehaves on purpose",
		Origin: "normbench",
		Hidden: true,
		Files:  []string{sourceName, "common.cuh"},
		Knobs:  []kernels.Range{kernels.Values(kernels.CTAs, 0)},
		Serves: func(kernels.Problem) error { return nil },
		Base: func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
			return kernels.NewConfig(kernels.Setting{Knob: kernels.CTAs, Value: 0})
		},
		Refuse: func(p kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) error {
			if int64(c.Get(kernels.CTAs)) >= p.M*p.N {
				return fmt.Errorf("y has no element %d", c.Get(kernels.CTAs))
			}
			return nil
		},
		Plan: func(p kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) kernels.Plan {
			bias := "b"
			if !p.Bias {
				bias = ""
			}
			flag := map[bool]int64{true: 1}
			return kernels.Plan{Launches: []kernels.Launch{{
				Stage: "k1", Source: sourceName, Entry: entry,
				Grid: [3]int{int(min(p.M, 1<<16)), 1, 1}, Block: 32,
				Defines: []kernels.Define{
					{Name: "X_TYPE", Value: int64(p.DType)},
					{Name: "W_TYPE", Value: int64(p.Weight)},
					{Name: "HAS_BIAS", Value: flag[p.Bias]},
					{Name: "ZERO_CENTERED", Value: flag[p.ZeroCentered]},
				},
				Args: append(kernels.Buffers("x", "w", bias, "y", "rstd"),
					kernels.Int64("rows", p.M), kernels.Int64("cols", p.N),
					kernels.Int64("element", int64(c.Get(kernels.CTAs))), kernels.Float32("eps",
						kernels.Eps)),
			}}}
		},
		Host: map[string]kernels.HostStage{entry: host},
	}
}
