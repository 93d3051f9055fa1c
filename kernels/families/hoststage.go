package families

import "normbench/kernels"

// The host stages share this file. Slots 0 to 7 of a HostRun's scratch belong to the
// stages; these helpers use slots from 8 on.

// hostWeights widens the weights (plus one if zero-centered, ones without a
// weight) and the bias, or nil, as a CTA does before its first row.
func hostWeights(h *kernels.HostRun) (wf, bf []float32) {
	p := h.Problem
	wf = h.Row(8, p.N)
	if !p.HasWeight() {
		for j := range wf {
			wf[j] = 1
		}
	} else {
		h.Mem["w"].Load(wf, 0)
	}
	if p.ZeroCentered {
		for j := range wf {
			wf[j]++
		}
	}
	if p.Bias && (p.Pass == kernels.Fwd || p.NeedsBias()) {
		bf = h.Row(9, p.N)
		h.Mem["b"].Load(bf, 0)
	}
	return wf, bf
}

// hostInput loads row i of a forward into dst: x, or with residual x + res, which it also writes to
// resout.
func hostInput(h *kernels.HostRun, dst []float32, i int64) {
	p := h.Problem
	h.Mem["x"].Load(dst, i*p.N)
	if !p.Residual {
		return
	}
	res := h.Row(10, p.N)
	h.Mem["res"].Load(res, i*p.N)
	for j, v := range res {
		dst[j] += v
	}
	h.Mem["resout"].Store(i*p.N, dst)
}

// hostOutput stores row i of y, v before fp8's scale: rounded to y's type, and for fp8 scaled, with
// amax, scale_inv and, if asked, the transpose. Where fp8, plans clear amax first.
func hostOutput(h *kernels.HostRun, v []float32, i int64, transpose bool) {
	p, y := h.Problem, h.Mem["y"]
	if p.FP8 {
		scale, most := h.Mem["scale"].At(0), float32(0)
		for k, f := range v {
			if !(f <= most && -f <= most) { // NaN too
				most = max(most, f, -f) // of a NaN it is NaN
			}
			v[k] = f * scale
		}
		h.Mem["amax"].MaxFloat(0, most)
		if i == 0 {
			h.Mem["scale_inv"].Set(0, 1/scale)
		}
	}
	y.Store(i*p.N, v)
	if transpose {
		yt := h.Mem["yt"]
		for j := range p.N {
			yt.Bytes[j*p.M+i] = y.Bytes[i*p.N+j]
		}
	}
}

// hostGradient stores row i of dx: v, plus the residual's gradient where there is one.
func hostGradient(h *kernels.HostRun, v []float32, i int64) {
	p := h.Problem
	if p.Residual {
		res := h.Row(10, p.N)
		h.Mem["dres"].Load(res, i*p.N)
		for j, r := range res {
			v[j] += r
		}
	}
	h.Mem["dx"].Store(i*p.N, v)
}

// hostXhat loads columns from j on of row i of xhat into dst, in a backward:
// from x and the saved statistics or, with SAVED_OUTPUT, from y, as (y-b)/w with
// |w| at least eps (Fast-LLM's and apex's memory-efficient backward).
func hostXhat(h *kernels.HostRun, dst, wf []float32, i, j int64) {
	p := h.Problem
	if h.Launch.Define("SAVED_OUTPUT") == 0 {
		h.Mem["x"].Load(dst, i*p.N+j)
		rstd, mean := hostStats(h, i)
		for k := range dst {
			dst[k] = (dst[k] - mean) * rstd
		}
		return
	}
	h.Mem["y"].Load(dst, i*p.N+j)
	if p.Bias {
		b := h.Row(11, int64(len(dst)))
		h.Mem["b"].Load(b, j)
		for k, v := range b {
			dst[k] -= v
		}
	}
	for k, w := range wf[j:][:len(dst)] {
		if w >= 0 {
			dst[k] /= max(w, kernels.Eps)
		} else {
			dst[k] /= min(w, -kernels.Eps)
		}
	}
}

// hostStats returns the saved statistics of row i; mean is 0 where the op has none.
func hostStats(h *kernels.HostRun, i int64) (r, mean float32) {
	spec := h.Problem.Op.Spec()
	if spec.Centered {
		mean = h.Mem["mean"].At(i)
	}
	return h.Mem[spec.Saved[0]].At(i), mean
}

