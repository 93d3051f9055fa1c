package families

import (
	"normbench/kernels"
	"normbench/kernels/common"
)

// The forwards with fp8 outputs share this file. Scaling is TransformerEngine's
// delayed one: the scale is given, y is clamped to e4m3's range, and the largest
// |y| before the scale (amax) and 1/scale are outputs.

// fp8Args follow fwdArgs in entries that serve fp8, null where a problem has not
// got them. yt is k1's only where it writes it itself.
func fp8Args(p kernels.Problem, c kernels.Config) []kernels.Arg {
	return []kernels.Arg{
		common.Optional(p.FP8, "scale"), common.Optional(p.FP8, "amax"), common.Optional(p.FP8, "scale_inv"),
		common.Optional(p.Transpose && !transposesApart(p, c), "yt"),
	}
}

// fwdPlan is k1 with what fp8 adds: amax is cleared ahead of it, as CTAs
// raise it, and y may be transposed after it.
func fwdPlan(p kernels.Problem, c kernels.Config, k1 kernels.Launch) kernels.Plan {
	var plan kernels.Plan
	if p.FP8 {
		plan.Launches = append(plan.Launches, kernels.Zero("zero", "amax", kernels.FP32.Size()))
	}
	plan.Launches = append(plan.Launches, k1)
	if transposesApart(p, c) {
		plan.Launches = append(plan.Launches, transposeLaunch(p, c))
	}
	return plan
}

// transposesHere says whether the k1 of fwdPlan stores the transpose itself.
func transposesHere(h *kernels.HostRun) bool {
	return h.Launch.Define("TRANSPOSED") == 1 && h.Launch.Define(kernels.TransposePath.Macro) == 0
}
