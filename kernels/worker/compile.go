package worker

import (
	"cmp"

	"normbench/internal/proc"
	"normbench/kernels"
)

// A tally adds up what the worker's processes have said of their compiling, each from its start.
type tally struct {
	proc *proc.Child // that last is of
	last kernels.CompileStats
	past kernels.CompileStats // of those before
}

func (t *tally) note(p *proc.Child, s *kernels.CompileStats) {
	if s == nil {
		return
	}
	if t.proc != p {
		t.past, t.proc = t.sum(), p
	}
	t.last = *s
}

func (t *tally) sum() kernels.CompileStats {
	a, b := t.past, t.last
	return kernels.CompileStats{
		Compiled: a.Compiled + b.Compiled, Cached: a.Cached + b.Cached, Unused: a.Unused + b.Unused,
		Seconds: a.Seconds + b.Seconds, WaitSeconds: a.WaitSeconds + b.WaitSeconds, Unkept: cmp.Or(a.Unkept, b.Unkept),
	}
}

// CompileStats implements kernels.Compiling: what the worker, restarted or not, said with its
// last answer. It is zero of a device that does not compile.
func (c *Client) CompileStats() kernels.CompileStats { return c.compile.sum() }
