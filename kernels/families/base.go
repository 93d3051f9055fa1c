package families

import "normbench/kernels"

// Launch rules that were read off a GPU after a family's kernels were swept, most of them as lists of
// zones (base_zone.go), of which the first that a problem is in says what runs. They
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
	one := base.With(oneTile.Settings()...)
	c, ok := firstConfig(narrowZones, one.With(set(kernels.StatsAhead, 0)), p, d)
	narrow := ok
	if !ok {
		c, ok = shortTile(one.With(set(kernels.StatsAhead, 1)), p, d)
	}
	switch {
	case ok:
	case row%8 != 0:
		c, ok = unevenTile(one, p, d)
	default:
		if row%16 == 8 {
			c, ok = firstConfig(eightZones, one, p, d)
		}
		if !ok {
			c, ok = wholeTile(one, p, d)
		}
		c = fp16Tile(c, p, d)
	}
	if row%16 == 8 && !narrow {
		c = c.With(set(kernels.CopyPath, 1)) // each thread copies its own vectors of 8 bytes: 24.7 us, not 37, at 3070x4100
		switch wide := p.Op == kernels.LayerNorm && row > 10<<10 && row <= 12<<10; {
		case wide && p.M < 20*int64(d.Units):
			c = one.With(at("br1.w16.k1.cp1").Settings()...) // 23.0 us, not 25.1, at 1907x5692
		case wide:
			c = one.With(at("br1.w8.k2.cp1").Settings()...) // 37.4 us at 3279x6100, and 41.0 with two rows to a thread
		}
	}
	if p.Op == kernels.LayerNorm && c.Get(kernels.CopyPath) == 2 && row%16 == 0 && keepsX(p, d) {
		c = c.With(set(kernels.CacheHint, 4)) // 1 to 2% at 134 to 268 MB; in rmsnorm it makes no difference
	}
	if ok && refuseSmemPipe(p, c, d) == nil {
		return c
	}
	return base
}

// oneTile is what the backward's zones leave out: two slots of rows that are read once, by a program without a cluster, one to a thread.
var oneTile = at("u1.st2.rl0.cl1")

// fp16Tile is another tile for layernorm's fp16 in place of one with which the compiler has the next tile's
// statistics wait behind the asynchronous copies: bulk copies are not in their way, and a third slot leaves
// them time. On an H200 1024x8192 takes 18.7 us, not 19.7, where bf16 has 18.3; 4096x8192 52.5, not 54.6, and 51.6
// (neighbours/fp16-bwd.jsonl.gz).
func fp16Tile(c kernels.Config, p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	waits := c.With(at("br2.w8.k1.cp1.u2.st2.rl4.cl2").Settings()...)
	switch {
	case p.DType != kernels.FP16 || p.Op != kernels.LayerNorm || c != waits:
		return c
	case p.M >= 12*int64(d.Units):
		return c.With(set(kernels.Stages, 3))
	}
	return c.With(at("w4.k2.cp2.cl4").Settings()...)
}

