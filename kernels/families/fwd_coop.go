package families

import "normbench/kernels"

// fwdCoop: several CTAs to a row, which meet in global memory. The forward
// of apex FastLayerNorm (PR 1037) and of TransformerEngine's own kernels.
func fwdCoop(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, "coop"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "persistent CTAs, several to a row, that exchange its sums through global memory",
		Origin: "apex FastLayerNorm; TransformerEngine (NVIDIA), tuned and general kernels",
		Files:  []string{"fwd_coop.go", "fwd_coop.cu", "coop.go", "coop.cuh", "hoststage.go", "hostfwd.go", "common.go", "common.cuh"},
		Knobs:  coopKnobs([]int{1, 2, 4, 8}, []int{0}),
		Serves: servesNoFP8,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			// apex's forward: one warp to a row up to 4608 bytes, four warps and
			// several CTAs beyond, 192 bytes per thread at most.
			return coopBase(p, d, 192, 4, func(c kernels.Config) error { return refuseCoop(p, c, d, fwdCoopRegisters) })
		},
		Refuse: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
			return refuseCoop(p, c, d, fwdCoopRegisters)
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			launches, scratch := coopLaunch(p, c, d, kernels.Launch{Source: "fwd_coop.cu", Entry: "coop", Args: fwdArgs(p)})
			return kernels.Plan{Launches: launches, Scratch: scratch}
		},
		Host: map[string]kernels.HostStage{"coop": hostFwdCoop},
	}
}

// fwdCoopRegisters estimates a thread's registers: the packed row (with a
// residual its fp32 sum), the weights and biases, which stay, and what NVRTC 13.0
// needed besides.
func fwdCoopRegisters(p kernels.Problem, c kernels.Config) int64 {
	_, each, words := coopVectors(p, c)
	_, vec := vectors(p, c)
	row := words
	if p.Residual {
		row = vec
	}
	rest := 36 + 12*flag(p.Op == kernels.LayerNorm) + 8*flag(p.Bias) + coopMasks(p, c)
	return rest + each*(row+max(vec*p.Weight.Size()/4, 1)*(flag(!p.NoWeight)+flag(p.Bias)))
}

func hostFwdCoop(h *kernels.HostRun, pid int) {
	p := h.Problem
	row := h.Row(0, p.N)
	wf, bf := hostWeights(h)
	hostCoop(h, pid, func(i int64) {
		hostNormalize(h, row, wf, bf, i)
		hostOutput(h, row, i, 0, false)
	})
}
