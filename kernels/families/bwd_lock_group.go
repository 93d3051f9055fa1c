package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdLockGroup: a CTA per row, whose dw goes to one of a few partial rows
// under a lock, then k2. The layer norm of the Triton tutorials.
func bwdLockGroup(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "lock_group"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "a row per CTA in registers; its dw is added to one of a few partial rows under a lock, then k2",
		Origin: "Triton tutorial 05 (layer norm); Tri-RMSNorm (simudt), corrected: its dx lacks a term, its buffers are too small, its last kernel is not launched",
		Files: []string{"bwd_lock_group.go", "bwd_lock_group.cu", "bwd_row.go", "bwd_row.cuh", "reduce.go", "reduce.cu", "reduce.cuh", "hoststage.go",
			"common.go", "common.cuh"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.GroupSize, 16, 32, 64, 96, 128, 256),
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		}, reduceKnobs([]int{0}, []int{0}, []int{0})...),
		Bits:   kernels.NotBitwise,
		Serves: servesWeight,
		Base:   bwdLockGroupBase,
		Refuse: refuseLockGroup,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			// A partial row that no row is added to would not be written.
			groups := min(int64(c.Get(kernels.GroupSize)), p.M)
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_lock_group.cu", Entry: "lock_group",
				Grid:    [3]int{int(p.M), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: rowDefines(p, c.With(set(kernels.GroupSize, int(groups)))),
				Args:    append(bwdArgs(p, c), kernels.Buffers("locks")...),
			}
			plan := withReduce(p, c, groups, kernels.Zero("zero", "locks", 8*groups), k1)
			plan.Scratch = append(plan.Scratch, kernels.Scratch{Name: "locks", DType: kernels.I32, Elems: 2 * groups})
			return plan
		},
		Host: map[string]kernels.HostStage{"lock_group": hostLockGroup, "reduce": hostReduce},
	}
}

// bwdLockGroupBase is the tutorial's rule: more groups for narrower rows, as
// their CTAs are faster and would meet at the locks; a warp per 256 columns,
// 1 to 8, and here more where a row takes more registers than those have.
func bwdLockGroupBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	groups := 64
	switch {
	case p.N <= 1024:
		groups = 256
	case p.N <= 4096:
		groups = 128
	case p.N <= 8192:
		groups = 96
	}
	var configs []kernels.Config
	for _, w := range warpsFrom(int(min(max(ceilPow2(p.N)/256, 1), 8))) {
		configs = append(configs, kernels.NewConfig(set(kernels.GroupSize, groups), set(kernels.Warps, w), set(kernels.VectorBytes, 0),
			set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0)).With(reduceBase...))
	}
	return fitRow(func(c kernels.Config) error { return refuseLockGroup(p, c, d) }, configs)
}

func refuseLockGroup(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	one := c.With(set(kernels.BlockRows, 1))
	if err := refuseLaunch(p, one, d); err != nil {
		return err
	}
	if g := c.Get(kernels.GroupSize); g < 1 || g > 1024 {
		return fmt.Errorf("groups are 1 to 1024")
	}
	// The partial sums of two vectors are under way while the row is held.
	vecs, vec := vectors(p, c)
	threads := int64(32 * c.Get(kernels.Warps))
	use := rowUse{threads: threads, rows: 1, reduced: 1 + min(ceilDiv(vecs, threads), 2)*vec}
	if err := refuseRowUse(p, c, use); err != nil {
		return err
	}
	return refuseReduce(c)
}

func hostLockGroup(h *kernels.HostRun, pid int) {
	p := h.Problem
	wf, _ := hostWeights(h)
	groups, i := h.Launch.Define("GROUP_SIZE"), int64(pid)
	sums := newHostSums(h)
	sums.add(hostRow(h, wf, i))
	group, locks := i%groups, h.Mem["locks"]
	locks.Lock(group)
	defer locks.Unlock(group)
	if written := &locks.I32[groups+group]; *written == 0 {
		*written = 1
		sums.store(h, group)
		return
	}
	before := h.Row(5, p.N)
	sums.each(func(name string, s []float32) {
		partial := h.Mem[name+"_partial"]
		partial.Load(before, group*p.N)
		for j, v := range before {
			s[j] += v
		}
		partial.Store(group*p.N, s)
	})
}
