package presets

import (
	"fmt"
	"slices"

	"normbench/kernels"
)

var triRMSNorm = &Preset{
	Name: "tri-rmsnorm", System: "Tri-RMSNorm (simudt), corrected",
	Lacks: limits{"Tri-RMSNorm", "layernorm", "residual", "fp8", "zc", "noweight", "acc"},
	Doc: "forward in blocks of 1024 columns, read twice; backward adds each row's dw to one of " +
		"32 rows under a lock. Upstream's dx lacks its correction term, its buffers are too " +
		"small and its last kernel is never launched; this is the design as it was meant",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		if p.Pass == kernels.Fwd {
			return oneVariant(variant(p, "two_pass", "br1.bc1024.w4.v0.k0.p0.sp0.lb0.ch0"))
		}
		// The backward's one block covers the row; warps as in the Triton tutorial.
		warps := clamp(kernels.CeilPow2(p.N)/256, 1, 8)
		return oneVariant(variant(p, "lock_group", "gs32.w%d.v0.lb0.ch0", warps))
	},
}

var liger = &Preset{
	Name: "liger", System: "Liger-Kernel (Triton)", Lacks: limits{"Liger", "fp8", "acc"},
	Doc: "forward a CTA per row; backward as many CTAs as SMs, each with its own range of rows; " +
		"warps by the power of two of N. Upstream also clears dx first (zeros_like), which is " +
		"not counted here",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		n := kernels.CeilPow2(p.N)
		if n > 65536 {
			return nil, fmt.Errorf("the block of Liger holds at most 65536 columns")
		}
		warps := step(n, [][2]int64{{1024, 4}, {4096, 8}, {16384, 16}}, 32) // calculate_settings
		if p.Pass == kernels.Bwd {
			return doubleWarps(warps, func(w int64) kernels.Variant {
				return variant(p, "reg_persist", "br1.w%d.v%d.st1.p%d.ho1.ro1.so0.pt0.lb0.ch0", w,
					vector(p, 32*w), min(p.M, int64(d.SMs)))
			}), nil
		}
		rows := int64(1)
		if n <= 256 && p.M >= 32768 { // the block variant: 16 rows per CTA
			rows = 16
		}
		return oneVariant(variant(p, "cta_reg", "br%d.w%d.v%d.st1.k0.p0.ho0.ro0.lb0.ch0", rows, warps,
			vector(p, 32*warps/rows)))
	},
}

// apexTable is FastLayerNorm's registry for 16-bit types: from a number of
// columns on, the CTAs per row, rows side by side, warps per row.
var apexTable = map[kernels.Pass][][4]int64{
	kernels.Fwd: {{768, 1, 4, 1}, {3072, 1, 1, 4}, {12288, 2, 1, 4}, {30720, 4, 1, 4}, {65536, 8, 1, 4}},
	kernels.Bwd: {{768, 1, 4, 1}, {1536, 1, 1, 4}, {6144, 1, 1, 8}, {8192, 2, 1, 4},
		{12288, 4, 1, 4}, {24576, 4, 1, 8}, {49152, 8, 1, 8}},
}

// apexSizes are the columns that FastLayerNorm is compiled for.
var apexSizes = []int64{768, 1024, 1536, 2048, 2304, 3072, 3840, 4096, 5120, 6144, 8192, 10240,
	12288, 12800, 14336, 15360, 16384,
	18432, 20480, 24576, 25600, 30720, 32768, 40960, 49152, 65536}

var apexFast = &Preset{
	Name: "apex-fast", System: "apex FastLayerNorm", Times: true,
	Lacks: limits{"FastLayerNorm", "rmsnorm", "residual", "fp8", "zc", "noweight", "acc"},
	Doc: "persistent CTAs, several per wide row, by a table of 26 column counts; rows meet in " +
		"global memory",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		if !slices.Contains(apexSizes, p.N) {
			return nil, fmt.Errorf("FastLayerNorm has no kernel for %d columns", p.N)
		}
		var row [4]int64
		for _, r := range apexTable[p.Pass] {
			if r[0] <= p.N {
				row = r
			}
		}
		if p.Pass == kernels.Bwd && (p.N == 12800 || p.N == 25600) {
			row[1] = 5
		}
		v := variant(p, "coop", "cr%d.br%d.w%d.v0.lb0.ch0", row[1], row[2], row[2]*row[3])
		// It launches what is resident: as many CTAs per SM as its
		// registers allow, which a rule cannot know; the fastest of one to four.
		var vs []kernels.Variant
		for _, k := range []int{2, 1, 3, 4} {
			vs = append(vs, with(v, "k%d", k))
		}
		return vs, nil
	},
}

var apexFused = &Preset{
	Name: "apex-fused", System: "apex FusedLayerNorm and FusedRMSNorm",
	Lacks: limits{"apex's fused kernel", "residual", "fp8", "zc", "acc"},
	Doc: "128 threads per row, single elements, x read twice; backward in three launches: 16 " +
		"groups of partial sums, their sum, dx",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		v := p.DType.Size()
		if p.Pass == kernels.Fwd {
			return oneVariant(variant(p, "two_pass", "br1.bc%d.w4.v%d.k0.p0.sp0.lb0.ch0",
				min(kernels.CeilPow2(p.N), 512), v))
		}
		return oneVariant(variant(p, "split", "br1.w4.v%d.dc32.rg16.lb0.ch0", v))
	},
}

var llmc = &Preset{
	Name: "llmc", System: "llm.c",
	Lacks: limits{"llm.c", "rmsnorm", "residual", "fp8", "zc", "noweight", "acc"},
	Doc: "forward a warp per row through shared memory; backward one kernel of 512 threads, two " +
		"per SM, whose last CTA sums the partial rows",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		if p.Pass == kernels.Fwd {
			return oneVariant(variant(p, "warp_smem", "w8.br8.k0.lb0.ch0"))
		}
		return oneVariant(variant(p, "last_cta", "w16.k2.v0.lb0"))
	},
}
