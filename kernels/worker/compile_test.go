//go:build unix

package worker

import (
	"testing"
	"time"

	"normbench/kernels"
	"normbench/kernels/devicetest"
)

// compiling is a device that compiles a unit for each question about it.
type compiling struct {
	devicetest.Fake
	n int
}

func (c *compiling) CompileStats() kernels.CompileStats {
	c.n++
	return kernels.CompileStats{Compiled: c.n, Cached: 1, Unused: 2, Seconds: 0.5 * float64(c.n), WaitSeconds: 0.25}
}

// Each answer has what compiling took, and what a worker took that died is kept.
func TestCompileStats(t *testing.T) {
	c := start1(t, "compiling", 5*time.Second)
	if got, want := c.CompileStats(), (kernels.CompileStats{Compiled: 1, Cached: 1, Unused: 2, Seconds: 0.5, WaitSeconds: 0.25}); got != want {
		t.Errorf("after hello: %+v", got)
	}
	c.Prefetch(small, nil)
	if got := c.CompileStats(); got.Compiled != 2 || got.Seconds != 1 {
		t.Errorf("after prefetch: %+v", got)
	}
	c.proc.kill()
	c.Prefetch(small, nil) // meets the death
	c.Prefetch(small, nil)
	if got, want := c.CompileStats(), (kernels.CompileStats{Compiled: 4, Cached: 2, Unused: 4, Seconds: 2, WaitSeconds: 0.5}); got != want {
		t.Errorf("after a new start: %+v", got)
	}
}

func TestCompileStatsOfNone(t *testing.T) {
	if got := start1(t, "cpu", 5*time.Second).CompileStats(); got != (kernels.CompileStats{}) {
		t.Errorf("of a device that does not compile: %+v", got)
	}
}
