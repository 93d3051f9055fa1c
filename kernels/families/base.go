package families

import (
	"slices"

	"normbench/kernels"
)

// Launch rules that were read off a GPU after a family's kernels were swept. They
// choose among configs and change no kernel, so this file and base_*.go are part of
// no family's sources: a better rule leaves every record as good as it was.

// later wraps the base rules that have a later one.
func later(f *kernels.Family) *kernels.Family {
	switch f.Name {
	case name(f.Op, kernels.Bwd, "smem_pipe"):
		f.Base = bwdPipeBase
	case name(f.Op, kernels.Fwd, "tile"):
		f.Base = tileBase
	case name(f.Op, kernels.Fwd, "cta_reg"):
		f.Base = pastL2(fwdRegBase)
	case name(f.Op, kernels.Fwd, "smem_pipe"):
		f.Base = pastL2(fwdPipeBase)
	case name(f.Op, kernels.Fwd, "one_shot"):
		f.Base = chosenOr(oneShotChoice, fwdOneShotBase)
	case name(f.Op, kernels.Fwd, "band"):
		f.Base = chosenOr(bandChoice, fwdBandBase)
	case name(f.Op, kernels.Bwd, "few_rows"):
		f.Base = chosenOr(fewRowsChoice, fewRowsBase)
	}
	return f
}

// chosenOr is the base rule of a family that was measured on a part of the problems: choice
// there, and base where choice has nothing.
func chosenOr(choice func(kernels.Problem, kernels.DeviceInfo) (kernels.Config, bool),
	base func(kernels.Problem, kernels.DeviceInfo) kernels.Config) func(kernels.Problem, kernels.DeviceInfo) kernels.Config {
	return func(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
		if c, ok := choice(p, d); ok {
			return c
		}
		return base(p, d)
	}
}

// bwdPipeBase is smemPipeBase but for what the records of an H200 know better, on a GPU
// and of 16-bit types: for each width that was swept, the config with the least regret in
// the mean of its numbers of rows (results/nvidia-h200/neighbours/grid.jsonl.gz,
// wide.jsonl.gz and records.jsonl.gz). So the default knows those shapes, and less is to be expected
// elsewhere.
func bwdPipeBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	base, row := smemPipeBase(p, d), p.N*p.DType.Size()
	if d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 || p.Residual {
		return base
	}
	ahead := base.Get(kernels.StatsAhead)
	t, far, narrow := narrowBwd(p, d)
	ok := narrow
	if !narrow {
		t, ok = shortTile(p, d)
		far = 1
	}
	switch {
	case ok:
		ahead = far
	case row%8 != 0:
		t, ok = unevenTile(p, d)
	default:
		if row%16 == 8 {
			t, ok = firstTile(eightZones, p, d)
		}
		if !ok {
			t, ok = wholeTile(p, d)
		}
		t = fp16Tile(t, p, d)
	}
	if row%16 == 8 && !narrow {
		t.path = 1 // each thread copies its own vectors of 8 bytes: 24.7 us, not 37, at 3070x4100
		switch wide := p.Op == kernels.LayerNorm && row > 10<<10 && row <= 12<<10; {
		case wide && p.M < 20*int64(d.Units):
			t = tile{1, 1, 16, 2, 1, 1, 1, 0} // 23.0 us, not 25.1, at 1907x5692
		case wide:
			t = tile{1, 1, 8, 2, 2, 1, 1, 0} // 37.4 us at 3279x6100, and 41.0 with two rows to a thread
		}
	}
	c := t.of(base).With(set(kernels.StatsAhead, ahead))
	if p.Op == kernels.LayerNorm && t.path == 2 && row%16 == 0 && keepsX(p, d) {
		c = c.With(set(kernels.CacheHint, 4)) // 1 to 2% at 134 to 268 MB; in rmsnorm it makes no difference
	}
	if ok && refuseSmemPipe(p, c, d) == nil {
		return c
	}
	return base
}

// fp16Tile is another tile for layernorm's fp16 in place of one with which the compiler has the next tile's
// statistics wait behind the asynchronous copies: bulk copies are not in their way, and a third slot leaves
// them time. On an H200 1024x8192 takes 18.7 us, not 19.7, where bf16 has 18.3; 4096x8192 52.5, not 54.6, and 51.6
// (neighbours/fp16-bwd.jsonl.gz).
func fp16Tile(t tile, p kernels.Problem, d kernels.DeviceInfo) tile {
	switch {
	case p.DType != kernels.FP16 || p.Op != kernels.LayerNorm || t != tile{2, 2, 8, 2, 1, 1, 2, 4}:
		return t
	case p.M >= 12*int64(d.Units):
		return tile{2, 2, 8, 3, 1, 1, 2, 4}
	}
	return tile{2, 2, 4, 2, 2, 2, 4, 4}
}

