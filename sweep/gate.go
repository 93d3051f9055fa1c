package sweep

import (
	"context"
	"sync"
	"time"

	"normbench/kernels"
)

// A gate lets one visitor at a time onto a GPU that several drive, each from a process of its
// own. While one measures, the others wait for their compilers and decide: times are taken
// with nothing else on the GPU.
type gate struct {
	turn chan struct{} // holds a token while nobody is in

	mu       sync.Mutex
	visitors []*visitor
	held     time.Duration // with somebody in
}

func newGate() *gate {
	g := &gate{turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// gatesOf gives visitors of one GPU the same gate, and returns the gates. A device that does
// not say which GPU it is has one for itself.
func gatesOf(vs []*visitor) (gates []*gate) {
	byUUID := map[string]*gate{}
	for _, v := range vs {
		id := v.dev.Info().UUID
		g := byUUID[id]
		if g == nil || id == "" {
			g = newGate()
			gates = append(gates, g)
			byUUID[id] = g
		}
		v.gate, g.visitors = g, append(g.visitors, v)
	}
	return gates
}

// enter waits for the GPU; leave gives it to the next. A visitor that is in does not count the
// processes of the other visitors as foreign.
func (v *visitor) enter(ctx context.Context) (leave func(), err error) {
	g := v.gate
	select {
	case <-g.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n, ok := v.dev.(kernels.Neighbour); ok && v.shares() {
		var pids []int
		for _, o := range g.visitors {
			if p, ok := o.dev.(interface{ PID() int }); ok && o != v && p.PID() != 0 {
				pids = append(pids, p.PID())
			}
		}
		n.Beside(pids...)
	}
	start := time.Now()
	return func() {
		g.mu.Lock()
		g.held += time.Since(start)
		g.mu.Unlock()
		g.turn <- struct{}{}
	}, nil
}

// shares says whether others take turns with v.
func (v *visitor) shares() bool { return len(v.gate.visitors) > 1 }

// prepare waits until a variant is compiled, outside the gate.
func (v *visitor) prepare(ctx context.Context, p kernels.Problem, variant kernels.Variant) error {
	if d, ok := v.dev.(kernels.Preparer); ok {
		return d.Prepare(ctx, p, variant)
	}
	return nil
}
