package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// bwdRegPersist: persistent CTAs with the row and the weight gradient in
// registers, then k2. The design of Liger (contiguous ranges of rows),
// TransformerEngine (w loaded per row before PR 593, hoisted since) and apex
// fast, also in its memory-efficient form, which reads the saved output.
func bwdRegPersist(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "reg_persist"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "persistent CTAs; row and weight gradient in registers, a partial row each, then k2",
		Origin: "Liger-Kernel; apex FastLayerNorm; TransformerEngine (ROCm) PR 593",
		Files:  []string{"bwd_reg_persist.cu", "reduce.cu"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8, 16),
			kernels.Values(kernels.Warps, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 1, 2, 4, 8),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.Hoist, 1),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.SavedOutput, 0),
			kernels.Values(kernels.PartialType, 0),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		}, common.ReduceKnobs(0)...),
		Serves: servesAll,
		Base:   bwdRegPersistBase,
		Refuse: refuseRegPersist,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			ctas := dealt(p, c, d)
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_reg_persist.cu", Entry: "reg_persist",
				Grid:    [3]int{int(ctas), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Shared:  mergeBytes(p, c),
				Defines: common.Defines(p, c),
				Args:    bwdArgs(p, c),
			}
			return common.WithReduce(p, c, ctas, k1)
		},
		Host: map[string]kernels.HostStage{"reg_persist": hostBackwards, "reduce": hostReduce},
	}
}

// bwdRegPersistBase gives each thread 32 bytes of a row, 64 where db takes as
// many accumulators again, two rows and two stages, and as many CTAs as
// then fit: 512 threads per SM, 256 with db.
//
// Read off the H200's grid over 15 shapes (bf16, N 1024 to 16384, 8Mi to 32Mi
// elements). One stage, with as many threads, takes 62 us where this takes 55 at
// 32768x1024, and 78 where this takes 65 at 4096x8192.
func bwdRegPersistBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	bytes, threads := int64(32), int64(512)
	if p.Bias {
		bytes, threads = 64, 256
	}
	var c kernels.Config
	// Rows too wide for that take fewer stages, then fewer threads.
	for ; bytes <= 128; bytes *= 2 {
		perRow := threadsFor(p, bytes)
		rows := min(max(threads/perRow, 1), 2)
		for rows*perRow < 64 {
			rows *= 2
		}
		warps := int(rows * perRow / 32)
		c = kernels.NewConfig(set(kernels.BlockRows, int(rows)), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
			set(kernels.Stages, 2), set(kernels.PerSM, max(int(threads)/32/warps, 1)), set(kernels.CTAs, 0),
			set(kernels.Hoist, 1)).With(bwdPlain...).With(common.ReduceBase...)
		if refuseRegPersist(p, c, d) == nil {
			return c
		}
		c = c.With(set(kernels.Stages, 1))
		if refuseRegPersist(p, c, d) == nil {
			return c
		}
	}
	return c
}

// bwdPlain are the settings of the knobs that no base rule turns.
var bwdPlain = []kernels.Setting{set(kernels.RowOrder, 0), set(kernels.SavedOutput, 0), set(kernels.PartialType, 0),
	set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0)}