// A tile is what base rules choose of smem_pipe.
type tile struct{ rows, unroll, warps, stages, perSM, path, cluster, reload int }

// of is c with the tile.
func (t tile) of(c kernels.Config) kernels.Config {
	return c.With(set(kernels.BlockRows, t.rows), set(kernels.Unroll, t.unroll), set(kernels.Warps, t.warps), set(kernels.Stages, t.stages),
		set(kernels.PerSM, t.perSM), set(kernels.CopyPath, t.path), set(kernels.Reload, t.reload), set(kernels.Cluster, t.cluster))
}

// A tileOf is the tile for rows of up to so many bytes.
type tileOf struct {
	row int64
	tile
}

// wholeTiles are for rows of whole vectors; shortTiles for those of them whose dx stays in
// the L2, so that nothing is written while rows are read: their statistics are loaded far
// ahead (bwd_smem_pipe.cu). Wide rows are cut into more slices than shared memory asks
// for: with the sums of fewer columns to each program, less is left for k2. From 8192 columns on
// two rows to a thread and slices of 4096 are best or within 2%, of nearly all widths.
var (
	shortTiles = map[kernels.Op][]tileOf{
		kernels.RMSNorm: {
			{128, tile{32, 1, 8, 2, 2, 2, 1, 4}}, {256, tile{8, 1, 4, 2, 4, 1, 1, 0}}, {384, tile{}}, {512, tile{8, 1, 4, 3, 2, 1, 1, 4}}, {768, tile{8, 1, 4, 3, 2, 1, 1, 0}},
			{1 << 10, tile{4, 1, 4, 3, 4, 1, 1, 4}}, {2<<10 - 16, tile{2, 2, 4, 2, 4, 1, 1, 0}}, {2 << 10, tile{2, 1, 4, 3, 4, 1, 1, 0}},
		},
		kernels.LayerNorm: {
			{128, tile{16, 2, 2, 2, 4, 1, 1, 4}}, {256, tile{8, 1, 4, 2, 4, 1, 1, 0}}, {384, tile{}}, {512, tile{4, 1, 4, 2, 4, 2, 1, 4}}, {768, tile{}}, {1<<10 - 16, tile{4, 2, 4, 2, 4, 1, 1, 4}},
			{1 << 10, tile{4, 1, 4, 3, 3, 1, 1, 4}}, {2<<10 - 16, tile{2, 2, 4, 2, 4, 1, 1, 4}}, {2 << 10, tile{2, 2, 4, 3, 2, 1, 1, 4}},
		},
	}
	wholeTiles = map[kernels.Op][]tileOf{
		kernels.RMSNorm: {
			{384, tile{}}, {512, tile{8, 2, 4, 2, 4, 1, 1, 0}}, {768, tile{8, 2, 4, 2, 3, 1, 1, 0}}, {1 << 10, tile{4, 2, 4, 2, 4, 1, 1, 0}},
			{1536, tile{8, 2, 4, 2, 3, 1, 1, 0}}, {2 << 10, tile{2, 1, 4, 3, 4, 1, 1, 0}}, {3 << 10, tile{2, 1, 4, 3, 2, 2, 1, 0}},
			{4 << 10, tile{1, 1, 4, 2, 4, 1, 1, 0}}, {5 << 10, tile{1, 1, 8, 3, 3, 1, 1, 0}}, {6 << 10, tile{1, 1, 8, 2, 3, 1, 1, 0}},
			{7 << 10, tile{1, 1, 16, 2, 2, 1, 1, 0}}, {8 << 10, tile{1, 1, 8, 2, 2, 1, 1, 0}}, {10 << 10, tile{2, 2, 8, 2, 1, 2, 1, 0}}, {12 << 10, tile{1, 1, 8, 2, 1, 1, 1, 4}},
			{14 << 10, tile{1, 1, 8, 2, 1, 1, 1, 0}}, {16 << 10, tile{2, 2, 16, 2, 1, 2, 2, 4}}, {20 << 10, tile{2, 2, 8, 2, 1, 1, 2, 4}},
			{24 << 10, tile{2, 2, 8, 2, 2, 1, 4, 0}}, {28 << 10, tile{1, 1, 8, 3, 1, 2, 2, 4}}, {32 << 10, tile{2, 2, 16, 2, 1, 1, 4, 4}},
			{40 << 10, tile{2, 2, 4, 2, 2, 1, 8, 4}}, {56 << 10, tile{1, 1, 8, 2, 3, 1, 8, 0}}, {64 << 10, tile{2, 2, 8, 2, 2, 1, 8, 0}},
			{96 << 10, tile{2, 2, 8, 2, 1, 1, 8, 4}}, {128<<10 - 16, tile{1, 1, 8, 3, 1, 2, 8, 4}}, {128 << 10, tile{1, 1, 8, 2, 1, 2, 8, 0}},
		},
		kernels.LayerNorm: {
			{384, tile{}}, {512, tile{8, 2, 4, 2, 4, 1, 1, 4}}, {768, tile{8, 1, 4, 2, 3, 1, 1, 4}}, {1 << 10, tile{4, 1, 4, 2, 4, 1, 1, 4}},
			{1536, tile{4, 1, 4, 2, 3, 1, 1, 0}}, {2 << 10, tile{2, 2, 4, 2, 4, 2, 1, 4}}, {3 << 10, tile{2, 2, 4, 2, 3, 1, 1, 4}},
			{4 << 10, tile{2, 2, 8, 2, 2, 2, 1, 4}}, {5 << 10, tile{2, 2, 4, 2, 2, 1, 1, 0}}, {6 << 10, tile{1, 1, 4, 2, 3, 1, 1, 0}},
			{8 << 10, tile{2, 2, 16, 3, 1, 1, 1, 0}}, {12 << 10, tile{2, 2, 8, 2, 1, 2, 1, 4}},
			{16 << 10, tile{2, 2, 8, 2, 1, 1, 2, 4}}, {20 << 10, tile{2, 2, 8, 2, 1, 1, 2, 4}}, {24 << 10, tile{2, 2, 4, 2, 2, 1, 4, 4}},
			{28 << 10, tile{2, 2, 8, 2, 1, 1, 4, 4}}, {32 << 10, tile{2, 2, 4, 2, 3, 1, 8, 4}}, {40 << 10, tile{2, 2, 4, 2, 2, 1, 8, 4}},
			{48 << 10, tile{2, 2, 4, 2, 2, 1, 8, 4}}, {56 << 10, tile{1, 1, 8, 2, 1, 2, 4, 4}}, {64 << 10, tile{1, 1, 4, 2, 3, 1, 8, 0}},
			{96 << 10, tile{2, 2, 8, 2, 1, 1, 8, 4}}, {128 << 10, tile{1, 1, 8, 3, 1, 2, 8, 4}},
		},
	}
)

