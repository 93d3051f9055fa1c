package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdSplit: dx by rows in one kernel, dw by columns in another, which reads x
// and dy again.
func bwdSplit(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "split"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "dx by rows in one kernel, dw by tiles of columns in another that reads x and dy again; several groups of rows leave partial rows for k2",
		Origin: "apex FusedLayerNorm; Liger-Kernel's fallback; PyTorch Inductor, unfused; TransformerEngine (ROCm) PR 593, layernorm for M <= 512",
		Files: []string{"bwd_split.go", "bwd_split.cu", "bwd_row.go", "bwd_row.cuh", "reduce.go", "reduce.cu", "reduce.cuh", "hoststage.go",
			"common.go", "common.cuh"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 4),
			kernels.Values(kernels.Warps, 4, 8, 16),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.DWCols, 32, 128),
			kernels.Values(kernels.RowGroups, 1, 8, 64),
			kernels.Values(kernels.Unroll, 4, 8),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		}, reduceKnobs([]int{0}, []int{0}, []int{0})...),
		Serves: servesAll,
		Base:   bwdSplitBase,
		Refuse: refuseSplit,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			launches := []kernels.Launch{splitDX(p, c)}
			if p.NoWeight {
				return kernels.Plan{Launches: launches}
			}
			groups := rowGroups(p, c)
			launches = append(launches, splitDW(p, c, groups))
			if groups == 1 {
				return kernels.Plan{Launches: launches}
			}
			return withReduce(p, c, groups, launches...)
		},
		Host: map[string]kernels.HostStage{"split_dx": hostSplitDX, "split_dw": hostSplitDW, "reduce": hostReduce},
	}
}

// splitDX is the launch of dx, a tile of rows per CTA.
func splitDX(p kernels.Problem, c kernels.Config) kernels.Launch {
	part := knobsOf(c, kernels.BlockRows, kernels.Warps, kernels.VectorBytes, kernels.MinBlocks, kernels.CacheHint)
	args := append(kernels.Buffers("x", "dy"), optional(p.Residual, "dres"), optional(!p.NoWeight, "w"))
	args = append(append(args, kernels.Buffers("rstd")...), optional(p.Op == kernels.LayerNorm, "mean"))
	args = append(append(args, kernels.Buffers("dx")...), kernels.Int64("rows", p.M))
	return kernels.Launch{
		Stage: "dx", Source: "bwd_split.cu", Entry: "split_dx",
		Grid:    [3]int{int(ceilDiv(p.M, int64(c.Get(kernels.BlockRows)))), 1, 1},
		Block:   c.Get(kernels.Warps) * 32,
		Defines: rowDefines(p, part, kernels.Define{Name: "IN_REGISTERS", Value: flag(splitInRegisters(p, c))}),
		Args:    args,
	}
}

// dwWarps are the warps of a CTA of split_dw: 256 threads with 4 rows of 16
// bytes in flight have 32 KiB of x and dy on the way, as much as an H200's
// memory needs per SM (4.8 TB/s at about 0.7 us).
const dwWarps = 8

// splitDW is the launch of dw and db over groups of rows.
func splitDW(p kernels.Problem, c kernels.Config, groups int64) kernels.Launch {
	part := knobsOf(c, kernels.VectorBytes, kernels.DWCols, kernels.Unroll, kernels.CacheHint).With(set(kernels.Warps, dwWarps))
	final := groups == 1
	args := append(kernels.Buffers("x", "dy", "rstd"), optional(p.Op == kernels.LayerNorm, "mean"),
		optional(final && p.Accumulate, "dw_in"), optional(final && p.Accumulate && p.Bias, "db_in"),
		optional(final, "dw"), optional(final && p.Bias, "db"),
		optional(!final, "dw_partial"), optional(!final && p.Bias, "db_partial"), kernels.Int64("rows", p.M))
	return kernels.Launch{
		Stage: "dw", Source: "bwd_split.cu", Entry: "split_dw",
		Grid:    [3]int{int(ceilDiv(p.N, int64(c.Get(kernels.DWCols)))), int(groups), 1},
		Block:   dwWarps * 32,
		Defines: rowDefines(p, part),
		Args:    args,
	}
}

// rowGroups is a config's groups of rows: no more than there are rows.
func rowGroups(p kernels.Problem, c kernels.Config) int64 {
	return min(int64(c.Get(kernels.RowGroups)), p.M)
}

