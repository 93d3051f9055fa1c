package sweep

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"normbench/kernels"
)

// A gate lets one visitor at a time onto a GPU that several drive, each from a process of its
// own. While one measures, the others wait for their compilers and decide: times are taken
// with nothing else on the GPU.
type gate struct {
	turn     *semaphore.Weighted
	visitors []*visitor
	busy     time.Duration // of the GPU, for what was kept
}

// gatesOf gives visitors of one GPU the same gate, and returns the gates. A device that does
// not say which GPU it is has one for itself.
func gatesOf(vs []*visitor) (gates []*gate) {
	byUUID := map[string]*gate{}
	for _, v := range vs {
		id := v.dev.Info().UUID
		g := byUUID[id]
		if g == nil || id == "" {
			g = &gate{turn: semaphore.NewWeighted(1)}
			gates = append(gates, g)
			byUUID[id] = g
		}
		v.gate, g.visitors = g, append(g.visitors, v)
	}
	return gates
}

// takeTurn waits until it is v's turn on the GPU, and does something then. A visitor that is in counts
// no process of another visitor as foreign.
func (v *visitor) takeTurn(ctx context.Context, what func() error) error {
	g, start := v.gate, time.Now()
	if err := g.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer g.turn.Release(1)
	v.waited += time.Since(start)
	if n, ok := v.dev.(kernels.ProcessIgnorer); ok && v.shares() {
		var pids []int
		for _, o := range g.visitors {
			if p, ok := o.dev.(interface{ PID() int }); ok && o != v && p.PID() != 0 {
				pids = append(pids, p.PID())
			}
		}
		n.IgnoreProcesses(pids...)
	}
	return what()
}

// shares says whether others take turns with v.
func (v *visitor) shares() bool { return len(v.gate.visitors) > 1 }

// unprepared is how many deaths in preparing a device may have until it is asked for it no more: a
// check compiles too.
const unprepared = 8

// prepare waits until a variant is compiled, outside the gate.
func (v *visitor) prepare(ctx context.Context, p kernels.Problem, variant kernels.Variant) error {
	d, ok := v.dev.(kernels.Preparer)
	if !ok || v.diedPreparing == unprepared {
		return nil
	}
	err := d.Prepare(ctx, p, variant)
	if f := FailureOf(err); f != nil && f.Broken {
		v.diedPreparing++
	}
	return err
}