func refuseRegPersist(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	if err := refuseBwd(p, c); err != nil {
		return err
	}
	if err := refuseStages(p, c, d); err != nil {
		return err
	}
	// x, dy and dres in each stage, the weights, the sums, and the rest: by NVRTC
	// 13.0's reports for sm_90 over 8 to 64 elements per thread, both ops, all types
	// and options, kernels that stay within this spill nothing (but fp32 layernorm
	// with bias and two stages of 32 elements: 60 bytes).
	of, stages := wordsOf(p, c), int64(c.Get(kernels.Stages))
	words, rest := stages*(2+kernels.Flag(p.Residual))+of.weights+of.sums, 8+8*stages
	if p.Op == kernels.LayerNorm && c.Get(kernels.BlockRows) > 1 {
		rest += 4
	}
	// A fixed number of CTAs is that of a published rule, which may have threads
	// without a part of the row.
	vecs, _ := common.Vectors(p, c)
	threads := int64(c.Get(kernels.Warps) * 32 / c.Get(kernels.BlockRows))
	if c.Get(kernels.CTAs) == 0 || threads <= vecs {
		if err := refuseThreadsPerRow(p, c, max((registers(c)-rest)/words, 1)); err != nil {
			return err
		}
	}
	if need := mergeBytes(p, c); d.SharedPerBlock > 0 && need > d.SharedPerBlock {
		return fmt.Errorf("merging the rows of a CTA takes %d bytes of shared memory, more than %d", need, d.SharedPerBlock)
	}
	return common.RefuseReduce(c)
}

// registers is how many of them a thread may have: an SM has 65536
// (sm_80 to sm_100), an instruction names 255.
func registers(c kernels.Config) int64 {
	threads := int64(c.Get(kernels.Warps) * 32 * max(c.Get(kernels.MinBlocks), 1))
	return min(65536/threads, 255)
}

// rowWords says what goes with one 32-bit word of a packed row: words of weights
// (with the saved output of b too) and sums of dw and db.
type rowWords struct{ weights, sums int64 }

func wordsOf(p kernels.Problem, c kernels.Config) rowWords {
	// An element narrower than a word still takes one when it is loaded alone.
	elems, weight := int64(1), int64(1)
	if common.VectorBytes(p, c) > p.DType.Size() {
		elems = max(4/p.DType.Size(), 1)
		weight = max(elems*p.Weight.Size()/4, 1)
	}
	if p.NoWeight {
		return rowWords{}
	}
	return rowWords{
		weights: weight * (1 + kernels.Flag(p.Bias && c.Get(kernels.SavedOutput) == 1)),
		sums:    elems * (1 + kernels.Flag(p.Bias)),
	}
}

// refuseBwd refuses values that the knobs of the two designs with rows in
// registers do not have.
func refuseBwd(p kernels.Problem, c kernels.Config) error {
	for _, k := range []*kernels.Knob{kernels.Hoist, kernels.RowOrder, kernels.SavedOutput, kernels.PartialType} {
		if v := c.Get(k); v > 1 {
			return fmt.Errorf("%s is 0 or 1", k.Name)
		}
	}
	switch lb := c.Get(kernels.MinBlocks); {
	case c.Get(kernels.SavedOutput) == 1 && p.Op == kernels.LayerNorm && p.N == 1:
		return fmt.Errorf("of one column the saved output is the bias, and its rounding would pass for xhat")
	case lb > 32 || lb*c.Get(kernels.Warps) > 64:
		return fmt.Errorf("an SM holds at most 32 CTAs and 64 warps")
	}
	return nil
}

// dealt is grid without the CTAs that would get no tile where tiles are
// dealt in contiguous ranges.
func dealt(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	ctas := grid(p, c, d)
	if c.Get(kernels.RowOrder) == 1 {
		tiles := kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows)))
		ctas = kernels.CeilDiv(tiles, kernels.CeilDiv(tiles, ctas))
	}
	return ctas
}

// mergeBytes is the shared memory in which the rows of a CTA meet.
func mergeBytes(p kernels.Problem, c kernels.Config) int {
	if c.Get(kernels.BlockRows) == 1 || p.NoWeight {
		return 0
	}
	return int(4 * p.N)
}

// refuseStages refuses other numbers of stages than one and two, and two where
// no CTA has a second tile to load ahead.
func refuseStages(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	switch st := c.Get(kernels.Stages); {
	case st != 1 && st != 2:
		return fmt.Errorf("stages are 1 or 2")
	case st == 2 && grid(p, c, d) >= kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))):
		return fmt.Errorf("no CTA has a second tile to load ahead")
	}
	return nil
}
