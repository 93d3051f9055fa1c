package presets

import "normbench/kernels"

// PyTorch Inductor's mix-order reduction: PR 165370 as it came, and as later
// pull requests (166461, 167161, 185003) left it. Where its conditions fail, dx
// and dW are two kernels, and dW's reduction is split over rows and summed.

var inductor = &Preset{
	Name: "inductor", System: "PyTorch Inductor, main line", Lacks: inductorLacks,
	Doc: "backward: split_size by rows per SM (16 to 128), several rows at a time, up to three " +
		"stages; unfused below 5Mi elements",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		return inductorRule(p, d, false)
	},
}

var inductorFixed64 = &Preset{
	Name: "inductor-fixed64", System: "PyTorch Inductor PR 165370", Lacks: inductorLacks,
	Doc: "backward: 64 rows per CTA, one at a time; unfused below 5Mi elements",
	Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
		return inductorRule(p, d, true)
	},
}

var inductorLacks = limits{"the compiled graph", "fp8", "acc"}

// inductorRule returns the variants of Inductor; fixed is the PR as it came.
func inductorRule(p kernels.Problem, d kernels.DeviceInfo, fixed bool) ([]kernels.Variant, error) {
	// A persistent reduction: the row in registers while it is at most 64 KiB, by
	// an eighth of a warp's lanes per 16 bytes up to 8 warps; then in a loop.
	if p.Pass == kernels.Fwd {
		if p.N <= 8192 {
			return doubleWarps(inductorWarps(p.N), func(w int64) kernels.Variant {
				return variant(p, "cta_reg", "br1.w%d.v%d.st1.k0.p0.ho0.ro0.lb0.ch0", w, vector(p, 32*w))
			}), nil
		}
		return oneVariant(variant(p, "two_pass", "br1.bc4096.w16.v0.k0.p0.sp0.lb0.ch0"))
	}
	if p.M*p.N < 5<<20 || p.M < 2*p.N || p.M < 4096 || p.N > 16384 || p.NoWeight {
		rows := clamp(lastPow2(p.M/64), 1, 64) // a split keeps at least 64 rows
		return oneVariant(variant(p, "split", "br1.w%d.v%d.dc64.rg%d.lb0.ch0", inductorWarps(p.N),
			vector(p, 32*inductorWarps(p.N)), rows))
	}
	split, block, stages := int64(64), int64(1), int64(1)
	if !fixed {
		split = clamp(lastPow2(p.M/(8*int64(d.SMs))), 16, 128)
		block = clamp(split/32, step(p.N, [][2]int64{{512, 4}}, 1), 16)
		stages = min(max(split/block/4, 1), step(p.N, [][2]int64{{8192, 3}}, 2))
	}
	warps := inductorWarps(p.N)
	if p.N <= 1024 {
		warps = max(warps/2, 1)
	}
	var vs []kernels.Variant
	// XBLOCK is capped by the row, and what does not fit the registers falls back:
	// fewer rows at a time, then fewer stages.
	for ; block >= 1; block /= 2 {
		for s := stages; s >= 1; s-- {
			vs = append(vs, variant(p, "mix_order", "ss%d.br%d.w%d.v%d.st%d.lb0.ch0", split, block,
				warps, vector(p, 32*warps), s))
		}
	}
	return vs, nil
}

// inductorWarps is Inductor's rule for persistent reductions: a thread per 16 elements up to 8 warps, 16
// beyond 8192 columns.
func inductorWarps(n int64) int64 {
	if n > 8192 {
		return 16
	}
	return clamp(kernels.CeilPow2(n)/128, 1, 8)
}
