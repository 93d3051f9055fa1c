package families

import (
	"fmt"

	"normbench/kernels"
)

// refuseBounds holds what an SM needs of launch_bounds: 2048 threads
// at most.
func refuseBounds(c kernels.Config) error {
	if lb := c.Get(kernels.MinBlocks); lb > 32 || lb*c.Get(kernels.Warps)*32 > 2048 {
		return fmt.Errorf("an SM has no room for %d CTAs of %d warps", lb, c.Get(kernels.Warps))
	}
	return nil
}

// hostRow computes dx of row i, and returns xhat and dy, which are in slots 0
// and 1. It uses slot 2.
func hostRow(h *kernels.HostRun, wf []float32, i int64) (xhat, dy []float32) {
	N := h.Problem.N
	xhat, dy, g := h.Row(0, N), h.Row(1, N), h.Row(2, N)
	hostXhat(h, xhat, wf, i, 0)
	h.Mem["dy"].Load(dy, i*N)
	for j, w := range wf {
		g[j] = dy[j] * w
	}
	c1, c2 := dot(g, xhat)/float32(N), float32(0)
	if h.Problem.Op == kernels.LayerNorm {
		c2 = sum(g) / float32(N)
	}
	rstd, _ := hostStats(h, i)
	for j := range g {
		g[j] = rstd * (g[j] - xhat[j]*c1 - c2)
	}
	hostGradient(h, g, i, 0)
	return xhat, dy
}

// A hostSums is the sums of dw and, where there is one, db, over rows of one
// CTA, in slots 3 and 4.
type hostSums struct{ dw, db []float32 }

func newHostSums(h *kernels.HostRun) hostSums {
	s := hostSums{dw: h.Row(3, h.Problem.N)}
	clear(s.dw)
	if h.Problem.Bias {
		s.db = h.Row(4, h.Problem.N)
		clear(s.db)
	}
	return s
}

// add adds a row's terms.
func (s hostSums) add(xhat, dy []float32) {
	for j, v := range dy {
		s.dw[j] += v * xhat[j]
	}
	for j := range s.db {
		s.db[j] += dy[j]
	}
}

// each calls f with the name and the sums of each gradient.
func (s hostSums) each(f func(name string, sums []float32)) {
	f("dw", s.dw)
	if s.db != nil {
		f("db", s.db)
	}
}