// wholeTiles are for rows of whole vectors. Wide rows are cut into more slices than shared memory asks
// for: with the sums of fewer columns to each program, less is left for k2. From 8192 columns on
// two rows to a thread and slices of 4096 are best or within 2%, of nearly all widths.
var wholeTiles = []zoneConfig{
	{zone{op: rmsOp, most: 384}, leave},
	{zone{op: rmsOp, most: 512}, at("br8.w4.k4.cp1.u2")},
	{zone{op: rmsOp, most: 768}, at("br8.w4.k3.cp1.u2")},
	{zone{op: rmsOp, most: 1 << 10}, at("br4.w4.k4.cp1.u2")},
	{zone{op: rmsOp, most: 1536}, at("br8.w4.k3.cp1.u2")},
	{zone{op: rmsOp, most: 2 << 10}, at("br2.w4.k4.cp1.st3")},
	{zone{op: rmsOp, most: 3 << 10}, at("br2.w4.k2.cp2.st3")},
	{zone{op: rmsOp, most: 4 << 10}, at("br1.w4.k4.cp1")},
	{zone{op: rmsOp, most: 5 << 10}, at("br1.w8.k3.cp1.st3")},
	{zone{op: rmsOp, most: 6 << 10}, at("br1.w8.k3.cp1")},
	{zone{op: rmsOp, most: 7 << 10}, at("br1.w16.k2.cp1")},
	{zone{op: rmsOp, most: 8 << 10}, at("br1.w8.k2.cp1")},
	{zone{op: rmsOp, most: 10 << 10}, at("br2.w8.k1.cp2.u2")},
	{zone{op: rmsOp, most: 12 << 10}, at("br1.w8.k1.cp1.rl4")},
	{zone{op: rmsOp, most: 14 << 10}, at("br1.w8.k1.cp1")},
	{zone{op: rmsOp, most: 16 << 10}, at("br2.w16.k1.cp2.u2.rl4.cl2")},
	{zone{op: rmsOp, most: 20 << 10}, at("br2.w8.k1.cp1.u2.rl4.cl2")},
	{zone{op: rmsOp, most: 24 << 10}, at("br2.w8.k2.cp1.u2.cl4")},
	{zone{op: rmsOp, most: 28 << 10}, at("br1.w8.k1.cp2.st3.rl4.cl2")},
	{zone{op: rmsOp, most: 32 << 10}, at("br2.w16.k1.cp1.u2.rl4.cl4")},
	{zone{op: rmsOp, most: 40 << 10}, at("br2.w4.k2.cp1.u2.rl4.cl8")},
	{zone{op: rmsOp, most: 56 << 10}, at("br1.w8.k3.cp1.cl8")},
	{zone{op: rmsOp, most: 64 << 10}, at("br2.w8.k2.cp1.u2.cl8")},
	{zone{op: rmsOp, most: 96 << 10}, at("br2.w8.k1.cp1.u2.rl4.cl8")},
	{zone{op: rmsOp, most: 128<<10 - 16}, at("br1.w8.k1.cp2.st3.rl4.cl8")},
	{zone{op: rmsOp, most: 128 << 10}, at("br1.w8.k1.cp2.cl8")},
	{zone{op: lnOp, most: 384}, leave},
	{zone{op: lnOp, most: 512}, at("br8.w4.k4.cp1.u2.rl4")},
	{zone{op: lnOp, most: 768}, at("br8.w4.k3.cp1.rl4")},
	{zone{op: lnOp, most: 1 << 10}, at("br4.w4.k4.cp1.rl4")},
	{zone{op: lnOp, most: 1536}, at("br4.w4.k3.cp1")},
	{zone{op: lnOp, most: 2 << 10}, at("br2.w4.k4.cp2.u2.rl4")},
	{zone{op: lnOp, most: 3 << 10}, at("br2.w4.k3.cp1.u2.rl4")},
	{zone{op: lnOp, most: 4 << 10}, at("br2.w8.k2.cp2.u2.rl4")},
	{zone{op: lnOp, most: 5 << 10}, at("br2.w4.k2.cp1.u2")},
	{zone{op: lnOp, most: 6 << 10}, at("br1.w4.k3.cp1")},
	{zone{op: lnOp, most: 8 << 10}, at("br2.w16.k1.cp1.u2.st3")},
	{zone{op: lnOp, most: 12 << 10}, at("br2.w8.k1.cp2.u2.rl4")},
	{zone{op: lnOp, most: 16 << 10}, at("br2.w8.k1.cp1.u2.rl4.cl2")},
	{zone{op: lnOp, most: 20 << 10}, at("br2.w8.k1.cp1.u2.rl4.cl2")},
	{zone{op: lnOp, most: 24 << 10}, at("br2.w4.k2.cp1.u2.rl4.cl4")},
	{zone{op: lnOp, most: 28 << 10}, at("br2.w8.k1.cp1.u2.rl4.cl4")},
	{zone{op: lnOp, most: 32 << 10}, at("br2.w4.k3.cp1.u2.rl4.cl8")},
	{zone{op: lnOp, most: 40 << 10}, at("br2.w4.k2.cp1.u2.rl4.cl8")},
	{zone{op: lnOp, most: 48 << 10}, at("br2.w4.k2.cp1.u2.rl4.cl8")},
	{zone{op: lnOp, most: 56 << 10}, at("br1.w8.k1.cp2.rl4.cl4")},
	{zone{op: lnOp, most: 64 << 10}, at("br1.w4.k3.cp1.cl8")},
	{zone{op: lnOp, most: 96 << 10}, at("br2.w8.k1.cp1.u2.rl4.cl8")},
	{zone{op: lnOp, most: 128 << 10}, at("br1.w8.k1.cp2.st3.rl4.cl8")},
}

