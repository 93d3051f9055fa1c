package families

import (
	"fmt"
	"math/bits"

	"normbench/kernels"
)

// bwdMixOrder: each CTA its own consecutive rows and one partial row, then
// k2. The kernel that PyTorch Inductor generates for a norm's backward.
func bwdMixOrder(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "mix_order"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "each CTA owns consecutive rows, several at a time in registers, weight loaded for each tile, one partial row per CTA, then k2",
		Origin: "PyTorch Inductor PR 165370 (mix-order reduction); split and stages as of PRs 166461, 167161 and 185003",
		Files: []string{"bwd_mix_order.go", "bwd_mix_order.cu", "bwd_row.go", "bwd_row.cuh", "reduce.go", "reduce.cu", "reduce.cuh", "hoststage.go",
			"common.go", "common.cuh"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.SplitSize, 16, 32, 64, 128),
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8), // the rule gives 4 at most; 16 works, too
			kernels.Values(kernels.Warps, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.Stages, 1, 2, 3),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		}, reduceKnobs([]int{0}, []int{0}, []int{0})...),
		Serves: servesWeight,
		Base:   bwdMixOrderBase,
		Refuse: refuseMixOrder,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			ctas := ceilDiv(p.M, int64(c.Get(kernels.SplitSize)))
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_mix_order.cu", Entry: "mix_order",
				Grid:    [3]int{int(ctas), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: rowDefines(p, c),
				Args:    bwdArgs(p, c),
			}
			return withReduce(p, c, ctas, k1)
		},
		Host: map[string]kernels.HostStage{"mix_order": hostMixOrder, "reduce": hostReduce},
	}
}

// bwdMixOrderBase is Inductor's rule for the rows of a CTA, of a tile and
// for the stages (PRs 165370, 167161); it leaves warps to Triton's heuristic, for
// which a warp per 512 elements stands here. A row too wide for that takes fewer
// stages, then fewer rows at a time, then more warps, then fewer.
func bwdMixOrderBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	split := min(max(lastPow2(p.M/(8*int64(max(d.SMs, 1)))), 16), 128)
	split = max(min(split, lastPow2(p.M)), minSplit)
	rows := split / 32
	if p.N <= 512 {
		rows = max(rows, 4)
	}
	rows = min(max(rows, 1), 16)
	stages := min(max(split/rows/4, 1), 3)
	if p.N > 8192 {
		stages = min(stages, 2)
	}
	var configs []kernels.Config
	for _, w := range warpsFrom(int(min(max(ceilPow2(p.N)/512, 1), 32))) {
		for br := rows; br >= 1; br /= 2 {
			for st := min(stages, split/br); st >= 1; st-- {
				configs = append(configs, kernels.NewConfig(set(kernels.SplitSize, int(split)), set(kernels.BlockRows, int(br)), set(kernels.Warps, w),
					set(kernels.VectorBytes, 0), set(kernels.Stages, int(st)), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0)).With(reduceBase...))
			}
		}
	}
	return fitRow(func(c kernels.Config) error { return refuseMixOrder(p, c, d) }, configs)
}

// minSplit and maxSplit bound the rows of a CTA. About 2000 of them were
// disastrous in Inductor (PR 166461), and fewer than 4 partial rows for a tile
// of x are as much traffic as x.
const (
	minSplit = 4
	maxSplit = 256
)

// lastPow2 rounds n down to a power of two, 1 for less.
func lastPow2(n int64) int64 { return 1 << (bits.Len64(uint64(max(n, 1))) - 1) }

func refuseMixOrder(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	split, rows, stages := c.Get(kernels.SplitSize), c.Get(kernels.BlockRows), c.Get(kernels.Stages)
	switch {
	case split < minSplit || split > maxSplit:
		return fmt.Errorf("a split has %d to %d rows", minSplit, maxSplit)
	case p.M < int64(split):
		return fmt.Errorf("%d rows are fewer than a split", p.M)
	case rows > 16 || split%rows != 0:
		return fmt.Errorf("tiles of %d rows, at most 16, do not divide a split of %d", rows, split)
	case stages < 1 || stages > 3:
		return fmt.Errorf("stages are 1 to 3")
	case stages > split/rows:
		return fmt.Errorf("a split has fewer tiles than stages")
	}
	use := rowUse{threads: int64(32 * c.Get(kernels.Warps)), rows: int64(rows * stages), reduced: int64(rows), sums: sumsPerElement(p)}
	if err := refuseRowUse(p, c, use); err != nil {
		return err
	}
	return refuseReduce(c)
}

func hostMixOrder(h *kernels.HostRun, pid int) {
	split := h.Launch.Define("SPLIT_SIZE")
	wf, _ := hostWeights(h)
	sums := newHostSums(h)
	for i := int64(pid) * split; i < min(int64(pid+1)*split, h.Problem.M); i++ {
		sums.add(hostRow(h, wf, i))
	}
	sums.store(h, int64(pid))
}
