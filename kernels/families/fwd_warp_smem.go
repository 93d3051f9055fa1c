package families

import (
	"fmt"

	"normbench/kernels"
)

// fwdWarpSmem: a warp per row, rows and weights in shared memory. The design of
// llm.c's forward.
func fwdWarpSmem(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "warp_smem"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "a warp per row; the row and the weights in shared memory",
		Origin: "llm.c, layernorm_forward_kernel6",
		Files:  []string{"fwd_warp_smem.go", "fwd_warp_smem.cu", "fwd_smem_pipe.go", "hoststage.go", "hostfwd.go", "common.go", "common.cuh", "pipe.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 2, 4, 8, 16),
			kernels.Values(kernels.Warps, 2, 4, 8, 16),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.PerSM, 0, 1, 2, 4, 8),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.MinBlocks, 0, 2),
			kernels.Values(kernels.CacheHint, 0, 1),
		},
		Serves: servesNoFP8,
		Base:   fwdWarpSmemBase,
		Refuse: refuseWarpSmem,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return kernels.Plan{Launches: []kernels.Launch{{
				Stage: "k1", Source: "fwd_warp_smem.cu", Entry: "warp_smem",
				Grid:    [3]int{int(grid(p, c, d)), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Shared:  int(warpSmemBytes(p, c)),
				Defines: rowDefines(p, c),
				Args:    fwdArgs(p),
			}}}
		},
		Host: map[string]kernels.HostStage{"warp_smem": hostWarpSmem},
	}
}

// fwdWarpSmemBase is llm.c's rule: 256 threads, a CTA for each eight rows.
// If that many rows do not fit in shared memory, llm.c takes another kernel;
// this family takes fewer rows.
func fwdWarpSmemBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	for warps := 8; ; warps /= 2 {
		c := kernels.NewConfig(set(kernels.BlockRows, warps), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
			set(kernels.PerSM, 0), set(kernels.CTAs, 0), set(kernels.RowOrder, 0), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
		if warps == 1 || refuseWarpSmem(p, c, d) == nil {
			return c
		}
	}
}

func refuseWarpSmem(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	need, k := warpSmemBytes(p, c), int64(c.Get(kernels.PerSM))
	most, threads := int64(d.SharedPerBlock), c.Get(kernels.Warps)*32
	switch {
	case c.Get(kernels.BlockRows) != c.Get(kernels.Warps):
		return fmt.Errorf("a warp has one row: block rows are the warps")
	case d.SharedPerBlock > 0 && need > most:
		return fmt.Errorf("the weights and the rows of %d warps take %d bytes of shared memory, more than %d", c.Get(kernels.Warps), need, most)
	// See refuseSlots.
	case d.SharedPerBlock > 0 && k > 0 && c.Get(kernels.CTAs) == 0 && k*(need+1024) > most+1024:
		return fmt.Errorf("%d CTAs of %d bytes do not fit in an SM's shared memory", k, need)
	case max(int(k), c.Get(kernels.MinBlocks))*threads > 2048:
		return fmt.Errorf("more than 2048 threads do not fit on an SM")
	case c.Get(kernels.RowOrder) != 0 && grid(p, c, d) >= ceilDiv(p.M, int64(c.Get(kernels.BlockRows))):
		return fmt.Errorf("every CTA has one tile: there is no order")
	}
	return nil
}

// warpSmemBytes is a CTA's shared memory: w, b and a row for each warp, as it
// came or, with a residual, as the fp32 sum.
func warpSmemBytes(p kernels.Problem, c kernels.Config) int64 {
	bytes, params := p.DType.Size(), flag(!p.NoWeight)+flag(p.Bias)
	if p.Residual {
		bytes = 4
	}
	up := func(n int64) int64 { return ceilDiv(n, 16) * 16 }
	return params*up(p.N*p.Weight.Size()) + int64(c.Get(kernels.Warps))*up(p.N*bytes)
}

func hostWarpSmem(h *kernels.HostRun, pid int) { hostForwards(h, pid, 1, false) }
