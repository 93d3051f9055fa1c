package lab

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// ratesVariable is how many sweeps TestFirstTableIsRarelyWrong makes of each kind; unset, it is skipped: it
// measures this machine for minutes. `make rates` sets it.
const ratesVariable = "NORMBENCH_RATES"

// burnVariable makes TestBurnAllCores burn.
const burnVariable = "NORMBENCH_BURN"

// TestFirstTableIsRarelyWrong measures how often the table of a first sweep on this machine is wrong. Each
// sweep has the sixteen problems of smoke and two variants of each: the base's design with its config,
// and the same under another name. Of two copies that are alike none should be FASTER or SLOWER, also
// while another process burns all cores. If the base does half as much work again, the other should be
// FASTER; this says something on a quiet machine only.
func TestFirstTableIsRarelyWrong(t *testing.T) {
	sweeps, err := strconv.Atoi(os.Getenv(ratesVariable))
	if err != nil || sweeps < 1 {
		t.Skipf("set %s to the number of sweeps of each kind, such as 40", ratesVariable)
	}
	here := func(r *kernels.Registry, _ uint64) kernels.Device { return cpu.New(r) }
	t.Run("alike", func(t *testing.T) {
		wrongCalls(t, sweeps, here)
	})
	t.Run("alike, cores burn", func(t *testing.T) {
		burn(t)
		wrongCalls(t, sweeps, here)
	})
	t.Run("base slowed by half", func(t *testing.T) {
		n := countRates(t, max(1, sweeps/4), 0.5, here)
		assert.That(t, 10*n.faster >= 9*n.cells, "found in %d of %d cells", n.faster, n.cells)
	})
}

// The same of a machine whose noise is scripted: other programs take launches' time, in bursts, and the
// clock moves by a third. Where they take much, no copy is called; where they take little, a base that
// takes half as long again is found.
func TestSweepIsRarelyWrongOnANoisyMachine(t *testing.T) {
	sweeps := 8
	if assert.All {
		sweeps = 40
	}
	wrongCalls(t, sweeps, func(r *kernels.Registry, seed uint64) kernels.Device { return shared(r, seed, 0.4, 0) })
	n := countRates(t, 4, 0, func(r *kernels.Registry, seed uint64) kernels.Device {
		return shared(r, seed, 0.05, 0.5)
	})
	assert.That(t, 10*n.faster >= 9*n.cells && n.slower == 0, "found in %d of %d cells", n.faster, n.cells)
}

// shared is a CPU that others take from so large a share of the launches, a millisecond or more each.
// The base's twin takes so much longer, relatively.
func shared(r *kernels.Registry, seed uint64, share, slowed float64) kernels.Device {
	rng, launch, busy := rand.New(rand.NewPCG(seed, 1)), 0, false
	return &devicetest.Fake{DeviceInfo: devicetest.CPU(), Registry: r,
		Seconds: func(_ kernels.Problem, v kernels.Variant, _ int) float64 {
			launch++
			us := 100 * (1.2 + 0.2*math.Sin(float64(launch)/70)) * (1 + 0.03*rng.NormFloat64())
			if strings.HasSuffix(v.Family, twinSuffix) {
				us *= 1 + slowed
			}
			if rng.Float64() < 0.2 { // a burst begins or ends
				busy = rng.Float64() < share
			}
			if busy {
				us += 1000 * (1 + rng.ExpFloat64())
			}
			return us * 1e-6
		}}
}

// A deviceOf opens a device for a registry, and for the seed of a sweep.
type deviceOf func(r *kernels.Registry, seed uint64) kernels.Device

// wrongCalls sweeps copies that are alike, of which three cells in 640 may be called.
func wrongCalls(t *testing.T, sweeps int, open deviceOf) {
	t.Helper()
	n := countRates(t, sweeps, 0, open)
	most := max(1, 3*n.cells/640)
	assert.That(t, n.faster+n.slower <= most, "the tables call %d of %d cells", n.faster+n.slower, n.cells)
}

// rates count the cells of tables, and those whose two variants the recorded rounds tell apart by
// verdict.Rule alone. A table has fewer: it does not show where the base is ahead, and what is chosen
// must be ahead of both copies of the base.
type rates struct{ cells, faster, slower, pairs int }

// twinSuffix is behind the name of a family's copy, which is the base.
const twinSuffix = "_twin"

