package families

import "normbench/kernels"

// What the host stages share. Slots 0 to 7 of a HostRun's scratch belong to the
// stages; these helpers use slots from 8 on.

// hostWeights widens the weights (plus one if zero-centered) and the bias, or
// nil, as a program does before its first row.
func hostWeights(h *kernels.HostRun) (wf, bf []float32) {
	p := h.Problem
	wf = h.Row(8, p.N)
	h.Mem["w"].Load(wf, 0)
	if p.ZeroCentered {
		for j := range wf {
			wf[j]++
		}
	}
	if p.Pass == kernels.Fwd && p.Bias {
		bf = h.Row(9, p.N)
		h.Mem["b"].Load(bf, 0)
	}
	return wf, bf
}

// eachTile calls f with the first row and the end of each tile of program pid.
func eachTile(h *kernels.HostRun, pid int, f func(lo, hi int64)) {
	block := h.Launch.Define("BLOCK_ROWS")
	for lo := int64(pid) * block; lo < h.Problem.M; lo += int64(h.Launch.Grid[0]) * block {
		f(lo, min(lo+block, h.Problem.M))
	}
}

// eachTileRow calls f with each row of program pid's tiles.
func eachTileRow(h *kernels.HostRun, pid int, f func(i int64)) {
	eachTile(h, pid, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

// sum and dot use four accumulators: the additions of one would wait for each
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