// tileIn is the tile for the row, of those that are in order of it. Where there are less
// rows than two tiles for each, smemPipeBase knows better: it divides the tiles, or the
// rows.
func tileIn(tiles []tileOf, p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row := p.N * p.DType.Size()
	i := slices.IndexFunc(tiles, func(t tileOf) bool { return row <= t.row })
	if i < 0 || tiles[i].rows == 0 {
		return t, false
	}
	t = tiles[i].tile
	return t, p.M >= 2*int64(t.rows)*int64(d.ClustersAtOnce(t.cluster))
}

// shortTile is for rows whose dx is written to the L2 and not to memory while the kernel
// runs; the narrowest ones are read so fast that it takes less of them, but for those of 64
// columns, whose larger dx have a tile of their own.
func shortTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row := p.N * p.DType.Size()
	dx := p.M * row
	switch {
	case row%16 != 0 || dx > d.CacheBytes:
		return t, false
	case row > 512 || dx <= d.CacheBytes/4:
		return tileIn(shortTiles[p.Op], p, d)
	case row > 64 && row <= 128 && p.Op == kernels.LayerNorm:
		return tile{32, 2, 4, 2, 6, 1, 1, 0}, true // 28.2 us, not 30.1, at 262144x64
	case row > 64 && row <= 128:
		return tile{32, 1, 8, 3, 4, 1, 1, 4}, true // 27.4 us, not 27.8
	}
	return t, false
}

// someRowsZones are for 3 to 24 rows of 1025 to 6144 columns to each multiprocessor, and in rmsnorm up to 100 of the narrowest, whose
// few tiles are the larger part of the time: mostly two rows to a thread, kept widened. In us, wholeTiles' and these (H200,
// bf16, neighbours/gaps.jsonl.gz): rmsnorm 772x2048 9.2 and 8.4, 4752x1232 14.7 and 14.0, 1636x2432 12.7 and
// 12.0; layernorm 2514x2688 17.9 and 16.5, 1524x3904 16.6 and 15.2.
var someRowsZones = []zoneTile{
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 60, below: 100}, tile{2, 2, 4, 2, 3, 1, 1, 4}},
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 24, below: 60}, tile{2, 2, 4, 2, 2, 2, 1, 0}},
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 4, below: 24}, tile{2, 2, 4, 2, 2, 1, 1, 4}},
	{zone{over: 3 << 10, most: 4 << 10, least: 4, below: 8}, tile{2, 2, 8, 2, 1, 1, 1, 4}},
	// Bulk copies, as fp16 takes 22.3 us, not 18.3, at 2048x4096 by others, as fp16Tile says.
	{zone{op: lnOp, over: 4 << 10, most: 8 << 10, least: 4, below: 24}, tile{2, 2, 8, 2, 1, 2, 1, 4}},
	{zone{op: rmsOp, over: 4 << 10, most: 6 << 10, least: 4, below: 24}, tile{1, 1, 8, 2, 2, 1, 1, 4}},
	{zone{op: rmsOp, over: 6 << 10, most: 8<<10 - 1, least: 4, below: 24}, tile{2, 2, 8, 2, 1, 2, 1, 0}},
	{zone{op: lnOp, over: 6 << 10, most: 8<<10 - 1, least: 3, below: 4}, tile{2, 2, 8, 2, 1, 2, 1, 4}},  // 9.7 us, not 10.2 by few_rows, at 520x3456
	{zone{op: lnOp, over: 8<<10 - 1, most: 12 << 10, least: 3, below: 4}, tile{2, 2, 8, 2, 1, 1, 2, 4}}, // 11.5 us, not 12.8, at 520x5160
}

