package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdAtomic: dw and db are added up in memory by atomic operations, for each row
// or for the sum of a CTA's rows, and then rounded.
func bwdAtomic(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "atomic"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "the row in registers; dw added in memory by fp32 atomics, for each row or once per CTA, then rounded by a last launch",
		Origin: "FlyDSL issue 769 (each row); Liger-Kernel's layernorm before PR 945, quack PR 101's first version (each CTA)",
		Files: []string{"bwd_atomic.go", "bwd_atomic.cu", "bwd_row.go", "bwd_row.cuh", "reduce.go", "reduce.cu", "reduce.cuh", "hoststage.go",
			"common.go", "common.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4),
			kernels.Values(kernels.Warps, 2, 4, 8, 16),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.PerSM, 0, 4),
			kernels.Values(kernels.AtomicScope, 0, 1),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		},
		Bits:   kernels.NotBitwise,
		Serves: servesWeight,
		Base:   bwdAtomicBase,
		Refuse: refuseAtomic,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			launches := []kernels.Launch{kernels.Zero("zero", "dw_partial", 4*p.N)}
			if p.Bias {
				launches = append(launches, kernels.Zero("zero2", "db_partial", 4*p.N))
			}
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_atomic.cu", Entry: "atomic_sums",
				Grid:    [3]int{int(grid(p, c, d)), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Shared:  atomicShared(p, c),
				Defines: rowDefines(p, c),
				Args:    bwdArgs(p, c),
			}
			// One row is left to add up: a thread per column.
			plan := withReduce(p, c.With(reduceTile(256, 1, 8)...), 1, append(launches, k1)...)
			plan.Launches[len(plan.Launches)-1].Stage = "cast"
			return plan
		},
		Host: map[string]kernels.HostStage{"atomic_sums": hostAtomic, "reduce": hostReduce},
	}
}

// bwdAtomicBase adds the sums of CTAs: adding each row was slower in FlyDSL's
// table except where rows are few. There are as many CTAs as with 768 threads
// per SM, whose 80 registers fit. A thread has 32 bytes of a row; more
// warps and then fewer where that does not fit.
func bwdAtomicBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	rows, warps := block(threadsFor(p, 32), 64)
	var configs []kernels.Config
	for ; rows >= 1; rows /= 2 {
		for _, w := range warpsFrom(warps) {
			k := max(24/w, 1)
			c := kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, w), set(kernels.VectorBytes, 0), set(kernels.PerSM, k),
				set(kernels.AtomicScope, 1), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
			// If CTAs have no second row, there is nothing to sum.
			configs = append(configs, c, c.With(set(kernels.AtomicScope, 0)))
		}
	}
	return fitRow(func(c kernels.Config) error { return refuseAtomic(p, c, d) }, configs)
}

// atomicShared is the shared memory in which the rows of a CTA meet.
func atomicShared(p kernels.Problem, c kernels.Config) int {
	if c.Get(kernels.BlockRows) == 1 || c.Get(kernels.AtomicScope) == 0 {
		return 0
	}
	return int(4 * p.N)
}

func refuseAtomic(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	scope, rows := c.Get(kernels.AtomicScope), int64(c.Get(kernels.BlockRows))
	use := rowUse{threads: int64(32*c.Get(kernels.Warps)) / rows, rows: 1, reduced: 1}
	switch vecs, vec := vectors(p, c); {
	case scope != 0 && scope != 1:
		return fmt.Errorf("the atomic scope is 0 or 1")
	case scope == 1 && rows == 1 && grid(p, c, d) >= p.M:
		return fmt.Errorf("no CTA has a second row to sum")
	case scope == 1:
		use.sums = sumsPerElement(p)
	default: // two vectors' at a time
		use.reduced += min(ceilDiv(vecs, max(use.threads, 1)), 2) * vec
	}
	if err := refuseRowUse(p, c, use); err != nil {
		return err
	}
	if need := atomicShared(p, c); d.SharedPerBlock > 0 && need > d.SharedPerBlock {
		return fmt.Errorf("merging the rows of a CTA takes %d bytes of shared memory, more than %d", need, d.SharedPerBlock)
	}
	return nil
}

func hostAtomic(h *kernels.HostRun, pid int) {
	wf, _ := hostWeights(h)
	add := func(sums hostSums) {
		sums.each(func(name string, s []float32) {
			for j, v := range s {
				h.Mem[name+"_partial"].AddFloat(int64(j), v)
			}
		})
	}
	each := h.Launch.Define("ATOMIC_SCOPE") == 0
	sums := newHostSums(h)
	eachTileRow(h, pid, func(i int64) {
		if each {
			sums = newHostSums(h)
		}
		sums.add(hostRow(h, wf, i))
		if each {
			add(sums)
		}
	})
	if !each {
		add(sums)
	}
}
