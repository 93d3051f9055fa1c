package presets

import "normbench/kernels"

// Fast-LLM's Triton normalization, before and after its PR 546. Both work from
// the saved output, keep partial sums in the gradient's type and add them up in
// tiles of 64 rows by 8 columns. The forward did not change.

var fastLLMBefore = &Preset{
	Name: "fast-llm-before", System: "Fast-LLM before PR 546", Lacks: fastLLMLacks,
	Doc: "backward: one tile of 16384/kernels.CeilPow2(N) whole rows per CTA, and a partial row from each",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		if p.Pass == kernels.Fwd {
			return fastLLMForward(p), nil
		}
		cols := kernels.CeilPow2(p.N)
		return oneVariant(variant(p, "two_pass", "br%d.bc%d.w%d.k0.p0.sp%d"+fastLLMRest,
			max(fastLLMTile/cols, 1), cols, fastLLMWarps(cols), cols))
	},
}

var fastLLM546 = &Preset{
	Name: "fast-llm-546", System: "Fast-LLM PR 546", Lacks: fastLLMLacks,
	Doc: "backward: tiles of rows and columns in registers, at most two CTAs per SM; wide rows " +
		"in one pass with 32 warps, or in chunks of 4096 columns by 4 rows",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		if p.Pass == kernels.Fwd {
			return fastLLMForward(p), nil
		}
		cols := kernels.CeilPow2(p.N)
		fits, enough := int64(fastLLMTile), cols/8
		if p.Bias {
			fits, enough = fastLLMTile/2, cols/2
		}
		switch {
		case cols <= 4096:
			rows := clamp(fastLLMTile/cols, 1, 8)
			return oneVariant(variant(p, "two_pass", "br%d.bc%d.w%d.p%d.sp%d"+fastLLMRest, rows, cols,
				fastLLMWarps(cols), fastLLMCTAs(p, d, rows), cols))
		case cols <= fits && p.M >= enough:
			return oneVariant(variant(p, "two_pass", "br1.bc%d.w32.p%d.sp%d"+fastLLMRest, cols,
				fastLLMCTAs(p, d, 1), cols))
		}
		return oneVariant(variant(p, "two_pass", "br4.bc4096.w16.k0.p0.sp0"+fastLLMRest))
	},
}

const (
	// fastLLMTile is the most elements of a register tile: MAX_BLOCK_SIZE_BYTES/4.
	fastLLMTile = 64 << 10 / 4
	fastLLMRest = ".v0.so1.pt1.lb0.ch0.rc8.rr64.rw4"
)

var fastLLMLacks = limits{"Fast-LLM", "residual", "fp8"}

// fastLLMForward is the rule of both for a forward: a CTA per row of at most 64 KiB.
func fastLLMForward(p kernels.Problem) []kernels.Variant {
	return doubleWarps(fastLLMWarps(kernels.CeilPow2(p.N)), func(w int64) kernels.Variant {
		return variant(p, "cta_reg", "br1.w%d.v%d.st1.k0.p0.ho0.ro0.lb0.ch0", w, vector(p, 32*w))
	})
}

// fastLLMWarps is the systems' rule for warps by columns.
func fastLLMWarps(cols int64) int64 { return clamp(cols/256, 1, 8) }

// fastLLMCTAs is the single pass's bound on CTAs: two per SM.
func fastLLMCTAs(p kernels.Problem, d kernels.DeviceInfo, rows int64) int64 {
	return min(kernels.CeilDiv(p.M, rows), 2*int64(d.SMs))
}
