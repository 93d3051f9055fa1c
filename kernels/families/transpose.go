package families

import (
	"fmt"

	"normbench/kernels"
)

// The transpose of an fp8 output, a stage that forwards share: transpose.cu.

// transposeKnobs are the transpose's ranges in a design's grid: in a kernel of
// its own with two of TransformerEngine's tiles, or inside k1. The stages are
// timed apart, so that crossing k1's configs with all six tiles would multiply a
// sweep for nothing; --knob and presets take any tile.
func transposeKnobs() []kernels.Range {
	return []kernels.Range{
		kernels.Values(kernels.TransposePath, 1),
		kernels.Values(kernels.TransposeRows, 64, 128),
		kernels.Values(kernels.TransposeCols, 64),
		kernels.Values(kernels.TransposeWarps, 4),
	}
}

// transposeTile is the transpose's part of a config.
func transposeTile(path, rows, cols, warps int) []kernels.Setting {
	return []kernels.Setting{set(kernels.TransposePath, path), set(kernels.TransposeRows, rows),
		set(kernels.TransposeCols, cols), set(kernels.TransposeWarps, warps)}
}

// transposeBase is TransformerEngine's tile of 128x64, whose rows of yt are whole
// cache lines, where that makes a full wave of 16 CTAs per SM;
// 64x64 on smaller problems.
func transposeBase(p kernels.Problem, d kernels.DeviceInfo) []kernels.Setting {
	if p.Transpose && kernels.CeilDiv(p.M, 128)*kernels.CeilDiv(p.N, 64) >= 16*int64(d.SMs) {
		return transposeTile(1, 128, 64, 4)
	}
	return transposeTile(1, 64, 64, 4)
}

// transposesApart says whether the plan of c has a launch for the transpose.
func transposesApart(p kernels.Problem, c kernels.Config) bool {
	return p.Transpose && c.Get(kernels.TransposePath) == 1
}

// refuseTranspose refuses tiles that transpose.cu does not do. Where the plan has
// no launch for the transpose, they make no difference.
func refuseTranspose(c kernels.Config) error {
	if path := c.Get(kernels.TransposePath); path != 0 && path != 1 {
		return fmt.Errorf("the transpose path is 0 or 1")
	}
	rows, cols, warps := c.Get(kernels.TransposeRows), c.Get(kernels.TransposeCols), c.Get(kernels.TransposeWarps)
	switch {
	case !kernels.IsPow2(rows) || rows < 32 || rows > 128 || !kernels.IsPow2(cols) || cols < 32 || cols > 128:
		return fmt.Errorf("a tile of the transpose has 32, 64 or 128 rows and as many columns")
	case !kernels.IsPow2(warps) || warps > 32:
		return fmt.Errorf("the transpose's warps are a power of two up to 32")
	}
	if each := rows * cols / (32 * warps); each < 16 || each > 128 {
		return fmt.Errorf("%d bytes of the tile per thread are not between a 4x4 block and 128", each)
	}
	return nil
}

func transposeLaunch(p kernels.Problem, c kernels.Config) kernels.Launch {
	rows, cols, warps := int64(c.Get(kernels.TransposeRows)), int64(c.Get(kernels.TransposeCols)), int64(c.Get(kernels.TransposeWarps))
	each := rows * cols / (32 * warps) / 4 // columns of a thread, and rows
	return kernels.Launch{
		Stage: "transpose", Source: "transpose.cu", Entry: "transpose",
		// The first side of a grid goes to 2^31, the second to 65535; CTAs
		// stride over what that leaves of the columns.
		Grid:  [3]int{int(kernels.CeilDiv(p.M, rows)), int(min(kernels.CeilDiv(p.N, cols), 65535)), 1},
		Block: int(32 * warps),
		Defines: []kernels.Define{
			{Name: "X_TYPE", Value: int64(kernels.FP32)}, // unused: one unit serves all types
			{Name: "W_TYPE", Value: int64(kernels.FP32)},
			{Name: kernels.TransposeRows.Macro, Value: rows},
			{Name: kernels.TransposeCols.Macro, Value: cols},
			{Name: kernels.TransposeWarps.Macro, Value: warps},
			{Name: "LOAD_BYTES", Value: byteVector(p.N, each)},
			{Name: "STORE_BYTES", Value: byteVector(p.M, each)},
		},
		Args: append(kernels.Buffers("y", "yt"), kernels.Int64("rows", p.M), kernels.Int64("cols", p.N)),
	}
}

// byteVector is the widest vector of 4 to 16 bytes, at most limit, that divides
// rows of n bytes, or 1.
func byteVector(n, limit int64) int64 {
	v := min(n&-n, limit, 16)
	if v < 4 {
		return 1
	}
	return v
}

func hostTranspose(h *kernels.HostRun, pid int) {
	y, yt := h.Mem["y"].F8, h.Mem["yt"].F8
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
