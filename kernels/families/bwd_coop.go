package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdCoop: several CTAs to a row, which meet in global memory, then k2. The
// backward of apex FastLayerNorm (PR 1037) and of TransformerEngine's own
// kernels.
func bwdCoop(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Bwd, "coop"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "persistent CTAs, several to a row, that exchange its sums through global memory; fp32 partials, then k2",
		Origin: "apex FastLayerNorm; TransformerEngine (NVIDIA), tuned and general kernels",
		Files:  []string{"bwd_coop.go", "bwd_coop.cu", "coop.go", "coop.cuh", "reduce.go", "reduce.cu", "reduce.cuh", "hoststage.go", "common.go", "common.cuh"},
		Knobs:  append(coopKnobs([]int{1, 2, 4}, []int{0}), reduceKnobs([]int{0}, []int{0}, []int{0})...),
		Serves: servesAll,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			// apex's backward: one warp to a row up to 2 KiB, four or eight and
			// several CTAs beyond, 80 bytes per thread at most.
			return coopBase(p, d, 80, 8, func(c kernels.Config) error { return refuseBwdCoop(p, c.With(reduceBase...), d) }).With(reduceBase...)
		},
		Refuse: refuseBwdCoop,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			launches, scratch := coopLaunch(p, c, d, kernels.Launch{
				Source: "bwd_coop.cu", Entry: "coop", Shared: coopMergeBytes(p, c), Args: bwdArgs(p, c)})
			plan := withReduce(p, c, coopGroups(p, c, d), launches...)
			plan.Scratch = append(plan.Scratch, scratch...)
			return plan
		},
		Host: map[string]kernels.HostStage{"coop": hostBwdCoop, "reduce": hostReduce},
	}
}

func refuseBwdCoop(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseCoop(p, c, d, bwdCoopRegisters); err != nil {
		return err
	}
	if need := coopMergeBytes(p, c); d.SharedPerBlock > 0 && need > d.SharedPerBlock {
		return fmt.Errorf("merging the rows of a CTA takes %d bytes of shared memory, more than %d", need, d.SharedPerBlock)
	}
	if err := refusePartials(p, coopGroups(p, c, d)); err != nil {
		return err
	}
	return refuseReduce(c)
}

// coopMergeBytes is the shared memory in which the rows of a CTA meet.
func coopMergeBytes(p kernels.Problem, c kernels.Config) int {
	rows := c.Get(kernels.BlockRows)
	if rows == 1 {
		return 0
	}
	_, each, _ := coopVectors(p, c)
	_, vec := vectors(p, c)
	return 4 * int(each*vec) * c.Get(kernels.Warps) * 32 / rows
}

// bwdCoopRegisters estimates a thread's registers: x, dy and the weights packed,
// the residual's gradient, an accumulator per element and gradient, and what
// NVRTC 13.0 needed besides.
func bwdCoopRegisters(p kernels.Problem, c kernels.Config) int64 {
	_, each, words := coopVectors(p, c)
	_, vec := vectors(p, c)
	weight := flag(!p.NoWeight)
	rest := 40 + 8*flag(p.Op == kernels.LayerNorm) + 8*flag(c.Get(kernels.CTAsPerRow) > 1) + 12*flag(c.Get(kernels.BlockRows) > 1) + coopMasks(p, c)
	return rest + each*(words*(2+flag(p.Residual))+max(vec*p.Weight.Size()/4, 1)*weight+vec*(weight+flag(p.Bias)))
}

func hostBwdCoop(h *kernels.HostRun, pid int) {
	p := h.Problem
	N := p.N
	xhat, dy, dw, db := h.Row(0, N), h.Row(1, N), h.Row(2, N), h.Row(3, N)
	clear(dw)
	clear(db)
	wf, _ := hostWeights(h)
	group, first := hostCoop(h, pid, func(i int64) {
		hostXhat(h, xhat, wf, i, 0)
		h.Mem["dy"].Load(dy, i*N)
		rstd, _ := hostStats(h, i)
		for j, v := range dy {
			dw[j] += v * xhat[j]
			db[j] += v
			dy[j] = v * wf[j]
		}
		c1 := dot(dy, xhat) / float32(N)
		var c2 float32
		if p.Op == kernels.LayerNorm {
			c2 = sum(dy) / float32(N)
		}
		for j := range dy {
			dy[j] = rstd * (dy[j] - xhat[j]*c1 - c2)
		}
		hostGradient(h, dy, i, 0)
	})
	if !first {
		return
	}
	if !p.NoWeight {
		h.Mem["dw_partial"].Store(group*N, dw)
	}
	if p.Bias {
		h.Mem["db_partial"].Store(group*N, db)
	}
}
