package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// bwdTwoPass: tiles of rows by columns, in one pass where a tile holds whole
// rows, else with x and dy read again, then k2. The design of Fast-LLM (one pass
// with persistent CTAs, two with a CTA per tile) and of
// TransformerEngine's blocked backward: one row to a tile with a partial row
// each, its (M,N) buffer, or a CTA's own partial row added to in memory.
func bwdTwoPass(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "two_pass"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "tiles of rows by columns: whole rows in registers, or one pass for the row sums and x and dy again for dx; then k2",
		Origin: "Fast-LLM PR 546; TransformerEngine (ROCm) PR 593, blocked",
		Files:  []string{"bwd_two_pass.cu", "reduce.cu"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4),
			kernels.Values(kernels.BlockCols, 1024, 2048, 4096, 8192),
			kernels.Values(kernels.Warps, 4, 8, 16),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.PerSM, 0, 2, 4),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.SinglePass, 0, 8192),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.SavedOutput, 0),
			kernels.Values(kernels.PartialType, 0),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		}, common.ReduceKnobs(0)...),
		Serves: servesAll,
		Base:   bwdTwoPassBase,
		Refuse: refuseBwdTwoPass,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			ctas := dealt(p, c, d)
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_two_pass.cu", Entry: "two_pass",
				Grid:    [3]int{int(ctas), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: common.Defines(p, c, singlePass(p, c)),
				Args:    bwdArgs(p, c),
			}
			return common.WithReduce(p, c, ctas, k1)
		},
		Host: map[string]kernels.HostStage{"two_pass": hostBackwards, "reduce": hostReduce},
	}
}

// bwdTwoPassBase: tiles of four rows quarter the traffic of the partial rows;
// sixteen warps with two vectors each were the H200's best at N = 16384. Where
// that does not fit the registers, tiles have fewer rows. Two CTAs of sixteen
// warps take all registers of an SM with 64 each: the compiler is held
// to that where a tile can do with it.
func bwdTwoPassBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	var c kernels.Config
	for rows := 4; rows > 0; rows /= 2 {
		c = chunks(p, rows, 16, 2).With(set(kernels.PerSM, 2), set(kernels.CTAs, 0), set(kernels.SinglePass, 8192)).
			With(bwdPlain...).With(common.ReduceBase...)
		held := c.With(set(kernels.MinBlocks, 2))
		if c.Get(kernels.Warps) == 16 && refuseBwdTwoPass(p, held, d) == nil {
			return held
		}
		if refuseBwdTwoPass(p, c, d) == nil {
			return c
		}
	}
	return c
}

func refuseBwdTwoPass(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	if err := refuseBwd(p, c); err != nil {
		return err
	}
	_, vec := common.Vectors(p, c)
	cols, across := int64(c.Get(kernels.BlockCols)), int64(c.Get(kernels.Warps)*32)*vec
	each, rows := kernels.CeilDiv(cols, across), int64(c.Get(kernels.BlockRows))
	switch {
	case cols < 1 || cols%across != 0 && cols < p.N:
		return fmt.Errorf("a chunk of %d columns is no whole number of %d-element vectors for %d threads", cols, vec, across/vec)
	case c.Get(kernels.Warps) > 1 && across >= 2*p.N:
		return fmt.Errorf("%d threads with vectors of %d leave half of them idle", across/vec, vec)
	case each > 16 || each*rows > 64:
		return fmt.Errorf("%d vectors per thread and row, for %d rows, are too many to unroll", each, rows)
	case each > 1 && each*across >= 2*p.N:
		return fmt.Errorf("a chunk of %d columns is more than half empty", cols)
	}
	if need, have := twoPassRegisters(p, c, each), registers(c); need > have {
		return fmt.Errorf("a tile needs about %d registers per thread, and there are %d", need, have)
	}
	if err := refuseOwnRow(p, c, d); err != nil {
		return err
	}
	return common.RefuseReduce(c)
}

// twoPassRegisters estimates what a thread needs for each vectors per row: the
// packed tile, its row sums, the weights of a vector, the sums of dw and db (of a
// vector in two passes), and a few more. By NVRTC 13.0's reports for sm_90 over
// 95 tiles and limits, both ops, all types, nothing within it spills.
func twoPassRegisters(p kernels.Problem, c kernels.Config, each int64) int64 {
	_, vec := common.Vectors(p, c)
	vector, rows := max(vec*p.DType.Size()/4, 1), int64(c.Get(kernels.BlockRows))
	of := wordsOf(p, c)
	need := vector*(each*rows*(2+kernels.Flag(p.Residual))+of.weights) + rows*(2+2*kernels.Flag(p.Op == kernels.LayerNorm))
	if singlePass(p, c).Value == 1 {
		need += vector * each * of.sums
	} else {
		need += vector * of.sums
	}
	return need + 8
}

// refuseOwnRow refuses partial rows that are added to in memory where each of
// these sums would be rounded, and scratch that the device has no memory for.
func refuseOwnRow(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	ctas, part := dealt(p, c, d), common.PartialType(p, c)
	if part != kernels.FP32 && ctas < kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))) && singlePass(p, c).Value == 0 {
		return fmt.Errorf("a partial row of %s would be rounded with every tile that is added to it", part)
	}
	problem, sums := p.Footprint(), ctas*p.N*part.Size()*(1+kernels.Flag(p.Bias))
	if problem <= d.MemoryBytes && problem+sums > d.MemoryBytes {
		return fmt.Errorf("%d partial rows take %s of memory", ctas, kernels.FormatBytes(sums))
	}
	return nil
}
