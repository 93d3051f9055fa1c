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

// bwdPipeBase is smemPipeBase but for the rows between its widths, on a GPU and of
// 16-bit types. The times are of rms bwd, bf16, on an H200.
//
//   - A slot with one slice of 8 to 14 KiB is too small, and a tile of two such rows
//     that share a reduction is not: 43.6 us against 50.1 at 2557x10240, 44.9 against
//     54.7 at 1279x20480, 42.9 against 47.0 at 5119x5120.
//   - Of 4 to 5 KiB, 512 threads leave too many of a row's vectors without a partner:
//     256 take 20.2 us at 3691x2560, not 21.2.
//   - Ragged rows cost instructions, and more small programs share them better: 54.0
//     us against 66.0 at 6397x4095; wider ones are better off without a cluster: 60.1
//     against 86.4 at 2381x11007.
func bwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row := smemPipeBase(p, d), p.N*p.DType.Size()
	if d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 || row < minWideRow {
		return base
	}
	clusters := int64(d.ClustersAtOnce(base.Get(kernels.Cluster)))
	slice, whole := row/int64(base.Get(kernels.Cluster)), row%16 == 0
	c := base
	tile := func(rows, warps, perSM, path, cluster int) {
		c = base.With(set(kernels.BlockRows, rows), set(kernels.Unroll, rows), set(kernels.Warps, warps), set(kernels.Stages, 2),
			set(kernels.PerSM, perSM), set(kernels.CopyPath, path), set(kernels.Reload, 0), set(kernels.Cluster, cluster))
	}
	switch {
	case whole && slice > 8<<10 && slice <= 14<<10 && p.M >= 4*clusters:
		tile(2, 8, 1, 1, base.Get(kernels.Cluster))
	case whole && row > 4<<10 && row <= 5<<10:
		tile(1, 8, 2, 1, 1)
	case !whole && row > 4<<10 && row <= 8<<10:
		tile(1, 4, 3, 2, 1)
	case !whole && row > maxRow && row <= 2*maxRow && p.M >= int64(d.Units):
		tile(1, 16, 1, 2, 1)
	}
	if refuseSmemPipe(p, c, d) != nil {
		return base
	}
	return c
}
