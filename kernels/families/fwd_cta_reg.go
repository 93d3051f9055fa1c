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
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8),
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0, 8),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 0, 4, 8),
			kernels.Values(kernels.Programs, 0),
		},
		Serves: servesPlain,
		Base:   fwdCTARegBase,
		Refuse: refuseCTAReg,
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

// fwdCTARegBase gives each thread 64 bytes of a row, and 128 of rows beyond
// 8 KiB, one program per tile. Layernorm's two reductions leave the memory idle
// for longer, so on wide rows it loads a row ahead in persistent programs.
//
// On an H200 over 15 shapes (bf16, N 1024 to 16384, 8Mi to 32Mi elements) that
// is within 3% of the best config of the grid on all rmsnorm shapes of 32Mi
// elements; 32 bytes per thread lost up to 17% at N = 8192.
func fwdCTARegBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	bytes := int64(64)
	if p.N*p.DType.Size() > 8<<10 {
		bytes = 128
	}
	for {
		rows, warps := block(threadsFor(p, bytes), 128)
		stages, k := 1, 0
		if p.Op == kernels.LayerNorm && bytes == 128 {
			stages, k = 2, max(32/warps, 1)
		}
		c := kernels.NewConfig(set(kernels.BlockRows, rows), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
			set(kernels.Stages, stages), set(kernels.PerSM, k), set(kernels.Programs, 0))
		if refuseStages(p, c, d) != nil {
			c = c.With(set(kernels.Stages, 1), set(kernels.PerSM, 0))
		}
		// Rows that allow only narrow vectors need more threads to hold them.
		if bytes == 32 || refuseCTAReg(p, c, d) == nil {
			return c
		}
		bytes /= 2
	}
}

func refuseCTAReg(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	if err := refuseStages(p, c, d); err != nil {
		return err
	}
	return refuseThreadsPerRow(p, c, int64(64/c.Get(kernels.Stages)))
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
