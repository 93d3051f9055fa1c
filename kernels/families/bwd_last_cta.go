package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdLastCTA: a warp per row, dw in shared memory, and no second kernel: the last
// CTA to end adds up the partial rows. llm.c's backward.
func bwdLastCTA(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "last_cta"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "one kernel: a warp per row, dw in shared memory; the last CTA to end adds up the partial rows",
		Origin: "llm.c layernorm_backward_kernel10",
		Files: []string{"bwd_last_cta.go", "bwd_last_cta.cu", "bwd_row.go", "bwd_row.cuh", "reduce.go", "reduce.cuh", "hoststage.go",
			"common.go", "common.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.Warps, 8, 16),
			kernels.Values(kernels.VectorBytes, 0, 8),
			kernels.Values(kernels.PerSM, 1, 2),
			kernels.Values(kernels.MinBlocks, 0, 2),
			kernels.Values(kernels.CacheHint, 0),
		},
		Serves: servesWeight,
		Base:   bwdLastCTABase,
		Refuse: refuseLastCTA,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			tile := lastCTATile(c)
			ctas := grid(p, tile, d)
			args := append(kernels.Buffers("x", "dy"), optional(p.Residual, "dres"))
			args = append(args, kernels.Buffers("w", "rstd")...)
			args = append(args, optional(p.Op == kernels.LayerNorm, "mean"), optional(p.Accumulate, "dw_in"), optional(p.Accumulate && p.Bias, "db_in"))
			args = append(append(args, kernels.Buffers("dx", "dw")...), optional(p.Bias, "db"))
			args = append(append(args, kernels.Buffers("dw_partial")...), optional(p.Bias, "db_partial"))
			args = append(append(args, kernels.Int64("rows", p.M)), kernels.Buffers("counter")...)
			return kernels.Plan{
				Launches: []kernels.Launch{kernels.Zero("zero", "counter", 4), {
					Stage: "k1", Source: "bwd_last_cta.cu", Entry: "last_cta",
					Grid:    [3]int{int(ctas), 1, 1},
					Block:   c.Get(kernels.Warps) * 32,
					Shared:  lastCTAShared(p, c),
					Defines: rowDefines(p, tile),
					Args:    args,
				}},
				Scratch: append(partials(p, c, ctas), kernels.Scratch{Name: "counter", DType: kernels.I32, Elems: 1}),
			}
		},
		Host: map[string]kernels.HostStage{"last_cta": hostLastCTA},
	}
}

// lastCTATile is c with its tile of rows, which is a row for each warp.
func lastCTATile(c kernels.Config) kernels.Config {
	return c.With(set(kernels.BlockRows, c.Get(kernels.Warps)))
}

// bwdLastCTABase is llm.c's launch, two CTAs of 512 threads per
// SM; half the threads where their shared memory would not fit twice
// (an H200 has 228 KiB), and then one CTA.
func bwdLastCTABase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	config := func(warps, k int) kernels.Config {
		return kernels.NewConfig(set(kernels.Warps, warps), set(kernels.VectorBytes, 0), set(kernels.PerSM, k), set(kernels.MinBlocks, k),
			set(kernels.CacheHint, 0))
	}
	fits := func(c kernels.Config) error {
		if k := c.Get(kernels.PerSM); d.SharedPerBlock > 0 && k*(lastCTAShared(p, c)+1024) > d.SharedPerBlock+1024 {
			return fmt.Errorf("not %d times", k)
		}
		return refuseLastCTA(p, c, d)
	}
	return fitRow(fits, []kernels.Config{config(16, 2), config(8, 2), config(16, 1), config(8, 1)})
}

// lastCTAShared is the sums and two sets of each warp's terms of a chunk, which
// is 4 words of x for each lane.
func lastCTAShared(p kernels.Problem, c kernels.Config) int {
	_, vec := vectors(p, c)
	chunk := 32 * vec * (16 / max(vectorBytes(p, c), 4))
	cols := ceilDiv(p.N, chunk)*chunk + 2*chunk*int64(c.Get(kernels.Warps))
	return int(4 * cols * sumsPerElement(p))
}

func refuseLastCTA(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, lastCTATile(c), d); err != nil {
		return err
	}
	if err := refuseBounds(c); err != nil {
		return err
	}
	if c.Get(kernels.PerSM) < 1 {
		return fmt.Errorf("CTAs are at least one per SM")
	}
	if need := lastCTAShared(p, c); d.SharedPerBlock > 0 && need > d.SharedPerBlock {
		return fmt.Errorf("the sums of %d columns take %d bytes of shared memory, more than %d", p.N, need, d.SharedPerBlock)
	}
	return nil
}

func hostLastCTA(h *kernels.HostRun, pid int) {
	wf, _ := hostWeights(h)
	sums := newHostSums(h)
	eachTileRow(h, pid, func(i int64) { sums.add(hostRow(h, wf, i)) })
	sums.store(h, int64(pid))
	ctas := int64(h.Launch.Grid[0])
	if int64(h.Mem["counter"].Add(0, 1)) != ctas-1 {
		return
	}
	sums.each(func(name string, _ []float32) {
		hostFinish(h, name, h.Mem[name+"_partial"], 0, ctas, 0, h.Problem.N)
	})
}
