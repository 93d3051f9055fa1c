package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// fwdTwoPass: column chunks, x read again. The design of TransformerEngine's
// blocked forward, of apex's fused one and of Tri-RMSNorm.
func fwdTwoPass(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "two_pass"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "column chunks: one pass for the statistics, x read again for y",
		Origin: "TransformerEngine (ROCm) PR 593, blocked; apex fused; Tri-RMSNorm",
		Files:  []string{"fwd_two_pass.cu", "transpose.cu"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2),
			kernels.Values(kernels.BlockCols, 1024, 4096, 8192, 16384),
			kernels.Values(kernels.Warps, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.PerSM, 0, 4),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.SinglePass, 0, 16384),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0),
		}, transposeKnobs()...),
		Serves: servesAll,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			warps, each := int64(8), int64(4)
			if p.N*p.DType.Size() > wideRow { // so few CTAs that each must have many loads in flight
				warps, each = 32, 2
			}
			return chunks(p, 1, warps, each).With(set(kernels.PerSM, 0), set(kernels.CTAs, 0), set(kernels.SinglePass, 8192)).With(fwdCommonBase(p, d)...)
		},
		Refuse: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
			if err := refuseFwdCommon(p, c, d); err != nil {
				return err
			}
			return refuseChunks(p, c, d, 32/rowTensors(p))
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return fwdPlan(p, c, kernels.Launch{
				Stage: "k1", Source: "fwd_two_pass.cu", Entry: "two_pass",
				Grid:    [3]int{int(grid(p, c, d)), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: fwdDefines(p, c, d, singlePass(p, c)),
				Args:    append(fwdArgs(p), fp8Args(p, c)...),
			})
		},
		Host: map[string]kernels.HostStage{"two_pass": hostForwards, "transpose": hostTranspose},
	}
}

// wideRow is the bytes of a row beyond which a CTA takes 32 warps: on an H200
// 22.9 us against 31 at 256x65536 (bf16, layernorm).
const wideRow = 64 << 10

// chunks is the tile that both two-pass designs start from: rows, warps, and
// chunks of up to each vectors per thread, less of both on narrow rows.
func chunks(p kernels.Problem, rows int, warps, each int64) kernels.Config {
	elems := common.WidestVector(p) / p.DType.Size()
	for warps > 1 && warps*32*elems >= 2*p.N {
		warps /= 2
	}
	for each > 1 && each*warps*32*elems >= 2*p.N {
		each /= 2
	}
	return kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.BlockCols, int(each*warps*32*elems)),
		set(kernels.Warps, int(warps)), set(kernels.VectorBytes, 0))
}

// singlePass is the macro that the threshold comes down to for p: a row stays
// in registers if it is within the threshold and within one chunk.
func singlePass(p kernels.Problem, c kernels.Config) kernels.Define {
	limit := min(c.Get(kernels.SinglePass), c.Get(kernels.BlockCols))
	return kernels.Define{Name: "SINGLE_PASS", Value: kernels.Flag(p.N <= int64(limit))}
}

// refuseChunks holds what both two-pass designs need: chunks that are whole
// vectors per thread and not mostly empty, and at most maxWords packed words per
// thread where a tile stays in registers.
func refuseChunks(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo, maxWords int64) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	_, vec := common.Vectors(p, c)
	cols, threads := int64(c.Get(kernels.BlockCols)), int64(c.Get(kernels.Warps)*32)
	rows := int64(c.Get(kernels.BlockRows))
	switch {
	case cols < 1 || cols%(threads*vec) != 0:
		return fmt.Errorf("a chunk of %d columns is no whole number of %d-element vectors for %d threads", cols, vec, threads)
	case cols/(threads*vec) > 16 || rows > 8:
		return fmt.Errorf("%d vectors per thread and row, for %d rows, are too many to unroll", cols/(threads*vec), rows)
	case cols > threads*vec && cols >= 2*p.N:
		return fmt.Errorf("a chunk of %d columns is more than half empty", cols)
	}
	if words := tileWords(p, c); words > maxWords && singlePass(p, c).Value == 1 {
		return fmt.Errorf("a single pass would keep %d words per thread", words)
	}
	return nil
}

// tileWords is the packed words of one tensor that a thread holds of a chunk of
// all rows of a tile.
func tileWords(p kernels.Problem, c kernels.Config) int64 {
	_, vec := common.Vectors(p, c)
	each := int64(c.Get(kernels.BlockCols)) / (int64(c.Get(kernels.Warps)*32) * vec)
	return each * max(vec*p.DType.Size()/4, 1) * int64(c.Get(kernels.BlockRows))
}
