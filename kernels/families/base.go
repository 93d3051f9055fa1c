package families

import "normbench/kernels"

// Launch rules that were read off a GPU after a family's kernels were swept. They
// choose among configs and change no kernel, so this file and base_fwd.go are part of
// no family's sources: a better rule leaves every record as good as it was.

// later wraps the base rules that have a later one.
func later(f *kernels.Family) *kernels.Family {
	switch f.Name {
	case name(f.Op, kernels.Bwd, "smem_pipe"):
		f.Base = bwdPipeBase
	case name(f.Op, kernels.Fwd, "tile"):
		f.Base = tileBase
	case name(f.Op, kernels.Fwd, "smem_pipe"):
		f.Base = fwdPipeBase
	case name(f.Op, kernels.Fwd, "coop"):
		f.Base = fewCoopBase
	}
	return f
}

// bwdPipeBase is smemPipeBase but for what the records of an H200 know better, on a GPU
// and of 16-bit types. Of about 150 configs each tile was the best of a width, or within
// 1% of it, over three or more numbers of rows (results/nvidia-h200/records.jsonl.gz and
// neighbours/grid.jsonl.gz); smemPipeBase is 3 to 11% behind there, up to 26% in ragged
// rows. With it the default is 1.0% behind the best known of 110 shapes in rmsnorm and
// 0.9% in layernorm: those that it was read off, so less is to be expected elsewhere.
func bwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row := smemPipeBase(p, d), p.N*p.DType.Size()
	if d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 || p.Residual {
		return base
	}
	pick, cl := wholeTile, base.Get(kernels.Cluster)
	if row%8 != 0 {
		pick = raggedTile
	}
	t, ok := pick(p, d, cl)
	if row%16 == 8 {
		t.path = 1 // each thread copies its own vectors of 8 bytes: 24.7 us, not 37, at 3070x4100
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

// fewRows says that a multiprocessor has less than eight rows.
func fewRows(p kernels.Problem, d kernels.DeviceInfo) bool { return p.M < 8*int64(d.Units) }

// wholeTile is for rows of whole vectors, cut into slices by a cluster.
func wholeTile(p kernels.Problem, d kernels.DeviceInfo, cl int) (t tile, ok bool) {
	slice, ln := p.N*p.DType.Size()/int64(cl), p.Op == kernels.LayerNorm
	// perSM gives each program of a tile of rows about eight of them, or more.
	perSM := func(rows int64) int { return int(min(max(p.M/(8*rows*int64(d.Units)), 2), 4)) }
	in := func(above, upTo int64) bool { return slice > above && slice <= upTo }
	switch {
	case cl > 1 && slice <= 8<<10:
		return t, false // a few rows, all of them under way at once
	case in(384, 512):
		return tile{8, 2, 4, 2, perSM(8), 1, cl, 0}, true
	case in(768, 1<<10) && !fewRows(p, d) && ln:
		return tile{8, 1, 4, 2, 2, 2, cl, 0}, true
	case in(768, 1<<10) && !fewRows(p, d) && perSM(4) == 2:
		return tile{4, 1, 4, 2, 2, 2, cl, 0}, true
	case in(768, 1<<10) && !fewRows(p, d):
		return tile{4, 1, 4, 2, 4, 1, cl, 0}, true
	case in(1<<10, 1536):
		return tile{4, 1, 4, 2, 3, 1, cl, 0}, true
	case in(1536, 2<<10):
		return tile{2, 2, 4, 2, perSM(2), 1, cl, 0}, true
	case in(2<<10, 3<<10) && ln:
		return tile{2, 2, 4, 2, 3, 1, cl, 0}, true
	case in(2<<10, 3<<10):
		return tile{2, 1, 4, 2, 3, 1, cl, 0}, true
	case in(3<<10, 7<<9):
		return tile{2, 2, 4, 2, 4 - int(flag(ln)), 1, cl, 0}, true
	case in(3<<10, 4<<10) && ln:
		return tile{2, 2, 8, 2, 2, 1, cl, 0}, true
	case in(4<<10, 5<<10) && ln:
		return tile{1, 1, 4, 2, 3, 2, cl, 0}, true
	case in(4<<10, 5<<10):
		return tile{1, 1, 8, 2, 3, 1, cl, 0}, true
	case in(5<<10, 6<<10) && ln:
		return tile{1, 1, 4, 2, 3, 1, cl, 0}, true
	case in(5<<10, 8<<10) && p.M < 24*int64(d.Units) && !fewRows(p, d):
		return tile{1, 1, 8, 2, 1, 1, cl, 0}, true
	case p.M < 4*int64(d.ClustersAtOnce(cl)):
		return t, false // of few rows slots are not filled again
	case in(8<<10, 10<<10) && ln && cl == 1:
		return tile{1, 1, 8, 2, 2, 2, cl, 0}, true
	case in(8<<10, 12<<10) && ln && cl <= 2:
		return tile{1, 1, 8, 2, 2, 1, cl, 0}, true
	case in(8<<10, 11<<10) && ln:
		return tile{1, 1, 8, 2, 2, 1, cl, 3}, true
	case in(12<<10, 14<<10) && ln && cl == 2:
		return tile{1, 1, 16, 2, 1, 1, cl, 0}, true
	case in(10<<10, 14<<10) && cl == 1:
		return tile{1, 1, 8, 3, 1, 2, cl, 0}, true
	case in(11<<10, 12<<10) && cl == 2:
		return tile{1, 1, 8, 3, 1, 2, cl, 3}, true
	case in(8<<10, 14<<10):
		return tile{2, 2, 8, 2, 1, 1, cl, 0}, true
	case in(14<<10, maxRow) && ln && cl == 1:
		return tile{1, 1, 8, 3, 1, 2, cl, 0}, true
	case in(14<<10, maxRow) && ln && cl == 2:
		return tile{1, 1, 16, 2, 1, 1, cl, 0}, true
	case in(14<<10, maxRow) && ln:
		return tile{1, 1, 8, 3, 1, 2, cl, 3}, true
	case in(14<<10, maxRow) && cl > 2:
		return tile{1, 1, 8, 3, 1, 1, cl, 0}, true
	}
	return t, false
}

// raggedTile is for rows that are no multiple of 8 bytes. They cost more registers, for
// a vector more and what is known of its place: some are read again from shared memory.
// Wide ones are better off without a cluster, layernorm's widest with one; few very wide
// ones in larger clusters.
func raggedTile(p kernels.Problem, d kernels.DeviceInfo, cl int) (t tile, ok bool) {
	row, ln, few := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, fewRows(p, d)
	switch {
	case row <= 512 && row%4 == 0 && !few:
		return tile{8, 1, 4, 2, 3, 1, 1, 0}, true
	case row > 512 && row <= 2<<10 && few:
		return tile{int(4 - 2*flag(row > 1<<10)), 1, 8, 2, 1, 2, cl, 0}, true
	case row > 2*maxRow && p.M <= 4*int64(d.ClustersAtOnce(8)):
		return tile{2, 1, 16, 2, 1, 2, 8, 0}, true
	case row > 2*maxRow && row <= 3*maxRow: // not measured; clusters of 4 or 8 were at 34% of the stream at 1999x20001
		return tile{1, 1, 16, 2, 1, 2, 2, 3}, true
	case p.M < int64(d.Units) || row <= 1<<10 || row > 3*maxRow:
		return t, false
	case row <= 2<<10:
		return tile{2, 1, 4, 2, 4, 2, 1, 0}, true
	case row <= 4<<10 || ln && row <= 6<<10:
		return tile{1, 1, 4, 2, 3, 2, 1, 0}, true
	case row <= 6<<10 || !ln && row > 8<<10 && row <= 12<<10:
		return tile{1, 1, 8, 2, 2, 2, 1, 0}, true
	case row <= 12<<10:
		return tile{1, 1, 8, 3, 2, 2, 1, 3}, true
	case row <= maxRow || ln && row <= 24<<10:
		return tile{1, 1, 16, 3, 1, 2, 1, 3}, true
	case ln:
		return tile{1, 1, 16, 2, 1, 2, 2, 0}, true
	}
	return tile{1, 1, 16, 2, 1, 2, 1, 3}, true
}