// shortTiles are for those of them whose dx stays in
// the L2, so that nothing is written while rows are read: their statistics are loaded far
// ahead (bwd_smem_pipe.cu).
var shortTiles = []zoneConfig{
	{zone{op: rmsOp, most: 128}, at("br32.w8.k2.cp2.rl4")},
	{zone{op: rmsOp, most: 256}, at("br8.w4.k4.cp1")},
	{zone{op: rmsOp, most: 384}, leave},
	{zone{op: rmsOp, most: 512}, at("br8.w4.k2.cp1.st3.rl4")},
	{zone{op: rmsOp, most: 768}, at("br8.w4.k2.cp1.st3")},
	{zone{op: rmsOp, most: 1 << 10}, at("br4.w4.k4.cp1.st3.rl4")},
	{zone{op: rmsOp, most: 2<<10 - 16}, at("br2.w4.k4.cp1.u2")},
	{zone{op: rmsOp, most: 2 << 10}, at("br2.w4.k4.cp1.st3")},
	{zone{op: lnOp, most: 128}, at("br16.w2.k4.cp1.u2.rl4")},
	{zone{op: lnOp, most: 256}, at("br8.w4.k4.cp1")},
	{zone{op: lnOp, most: 384}, leave},
	{zone{op: lnOp, most: 512}, at("br4.w4.k4.cp2.rl4")},
	{zone{op: lnOp, most: 768}, leave},
	{zone{op: lnOp, most: 1<<10 - 16}, at("br4.w4.k4.cp1.u2.rl4")},
	{zone{op: lnOp, most: 1 << 10}, at("br4.w4.k3.cp1.st3.rl4")},
	{zone{op: lnOp, most: 2<<10 - 16}, at("br2.w4.k4.cp1.u2.rl4")},
	{zone{op: lnOp, most: 2 << 10}, at("br2.w4.k2.cp1.u2.st3.rl4")},
}

// tileIn is base by the first of tiles that holds. Where there are less
// rows than two tiles for each, smemPipeBase knows better: it divides the tiles, or the
// rows.
func tileIn(tiles []zoneConfig, base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	c, ok = firstConfig(tiles, base, p, d)
	return c, ok && p.M >= 2*int64(c.Get(kernels.BlockRows))*int64(d.ClustersAtOnce(c.Get(kernels.Cluster)))
}

// shortTile is for rows whose dx is written to the L2 and not to memory while the kernel
// runs; the narrowest ones are read so fast that it takes less of them, but for those of 64
// columns, whose larger dx have a tile of their own.
func shortTile(base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row := p.N * p.DType.Size()
	dx := p.M * row
	switch {
	case row%16 != 0 || dx > d.CacheBytes:
		return c, false
	case row > 512 || dx <= d.CacheBytes/4:
		return tileIn(shortTiles, base, p, d)
	}
	return firstConfig(shortNarrow, base, p, d)
}

var shortNarrow = []zoneConfig{
	{zone{over: 128}, leave},
	{zone{op: lnOp, over: 64}, at("br32.w4.k6.cp1.u2")},       // 28.2 us, not 30.1, at 262144x64
	{zone{op: rmsOp, over: 64}, at("br32.w8.k4.cp1.st3.rl4")}, // 27.4 us, not 27.8
}

// someRowsZones are for 3 to 24 rows of 1025 to 6144 columns to each multiprocessor, and in rmsnorm up to 100 of the narrowest, whose
// few tiles are the larger part of the time: mostly two rows to a thread, kept widened. In us, wholeTiles' and these (H200,
// bf16, neighbours/gaps.jsonl.gz): rmsnorm 772x2048 9.2 and 8.4, 4752x1232 14.7 and 14.0, 1636x2432 12.7 and
// 12.0; layernorm 2514x2688 17.9 and 16.5, 1524x3904 16.6 and 15.2.
var someRowsZones = []zoneConfig{
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 60, below: 100}, at("br2.w4.k3.cp1.u2.rl4")},
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 24, below: 60}, at("br2.w4.k2.cp2.u2")},
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 4, below: 24}, at("br2.w4.k2.cp1.u2.rl4")},
	{zone{over: 3 << 10, most: 4 << 10, least: 4, below: 8}, at("br2.w8.k1.cp1.u2.rl4")},
	// Bulk copies, as fp16 takes 22.3 us, not 18.3, at 2048x4096 by others, as fp16Tile says.
	{zone{op: lnOp, over: 4 << 10, most: 8 << 10, least: 4, below: 24}, at("br2.w8.k1.cp2.u2.rl4")},
	{zone{op: rmsOp, over: 4 << 10, most: 6 << 10, least: 4, below: 24}, at("br1.w8.k2.cp1.rl4")},
	{zone{op: rmsOp, over: 6 << 10, most: 8<<10 - 1, least: 4, below: 24}, at("br2.w8.k1.cp2.u2")},
	{zone{op: lnOp, over: 6 << 10, most: 8<<10 - 1, least: 3, below: 4}, at("br2.w8.k1.cp2.u2.rl4")},      // 9.7 us, not 10.2 by few_rows, at 520x3456
	{zone{op: lnOp, over: 8<<10 - 1, most: 12 << 10, least: 3, below: 4}, at("br2.w8.k1.cp1.u2.rl4.cl2")}, // 11.5 us, not 12.8, at 520x5160
}

