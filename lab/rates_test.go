package lab

import (
	"fmt"
	"io"

	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/families"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// ratesVariable is how many sweeps TestFirstTableRates makes of each kind; unset, it is skipped: it
// measures this machine for minutes. `make rates` sets it.
const ratesVariable = "NORMBENCH_RATES"

// burnVariable makes TestBurn burn.
const burnVariable = "NORMBENCH_BURN"

// TestFirstTableRates measures how often the table of a first sweep on this machine is wrong. Each
// sweep has the sixteen problems of smoke and two variants of each: the base's design with its config,
// and the same under another name. Of two copies that are alike none should be FASTER or SLOWER, also
// while another process burns all cores. If the base does half as much work again, the other should be
// FASTER; this says something on a quiet machine only.
func TestFirstTableRates(t *testing.T) {
	sweeps, err := strconv.Atoi(os.Getenv(ratesVariable))
	if err != nil || sweeps < 1 {
		t.Skipf("set %s to the number of sweeps of each kind, such as 40", ratesVariable)
	}
	t.Run("alike", func(t *testing.T) {
		wrongCalls(t, sweeps)
	})
	t.Run("alike, cores burn", func(t *testing.T) {
		burn(t)
		wrongCalls(t, sweeps)
	})
	t.Run("base slowed by half", func(t *testing.T) {
		n := countRates(t, max(1, sweeps/4), 0.5)
		assert.That(t, 10*n.faster >= 9*n.cells, "found in %d of %d cells", n.faster, n.cells)
	})
}

// wrongCalls sweeps copies that are alike, of which three cells in 640 may be called.
func wrongCalls(t *testing.T, sweeps int) {
	n := countRates(t, sweeps, 0)
	most := max(1, 3*n.cells/640)
	assert.That(t, n.faster+n.slower <= most, "the tables call %d of %d cells", n.faster+n.slower, n.cells)
	assert.That(t, n.pairs <= most, "the rounds call %d of %d pairs of copies", n.pairs, n.cells)
}

// rates count the cells of tables, and those whose two variants the recorded rounds tell apart, which
// a table does not show where the base is ahead.
type rates struct{ cells, faster, slower, pairs int }

// countRates makes sweeps of two copies, of which the base takes so much longer, relatively.
func countRates(t *testing.T, sweeps int, slowed float64) (n rates) {
	registry, ps := families.New(), smoke(t)
	dev, own := cpu.New(registry), registry.Default
	registry.Default = func(p kernels.Problem, d kernels.DeviceInfo) kernels.Variant {
		v := own(p, d)
		v.Family += "_twin"
		return v
	}
	var tasks []sweep.Task
	for _, p := range ps {
		first := own(p, dev.Info())
		twin := registry.Default(p, dev.Info())
		if _, err := registry.Lookup(twin.Family); err != nil {
			f, err := registry.Lookup(first.Family)
			assert.NoError(t, err)
			registry.Families = append(registry.Families, twinOf(f, twin.Family, slowed))
		}
		tasks = append(tasks, sweep.Task{Problem: p, Base: twin, Variants: []kernels.Variant{twin, first}})
	}
	for i := range sweeps {
		start := time.Now()
		l := New(t.Context(), console.New(t.Context(), nil, io.Discard), registry, func() {})
		s := &Sweep{Config: &Config{}, Devices: []kernels.Device{dev}, Problems: ps, Out: t.TempDir(),
			Tasks: tasks, Variants: 2 * len(tasks)}
		s.Options = sweep.Options{Seed: uint64(i + 1),
			Run: l.NewRun(dev.Info(), sweep.ColdProtocol(dev.Info(), 7))}
		s.Options.Run.Tool = "test"
		s.Search.Strategy = "auto"
		assert.NoError(t, l.planSearch(s))
		found, err := l.Sweep(s)
		assert.Must(t, err == nil && found != nil, "%v", err)
		n.count(t, found.Comparison, filepath.Join(s.Dir(), record.FileName))
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
	for es := range f.Latest().ByProblem() {
		var base, own record.Entry
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
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestBurn$")
	c.Env = append(os.Environ(), burnVariable+"=1")
	assert.NoError(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	})
}

// TestBurn is the other process of burn.
func TestBurn(t *testing.T) {
	if os.Getenv(burnVariable) == "" {
		t.Skip("burns all cores, for TestFirstTableRates")
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
