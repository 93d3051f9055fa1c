package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// fwdStatsFirst: fp8 and its transpose by tiles, from x a second time, behind a launch that takes
// the statistics of its rows. For an x that stays in L2 meanwhile, and for any shape.
func fwdStatsFirst(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "stats_first"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "fp8 and its transpose by tiles from x a second time, out of L2, after the statistics of all rows",
		Origin: "normbench; two passes over x, as two launches",
		Files:  []string{"fwd_stats_first.cu"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4),
			kernels.Values(kernels.Warps, 2, 4, 8),
			kernels.Values(kernels.VectorBytes, 0, 16),
			kernels.Values(kernels.CTAsPerRow, 1, 2, 4, 8),
			kernels.Values(kernels.TransposeRows, 32, 64, 128),
			kernels.Values(kernels.TransposeCols, 64, 128),
			kernels.Values(kernels.TransposeWarps, 4),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		},
		Serves: servesStatsFirst,
		Base:   statsFirstBase,
		Refuse: refuseStatsFirst,
		Plan:   statsFirstPlan,
		Host:   map[string]kernels.HostStage{"stats": hostClear, "tiles": hostTiles},
	}
}

func servesStatsFirst(p kernels.Problem) error {
	switch {
	case !p.FP8 || !p.Transpose:
		return fmt.Errorf("the design is for fp8 with its transpose")
	case p.Residual:
		return fmt.Errorf("a residual would be read twice too")
	}
	return nil
}

// statsFirstBase has a CTA for a slice of 8 to 16 KiB of a row, or several short rows, and
// tiles of 64 by 128 where they make four CTAs for each SM, or smaller ones.
func statsFirstBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	row := p.N * p.DType.Size()
	slices := int64(1)
	for slices < 8 && row > slices*16<<10 {
		slices *= 2
	}
	rows, warps := block(threadsFor(kernels.Problem{N: kernels.CeilDiv(p.N, slices), DType: p.DType}, 64), 128)
	tr, tc := 64, 128
	if kernels.CeilDiv(p.M, 64)*kernels.CeilDiv(p.N, 128) < 4*int64(d.SMs) {
		tr, tc = 32, 64
	}
	vector := 0
	if row%16 != 0 {
		vector = 16
	}
	c := kernels.NewConfig(set(kernels.BlockRows, min(rows, 4)), set(kernels.Warps, max(warps*min(rows, 4)/rows, 1)), set(kernels.VectorBytes, vector),
		set(kernels.CTAsPerRow, int(slices)), set(kernels.TransposeRows, tr), set(kernels.TransposeCols, tc), set(kernels.TransposeWarps, 4),
		set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
	if refuseStatsFirst(p, c, d) != nil {
		c = c.With(set(kernels.VectorBytes, 0))
	}
	return c
}

func refuseStatsFirst(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, plainVectors(p, c), d); err != nil {
		return err
	}
	if err := refuseTranspose(c); err != nil {
		return err
	}
	vecs, vec := rowVectors(p, c)
	ranks, threads, t := int64(c.Get(kernels.CTAsPerRow)), int64(c.Get(kernels.Warps)*32/c.Get(kernels.BlockRows)), turnedTileOf(c)
	slice := kernels.CeilDiv(vecs, max(ranks, 1)) // of a CTA of stats
	switch {
	case ranks < 1 || ranks > 64:
		return fmt.Errorf("1 to 64 CTAs share a row")
	case threads < 1:
		return fmt.Errorf("fewer threads than rows in a CTA")
	case slice*(ranks-1) >= vecs-kernels.Flag(raggedVectors(p, c)):
		return fmt.Errorf("the %d vectors of a row leave one of %d CTAs without any", vecs, ranks)
	case kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows)))*ranks > 1<<31-1 || kernels.CeilDiv(p.M, t.rows)*kernels.CeilDiv(p.N, t.cols) > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	}
	switch each := kernels.CeilDiv(slice, threads); {
	case threads > max(kernels.CeilPow2(slice), 8):
		return fmt.Errorf("%d threads for %d vectors of a row leave half of them idle", threads, slice)
	case each*max(vec*p.DType.Size()/4, 1) > 64 || each > 32:
		return fmt.Errorf("%d vectors of %d elements to a thread do not fit in its registers", each, vec)
	}
	return refuseBounds(c)
}

func statsFirstPlan(p kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) kernels.Plan {
	ranks, rows, t := int64(c.Get(kernels.CTAsPerRow)), int64(c.Get(kernels.BlockRows)), turnedTileOf(c)
	// A thread's columns of a tile: a vector of 16 bytes of x where rows are such vectors and the
	// tile has four rows of one for each thread.
	in := int64(4)
	if p.DType.Size() == 2 && p.N%8 == 0 && t.each() >= 32 {
		in = 8
	}
	defines := append(common.Defines(p, c, kernels.Define{Name: "RAGGED", Value: kernels.Flag(raggedVectors(p, c))}), t.defines(p, in)...)
	defines = append(defines, kernels.Define{Name: "X_ALIGN", Value: common.WidestVector(p)}, kernels.Define{Name: "Y_ALIGN", Value: min(p.N&-p.N, 8)})
	sums := kernels.Scratch{Name: "sums", DType: kernels.FP32, Elems: p.M * ranks * (1 + kernels.Flag(p.Op == kernels.LayerNorm))}
	args := append(kernels.Buffers("x"), common.Optional(!p.NoWeight, "w"), common.Optional(p.Bias, "b"))
	args = append(append(args, kernels.Buffers("y", "rstd")...), common.Optional(p.Op == kernels.LayerNorm, "mean"))
	args = append(args, kernels.Int64("rows", p.M), kernels.Float32("eps", kernels.Eps))
	return kernels.Plan{
		Scratch: []kernels.Scratch{sums},
		Launches: []kernels.Launch{{
			Stage: "k1", Source: "fwd_stats_first.cu", Entry: "stats",
			Grid: [3]int{int(kernels.CeilDiv(p.M, rows) * ranks), 1, 1}, Block: c.Get(kernels.Warps) * 32, Defines: defines,
			Args: append(kernels.Buffers("x", "sums", "amax"), kernels.Int64("rows", p.M)),
		}, {
			Stage: "k2", Source: "fwd_stats_first.cu", Entry: "tiles",
			Grid: [3]int{int(kernels.CeilDiv(p.M, t.rows) * kernels.CeilDiv(p.N, t.cols)), 1, 1}, Block: int(32 * t.warps), Early: true, Defines: defines,
			Args: append(args, kernels.Buffers("sums", "scale", "amax", "scale_inv", "yt")...),
		}},
	}
}

// hostTiles does the rows of a strip of tiles in its first CTA, whose statistics the launch ahead
// has not taken here.
func hostTiles(h *kernels.HostRun, pid int) {
	p, rows := h.Problem, h.Launch.Define(kernels.TransposeRows.Macro)
	across := int(kernels.CeilDiv(p.N, h.Launch.Define(kernels.TransposeCols.Macro)))
	if pid%across != 0 {
		return
	}
	wf, bf := hostWeights(h)
	row, first := h.Row(0, p.N), int64(pid/across)*rows
	for i := first; i < min(first+rows, p.M); i++ {
		hostNormalize(h, row, wf, bf, i)
		hostOutput(h, row, i, 0, true)
	}
}
