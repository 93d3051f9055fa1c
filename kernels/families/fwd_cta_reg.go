package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// fwdCTAReg: the row in registers, one pass. The design of Liger, of Fast-LLM's
// forward and of TransformerEngine's non-blocked one. TransformerEngine's
// persistent CTAs are br1 with p = min(M, SMs), before PR 593 with ho0,
// after it with ho1.
//
// Vectors of 16 bytes in rows that are no multiple of them are those around the row:
// ragged.cuh.
//
// The grid leaves out narrower vectors and eight CTAs per SM,
// which --knob still takes: over the 106 forwards of the H200's default group
// they win 0.6% in the mean.
func fwdCTAReg(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "cta_reg"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "a row in the registers of a group of threads, read once",
		Origin: "Liger-Kernel; Fast-LLM PR 546; TransformerEngine (ROCm) PR 593, non-blocked",
		Files:  []string{"fwd_cta_reg.cu", "transpose.cu"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8),
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0, 16),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 0, 4),
			kernels.Values(kernels.CTAs, 0),
			kernels.Values(kernels.Hoist, 0, 1),
			kernels.Values(kernels.RowOrder, 0),
			kernels.Values(kernels.MinBlocks, 0),
			kernels.Values(kernels.CacheHint, 0, 2),
		}, transposeKnobs()...),
		Serves: servesAll,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			return fwdCTARegBase(p, d).With(set(kernels.CacheHint, pastL2(p, d)))
		},
		Refuse: refuseCTAReg,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return fwdPlan(p, c, kernels.Launch{
				Stage: "k1", Source: "fwd_cta_reg.cu", Entry: "cta_reg",
				Grid:    [3]int{int(ctaRegGrid(p, c, d)), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: fwdDefines(p, c, d, kernels.Define{Name: "RAGGED", Value: kernels.Flag(common.RaggedVectors(p, c))}),
				Args:    append(fwdArgs(p), fp8Args(p, c)...),
			})
		},
		Host: map[string]kernels.HostStage{"cta_reg": hostForwards, "transpose": hostTranspose},
	}
}

// ctaRegGrid is grid but for ragged rows: alignPrograms.
func ctaRegGrid(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	n := grid(p, c, d)
	if n < kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))) {
		n = alignCTAs(p, c, n)
	}
	return n
}

// pastL2 is the cache hint of a y larger than the L2: fwd_smem_pipe.yaml has the measurements.
func pastL2(p kernels.Problem, d kernels.DeviceInfo) int {
	switch {
	case d.Kind != kernels.KindCUDA || !hasClusters(d) || p.DType.Size() != 2 || p.Residual ||
		p.FP8 || p.M*p.N*p.DType.Size() <= d.CacheBytes:
		return 0
	case keepsX(p, d):
		return 6
	}
	return 2
}

// fwdCTARegBase gives each thread 64 bytes of a row, one CTA per tile.
// Layernorm's two reductions leave the memory idle for longer, so on rows beyond
// 8 KiB it takes 128 bytes, and loads a row ahead in persistent CTAs.
//
// On an H200 (bf16, default group) that is within 3.5% of the best in the mean of
// rmsnorm's rows from 16 to 32 KiB; 32 bytes per thread lost up to 17% at N = 8192.
//
// A residual is held beside its row, so that each thread then takes half as much
// of both.
func fwdCTARegBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	bytes := int64(64)
	if p.N*p.DType.Size() > 8<<10 && p.Op == kernels.LayerNorm {
		bytes = 128
	}
	for {
		rows, warps := block(threadsFor(p, bytes/rowTensors(p)), 128)
		stages, k := 1, 0
		if p.Op == kernels.LayerNorm && bytes == 128 {
			stages, k = 2, max(32/warps, 1)
		}
		c := kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
			set(kernels.Stages, stages), set(kernels.PerSM, k), set(kernels.CTAs, 0), set(kernels.Hoist, 0)).With(fwdCommonBase(p, d)...)
		if refuseStages(p, c, d) != nil {
			c = c.With(set(kernels.Stages, 1), set(kernels.PerSM, 0))
		}
		// Rows that allow only narrow vectors need more threads to hold them.
		if refuseCTAReg(p, c, d) == nil {
			return c
		}
		if bytes /= 2; bytes < 32 {
			return withFewerWarps(p, c, d)
		}
	}
}

