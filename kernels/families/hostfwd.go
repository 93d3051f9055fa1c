package families

import (
	"math"

	"normbench/kernels"
)

// hostNormalize makes row i of a forward before it is rounded: of x, with its residual, the
// mean, then the centred variance, then y. It stores rstd and mean.
func hostNormalize(h *kernels.HostRun, row, wf, bf []float32, i int64) {
	p := h.Problem
	hostInput(h, row, i, 0, true)
	if p.Op == kernels.LayerNorm {
		mean := sum(row) / float32(p.N)
		for j := range row {
			row[j] -= mean
		}
		h.Mem["mean"].Set(i, mean)
	}
	rstd := float32(1 / math.Sqrt(float64(dot(row, row)/float32(p.N)+kernels.Eps)))
	h.Mem["rstd"].Set(i, rstd)
	for j := range row {
		row[j] *= rstd * wf[j]
	}
	for j, b := range bf {
		row[j] += b
	}
}
