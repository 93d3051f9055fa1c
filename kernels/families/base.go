package families

import (
	"math"
	"slices"

	"normbench/kernels"
)

// Launch rules that were read off a GPU after a family's kernels were swept. They
// choose among configs and change no kernel, so this file is part of no family's
// sources: a better rule leaves every record as good as it was.

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

// ---- Forwards -------------------------------------------------------------------

// fwdPipeBase is fwdSmemPipeBase but for widths of 16-bit rows at which an H200 knows
// better (records of the default group, us of bf16): layernorm of 256 to 512 columns by
// bulk copies of eight rows, 1 to 11% faster, and of 12288 and 16384 by a program for
// each row and not by two to a multiprocessor, 5%; rmsnorm of 32768 by two programs to a
// multiprocessor, 9% faster than cta_reg's, and of 2048 and 4096 with a row to 32 and 64
// threads that read it again from shared memory, 2 to 4%.
func fwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row, ln := fwdSmemPipeBase(p, d), p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	if d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 || p.Residual || p.FP8 {
		return base
	}
	c := base.With(set(kernels.Stages, 1), set(kernels.Reload, 0), set(kernels.Cluster, 1))
	switch {
	case ln && row%16 == 0 && row >= 512 && row <= 1<<10 && p.M >= 8*int64(d.Units):
		c = c.With(set(kernels.BlockRows, 8), set(kernels.Warps, 4), set(kernels.CopyPath, 2), set(kernels.PerSM, 0))
	case ln && row%16 == 0 && row > 16<<10 && row <= 32<<10:
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 8), set(kernels.CopyPath, 1), set(kernels.PerSM, 0))
	case wideRMS(p):
		c = c.With(set(kernels.BlockRows, 1), set(kernels.Warps, 8), set(kernels.CopyPath, 1), set(kernels.PerSM, 2))
	case !ln && row%16 == 0 && row > 3<<10 && row <= 8<<10:
		rows := 4 >> flag(row > 4<<10)
		c = c.With(set(kernels.BlockRows, rows), set(kernels.Warps, 4), set(kernels.CopyPath, 1), set(kernels.PerSM, 0), set(kernels.Reload, 1))
	default:
		return base
	}
	if refuseFwdSmemPipe(p, c, d) == nil {
		return c
	}
	return base
}

// wideRMS are the rmsnorm forwards beyond cta_reg's best widths that smem_pipe takes.
func wideRMS(p kernels.Problem) bool {
	row := p.N * p.DType.Size()
	return p.Op == kernels.RMSNorm && p.DType.Size() == 2 && row%16 == 0 && row > 48<<10 && row <= 64<<10
}

// fewCoop says whether a forward has so few rows, whose vectors are narrow, that more
// threads to a row help: coop's with one program to a row. On an H200 it takes 4.8 us and
// 5.0 where cta_reg takes 6.0 and 6.8, at 71x3571 (rmsnorm, layernorm).
func fewCoop(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	return p.Pass == kernels.Fwd && d.Kind == kernels.KindCUDA && p.DType.Size() == 2 && row%16 != 0 && row > 1<<10 && row <= 8<<10 && p.M <= 2*int64(d.Units)
}

// fewCoopBase is the coop forward's rule but for those of fewCoop.
func fewCoopBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	f := fwdCoop(p.Op)
	base := f.Base(p, d)
	if fewCoop(p, d) {
		c := base.With(set(kernels.BlockRows, 1), set(kernels.Warps, 8), set(kernels.PerSM, int(ceilDiv(p.M, int64(d.Units)))), set(kernels.CTAsPerRow, 1))
		if f.Refuse(p, c, d) == nil {
			return c
		}
	}
	return base
}

// ---- fp8 and its transpose -----------------------------------------------------

// A tileRule is what is best for rows up to so many bytes: the vector, slots, programs
// per multiprocessor (0 for one to a slice), the copy path, the programs of a cluster or,
// through global memory, of a row.
type tileRule struct {
	row                                int64
	vec, stages, perSM, path, cl, ctas int
}

// The rules were read off an H200 (bf16, te): of 50 to 130 configs the best, or one
// within 1% of it that is more like its neighbours. All write 32 bytes of a column at a
// time, and let those lines stay in L2 until the others have come: with the streaming
// hint 83.1 us and not 81.3 at 8192x8192.
var tileRules = map[kernels.Op][]tileRule{
	kernels.RMSNorm: {
		{2 << 10, 0, 1, 0, 1, 1, 1}, {4 << 10, 0, 2, 1, 1, 2, 1}, {8 << 10, 8, 2, 2, 2, 8, 1}, {16 << 10, 0, 2, 1, 1, 8, 1},
		{24 << 10, 0, 1, 2, 1, 8, 1}, {32 << 10, 0, 1, 3, 1, 16, 1}, {64 << 10, 0, 1, 3, 1, 1, 32}, {math.MaxInt64, 0, 1, 1, 2, 1, 32},
	},
	kernels.LayerNorm: {
		{2 << 10, 8, 1, 0, 1, 1, 1}, {4 << 10, 0, 1, 2, 1, 2, 1}, {8 << 10, 0, 1, 3, 1, 4, 1}, {16 << 10, 0, 1, 3, 1, 8, 1},
		{24 << 10, 0, 1, 2, 1, 8, 1}, {32 << 10, 0, 1, 3, 1, 16, 1}, {64 << 10, 0, 1, 1, 1, 16, 1}, {math.MaxInt64, 0, 1, 1, 1, 1, 32},
	},
}

// tileBase is the rule for the row or, where that is refused, fwdTileBase.
func tileBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	rules := tileRules[p.Op]
	r := rules[slices.IndexFunc(rules, func(r tileRule) bool { return p.N*p.DType.Size() <= r.row })]
	c := tileConfig(r.vec, r.stages, r.path, r.cl, r.ctas).With(set(kernels.PerSM, r.perSM))
	if d.Kind == kernels.KindCUDA && refuseTile(p, c, d) == nil {
		return c
	}
	return fwdTileBase(p, d)
}
