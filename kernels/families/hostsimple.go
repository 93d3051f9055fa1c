package families

import (
	"time"

	"normbench/kernels"
	"normbench/kernels/families/manifest"
)

// stages lists the host stages of the designs in manifests, by the entries of their kernels. Those of a
// pass do the same rows, whatever the design's chunks.
var stages = manifest.Stages{
	kernels.Fwd: {"cta_reg": hostForwards, "two_pass": hostForwards, "transpose": hostTranspose},
	kernels.Bwd: {"reg_persist": hostBackwards, "two_pass": hostBackwards, "reduce": hostReduce},
}

// hostBackward is the host stage of the entry backward in all plain_*_bwd.cu: it computes dx of CTA
// pid's rows.
func hostBackward(h *kernels.HostRun, pid int) {
	p := h.Problem
	xhat, dy := h.Row(0, p.N), h.Row(1, p.N)
	wf, _ := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		hostXhat(h, xhat, wf, i, 0)
		h.Mem["dy"].Load(dy, i*p.N)
		hostDX(h, xhat, dy, wf, i)
	})
}

// hostGradients is the host stage of the entry gradients in all plain_*_bwd.cu: it computes dw and db of
// CTA pid's columns.
func hostGradients(h *kernels.HostRun, pid int) {
	p := h.Problem
	lo := int64(pid * h.Launch.Block)
	n := min(int64(h.Launch.Block), p.N-lo)
	xhat, dy, dw, db := h.Row(0, n), h.Row(1, n), h.Row(2, n), h.Row(3, n)
	clear(dw)
	clear(db)
	if p.Accumulate {
		h.Mem["dw_in"].Load(dw, lo)
		if p.Bias {
			h.Mem["db_in"].Load(db, lo)
		}
	}
	for i := range p.M {
		hostXhat(h, xhat, nil, i, lo)
		h.Mem["dy"].Load(dy, i*p.N+lo)
		for j, v := range dy {
			dw[j] += v * xhat[j]
			db[j] += v
		}
	}
	h.Mem["dw"].Store(lo, dw)
	if p.Bias {
		h.Mem["db"].Store(lo, db)
	}
}

// hostEmpty does nothing, as the empty kernel.
func hostEmpty(*kernels.HostRun, int) {}

// hostSpin waits for the launch's ns nanoseconds.
func hostSpin(h *kernels.HostRun, _ int) {
	for start := time.Now(); time.Since(start) < time.Duration(h.Arg("ns")); {
	}
}

// hostStream copies its part of the problem's tensors: each input is read and each output written once.
func hostStream(h *kernels.HostRun, pid int) {
	count, ctas := h.Arg("count"), int64(h.Launch.Grid[0])
	lo, hi := count*int64(pid)/ctas, count*int64(pid+1)/ctas
	in, out := h.Problem.Full(kernels.Input), h.Problem.Full(kernels.Output)
	if len(in) == 1 && len(out) == 1 && in[0].DType == out[0].DType {
		size := in[0].DType.Size()
		copy(h.Mem["y"].Bytes[lo*size:hi*size], h.Mem["x"].Bytes[lo*size:])
		return
	}
	const block = 4096 // elements that stay in the first-level cache
	a, b := h.Row(0, block), h.Row(1, block)
	for ; lo < hi; lo += block {
		n := min(block, hi-lo)
		h.Mem[in[0].Name].Load(a[:n], lo)
		for _, t := range in[1:] {
			h.Mem[t.Name].Load(b[:n], lo)
			for i, v := range b[:n] {
				a[i] += v
			}
		}
		for _, t := range out {
			h.Mem[t.Name].Store(lo, a[:n])
		}
	}
}

// hostMemcpy copies x to y.
func hostMemcpy(h *kernels.HostRun, _ int) {
	copy(h.Mem["y"].Bytes, h.Mem["x"].Bytes)
}
