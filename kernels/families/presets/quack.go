package presets

import (
	"fmt"

	"normbench/kernels"
)

// quack's RMSNorm and LayerNorm on Hopper (rmsnorm_config.py): rows through
// shared memory by asynchronous copies, clusters for wide rows, and, in PR 101,
// the weight gradient finished by the last CTAs instead of a second kernel.

var (
	quack = quackPreset("quack", "quack, main line", "rows staged in shared memory, two stages, "+
		"clusters beyond 8192 columns; the partial rows are summed by a second kernel", 0)
	quack101 = quackPreset("quack-101", "quack PR 101", "as quack; up to 2048 columns the last CTA "+
		"of each group, then of all groups, sums the partial rows", 2)
	quack101v1 = quackPreset("quack-101-v1", "quack PR 101, first version", "as quack; up to 2048 "+
		"columns CTAs add their partial rows in memory: not the same bits every time", 3)
)

// quackPreset makes a preset of quack's rule; fused is the knob fused_dw of narrow backwards.
func quackPreset(name, system, doc string, fused int) *Preset {
	return &Preset{Name: name, System: system, Doc: doc, Lacks: limits{"quack", "fp8", "acc"},
		Pick: func(p kernels.Problem, d kernels.DeviceInfo) ([]kernels.Variant, error) {
			return quackRule(p, d, fused)
		}}
}

func quackRule(p kernels.Problem, d kernels.DeviceInfo, fused int) ([]kernels.Variant, error) {
	wide := p.DType.Size() / 2 // fp32 rows go to clusters at half the columns
	if p.Pass == kernels.Fwd {
		threads := int64(128)
		if p.N > 16<<10 {
			threads = 256
		}
		perRow := step(p.N, [][2]int64{{64, 8}, {128, 16}, {3072, 32}, {6144, 64}, {16384, 128}}, 256)
		cluster := step(p.N, [][2]int64{{16 << 10, 1}, {32 << 10, 2}, {64 << 10, 4}, {128 << 10, 8}}, 16)
		if wide == 2 {
			cluster = step(p.N, [][2]int64{{32 << 10, 1}, {64 << 10, 2}, {128 << 10, 4}, {256 << 10, 8}}, 16)
			if p.Op == kernels.LayerNorm {
				cluster = step(p.N, [][2]int64{{8 << 10, 1}, {64 << 10, 2}, {128 << 10, 4},
					{256 << 10, 8}}, 16)
			}
		}
		reload, limit := 0, int64(8<<10)
		if p.Op == kernels.LayerNorm {
			limit = 16 << 10
		}
		if p.N > limit {
			reload = 1
		}
		return oneVariant(variant(p, "smem_pipe", "br%d.w%d.v0.st1.cp1.rl%d.cl%d.k0.p0.lb0.ch0",
			threads/perRow, threads/32, reload, cluster))
	}
	threads := step(p.N, [][2]int64{{4096, 128}}, 256)
	perRow := step(p.N, [][2]int64{{64, 8}, {128, 16}, {256, 32}, {512, 64}, {4096, 128}}, 256)
	cluster := step(p.N, [][2]int64{{8 << 10, 1}, {16 << 10, 2}, {32 << 10, 4}, {64 << 10, 8}}, 16)
	sm := int64(d.SMs)
	columns := step(p.N, [][2]int64{{256, 16 * sm}, {1024, 8 * sm}, {2048, 4 * sm}, {4096, 2 * sm},
		{8192, sm}, {16384, max(sm/2, 1)}}, 2*sm)
	reload := 0
	if p.N > 16<<10 {
		reload = 2
	}
	fd := 0
	if fused != 0 && p.N <= 2048 && !p.NoWeight {
		if p.Bias {
			return nil, fmt.Errorf("the fused reduction of PR 101 has no bias")
		}
		fd = fused
	}
	return oneVariant(variant(p, "smem_pipe", "br%d.w%d.v0.st2.cp1.rl%d.cl%d.fd%d.p%d.u1.ro0.pt0.lb0.ch0.er0",
		threads/perRow, threads/32, reload, cluster, fd, columns*cluster))
}
