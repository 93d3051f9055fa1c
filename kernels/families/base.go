package families

import "normbench/kernels"

// Launch rules that were read off a GPU after a family's kernels were swept. They
// choose among configs and change no kernel, so this file is part of no family's
// sources: a better rule leaves every record as good as it was.

// later wraps the base rules that have a later one.
func later(f *kernels.Family) *kernels.Family {
	if f.Pass == kernels.Bwd && f.Name == name(f.Op, kernels.Bwd, "smem_pipe") {
		f.Base = bwdPipeBase
	}
	return f
}

// bwdPipeBase is smemPipeBase but for what the records of an H200 know better, on a GPU
// and of 16-bit types (bf16; us of rms bwd, or regret in the mean of a width):
//
//   - A slot with one slice of 8 to 14 KiB is too small, and a tile of two such rows
//     that share a reduction is not: 43.6 us against 50.1 at 2557x10240, 44.9 against
//     54.7 at 1279x20480, 42.9 against 47.0 at 5119x5120.
//   - Of 4 to 5 KiB, 512 threads leave too many of a row's vectors without a partner:
//     256 take 20.2 us at 3691x2560, not 21.2.
//   - Ragged rows cost instructions, and more small programs share them better: 54.0
//     us against 66.0 at 6397x4095; wider ones are better off without a cluster: 60.1
//     against 86.4 at 2381x11007. Of few narrow ones a program takes some at once.
//   - Half a KiB to two in tiles of four warps, two to four programs a multiprocessor
//     as there are rows.
//   - Few wide ragged rows in larger clusters: 9.5 us and not 10.5 at 29x17389.
//   - Layernorm's wide slices of 16 KiB: by each thread's copies in clusters of two
//     (0.1% and not 6.9), read again from shared memory in larger ones.
//
// With it the default is 0.9% behind the best known of rmsnorm's 53 backwards in the
// mean and 1.5% of layernorm's, where it was 2.4 and 3.9: on the shapes that it was
// read off, so less is to be expected elsewhere.
func bwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row := smemPipeBase(p, d), p.N*p.DType.Size()
	if d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 || p.Residual {
		return base
	}
	cluster := base.Get(kernels.Cluster)
	slice, whole, ln := row/int64(cluster), row%16 == 0, p.Op == kernels.LayerNorm
	few := p.M < 8*int64(d.Units)
	// perSM gives each program of a tile of rows about eight of them, or more.
	perSM := func(rows int64) int { return int(min(max(p.M/(8*rows*int64(d.Units)), 2), 4)) }
	t, ok := tile{stages: 2, perSM: 1, path: 1, cluster: cluster}, true
	switch {
	case whole && slice > 8<<10 && slice <= 14<<10 && p.M >= 4*int64(d.ClustersAtOnce(cluster)):
		t.rows, t.unroll, t.warps = 2, 2, 8
	case whole && row > 4<<10 && row <= 5<<10:
		t.rows, t.unroll, t.warps, t.perSM = 1, 1, 8, 2
	case whole && row > 384 && row <= 512:
		t.rows, t.unroll, t.warps, t.perSM = 8, 2, 4, perSM(8)
	case whole && row > 768 && row <= 1<<10 && !few:
		t.rows, t.unroll, t.warps, t.perSM = 4, 2, 4, perSM(4)
		if t.perSM == 2 {
			t.unroll, t.path = 1, 2
		}
		if ln {
			t.rows, t.unroll, t.perSM, t.path = 8, 1, 2, 2
		}
	case whole && row > 1536 && row <= 2<<10:
		t.rows, t.unroll, t.warps, t.perSM = 2, 2, 4, perSM(2)
	case whole && row > 5<<10 && row <= 8<<10 && p.M < 24*int64(d.Units) && !few:
		t.rows, t.unroll, t.warps = 1, 1, 8
	case whole && ln && slice > 14<<10 && cluster == 2:
		t.rows, t.unroll, t.warps = 1, 1, 16
	case whole && ln && slice > 14<<10 && cluster > 2:
		t.rows, t.unroll, t.warps, t.stages, t.path, t.reload = 1, 1, 8, 3, 2, 3
	case !whole && row > 512 && row <= 2<<10 && few:
		t.rows, t.unroll, t.warps, t.path = int(4-2*flag(row > 1<<10)), 1, 8, 2
	case !whole && row > 4<<10 && row <= 8<<10 && !few:
		t.rows, t.unroll, t.warps, t.perSM, t.path, t.cluster = 1, 1, 4, 3, 2, 1
	case !whole && row > maxRow && row <= 2*maxRow && p.M >= int64(d.Units):
		t.rows, t.unroll, t.warps, t.path, t.cluster = 1, 1, 16, 2, 1
	case !whole && row > 2*maxRow && p.M <= 4*int64(d.ClustersAtOnce(8)):
		t.rows, t.unroll, t.warps, t.path, t.cluster = 2, 1, 16, 2, 8
	default:
		ok = false
	}
	if c := t.of(base); ok && refuseSmemPipe(p, c, d) == nil {
		return c
	}
	return base
}

// A tile is what base rules choose of smem_pipe.
type tile struct{ rows, unroll, warps, stages, perSM, path, cluster, reload int }

// of is c with the tile.
func (t tile) of(c kernels.Config) kernels.Config {
	return c.With(set(kernels.BlockRows, t.rows), set(kernels.Unroll, t.unroll), set(kernels.Warps, t.warps), set(kernels.Stages, t.stages),
		set(kernels.PerSM, t.perSM), set(kernels.CopyPath, t.path), set(kernels.Reload, t.reload), set(kernels.Cluster, t.cluster))
}
