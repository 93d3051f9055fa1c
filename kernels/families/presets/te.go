package presets

import "normbench/kernels"

// ROCm TransformerEngine's Triton RMSNorm, before and after its PR 593.
//
// Persistent CTAs, one per SM, a row at a time; rows beyond
// 16 KiB in chunks, read twice. Warps are autotuned, and so are the tiles of the
// dW reduction and of the fp8 transpose: the candidates below.

var (
	teDev = tePreset("te-dev", "TransformerEngine (ROCm), dev before PR 593", "weight loaded for "+
		"every row; fp8 transpose by strided byte stores; (M,N) partials for rows beyond 16 KiB", false)
	te593 = tePreset("te-593", "TransformerEngine (ROCm) PR 593", "weight hoisted; fp8 transpose in "+
		"a kernel of its own; (CTAs,N) partials updated in memory for rows beyond 16 KiB", true)
)

// tePreset makes a preset of TransformerEngine's rule, before or after its PR 593.
func tePreset(name, system, doc string, after bool) *Preset {
	return &Preset{Name: name, System: system, Doc: doc, Times: true,
		Lacks: limits{"the Triton RMSNorm", "layernorm", "bias", "residual", "noweight", "acc"},
		Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
			return te(p, d, after)
		}}
}

// teReduceTiles and teTransposeTiles are the PR's autotune lists: rows, columns
// and warps of k2 (BLOCK_M, BLOCK_N there) and of the transpose. On the H200 k2's
// are within a few percent of each other, so candidates do not cross them with
// the warps of k1: the PR's autotuner times the kernels apart, too.
var (
	teReduceTiles = [][3]int64{{64, 64, 4}, {128, 64, 4}, {128, 128, 4}, {128, 64, 8},
		{256, 64, 8}, {256, 128, 8}}
	teTransposeTiles = [][3]int64{{32, 64, 4}, {64, 64, 4}, {64, 128, 4}, {128, 64, 4},
		{128, 128, 8}, {64, 64, 8}}
)

// teBlocked is the widest row, in bytes, that a CTA keeps in registers: the utility function that the
// forward and the backward share says 16 KiB, although the forward's blocks may be 64 KiB.
const teBlocked = 16 << 10

// te returns the variants that the system times.
func te(p kernels.Problem, d kernels.DeviceInfo, after bool) ([]kernels.Variant, error) {
	warps := []int64{8, 4, 16} // before: with four waves_per_eu each, an AMD setting
	if after {
		warps = []int64{8, 1, 4, 16}
	}
	warps = tePruned(p.N, warps)
	ctas, hoist := min(p.M, int64(d.SMs)), 0
	if after {
		hoist = 1
	}
	blocked := p.N*p.DType.Size() > teBlocked
	var vs []kernels.Variant
	for i, w := range warps {
		var v kernels.Variant
		switch {
		case p.Pass == kernels.Fwd && !blocked:
			v = variant(p, "cta_reg", "br1.w%d.v%d.st1.p%d.ho%d.ro0.lb0.ch0", w, vector(p, 32*w), ctas,
				hoist)
		case p.Pass == kernels.Fwd:
			v = teChunks(p, 64<<10, w, "p%d.sp0.lb0.ch0", ctas)
		case !blocked:
			v = variant(p, "reg_persist", "br1.w%d.v%d.st1.p%d.ho%d.ro0.so0.pt0.lb0.ch0", w,
				vector(p, 32*w), ctas, hoist)
		case after:
			v = teChunks(p, teBlocked, w, "k1.p%d.sp0.so0.pt0.lb0.ch0", ctas)
		default: // one CTA per row: as many partial rows as rows
			v = teChunks(p, teBlocked, w, "k0.p0.sp0.so0.pt0.lb0.ch0")
		}
		switch {
		case p.Pass == kernels.Bwd:
			vs = append(vs, teTiled(i == 0, v, "rr%d.rc%d.rw%d", teReduceTiles)...)
		case p.Transpose && after:
			vs = append(vs, teTiled(i == 0, v, "tp1.tr%d.tc%d.tw%d", teTransposeTiles)...)
		case p.Transpose:
			vs = append(vs, with(v, "tp0"))
		default:
			vs = append(vs, v)
		}
	}
	return vs, nil
}

// tePruned keeps the warps whose threads lie in [N/16, 2N], as the PR's pruner does, but at least one.
func tePruned(n int64, warps []int64) []int64 {
	var kept []int64
	for _, w := range warps {
		if t := 32 * w; t >= n/16 && t <= 2*n {
			kept = append(kept, w)
		}
	}
	if len(kept) == 0 {
		return []int64{step(n, [][2]int64{{64, 1}}, warps[len(warps)-1])}
	}
	return kept
}

// teChunks makes a two-pass variant with blocks of up to limit bytes, no wider than the row or than our
// kernels unroll, and the other knobs of a label.
func teChunks(p kernels.Problem, limit, warps int64, rest string, args ...any) kernels.Variant {
	// Ours unroll 16 vectors per thread at most: rows that start at odd places are
	// read in shorter chunks.
	vec := vector(p, 32*warps) / p.DType.Size()
	cols := min(limit/p.DType.Size(), max(kernels.CeilPow2(p.N), 32*warps*vec), 16*32*warps*vec)
	return with(variant(p, "two_pass", "br1.bc%d.w%d.v0", cols, warps), rest, args...)
}

// teTiled returns v with tiles as labels: all of them for the first warps, only the first for the
// others.
func teTiled(all bool, v kernels.Variant, format string, tiles [][3]int64) (vs []kernels.Variant) {
	for i, t := range tiles {
		if i == 0 || all {
			vs = append(vs, with(v, format, t[0], t[1], t[2]))
		}
	}
	return vs
}