// countRates makes sweeps of two copies, of which the base takes so much longer, relatively.
func countRates(t *testing.T, sweeps int, slowed float64, open deviceOf) (n rates) {
	t.Helper()
	registry, ps := families.New(), smoke(t)
	own := registry.Default
	registry.Default = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Variant {
		v := own(p, d)
		v.Family += twinSuffix
		return v
	}
	var tasks []sweep.Task
	for _, p := range ps {
		info := open(registry, 0).Info()
		first, twin := own(p, info), registry.Default(p, info)
		if _, err := registry.Lookup(twin.Family); err != nil {
			f, err := registry.Lookup(first.Family)
			assert.NoError(t, err)
			registry.Families = append(registry.Families, twinOf(f, twin.Family, slowed))
		}
		tasks = append(tasks, sweep.Task{Problem: p, Base: twin, Variants: []kernels.Variant{twin, first}})
	}
	for i := range sweeps {
		start := time.Now()
		dev := open(registry, uint64(i+1))
		l := New(t.Context(), console.New(t.Context(), nil, io.Discard), registry, func() {})
		s := &SweepTask{Config: &OpenOptions{}, Devices: []kernels.Device{dev}, Problems: ps, Out: t.TempDir(),
			Tasks: tasks, Variants: 2 * len(tasks), parts: []*part{{registry: registry}}}
		s.Options = sweep.RunOptions{Seed: uint64(i + 1),
			Run: l.NewRun(dev.Info(), sweep.ColdProtocol(dev.Info(), 7))}
		s.Options.Run.Tool = "test"
		s.Search.Strategy = "auto"
		assert.NoError(t, l.planSearch(s))
		found, err := l.Sweep(s)
		assert.Must(t, err == nil && found != nil, "%v", err)
		n.count(t, found.Found[0], filepath.Join(s.Out, dev.Info().ID, record.FileName))
		t.Logf("sweep %d, %.0f s: of %d cells so far %d FASTER, %d SLOWER; the rounds tell %d pairs apart", i+1,
			time.Since(start).Seconds(), n.cells, n.faster, n.slower, n.pairs)
	}
	return n
}

// smoke are the problems of a first sweep.
func smoke(t *testing.T) []kernels.Problem {
	s := shapes.Selection{}
	ps, err := s.Problems("smoke")
	assert.NoError(t, err)
	return ps
}

// twinOf is a family under another name, whose stages take so much longer, relatively.
func twinOf(f *kernels.Family, name string, slowed float64) *kernels.Family {
	twin := *f
	twin.Name = name
	if slowed == 0 {
		return &twin
	}
	twin.Host = map[string]kernels.HostStage{}
	for entry, stage := range f.Host {
		twin.Host[entry] = func(h *kernels.HostRun, pid int) {
			start := time.Now()
			stage(h, pid)
			for took := time.Since(start); time.Since(start).Seconds() < (1+slowed)*took.Seconds(); {
			}
		}
	}
	return &twin
}

// count adds what a sweep's table says, and what its records do.
func (n *rates) count(t *testing.T, c *report.Comparison, path string) {
	for _, r := range c.Rows {
		n.cells++
		switch r.Verdict {
		case verdict.Faster:
			n.faster++
		case verdict.Slower:
			n.slower++
		}
		if r.Verdict == verdict.Faster || r.Verdict == verdict.Slower {
			t.Logf("%s: %s %.3f", r.Problem, r.Verdict, r.Speedup)
		}
	}
	f, err := record.Load(path)
	assert.NoError(t, err)
	for es := range f.LatestOutcomes().ByProblem() {
		var base, own record.Outcome
		for _, e := range es {
			switch {
			case e.Base:
				base = e
			case e.Final != nil:
				own = e
			}
		}
		x, y := base.Finals(), own.Finals()
		step := stats.TimerStep(append(base.SamplesUS, own.SamplesUS...))
		j := verdict.JudgeRounds(x.Rounds, y.Rounds, x.BaseAgain, step, max(x.Of-1, 1))
		if j.Verdict == verdict.Faster || j.Verdict == verdict.Slower {
			n.pairs++
		}
	}
}

// burn has another process burn all cores until the test ends.
func burn(t *testing.T) {
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestBurnAllCores$")
	c.Env = append(os.Environ(), burnVariable+"=1")
	assert.NoError(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	})
}

// TestBurnAllCores is the other process of burn.
func TestBurnAllCores(t *testing.T) {
	if os.Getenv(burnVariable) == "" {
		t.Skip("burns all cores, for TestFirstTableIsRarelyWrong")
	}
	parent := os.Getppid()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for x := 1.0; os.Getppid() == parent; { // not beyond its parent
				for range 1_000_000 {
					x = 1 + 1/x
				}
				if x < 0 {
					fmt.Println(x) // so that it is computed
				}
			}
		})
	}
	wg.Wait()
}