// splitInRegisters says whether a thread's part of a row stays in its registers.
func splitInRegisters(p kernels.Problem, c kernels.Config) bool {
	return refuseRowUse(p, c, splitUse(c)) == nil
}

func splitUse(c kernels.Config) rowUse {
	return rowUse{threads: int64(c.Get(kernels.Warps)*32) / int64(c.Get(kernels.BlockRows)), rows: 1, reduced: 1}
}

// bwdSplitBase gives a thread of dx 64 bytes of a row, as the forward of the same
// shape has them (fwdCTARegBase). dw has one group of rows for M <= 512
// (TransformerEngine PR 593), otherwise enough of them, up to 64, for two
// CTAs per SM.
func bwdSplitBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	rows, warps := block(threadsFor(p, 64), 128)
	cols := 64
	if int64(cols) > p.N {
		cols = 32
	}
	groups := 1
	for tiles := ceilDiv(p.N, int64(cols)); p.M > 512 && groups < 64 && tiles*int64(groups) < 2*int64(d.SMs); {
		groups *= 2
	}
	c := kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.VectorBytes, 0), set(kernels.DWCols, cols),
		set(kernels.RowGroups, groups), set(kernels.Unroll, 4), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0)).With(reduceBase...)
	for c.Get(kernels.BlockRows) > 1 && !splitInRegisters(p, c) {
		c = c.With(set(kernels.BlockRows, c.Get(kernels.BlockRows)/2))
	}
	return c
}

func refuseSplit(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	if err := refuseBounds(c); err != nil {
		return err
	}
	rows, cols, u := c.Get(kernels.BlockRows), c.Get(kernels.DWCols), c.Get(kernels.Unroll)
	vecs, vec := vectors(p, c)
	threads := splitUse(c).threads
	switch {
	case threads < 1:
		return fmt.Errorf("fewer threads than rows in a CTA")
	case threads > max(ceilPow2(vecs), 128):
		return fmt.Errorf("%d threads for the %d vectors of a row leave half of them idle", threads, vecs)
	case rows > 1 && !splitInRegisters(p, c):
		return fmt.Errorf("rows that do not fit in registers have a CTA of their own")
	case !isPow2(cols) || cols < 32 || cols > 256:
		return fmt.Errorf("columns of dw are a power of two from 32 to 256")
	case int64(cols) > 32*dwWarps*vec:
		return fmt.Errorf("%d columns of dw in vectors of %d are more than a CTA's threads", cols, vec)
	case c.Get(kernels.RowGroups) < 1 || c.Get(kernels.RowGroups) > 64:
		return fmt.Errorf("groups of rows are 1 to 64")
	case !isPow2(u) || u > 16:
		return fmt.Errorf("rows in flight are a power of two up to 16")
	}
	return refuseReduce(c)
}

func hostSplitDX(h *kernels.HostRun, pid int) {
	wf, _ := hostWeights(h)
	eachTileRow(h, pid, func(i int64) { hostRow(h, wf, i) })
}

func hostSplitDW(h *kernels.HostRun, pid int) {
	p, across, groups := h.Problem, h.Launch.Grid[0], int64(h.Launch.Grid[1])
	cols := h.Launch.Define("DW_COLS")
	lo, group := int64(pid%across)*cols, int64(pid/across)
	hi := min(lo+cols, p.N)
	share := ceilDiv(p.M, groups)
	x, dy, sums := h.Row(0, hi-lo), h.Row(1, hi-lo), newHostSums(h)
	dw, db := sums.dw[:hi-lo], sums.db
	if db != nil {
		db = db[:hi-lo]
	}
	part := hostSums{dw, db}
	for i := group * share; i < min((group+1)*share, p.M); i++ {
		hostXhat(h, x, nil, i, lo)
		h.Mem["dy"].Load(dy, i*p.N+lo)
		part.add(x, dy)
	}
	part.each(func(name string, s []float32) {
		if groups > 1 {
			h.Mem[name+"_partial"].Store(group*p.N+lo, s)
			return
		}
		if p.Accumulate {
			before := h.Row(5, hi-lo)
			h.Mem[name+"_in"].Load(before, lo)
			for j, v := range before {
				s[j] += v
			}
		}
		h.Mem[name].Store(lo, s)
	})
}