// wholeZones are what is better than wholeTiles for a width's fewest or most rows, or between two of its widths.
var wholeZones = []zoneConfig{
	// Four programs of a multiprocessor have registers yet: 40.3 us, not 42.6, at 24562x1048 (rmsnorm).
	{zone{op: rmsOp, over: 2 << 10, most: 2300, least: 100}, at("br2.w4.k4.cp1")},
	{zone{op: lnOp, over: 2 << 10, most: 2300, least: 100}, at("br2.w4.k4.cp2.u2")},
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 100}, at("br2.w4.k3.cp1")},
	{zone{op: lnOp, over: 6 << 10, most: 8 << 10, below: 100}, at("br2.w8.k1.cp2.u2.st3.rl4")},
	{zone{op: rmsOp, over: 6 << 10, most: 8 << 10, below: 24}, at("br1.w8.k1.cp1")},
	{zone{op: rmsOp, over: 24 << 10, most: 28<<10 - 1, least: 6, below: 8}, at("br1.w4.k2.cp2.rl4.cl4")}, // 21.7 us, not 23.7, at 884x12512
	{zone{op: lnOp, over: 56 << 10, most: 64<<10 - 1, below: 8}, at("br2.w8.k2.cp1.u2.cl8")},             // 38.2 us, not 44.2, at 716x29312
	{zone{op: rmsOp, over: 4 << 10, most: 5<<10 - 1, aligned: 16, least: 60}, at("br1.w4.k4.cp1")},       // 51.9 us, not 53.8, at 15073x2304
	{zone{over: 78 << 10, most: 96 << 10, below: 1}, at("br2.w8.k1.cp2.u2.rl4.cl8")},                     // 14.4 us, not 15.4, at 114x40360
	{zone{op: lnOp, over: 24 << 10, most: 28<<10 - 1, least: 7}, at("br1.w4.k3.cp2.cl4")},                // 75.5 us, not 80.2, at 3890x12544
	{zone{op: rmsOp, over: 24 << 10, most: 28 << 10, below: 8}, at("br2.w8.k1.cp1.u2.cl4")},
	{zone{op: lnOp, over: 20 << 10, most: 24 << 10, below: 12}, at("br2.w4.k2.cp2.u2.rl4.cl4")}, // 22.1 us, not 22.8, at 1000x10624
	{zone{over: 28 << 10, most: 2*maxRow - 1, least: 8}, at("br1.w4.k2.cp2.rl4.cl4")},           // 1437x14672: 35.8 us, not 38.3, in rmsnorm, 38.3, not 40.1, in layernorm
	{zone{over: 28 << 10, most: 2*maxRow - 1}, at("br2.w8.k1.cp1.u2.rl4.cl4")},
	{zone{op: lnOp, over: 14 << 10, most: 16 << 10, xOver: 6}, at("br1.w16.k1.cp1")},
	{zone{op: lnOp, over: 14 << 10, most: 16 << 10, xOver: 2}, at("br1.w8.k1.cp2.st3")},
	{zone{op: rmsOp, over: 14 << 10, most: 16 << 10, xOver: 2}, at("br1.w8.k2.cp1.cl2")},
}

// wholeTile is for rows of whole vectors.
func wholeTile(base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	if c, ok = firstConfig(someRowsZones, base, p, d); ok {
		return c, true
	}
	c, ok = tileIn(wholeTiles, base, p, d)
	if better, found := firstConfig(wholeZones, base, p, d); found {
		c = better
	}
	return c, ok
}