// wholeZones are what is better than wholeTiles for a width's fewest or most rows, or between two of its widths.
var wholeZones = []zoneTile{
	// Four programs of a multiprocessor have registers yet: 40.3 us, not 42.6, at 24562x1048 (rmsnorm).
	{zone{op: rmsOp, over: 2 << 10, most: 2300, least: 100}, tile{2, 1, 4, 2, 4, 1, 1, 0}},
	{zone{op: lnOp, over: 2 << 10, most: 2300, least: 100}, tile{2, 2, 4, 2, 4, 2, 1, 0}},
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 100}, tile{2, 1, 4, 2, 3, 1, 1, 0}},
	{zone{op: lnOp, over: 6 << 10, most: 8 << 10, below: 100}, tile{2, 2, 8, 3, 1, 2, 1, 4}},
	{zone{op: rmsOp, over: 6 << 10, most: 8 << 10, below: 24}, tile{1, 1, 8, 2, 1, 1, 1, 0}},
	{zone{op: rmsOp, over: 24 << 10, most: 28<<10 - 1, least: 6, below: 8}, tile{1, 1, 4, 2, 2, 2, 4, 4}},   // 21.7 us, not 23.7, at 884x12512
	{zone{op: lnOp, over: 56 << 10, most: 64<<10 - 1, below: 8}, tile{2, 2, 8, 2, 2, 1, 8, 0}},              // 38.2 us, not 44.2, at 716x29312
	{zone{op: rmsOp, over: 4 << 10, most: 5<<10 - 1, aligned: 16, least: 60}, tile{1, 1, 4, 2, 4, 1, 1, 0}}, // 51.9 us, not 53.8, at 15073x2304
	{zone{over: 78 << 10, most: 96 << 10, below: 1}, tile{2, 2, 8, 2, 1, 2, 8, 4}},                          // 14.4 us, not 15.4, at 114x40360
	{zone{op: lnOp, over: 24 << 10, most: 28<<10 - 1, least: 7}, tile{1, 1, 4, 2, 3, 2, 4, 0}},              // 75.5 us, not 80.2, at 3890x12544
	{zone{op: rmsOp, over: 24 << 10, most: 28 << 10, below: 8}, tile{2, 2, 8, 2, 1, 1, 4, 0}},
	{zone{op: lnOp, over: 20 << 10, most: 24 << 10, below: 12}, tile{2, 2, 4, 2, 2, 2, 4, 4}}, // 22.1 us, not 22.8, at 1000x10624
	{zone{over: 28 << 10, most: 2*maxRow - 1, least: 8}, tile{1, 1, 4, 2, 2, 2, 4, 4}},        // 1437x14672: 35.8 us, not 38.3, in rmsnorm, 38.3, not 40.1, in layernorm
	{zone{over: 28 << 10, most: 2*maxRow - 1}, tile{2, 2, 8, 2, 1, 1, 4, 4}},
	{zone{op: lnOp, over: 14 << 10, most: 16 << 10, xOver: 6}, tile{1, 1, 16, 2, 1, 1, 1, 0}},
	{zone{op: lnOp, over: 14 << 10, most: 16 << 10, xOver: 2}, tile{1, 1, 8, 3, 1, 2, 1, 0}},
	{zone{op: rmsOp, over: 14 << 10, most: 16 << 10, xOver: 2}, tile{1, 1, 8, 2, 2, 1, 2, 0}},
}

// wholeTile is for rows of whole vectors.
func wholeTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	if t, ok = firstTile(someRowsZones, p, d); ok {
		return t, true
	}
	t, ok = tileIn(wholeTiles[p.Op], p, d)
	if better, found := firstTile(wholeZones, p, d); found {
		t = better
	}
	return t, ok
}
