package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdTwoPass: column chunks, x and dy read again, then k2. The design of
// Fast-LLM's two-pass kernel (one program per tile) and of TransformerEngine's
// per-program read-modify-write of its partial row (fewer programs).
func bwdTwoPass(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Bwd, "two_pass"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "column chunks: one pass for the row sums, x and dy read again for dx, fp32 partials, then k2",
		Origin: "Fast-LLM PR 546, two pass; TransformerEngine (ROCm) PR 593, blocked",
		Files:  []string{"bwd_two_pass.go", "bwd_two_pass.cu", "fwd_two_pass.go", "bwd_reg_persist.go", "reduce.go", "reduce.cu", "hoststage.go", "common.go", "common.cuh"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4),
			kernels.Values(kernels.BlockCols, 1024, 2048, 4096, 8192),
			kernels.Values(kernels.Warps, 4, 8, 16),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.PerSM, 0, 2, 4),
			kernels.Values(kernels.Programs, 0),
			kernels.Values(kernels.SinglePass, 0, 8192),
		}, reduceKnobs([]int{32}, []int{128}, []int{32})...),
		Serves: servesPlain,
		Base: func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
			// Tiles of four rows quarter the traffic of the partial rows; sixteen
			// warps with two vectors each were the H200's best at N = 16384.
			return chunks(p, 4, 16, 2).With(set(kernels.PerSM, 2), set(kernels.Programs, 0), set(kernels.SinglePass, 8192)).With(reduceBase...)
		},
		Refuse: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
			if err := refuseChunks(p, c, d, 32); err != nil {
				return err
			}
			// x and dy of the tile, with half as much again to work with.
			if need, have := 3*tileWords(p, c)+32, int64(65536/(c.Get(kernels.Warps)*32)); need > min(have, 255) {
				return fmt.Errorf("a tile needs about %d registers per thread, and there are %d", need, min(have, 255))
			}
			if err := refusePartials(p, grid(p, c, d)); err != nil {
				return err
			}
			return refuseReduce(c)
		},
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			programs := grid(p, c, d)
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_two_pass.cu", Entry: "two_pass",
				Grid:    [3]int{int(programs), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Defines: rowDefines(p, c, singlePass(p, c)),
				Args:    bwdArgs(p, c),
			}
			return withReduce(p, c, programs, k1)
		},
		Host: map[string]kernels.HostStage{"two_pass": hostBwdTwoPass, "reduce": hostReduce},
	}
}

func hostBwdTwoPass(h *kernels.HostRun, pid int) {
	p := h.Problem
	N, rows := p.N, h.Launch.Define("BLOCK_ROWS")
	chunk := h.Launch.Define("BLOCK_COLS")
	if h.Launch.Define("SINGLE_PASS") == 1 {
		chunk = N
	}
	width := min(chunk, N)
	xhat, dy := h.Row(0, width), h.Row(1, width)
	dw, db := h.Row(2, width), h.Row(3, width)
	c1, c2 := h.Row(4, rows), h.Row(5, rows)
	wf, _ := hostWeights(h)
	load := func(i, j int64) (xhat_, dy_ []float32, rstd float32) {
		xs, ds := xhat[:min(chunk, N-j)], dy[:min(chunk, N-j)]
		h.Mem["x"].Load(xs, i*N+j)
		h.Mem["dy"].Load(ds, i*N+j)
		rstd, mean := hostStats(h, i)
		for k := range xs {
			xs[k] = (xs[k] - mean) * rstd
		}
		return xs, ds, rstd
	}
	first := true
	eachTile(h, pid, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			var s1, s2 float32
			for j := int64(0); j < N; j += chunk {
				xs, ds, _ := load(i, j)
				for k, w := range wf[j:][:len(ds)] {
					ds[k] *= w
				}
				s1 += dot(ds, xs)
				if p.Op == kernels.LayerNorm {
					s2 += sum(ds)
				}
			}
			c1[i-lo], c2[i-lo] = s1/float32(N), s2/float32(N)
		}
		for j := int64(0); j < N; j += chunk {
			n := min(chunk, N-j)
			out := int64(pid)*N + j
			if first {
				clear(dw[:n])
				clear(db[:n])
			} else {
				h.Mem["dw_partial"].Load(dw[:n], out)
				if p.Bias {
					h.Mem["db_partial"].Load(db[:n], out)
				}
			}
			wp := wf[j:][:n]
			for i := lo; i < hi; i++ {
				xs, ds, rstd := load(i, j)
				for k := range ds {
					dw[k] += ds[k] * xs[k]
					db[k] += ds[k]
					ds[k] = rstd * (ds[k]*wp[k] - xs[k]*c1[i-lo] - c2[i-lo])
				}
				h.Mem["dx"].Store(i*N+j, ds)
			}
			h.Mem["dw_partial"].Store(out, dw[:n])
			if p.Bias {
				h.Mem["db_partial"].Store(out, db[:n])
			}
		}
		first = false
	})
}
