package families

import (
	"math"

	"normbench/kernels"
)

// fwdCTAReg: the row in registers, one pass. The design of Liger, of Fast-LLM's
// forward and of TransformerEngine's non-blocked one.
func fwdCTAReg(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Fwd, "cta_reg"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "a row in the registers of a group of threads, read once",
		Origin: "Liger-Kernel; Fast-LLM PR 546; TransformerEngine (ROCm) PR 593, non-blocked",
		Files:  []string{"fwd_cta_reg.go", "fwd_cta_reg.cu", "hoststage.go", "common.go", "common.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8, 16),
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 16, 8, 4, 2),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 0, 2, 4, 8),
			kernels.Values(kernels.Programs, 0),
		},
		Serves: servesAll,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			rows, warps := block(threadsFor(p, 32), 128)
			return kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, warps),
				set(kernels.VectorBytes, int(widestVector(p))), set(kernels.Stages, 1),
				set(kernels.PerSM, 0), set(kernels.Programs, 0))
		},
		Refuse: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
			if err := refuseLaunch(p, c, d); err != nil {
				return err
			}
			if err := refuseStages(p, c, d); err != nil {
				return err
			}
			return refuseThreadsPerRow(p, c, int64(64/c.Get(kernels.Stages)))
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return kernels.Plan{Launches: []kernels.Launch{{
				Stage: "k1", Source: "fwd_cta_reg.cu", Entry: "cta_reg",
				Grid:    [3]int{int(grid(p, c, d)), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: rowDefines(p, c),
				Args:    fwdArgs(p),
			}}}
		},
		Host: map[string]kernels.HostStage{"cta_reg": hostCTAReg},
	}
}

// fwdArgs are the arguments of every forward entry.
func fwdArgs(p kernels.Problem) []kernels.Arg {
	args := append(kernels.Buffers("x", "w"), optional(p.Bias, "b"))
	args = append(args, kernels.Buffers("y", "rstd")...)
	return append(args, optional(p.Op == kernels.LayerNorm, "mean"),
		kernels.Int64("rows", p.M), kernels.Float32("eps", kernels.Eps))
}

func hostCTAReg(h *kernels.HostRun, pid int) {
	p := h.Problem
	row := h.Row(0, p.N)
	wf, bf := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		h.Mem["x"].Load(row, i*p.N)
		var mean float32
		if p.Op == kernels.LayerNorm {
			mean = sum(row) / float32(p.N)
			for j := range row {
				row[j] -= mean
			}
			h.Mem["mean"].Set(i, mean)
		}
		rstd := float32(1 / math.Sqrt(float64(dot(row, row)/float32(p.N)+kernels.Eps)))
		h.Mem["rstd"].Set(i, rstd)
		for j := range row {
			row[j] *= rstd * wf[j]
		}
		if bf != nil {
			for j := range row {
				row[j] += bf[j]
			}
		}
		h.Mem["y"].Store(i*p.N, row)
	})
}
