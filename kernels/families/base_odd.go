package families

import "normbench/kernels"

// The later launch rules of smem_pipe's backwards whose rows are no multiple of 16 bytes: see base.go.

// unevenTile is base for rows that are no multiple of 8 bytes: by evenZones where they are one of 4, and else by oddZones, but for a few of
// the widest, which are shared among eight.
func unevenTile(base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row := p.N * p.DType.Size()
	// Rows at multiples of 4 bytes have rules of their own from two to a multiprocessor on, and wide ones from half as many rows as those.
	if row%4 == 0 && (p.M >= 2*int64(d.Units) || row > 12<<10 && 2*p.M >= int64(d.Units)) {
		if c, ok := firstConfig(evenZones, base, p, d); ok {
			return c, true
		}
	}
	if row > 2*maxRow && p.M <= 4*int64(d.ClustersAtOnce(8)) {
		return base.With(at("br2.w16.k1.cp2.cl8").Settings()...), true
	}
	return firstConfig(oddZones, base, p, d)
}

// oddZones are for rows that start at any 2 bytes, and for those at multiples of 4 that evenZones leaves. They cost more registers, for
// a vector more and what is known of its place: some are read again from shared memory.
// Wide ones are better off without a cluster, layernorm's widest with one; few very wide
// ones in larger clusters.
//
// From 2 to 6 KiB they were read off four shapes (neighbours/odd-bwd.jsonl.gz). In us, the tiles
// before and these: rmsnorm 9001x2058 49.1 and 33.7, 7411x2501 38.2 and 34.8, 11003x2742 54.8 and
// 52.2; layernorm 9001x2058 43.0 and 36.4. At 14009x1337 two rows take 34.5 and 37.3, one 35.8 and 42.4
// with more stages or programs.
//
// Many rows of 257 to 512 columns have 8 rows up to 350 columns and 4
// beyond, four programs to a multiprocessor where there are rows enough. In us, smemPipeBase's and these: rmsnorm
// 12001x257 17.7 and 14.4, 12001x333 18.3 and 14.4, layernorm 30011x257 35.8 and 29.7.
var oddZones = []zoneConfig{
	{zone{most: 512, aligned: 4, least: 4, below: 8}, at("br8.w8.k2.cp1")},
	{zone{most: 350, aligned: 4, least: 160}, at("br8.w4.k4.cp1")},
	{zone{most: 512, aligned: 4, least: 8}, at("br8.w4.k3.cp1")},
	{zone{most: 400, least: 160}, at("br16.w4.k4.cp2")}, // 14.8 us, not 16.8, at 21471x183
	{zone{most: 512, least: 24}, at("br8.w4.k4.cp2")},
	{zone{over: 512, most: 1200, below: 8}, at("br4.w8.k2.cp2")}, // 7.8 us, not 8.5, at 741x587
	{zone{over: 1 << 10, most: 2 << 10, below: 8}, at("br2.w4.k2.cp2")},
	{zone{op: lnOp, over: 512, most: 700, least: 160}, at("br8.w4.k4.cp2")},
	{zone{op: rmsOp, over: 512, most: 700, least: 24}, at("br8.w4.k4.cp2")},
	{zone{over: 512, most: 700}, at("br8.w4.k2.cp2")},
	{zone{over: 700, most: 1 << 10, below: 60}, at("br4.w8.k2.cp2")},
	{zone{over: 700, most: 1 << 10}, at("br4.w4.k4.cp2")},
	{zone{op: lnOp, over: 3 << 10, most: 4 << 10, below: 8}, at("br2.w8.k2.cp2")},
	{zone{op: lnOp, over: 2 * maxRow, most: 3 * maxRow}, at("br1.w16.k1.cp2.rl3.cl2")},
	{zone{over: 2 * maxRow, most: 3 * maxRow}, at("br1.w16.k1.cp2.cl2")},
	{zone{op: rmsOp, over: 3 * maxRow}, at("br1.w8.k2.cp2.cl4")}, // 33.2 us, not 40.4, at 371x26339
	{zone{over: 3 * maxRow}, leave},
	{zone{below: 1}, leave},
	{zone{most: 1 << 10}, leave},
	{zone{op: lnOp, over: 2032, most: 2 << 10}, at("br2.w4.k3.cp2")}, // a row may be of 129 vectors, for which it has registers in three programs
	{zone{most: 2 << 10}, at("br2.w4.k4.cp2")},
	{zone{most: 3 << 10}, at("br2.w4.k3.cp2")},
	{zone{over: 4 << 10, most: 5 << 10, aligned: 4}, at("br1.w4.k3.cp1")},
	{zone{op: lnOp, over: 5 << 10, most: 6 << 10, below: 12}, at("br1.w8.k2.cp2")}, // 15.3 us, not 17.1, at 1126x2997
	{zone{most: 6 << 10}, at("br1.w4.k3.cp2")},
	{zone{op: lnOp, most: 9 << 10}, at("br1.w8.k2.cp2.st3.rl3")}, // layernorm has more to keep
	{zone{most: 9 << 10}, at("br1.w8.k2.cp2.st3")},
	{zone{most: 12 << 10, below: 8}, at("br1.w8.k1.cp2")},
	{zone{op: lnOp, most: 12 << 10}, at("br1.w8.k2.cp2.st3.rl3")},
	{zone{most: 12 << 10}, at("br1.w8.k2.cp2")},
	{zone{most: maxRow}, at("br1.w16.k1.cp2.st3")},
	{zone{op: lnOp, most: 24 << 10}, at("br1.w16.k1.cp2.st3.rl3")},
	{zone{most: 24 << 10}, at("br1.w16.k1.cp2")},
	{zone{op: lnOp}, at("br1.w16.k1.cp2.cl2")},
	{zone{}, at("br1.w16.k1.cp2.rl3")},
}

