//go:build unix

package worker

import (
	"errors"
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
	return kernels.CompileStats{Unkept: "a full disk", Compiled: c.n, Cached: 1, Unused: 2, Seconds: 0.5 * float64(c.n), WaitSeconds: 0.25}
}

// Each answer has what compiling took, and what a worker took that died is kept.
func TestCompileStats(t *testing.T) {
	c := start1(t, "compiling", 5*time.Second)
	if got, want := c.CompileStats(), (kernels.CompileStats{Compiled: 1, Cached: 1, Unused: 2, Seconds: 0.5, WaitSeconds: 0.25, Unkept: "a full disk"}); got != want {
		t.Errorf("after hello: %+v", got)
	}
	c.Prefetch(small, nil)
	if got := c.CompileStats(); got.Compiled != 2 || got.Seconds != 1 {
		t.Errorf("after prefetch: %+v", got)
	}
	said := 0
	c.o.Unkept = func(text string) {
		if said++; text != "a full disk" {
			t.Errorf("said %q", text)
		}
	}
	c.proc.Kill()
	c.Prefetch(small, nil) // meets the death
	c.Prefetch(small, nil)
	if got, want := c.CompileStats(), (kernels.CompileStats{Compiled: 4, Cached: 2, Unused: 4, Seconds: 2, WaitSeconds: 0.5, Unkept: "a full disk"}); got != want {
		t.Errorf("after a new start: %+v", got)
	}
	if said == 0 {
		t.Error("that cubins are not kept is not passed on")
	}
}

// hurried is a device on which the family "hangs" takes as long to compile as it may.
type hurried struct {
	devicetest.Fake
	step time.Duration
}

func (h *hurried) Within(step time.Duration) { h.step = step }

// A device knows how long its client waits, and gives a unit up before: the variant has a status
// and a reason, and the worker lives on.
func TestHangingUnit(t *testing.T) {
	c := start1(t, "hurried", 3*time.Second)
	b, pid := open(t, c), c.PID()
	var f *kernels.Failure
	if _, err := b.Check(t.Context(), kernels.Variant{Family: "hangs"}, 1); !errors.As(err, &f) || f.Status != kernels.StatusCompile || f.Broken || f.Reason != "given up after 1s of 3s" {
		t.Errorf("%+v, %v", f, err)
	}
	if works(t, b); c.PID() != pid {
		t.Error("the worker is another")
	}
}
