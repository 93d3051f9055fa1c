package families

import (
	"fmt"

	"normbench/kernels"
)

// bwdRegPersist: persistent programs with the row and the weight gradient in
// registers, then k2. The design of Liger, apex fast, TransformerEngine and
// Fast-LLM's single pass.
func bwdRegPersist(op kernels.Op) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Bwd, "reg_persist"),
		Op:     op,
		Pass:   kernels.Bwd,
		Doc:    "persistent programs; row and weight gradient in registers, fp32 partials, then k2",
		Origin: "Liger-Kernel; apex FastLayerNorm; TransformerEngine; Fast-LLM PR 546, single pass",
		Files:  []string{"bwd_reg_persist.go", "bwd_reg_persist.cu", "reduce.go", "reduce.cu", "hoststage.go", "common.go", "common.cuh"},
		Knobs: append([]kernels.Range{
			kernels.Values(kernels.BlockRows, 1, 2, 4, 8, 16),
			kernels.Values(kernels.Warps, 2, 4, 8, 16, 32),
			kernels.Values(kernels.VectorBytes, 0),
			kernels.Values(kernels.Stages, 1, 2),
			kernels.Values(kernels.PerSM, 1, 2, 4, 8),
			kernels.Values(kernels.Programs, 0),
		}, reduceKnobs([]int{32}, []int{128}, []int{8, 32})...),
		Serves: servesPlain,
		Base:   bwdRegPersistBase,
		Refuse: refuseRegPersist,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			programs := grid(p, c, d)
			k1 := kernels.Launch{
				Stage: "k1", Source: "bwd_reg_persist.cu", Entry: "reg_persist",
				Grid:    [3]int{int(programs), 1, 1},
				Block:   c.Get(kernels.Warps) * 32,
				Shared:  mergeBytes(p, c),
				Defines: rowDefines(p, c),
				Args:    bwdArgs(p, c),
			}
			return withReduce(p, c, programs, k1)
		},
		Host: map[string]kernels.HostStage{"reg_persist": hostRegPersist, "reduce": hostReduce},
	}
}

// bwdRegPersistBase gives each thread 32 bytes of a row, 64 where db takes as
// many accumulators again, two rows and two stages, and as many programs as
// then fit: 512 threads per multiprocessor, 256 with db.
//
// Read off the H200's grid over 15 shapes (bf16, N 1024 to 16384, 8Mi to 32Mi
// elements). One stage, with as many threads, takes 62 us where this takes 55 at
// 32768x1024, and 78 where this takes 65 at 4096x8192.
func bwdRegPersistBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	bytes, threads := int64(32), int64(512)
	if p.Bias {
		bytes, threads = 64, 256
	}
	var c kernels.Config
	// Rows too wide for that take fewer stages, then fewer threads.
	for ; bytes <= 128; bytes *= 2 {
		perRow := threadsFor(p, bytes)
		rows := min(max(threads/perRow, 1), 2)
		for rows*perRow < 64 {
			rows *= 2
		}
		warps := int(rows * perRow / 32)
		c = kernels.NewConfig(set(kernels.BlockRows, int(rows)), set(kernels.Warps, warps), set(kernels.VectorBytes, 0),
			set(kernels.Stages, 2), set(kernels.PerSM, max(int(threads)/32/warps, 1)), set(kernels.Programs, 0)).With(reduceBase...)
		if refuseRegPersist(p, c, d) == nil {
			return c
		}
		c = c.With(set(kernels.Stages, 1))
		if refuseRegPersist(p, c, d) == nil {
			return c
		}
	}
	return c
}

func refuseRegPersist(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	if err := refuseLaunch(p, c, d); err != nil {
		return err
	}
	if err := refuseStages(p, c, d); err != nil {
		return err
	}
	// Per word of packed row: x and dy in each stage, the weights, and two
	// or four accumulators; about 40 registers for the rest.
	words := int64(2*c.Get(kernels.Stages) + 1 + 2*int(4/p.DType.Size()))
	if p.Bias {
		words += 4 / p.DType.Size()
	}
	perThread := min(int64(65536/(c.Get(kernels.Warps)*32)), 255)
	if err := refuseThreadsPerRow(p, c, max((perThread-24)/words, 1)); err != nil {
		return err
	}
	if need := mergeBytes(p, c); d.SharedPerBlock > 0 && need > d.SharedPerBlock {
		return fmt.Errorf("merging the rows of a program takes %d bytes of shared memory, more than %d", need, d.SharedPerBlock)
	}
	return refuseReduce(c)
}

// mergeBytes is the shared memory in which the rows of a program meet.
func mergeBytes(p kernels.Problem, c kernels.Config) int {
	if c.Get(kernels.BlockRows) == 1 {
		return 0
	}
	return int(4 * p.N)
}

// refuseStages refuses other numbers of stages than one and two, and two where
// no program has a second tile to load ahead.
func refuseStages(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	switch st := c.Get(kernels.Stages); {
	case st != 1 && st != 2:
		return fmt.Errorf("stages are 1 or 2")
	case st == 2 && grid(p, c, d) >= ceilDiv(p.M, int64(c.Get(kernels.BlockRows))):
		return fmt.Errorf("no program has a second tile to load ahead")
	}
	return nil
}

func hostRegPersist(h *kernels.HostRun, pid int) {
	p := h.Problem
	N := p.N
	xhat, dy, dw := h.Row(0, N), h.Row(1, N), h.Row(2, N)
	clear(dw)
	var db []float32
	if p.Bias {
		db = h.Row(3, N)
		clear(db)
	}
	wf, _ := hostWeights(h)
	eachTileRow(h, pid, func(i int64) {
		h.Mem["x"].Load(xhat, i*N)
		h.Mem["dy"].Load(dy, i*N)
		rstd, mean := hostStats(h, i)
		for j := range xhat {
			xhat[j] = (xhat[j] - mean) * rstd
			dw[j] += dy[j] * xhat[j]
		}
		for j := range db {
			db[j] += dy[j]
		}
		for j := range dy {
			dy[j] *= wf[j]
		}
		c1 := dot(dy, xhat) / float32(N)
		var c2 float32
		if p.Op == kernels.LayerNorm {
			c2 = sum(dy) / float32(N)
		}
		for j := range dy {
			dy[j] = rstd * (dy[j] - xhat[j]*c1 - c2)
		}
		h.Mem["dx"].Store(i*N, dy)
	})
	h.Mem["dw_partial"].Store(int64(pid)*N, dw)
	if db != nil {
		h.Mem["db_partial"].Store(int64(pid)*N, db)
	}
}
