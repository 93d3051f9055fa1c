package families

import (
	"fmt"
	"math"

	"normbench/kernels"
)

// fwdTwoPass: column chunks, x read again. The design of TransformerEngine's
// blocked forward, of apex's fused one and of Tri-RMSNorm.
func fwdTwoPass(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Fwd, "two_pass"),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "column chunks: one pass for the statistics, x read again for y",
		Origin: "TransformerEngine (ROCm) PR 593, blocked; apex fused; Tri-RMSNorm",
		Files:  []string{"fwd_two_pass.go", "fwd_two_pass.cu", "fwd_cta_reg.go", "hoststage.go", "common.go", "common.cuh"},
		Knobs: []kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4),
			kernels.Values(kernels.BlockCols, 1024, 2048, 4096, 8192, 16384),
			kernels.Values(kernels.Warps, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 16, 8, 4, 2),
			kernels.Values(kernels.PerSM, 0, 4),
			kernels.Values(kernels.Programs, 0),
			kernels.Values(kernels.SinglePass, 0, 4096, 16384),
		},
		Serves: servesAll,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			c := twoPassBase(p)
			return c.With(set(kernels.PerSM, 0))
		},
		Refuse: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
			return refuseChunks(p, c, d, 32)
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return kernels.Plan{Launches: []kernels.Launch{{
				Stage: "k1", Source: "fwd_two_pass.cu", Entry: "two_pass",
				Grid:    [3]int{int(grid(p, c, d)), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: rowDefines(p, c, singlePass(p, c)),
				Args:    fwdArgs(p),
			}}}
		},
		Host: map[string]kernels.HostStage{"two_pass": hostFwdTwoPass},
	}
}

// twoPassBase is what both two-pass designs start from: chunks of four vectors
// per thread of eight warps, or less on narrow rows.
func twoPassBase(p kernels.Problem) kernels.Config {
	v := widestVector(p)
	elems := v / p.DType.Size()
	warps := min(max(floorPow2(ceilDiv(p.N, elems*32)), 1), 8)
	cols := warps * 32 * elems
	for cols < p.N && cols < warps*32*elems*4 {
		cols *= 2
	}
	return kernels.NewConfig(set(kernels.BlockRows, 1), set(kernels.BlockCols, int(cols)),
		set(kernels.Warps, int(warps)), set(kernels.VectorBytes, int(v)),
		set(kernels.PerSM, 0), set(kernels.Programs, 0), set(kernels.SinglePass, 0))
}

// singlePass is the macro that the threshold comes down to for p.
func singlePass(p kernels.Problem, c kernels.Config) kernels.Define {
	return kernels.Define{Name: "SINGLE_PASS", Value: flag(p.N <= int64(c.Get(kernels.SinglePass)))}
}

// refuseChunks holds what both two-pass designs need: chunks that are whole
// vectors per thread and not mostly empty, and at most maxWords packed words per
// thread where a tile stays in registers.
func refuseChunks(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo, maxWords int64) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	_, vec := vectors(p, c)
	cols, threads := int64(c.Get(kernels.BlockCols)), int64(c.Get(kernels.Warps)*32)
	rows := int64(c.Get(kernels.BlockRows))
	switch {
	case cols < 1 || cols%(threads*vec) != 0:
		return fmt.Errorf("a chunk of %d columns is no whole number of %d-element vectors for %d threads", cols, vec, threads)
	case cols/(threads*vec) > 16 || rows > 8:
		return fmt.Errorf("%d vectors per thread and row, for %d rows, are too many to unroll", cols/(threads*vec), rows)
	case cols > threads*vec && cols >= 2*p.N:
		return fmt.Errorf("a chunk of %d columns is more than half empty", cols)
	}
	if singlePass(p, c).Value == 1 {
		if cols < p.N {
			return fmt.Errorf("a single pass over %d columns needs them in one chunk, not %d", p.N, cols)
		}
	}
	if words := tileWords(p, c); words > maxWords && singlePass(p, c).Value == 1 {
		return fmt.Errorf("a single pass would keep %d words per thread", words)
	}
	return nil
}

// tileWords is the packed words of one tensor that a thread holds of a chunk of
// all rows of a tile.
func tileWords(p kernels.Problem, c kernels.Config) int64 {
	_, vec := vectors(p, c)
	each := int64(c.Get(kernels.BlockCols)) / (int64(c.Get(kernels.Warps)*32) * vec)
	return each * max(vec*p.DType.Size()/4, 1) * int64(c.Get(kernels.BlockRows))
}

func hostFwdTwoPass(h *kernels.HostRun, pid int) {
	p, x := h.Problem, h.Mem["x"]
	chunk := h.Launch.Define("BLOCK_COLS")
	if h.Launch.Define("SINGLE_PASS") == 1 {
		hostCTAReg(h, pid)
		return
	}
	buf := h.Row(0, min(chunk, p.N))
	wf, bf := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		var s1, s2, shift float32
		if p.Op == kernels.LayerNorm {
			shift = x.At(i * p.N) // see fwd_two_pass.cu
		}
		for j := int64(0); j < p.N; j += chunk {
			part := buf[:min(chunk, p.N-j)]
			x.Load(part, i*p.N+j)
			for k := range part {
				part[k] -= shift
			}
			s2 += dot(part, part)
			if p.Op == kernels.LayerNorm {
				s1 += sum(part)
			}
		}
		d := s1 / float32(p.N)
		rstd := float32(1 / math.Sqrt(float64(max(s2/float32(p.N)-d*d, 0)+kernels.Eps)))
		h.Mem["rstd"].Set(i, rstd)
		mean := shift + d
		if p.Op == kernels.LayerNorm {
			h.Mem["mean"].Set(i, mean)
		}
		for j := int64(0); j < p.N; j += chunk {
			part := buf[:min(chunk, p.N-j)]
			x.Load(part, i*p.N+j)
			wp := wf[j:][:len(part)]
			for k := range part {
				part[k] = (part[k] - mean) * rstd * wp[k]
			}
			if bf != nil {
				for k, b := range bf[j:][:len(part)] {
					part[k] += b
				}
			}
			h.Mem["y"].Store(i*p.N+j, part)
		}
	})
}
