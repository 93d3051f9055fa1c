package families

import (
	"fmt"

	"normbench/kernels"
)

// The reduction of the partial rows, k2, which every backward that leaves
// partial sums shares.

// reduceKnobs are k2's ranges in a design's grid. k2's best tile hardly depends
// on k1's config, so a grid crosses only a few; --knob widens them.
func reduceKnobs(cols, rows []int) []kernels.Range {
	return []kernels.Range{
		kernels.Values(kernels.ReduceCols, cols...),
		kernels.Values(kernels.ReduceRows, rows...),
	}
}

// reduceBase: 32 columns give the most programs, 32 groups the most loads in
// flight.
var reduceBase = []kernels.Setting{set(kernels.ReduceCols, 32), set(kernels.ReduceRows, 32)}

func refuseReduce(c kernels.Config) error {
	cols, rows := c.Get(kernels.ReduceCols), c.Get(kernels.ReduceRows)
	switch {
	case cols < 32 || cols%32 != 0 || cols > 256:
		return fmt.Errorf("k2's columns are a multiple of 32 up to 256")
	case rows < 1 || rows > 32:
		return fmt.Errorf("k2's row groups are 1 to 32")
	case 4*cols*rows > 48<<10:
		return fmt.Errorf("k2's tile of %dx%d does not fit 48 KiB of shared memory", rows, cols)
	}
	return nil
}

// refusePartials refuses partial sums larger than what they summarize: at one
// row of fp32 per row of input they cost more than a second reading would.
func refusePartials(p kernels.Problem, programs int64) error {
	if programs > 1024 && programs*4 > p.M*p.DType.Size() {
		return fmt.Errorf("%d partial rows for %d rows are more traffic than x itself", programs, p.M)
	}
	return nil
}

// reducePlan is k2 over programs partial rows, with the buffers they are in.
func reducePlan(p kernels.Problem, c kernels.Config, programs int64) (kernels.Launch, []kernels.Scratch) {
	scratch := []kernels.Scratch{{Name: "dw_partial", DType: kernels.FP32, Elems: programs * p.N}}
	outs := 1
	if p.Bias {
		scratch = append(scratch, kernels.Scratch{Name: "db_partial", DType: kernels.FP32, Elems: programs * p.N})
		outs = 2
	}
	cols, rows := c.Get(kernels.ReduceCols), c.Get(kernels.ReduceRows)
	return kernels.Launch{
		Stage: "k2", Source: "reduce.cu", Entry: "reduce",
		Grid:  [3]int{int(ceilDiv(p.N, int64(cols))), outs, 1},
		Block: 32 * rows,
		Defines: []kernels.Define{
			{Name: "X_TYPE", Value: int64(p.DType)},
			{Name: "W_TYPE", Value: int64(p.Weight)},
			{Name: "REDUCE_COLS", Value: int64(cols)},
			{Name: "REDUCE_ROWS", Value: int64(rows)},
		},
		Args: []kernels.Arg{
			{Kind: kernels.ArgBuffer, Name: "dw_partial"}, optional(p.Bias, "db_partial"),
			{Kind: kernels.ArgBuffer, Name: "dw"}, optional(p.Bias, "db"),
			kernels.Int64("partials", programs), kernels.Int64("cols", p.N),
		},
	}, scratch
}

func hostReduce(h *kernels.HostRun, pid int) {
	cols := h.Launch.Define("REDUCE_COLS")
	in, out := h.Mem["dw_partial"], h.Mem["dw"]
	if pid >= h.Launch.Grid[0] { // second row of the grid
		pid -= h.Launch.Grid[0]
		in, out = h.Mem["db_partial"], h.Mem["db"]
	}
	N := h.Arg("cols")
	lo := int64(pid) * cols
	acc := h.Row(0, min(cols, N-lo))
	part := h.Row(1, int64(len(acc)))
	clear(acc)
	for p := range h.Arg("partials") {
		in.Load(part, p*N+lo)
		for j, v := range part {
			acc[j] += v
		}
	}
	out.Store(lo, acc)
}
