package families

import (
	"math"

	"normbench/kernels"
)

// hostNormalize computes row i of a forward in float32, before y is rounded, and stores the row's statistics
// r and mean. It adds the residual to x, takes the mean, then the sum of squares around the mean, then y.
func hostNormalize(h *kernels.HostRun, row, wf, bf []float32, i int64) {
	p, spec := h.Problem, h.Problem.Op.Spec()
	hostInput(h, row, i)
	if spec.Centered {
		mean := sum(row) / float32(p.N)
		for j := range row {
			row[j] -= mean
		}
		h.Mem["mean"].Set(i, mean)
	}
	r, squares := float32(0), dot(row, row)
	if spec.Unit {
		r = float32(1 / max(math.Sqrt(float64(squares)), spec.Eps)) // NaN stays
	} else {
		r = float32(1 / math.Sqrt(float64(squares/float32(p.N)+float32(spec.Eps))))
	}
	h.Mem[spec.Saved[0]].Set(i, r)
	for j := range row {
		row[j] *= r * wf[j]
	}
	for j, b := range bf {
		row[j] += b
	}
}

// hostForwards computes the rows of CTA pid's tiles, each row whole, whatever the design's chunks.
func hostForwards(h *kernels.HostRun, pid int) {
	row := h.Row(0, h.Problem.N)
	wf, bf := hostWeights(h)
	transpose := transposesHere(h)
	eachTileRow(h, pid, func(i int64) {
		hostNormalize(h, row, wf, bf, i)
		hostOutput(h, row, i, transpose)
	})
}

// transposesHere says whether a forward's k1 stores the transpose itself.
func transposesHere(h *kernels.HostRun) bool {
	return h.Launch.Define("TRANSPOSED") == 1 && h.Launch.Define(kernels.TransposePath.Macro) == 0
}

func hostTranspose(h *kernels.HostRun, pid int) {
	y, yt := h.Mem["y"].Bytes, h.Mem["yt"].Bytes
	M, N := h.Arg("rows"), h.Arg("cols")
	rows, cols := h.Launch.Define("TRANSPOSE_ROWS"), h.Launch.Define("TRANSPOSE_COLS")
	ctas := h.Launch.Grid
	row0, tile := int64(pid%ctas[0])*rows, int64(pid/ctas[0])
	for col0 := tile * cols; col0 < N; col0 += int64(ctas[1]) * cols {
		for j := col0; j < min(col0+cols, N); j++ {
			for i := row0; i < min(row0+rows, M); i++ {
				yt[j*M+i] = y[i*N+j]
			}
		}
	}
}