// eightZones are for rows that start at multiples of 8 bytes, up to 3750 columns: each thread's own copies, of 16
// rows to 2, and two to a thread but for the narrowest. In us, the tiles of whole vectors' rows and these: rmsnorm
// 2003x700 10.3 and 8.7, 2003x3500 19.5 and 16.2, layernorm 700x700 8.7 and 7.2, 50021x100 17.1 and 14.7.
var eightZones = []zoneConfig{
	{zone{below: 4}, leave},
	{zone{most: 128}, leave},
	{zone{most: 256}, at("br16.w4.k2.cp1")}, // many are narrowZones'
	{zone{most: 512}, leave},
	{zone{most: 1040, least: 40}, leave},
	{zone{most: 700}, at("br8.w4.k2.cp1")},
	{zone{op: lnOp, most: 1040, below: 8}, at("br2.w4.k4.cp1.u2")},
	{zone{most: 1040, below: 8}, leave},
	{zone{most: 1040}, at("br8.w4.k2.cp1.u2")},
	{zone{most: 1600, least: 40}, at("br4.w4.k4.cp1.u2")},
	{zone{most: 1600}, at("br4.w4.k2.cp1.u2")},
	{zone{most: 3100, least: 40}, at("br2.w4.k4.cp1.u2")},
	{zone{most: 3100}, at("br2.w4.k2.cp1.u2")},
	{zone{least: 40}, leave},
	{zone{over: 7500}, leave},
	{zone{op: lnOp, below: 8}, at("br2.w8.k1.cp1.u2")},
	{zone{below: 8}, at("br2.w8.k1.cp1")},
	{zone{op: lnOp, over: 5400}, at("br2.w8.k1.cp1")},
	{zone{op: lnOp}, at("br2.w8.k2.cp1.u2")},
	{zone{}, at("br2.w8.k2.cp1")},
}