// eachTileRow calls f with each row of CTA pid's tiles: the CTA's tiles lie in strides or, with
// ROW_ORDER, in a range of its own, as Tiles in common.cuh deals them.
func eachTileRow(h *kernels.HostRun, pid int, f func(i int64)) {
	block, ctas, rows := max(h.Launch.Define("BLOCK_ROWS"), 1), int64(h.Launch.Grid[0]), h.Problem.M
	first, stride, end := int64(pid)*block, ctas*block, rows
	if h.Launch.Define("ROW_ORDER") == 1 {
		share := kernels.CeilDiv(kernels.CeilDiv(rows, block), ctas) * block
		first, stride = int64(pid)*share, block
		end = min(first+share, rows)
	}
	for lo := first; lo < end; lo += stride {
		for i := lo; i < min(lo+block, end); i++ {
			f(i)
		}
	}
}

// hostDX computes row i of dx from its xhat and dy, and stores it. It overwrites dy.
func hostDX(h *kernels.HostRun, xhat, dy, wf []float32, i int64) {
	spec, n := h.Problem.Op.Spec(), float32(h.Problem.N)
	for j, w := range wf {
		dy[j] *= w
	}
	r, _ := hostStats(h, i)
	c1, c2 := dot(dy, xhat), float32(0)
	switch {
	case !spec.Unit:
		c1 /= n
	case r*float32(spec.Eps) > nearly:
		c1 = 0 // r is 1/eps, whatever x
	}
	if spec.Centered {
		c2 = sum(dy) / n
	}
	for j, v := range xhat {
		dy[j] = r * (dy[j] - v*c1 - c2)
	}
	hostGradient(h, dy, i)
}

// nearly is one, less a rounding of r.
const nearly = 0.999999

// hostRows computes the rows of CTA pid's tiles, and returns their sums of dw and, where there is a
// bias, db.
func hostRows(h *kernels.HostRun, pid int) (dw, db []float32) {
	p, N := h.Problem, h.Problem.N
	xhat, dy := h.Row(0, N), h.Row(1, N)
	dw, db = h.Row(2, N), h.Row(3, N*kernels.Flag(p.Bias))
	clear(dw)
	clear(db)
	wf, _ := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		hostXhat(h, xhat, wf, i, 0)
		h.Mem["dy"].Load(dy, i*N)
		for j, v := range dy {
			dw[j] += v * xhat[j]
		}
		for j := range db {
			db[j] += dy[j]
		}
		hostDX(h, xhat, dy, wf, i)
	})
	return dw, db
}

// hostBackwards computes the rows of CTA pid's tiles, each row whole, whatever the design's chunks, and
// stores their sums as a partial row.
func hostBackwards(h *kernels.HostRun, pid int) {
	dw, db := hostRows(h, pid)
	at := int64(pid) * h.Problem.N
	if !h.Problem.NoWeight {
		h.Mem["dw_partial"].Store(at, dw)
	}
	if h.Problem.Bias {
		h.Mem["db_partial"].Store(at, db)
	}
}

// hostReduce sums the partial rows of some columns of a gradient, adds what was in the gradient
// before, and stores the result: reduce.cuh, finish.
func hostReduce(h *kernels.HostRun, pid int) {
	name, cols, n := "dw", h.Launch.Define("REDUCE_COLS"), h.Problem.N
	if pid >= h.Launch.Grid[0] { // second row of the grid
		pid -= h.Launch.Grid[0]
		name = "db"
	}
	lo := int64(pid) * cols
	acc, part := h.Row(12, min(cols, n-lo)), h.Row(13, min(cols, n-lo))
	clear(acc)
	add := func(from *kernels.Memory, at int64) {
		from.Load(part, at)
		for j, v := range part {
			acc[j] += v
		}
	}
	for p := range h.Launch.Define("PARTIALS") {
		add(h.Mem[name+"_partial"], p*n+lo)
	}
	if h.Problem.Accumulate {
		add(h.Mem[name+"_in"], lo)
	}
	h.Mem[name].Store(lo, acc)
}

// sum adds up numbers with four accumulators, as dot does: the additions of one would wait for each
// other, and its rounding errors would grow with the row.
func sum(a []float32) float32 {
	var s0, s1, s2, s3 float32
	for ; len(a) >= 4; a = a[4:] {
		s0 += a[0]
		s1 += a[1]
		s2 += a[2]
		s3 += a[3]
	}
	for _, v := range a {
		s0 += v
	}
	return s0 + s1 + (s2 + s3)
}

func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return s0 + s1 + (s2 + s3)
}
