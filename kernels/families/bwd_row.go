package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// This file is shared by backward designs that keep a row in the registers of a
// group of threads (bwd_row.cuh): how much fits there, and the row on the host.

// servesWeight is Serves of a design that is about the weight's gradient.
func servesWeight(p kernels.Problem) error {
	if p.NoWeight {
		return fmt.Errorf("without a weight there is no gradient to reduce")
	}
	return nil
}

// A rowUse is what one thread of a CTA keeps of rows in its registers.
type rowUse struct {
	threads int64 // threads of a row
	rows    int64 // rows that a thread holds at once, those loaded ahead included
	reduced int64 // rows whose sums it holds side by side through a reduction
	sums    int64 // fp32 accumulators per element
}

// refuseRowUse refuses what takes more registers than a thread has, and more than
// 64 threads (published rules have two warps on rows of 256 columns) if 3 of 8
// have no vector.
func refuseRowUse(p kernels.Problem, c kernels.Config, u rowUse) error {
	vecs, vec := common.Vectors(p, c)
	if u.threads < 1 {
		return fmt.Errorf("fewer threads than rows in a CTA")
	}
	if u.threads > 64 && 8*vecs < 5*u.threads {
		return fmt.Errorf("%d threads for the %d vectors of a row leave too many of them idle", u.threads, vecs)
	}
	if err := refuseBounds(c); err != nil {
		return err
	}
	if !u.fits(p, c) {
		return fmt.Errorf("%d vectors of %d elements need about %d registers per thread, and there are %d",
			kernels.CeilDiv(vecs, u.threads), vec, u.registers(p, c), registersPerThread(c))
	}
	return nil
}

// fits says whether a thread has the registers; more than 32 vectors of a row
// would make the code too long.
func (u rowUse) fits(p kernels.Problem, c kernels.Config) bool {
	vecs, _ := common.Vectors(p, c)
	return kernels.CeilDiv(vecs, u.threads) <= 32 && u.registers(p, c) <= registersPerThread(c)
}

// registers is about how many registers a thread needs. Of 229 configs of
// mix_order that this takes for small enough, 22 spilled when compiled for sm_90
// (NVRTC 13.0, N 256 to 16384), by 40 bytes in the middle.
func (u rowUse) registers(p kernels.Problem, c kernels.Config) int64 {
	vecs, vec := common.Vectors(p, c)
	each := kernels.CeilDiv(vecs, max(u.threads, 1))
	// An element narrower than a word still takes one when it is loaded alone.
	words := func(d kernels.DType) int64 { return kernels.CeilDiv(vec*d.Size(), 4) }
	perRow := kernels.Flag(p.Op == kernels.LayerNorm) + 1 // its statistics, and its sums
	need := 24 + each*each/2 + u.sums*each*vec + perRow*u.reduced
	need += u.rows * ((2+kernels.Flag(p.Residual))*each*words(p.DType) + perRow)
	switch {
	case p.NoWeight:
	case each <= 2:
		need += each * words(p.Weight)
	default: // bwd_row.cuh, KEEP_W
		need += words(p.Weight)
	}
	return need
}

// registersPerThread is what an SM's registers allow each thread of a
// config. (255 is the most that a thread can have, but need is an estimate.)
func registersPerThread(c kernels.Config) int64 {
	threads := int64(c.Get(kernels.Warps) * 32 * max(c.Get(kernels.MinBlocks), 1))
	return min(65536/threads, 256)
}

// refuseBounds holds what an SM needs of launch_bounds: 2048 threads
// at most.
func refuseBounds(c kernels.Config) error {
	if lb := c.Get(kernels.MinBlocks); lb > 32 || lb*c.Get(kernels.Warps)*32 > 2048 {
		return fmt.Errorf("an SM has no room for %d CTAs of %d warps", lb, c.Get(kernels.Warps))
	}
	return nil
}

// fitRow is the first of configs that refuse accepts, or else the first.
func fitRow(refuse func(kernels.Config) error, configs []kernels.Config) kernels.Config {
	for _, c := range configs {
		if refuse(c) == nil {
			return c
		}
	}
	return configs[0]
}

// sumsPerElement is the accumulators that an element of the weight takes: of dw
// and of db.
func sumsPerElement(p kernels.Problem) int64 { return kernels.Flag(!p.NoWeight) + kernels.Flag(p.Bias) }

// warpsFrom are the numbers of warps in the order in which a base rule tries
// them: from a first one up to 32, then downwards.
func warpsFrom(first int) []int {
	var ws []int
	for w := first; w <= 32; w *= 2 {
		ws = append(ws, w)
	}
	for w := first / 2; w >= 1; w /= 2 {
		ws = append(ws, w)
	}
	return ws
}

// knobsOf is the part of c that a launch reads, so that a launch does not change
// with the knobs of others.
func knobsOf(c kernels.Config, knobs ...*kernels.Knob) kernels.Config {
	var part kernels.Config
	for _, k := range knobs {
		if v, ok := c.Lookup(k); ok {
			part = part.With(set(k, v))
		}
	}
	return part
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

// store writes the sums as partial row number row.
func (s hostSums) store(h *kernels.HostRun, row int64) {
	s.each(func(name string, sums []float32) { h.Mem[name+"_partial"].Store(row*h.Problem.N, sums) })
}