// evenZones are for rows at multiples of 4 bytes, where each thread's own
// copies of 4 bytes are faster than bulk copies and shifted vectors, and wide rows are read again from
// shared memory. Up to 3 KiB they were read off eight widths, each with 700 to 12001 rows
// (neighbours/uneven-bwd.jsonl.gz): in us, before and now, rmsnorm 12001x258 16.7 and 10.8, 5003x1002 15.5 and 13.6,
// layernorm 19.7 and 12.3, 18.4 and 16.0. Wider, bulk copies and these (H200, bf16, neighbours/odd-more.jsonl.gz): rmsnorm
// 2447x4094 23.7 and 20.9, 1231x8186 25.2 and 23.1, layernorm 29.8 and 23.3, 31.3 and 25.0, 4001x8190
// 79.4 and 61.1. Layernorm's up to 4 KiB, and rmsnorm's many from 1.7 to 3, have two rows to a thread
// (gaps.jsonl.gz).
//
// Few rows of more than 6144 columns are shared as whole ones are, in slices of about 4096. In us, by
// a program for each row and so (H200, bf16, neighbours/gaps.jsonl.gz): rmsnorm 472x8318 15.2 and 12.9, 274x13162 15.5 and
// 12.4, 705x14338 25.7 and 22.4; layernorm 19.8 and 14.5, 20.2 and 14.9, 31.1 and 25.5.
var evenZones = []zoneConfig{
	{zone{over: 512, most: 1040, least: 24}, at("br4.w4.k4.cp1")},
	{zone{over: 512, most: 1040}, at("br4.w4.k2.cp1")},
	{zone{op: lnOp, over: 1040, most: 3 << 10, below: 24}, at("br2.w4.k2.cp1.u2.rl4")},              // 7.6 us, not 8.4, at 700x1002
	{zone{op: lnOp, over: 3 << 10, most: 4 << 10, least: 8, below: 16}, at("br2.w4.k2.cp1.u2.rl4")}, // 12.6 us, not 13.3, at 1800x2006
	{zone{op: lnOp, over: 1040, most: 1800}, at("br2.w4.k4.cp1.u2.rl4")},                            // 36.6 us, not 39.8, at 17104x1158
	{zone{over: 1700, most: 1800, least: 24}, at("br2.w4.k4.cp1.u2.rl4")},
	{zone{over: 1800, most: 3 << 10, least: 24}, at("br2.w4.k3.cp1.u2.rl4")}, // rmsnorm 17104x1158 35.6 us, and 37.7
	{zone{over: 1040, most: 1300, least: 24}, at("br4.w4.k4.cp1")},           // rmsnorm's from here to 3 KiB
	{zone{over: 1300, most: 1700, least: 24}, at("br4.w4.k2.cp1")},
	{zone{over: 1040, most: 1300, below: 8}, at("br4.w8.k2.cp1")}, // 6.7 us, not 7.1, at 881x618
	{zone{over: 2200, most: 3 << 10, below: 8}, at("br1.w4.k2.cp1")},
	{zone{over: 1040, most: 3 << 10}, at("br1.w4.k4.cp1")},
	{zone{op: lnOp, over: 3 << 10, most: 6 << 10, below: 4}, at("br2.w8.k1.cp1.u2.rl4")}, // 8.7 us, not 9.6, at 457x2302
	{zone{over: 3 << 10, most: 6 << 10, below: 8}, at("br1.w8.k2.cp1")},
	{zone{over: 5 << 10, most: 6 << 10, below: 60}, at("br1.w8.k2.cp1")}, // 13.5 us at 1616x3006, and 15.4 by bulk copies; layernorm 15.4 and 18.6
	{zone{over: 3 << 10, most: 4 << 10, below: 16}, at("br1.w4.k3.cp1")}, // 11.9 us at 1800x2006, and 13.2; layernorm 13.3 and 15.3

	{zone{over: 3 * maxRow, below: 8}, at("br1.w8.k1.cp1.cl8")},
	{zone{op: lnOp, over: 3 * maxRow, below: 16}, at("br1.w8.k1.cp1.cl8")},
	{zone{op: lnOp, over: 36 << 10, below: 16}, at("br2.w8.k2.cp1.u2.rl4.cl8")}, // 27.6 us, not 47.9, at 475x21530
	{zone{over: 36 << 10, below: 8}, at("br1.w8.k3.cp1.cl8")},
	{zone{op: lnOp, over: 12 << 10, most: maxRow, below: 8}, at("br2.w8.k1.cp1.u2.rl4.cl2")},
	{zone{over: 12 << 10, most: maxRow, below: 8}, at("br1.w8.k2.cp1.cl2")},
	{zone{over: maxRow, most: 20 << 10, least: 2, below: 8}, at("br2.w4.k2.cp1.u2.rl4.cl4")},
	{zone{op: lnOp, over: maxRow, most: 20 << 10, least: 2, below: 16}, at("br2.w4.k2.cp1.u2.rl4.cl4")},
	{zone{over: maxRow, below: 2}, at("br2.w8.k1.cp1.u2.rl4.cl4")},
	{zone{over: maxRow, below: 8}, at("br1.w8.k2.cp1.rl4.cl4")},
	{zone{op: lnOp, over: maxRow, below: 16}, at("br1.w8.k2.cp1.rl4.cl4")},

	{zone{op: lnOp, over: 6 << 10, most: 8 << 10, below: 8}, at("br2.w8.k1.cp1.u2.rl4")}, // 11.9 us, not 12.5, at 611x3794
	{zone{over: 6 << 10, most: 8 << 10, below: 40}, at("br1.w4.k2.cp1.st3")},             // up to 16 vectors to a thread: 2441x4098 has 17, and 0.54 of the stream where 4094 columns have 0.79
	{zone{op: lnOp, over: 8 << 10, most: 9 << 10, below: 16}, at("br1.w8.k1.cp1.rl3")},   // 18.7 us, not 21.5, at 1538x4202
	{zone{over: 8 << 10, most: 9 << 10, below: 16}, at("br1.w8.k1.cp1")},
	{zone{over: 6 << 10, most: 9 << 10}, at("br1.w8.k2.cp1.st3.rl3")},
	{zone{over: 9 << 10, most: maxRow, below: 16}, at("br1.w8.k1.cp1.rl3")},
	{zone{op: lnOp, over: 9 << 10, most: maxRow}, at("br1.w8.k1.cp1.st3.rl3")},
	{zone{over: 9 << 10, most: maxRow}, at("br1.w8.k2.cp1.st3.rl3")},
	{zone{op: lnOp, over: maxRow, most: 24 << 10}, at("br1.w16.k1.cp1")},
	{zone{op: lnOp, over: 24 << 10, most: 30 << 10}, at("br1.w8.k2.cp1.rl4.cl4")}, // 58.2 us, not 68.8, at 2271x13002
	{zone{op: rmsOp, over: 24 << 10, most: 2 * maxRow}, at("br1.w16.k1.cp1.st3.rl3")},
	{zone{over: 30 << 10, most: 2 * maxRow}, at("br1.w16.k1.cp1.rl3")},
}