// withFewerWarps is c with as many warps less as it takes to be accepted, or c:
// half the threads have more than twice the registers to spare, which wide rows
// with a residual need.
func withFewerWarps(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Config {
	for w := c.Get(kernels.Warps) / 2; w >= 4; w /= 2 {
		if fewer := c.With(set(kernels.Warps, w)); refuseCTAReg(p, fewer, d) == nil {
			return fewer
		}
	}
	return c
}

// fwdCommonBase is the base of the knobs that all of these forwards have.
func fwdCommonBase(p kernels.Problem, d kernels.DeviceInfo) []kernels.Setting {
	return append(transposeBase(p, d), set(kernels.RowOrder, 0), set(kernels.MinBlocks, 0), set(kernels.CacheHint, 0))
}

// rowTensors is how many tensors of p are held for each row: x, and the residual.
func rowTensors(p kernels.Problem) int64 { return 1 + kernels.Flag(p.Residual) }

// fwdDefines are k1's defines of c: equal ones where c differs in what makes no
// difference, row orders with one tile to each CTA and transpose paths
// without a transpose. Where another launch reads y to transpose it, y is written
// without the streaming hint.
func fwdDefines(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo, extra ...kernels.Define) []kernels.Define {
	if grid(p, c, d) == kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))) {
		c = c.With(set(kernels.RowOrder, 0))
	}
	if !p.Transpose {
		c = c.With(set(kernels.TransposePath, 0))
	} else if transposesApart(p, c) {
		c = c.With(set(kernels.CacheHint, c.Get(kernels.CacheHint)|2))
	}
	return common.Defines(p, c, extra...)
}

// refuseFwdCommon refuses what is out of range of the knobs that all of these
// forwards have.
func refuseFwdCommon(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseTranspose(c); err != nil {
		return err
	}
	threads, lb := c.Get(kernels.Warps)*32, c.Get(kernels.MinBlocks)
	switch {
	case c.Get(kernels.RowOrder) > 1:
		return fmt.Errorf("the row order is 0 or 1")
	case lb > 32 || lb*threads > 2048:
		return fmt.Errorf("%d CTAs of %d threads are more than an SM runs", lb, threads)
	}
	return refuseLaunch(p, c, d)
}

func refuseCTAReg(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseFwdCommon(p, plainVectors(p, c), d); err != nil {
		return err
	}
	if n := ctaRegGrid(p, c, d); c.Get(kernels.Hoist) == 1 && n < kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows))) && shifts(p, c, n) {
		return fmt.Errorf("rows of %d elements start at another place of a vector each: there is nothing to hoist", p.N)
	}
	if err := refuseStages(p, c, d); err != nil {
		return err
	}
	if err := refuseThreadsPerRow(p, c, int64(64/c.Get(kernels.Stages))); err != nil {
		return err
	}
	if c.Get(kernels.Hoist) > 1 {
		return fmt.Errorf("hoist is 0 or 1")
	}
	return refuseHeld(p, c)
}

// refuseHeld refuses residuals and hoisted weights that do not fit into a
// thread's registers beside the rows. What is left for the rest was read off
// compiles for sm_90: with 64 registers rmsnorm holds 40 words without spills,
// layernorm 24 with none or up to 84 bytes; with 128 layernorm holds hoisted
// weights within 88 words, but beyond 56 the sums of a residual spill.
func refuseHeld(p kernels.Problem, c kernels.Config) error {
	hoist := int64(c.Get(kernels.Hoist))
	if rowTensors(p) == 1 && hoist == 0 {
		return nil
	}
	vecs, vec := rowVectors(p, c)
	threads := int64(c.Get(kernels.Warps) * 32)
	each := kernels.CeilDiv(vecs, threads/int64(c.Get(kernels.BlockRows)))
	words := func(d kernels.DType) int64 { return each * max(vec*d.Size()/4, 1) }
	held := words(p.DType) * int64(c.Get(kernels.Stages)) * rowTensors(p)
	if !p.NoWeight {
		held += words(p.Weight) * hoist * (1 + kernels.Flag(p.Bias))
	}
	registers := min(65536/(threads*max(int64(c.Get(kernels.MinBlocks)), 1)), 255)
	rest := int64(24)
	if p.Op == kernels.LayerNorm {
		rest = 40
		if p.Residual {
			rest = registers/2 + 8
		}
	}
	if held > registers-rest {
		return fmt.Errorf("%d words of rows and weights do not fit into a thread's %d registers", held, registers)
	}
	return nil
}
