package families

import "normbench/kernels"

// The later launch rules of one_shot, the forward of small x and of narrow rows: see base.go.

// oneShotChoice is the config of one_shot where it is the one to take: a row to a program, or to a cluster, of a thread's
// own, but for what its zone sets.
func oneShotChoice(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	if !measuredFwd(p, d) {
		return c, false
	}
	row := p.N * p.DType.Size()
	base := fwdOneShotBase(p, d).With(set(kernels.BlockRows, 1), set(kernels.Unroll, 1), set(kernels.Cluster, 1))
	if c, ok = wideShot(base, p, d); !ok {
		switch {
		case row%16 != 0:
			c, ok = unevenShot(base, p, d)
		default:
			if c, ok = firstConfig(smallShots, base, p, d); !ok && !(p.Op == kernels.RMSNorm && inZone(narrowRows, p, d)) {
				c, ok = firstConfig(wholeShots, base, p, d)
				if c.Get(kernels.CacheHint) == 2 && keepsX(p, d) && (isPow2(int(p.N)) || p.Op == kernels.RMSNorm && c.Get(kernels.Unroll) < 4) {
					c = c.With(set(kernels.CacheHint, 6)) // as in pastL2; 400000x200 takes 97 us so, and 80 without, in layernorm
				}
			}
		}
	}
	return c, ok && refuseOneShot(p, c, d) == nil
}

// wideShots share wide rows that are less than half as many as the multiprocessors among clusters of
// up to eight programs, and whole ones of 12288 columns and more, that are no more than the multiprocessors, among four or
// eight of 128 threads. On an H200 (bf16) 29x17389 takes 5.5 us in rmsnorm and 6.1 in layernorm, a program for each row 6.7 and 8.3; 1x8192
// 4.1 and 4.5, and 4.6 and 5.0. Four programs of 512 threads took 5.5 and 7.5 us at 64x20000, and those of 128
// 5.2 (eight) and 5.8 (neighbours/few-fwd.jsonl.gz). Uneven ones of more than 6000 columns have eight of 256 threads, or
// of 512 for up to 16 of rmsnorm's, and from 16384 columns on as long as they are three quarters of the multiprocessors (gaps.jsonl.gz).
var wideShots = []zoneConfig{
	{zone{above: 1}, leave},
	{zone{most: 4<<10 - 1}, leave},
	{zone{most: 8 << 10, uneven: 16}, leave},
	{zone{over: 96 << 10, aligned: 16, above: .5}, leave}, // 8.5 us by smem_pipe at 90x53152 (rmsnorm), and 10.1
	// 7.3 us, not 9.6, at 36x47007 (rmsnorm) by four of 1024 threads.
	{zone{op: rmsOp, over: 12000, uneven: 16, upTo: .5, rowsMost: 16}, at("w16.cl8")},
	{zone{over: 12000, uneven: 16, upTo: .5}, at("w8.cl8")},
	{zone{op: lnOp, over: 32 << 10, uneven: 16, upTo: .75}, at("w4.cl8")}, // 6.9 us, not 8.1, at 84x20810
	{zone{over: 32 << 10, uneven: 16, upTo: .75}, at("w8.cl8")},
	{zone{uneven: 16, above: .5}, leave},
	{zone{most: 24<<10 - 1, above: .5}, leave},
	{zone{op: lnOp, over: 48<<10 - 1, aligned: 16, upTo: .25}, at("w4.cl8")},        // 4.5 us, not 4.9, at 2x26176
	{zone{op: lnOp, most: 8 << 10, aligned: 16, rowsOver: 8}, leave},                // 4.1 us at 23x2048 by a program for each, and 4.4 by two
	{zone{op: lnOp, over: 40 << 10, aligned: 16, above: .875}, at("w16.cl1")},       // 128x27648: 8.2 us, and 9.4 by four
	{zone{op: lnOp, over: 32 << 10, aligned: 16, above: .875}, at("w8.cl2")},        // 128x18432: 6.8 us, and 7.8
	{zone{op: lnOp, over: 24<<10 - 1, most: 64<<10 - 1, aligned: 16}, at("w4.cl4")}, // 128x16384: 6.7 us, and 7.6 with eight
	{zone{over: 24<<10 - 1, aligned: 16, above: .75}, at("w4.cl4")},
	{zone{over: 24<<10 - 1, aligned: 16}, at("w4.cl8")},
}

// wideShot is base for them. Where no zone sets one, the cluster is as large as rows and columns allow, with a thread for eight elements.
func wideShot(base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	for _, z := range wideShots {
		if z.holds(p, d) {
			return base.With(z.set.Settings()...), z.set != leave
		}
	}
	cluster, warps := 1, 1
	for cluster < 8 && int64(cluster)*p.M <= int64(d.Units) && 2*cluster*1024 <= int(p.N) {
		cluster *= 2
	}
	for warps < 32 && 2*warps*32*8*cluster <= int(p.N) {
		warps *= 2
	}
	return base.With(set(kernels.Warps, warps), set(kernels.Cluster, cluster)), true
}

// smallShots are for whole rows of an x of no more than 5 MB (6 in layernorm's rows below 1024 columns): up to 512
// columns programs of 64 to 128 threads, a lane for each vector of a row as far as a warp goes, and from
// 1024 columns on a program for each row, or two of the widest. On an H200 (bf16,
// neighbours/few-fwd.jsonl.gz) that is 0 to 8% behind the best of a grid, where the rules for more rows
// were up to 24%: 2003x512 5.0 us, not 5.9, in rmsnorm and 5.0, not 5.1, in layernorm; 256x4096 4.9, not
// 5.6, and 4.9, not 5.5. rmsnorm's of 1025 to 4096 columns have a program each up to 10 MB, of fewer threads, as long as
// all of them run at once. Those of few hundred rows are of neighbours/few-hundred.jsonl.gz.
var smallShots = []zoneConfig{
	{zone{most: 64}, leave},
	// wholeShots were read off whole tiles of powers of two: 5.8 us at 4096x512 in layernorm, and 6.6 by these.
	{zone{most: 2<<10 - 1, columns: powerOfTwo, least: 8, multiple: 16}, leave},
	{zone{most: 2<<10 - 1, above: 32}, leave},
	// Two rows to a program, and to a thread from 15 for each multiprocessor on: 5.9 us at 1744x1336 and 7.7 at 3000x1448 in rmsnorm, and
	// 6.7 and 8.4 with one. In layernorm the pipeline is as good from 20 on.
	{zone{op: rmsOp, over: 2 << 10, most: 3 << 10, least: 15, upTo: 27}, at("br2.w2.u2")},
	{zone{op: lnOp, over: 2 << 10, most: 3 << 10, least: 15, upTo: 20}, at("br2.w2.u2")},
	{zone{over: 2 << 10, most: 3 << 10, least: 11, below: 15}, at("br2.w2")},
	{zone{op: rmsOp, over: 4 << 10, most: 6 << 10, above: 8, upTo: 15}, at("br2.w4.u2.ch2")}, // 6.6 us, not 7.1, at 1600x2176
	// Less threads than for fewer rows: 5.7 us, not 6.6, at 400x5376 in rmsnorm, 6.2, not 7.7, at 300x7168 in layernorm.
	{zone{op: rmsOp, over: 10 << 10, most: 16 << 10, above: 2, upTo: 4, xMost: 5 * mib}, at("w8")},
	{zone{op: lnOp, over: 10 << 10, most: 16 << 10, above: 2, upTo: 4, xMost: 1. / 9}, at("w4")},
	// A larger x, as far as there is a rule for it.
	{zone{xOver: 10 * mib}, leave},
	{zone{op: rmsOp, over: 4 << 10, most: 8 << 10, above: 8, xOver: 5 * mib}, leave}, // more programs than run at once: 8.4 us at 1311x3328, and 7.6 by smem_pipe
	{zone{op: rmsOp, over: 4 << 10, most: 8 << 10, xOver: 5 * mib}, at("w4")},
	{zone{op: rmsOp, over: 2 << 10, most: 4 << 10, xOver: 5 * mib}, at("w2")},
	{zone{op: rmsOp, xOver: 5 * mib}, leave},
	{zone{op: lnOp, over: 4 << 10, most: 5 << 10, xOver: 5 * mib}, at("w2")},
	{zone{op: lnOp, over: 2<<10 - 1, xOver: 5 * mib}, leave},
	{zone{op: lnOp, xOver: 6 * mib}, leave},

	{zone{op: rmsOp, most: 128, rowsMost: 16}, at("br4.w1")}, // 3.5 us, not 4.0, at 4x128
	{zone{op: rmsOp, most: 256, rowsMost: 16}, at("br2.w1")},
	{zone{op: rmsOp, most: 512, rowsMost: 16}, at("w1")},
	{zone{op: rmsOp, most: 256}, at("br16.w4")},
	{zone{op: rmsOp, over: 512, most: 2<<10 - 1, upTo: 2}, at("w1")}, // 4.0 us, not 4.3, at 200x480
	{zone{op: rmsOp, most: 1<<10 - 1}, at("br8.w4")},
	{zone{op: rmsOp, most: 2<<10 - 1}, at("br4.w4")},
	{zone{op: rmsOp, most: 4<<10 - 1}, at("w4")},
	{zone{op: rmsOp, over: 4 << 10, most: 6 << 10, above: 4}, at("w4")}, // 5.7 us, not 6.7, at 1000x2304
	{zone{op: rmsOp, most: 10 << 10}, at("w8")},
	{zone{op: rmsOp, most: 24 << 10}, at("w16")},
	{zone{op: rmsOp, most: 32 << 10}, at("w16.cl2")},

	{zone{op: lnOp, most: 128}, at("br8.w2")},
	{zone{op: lnOp, over: 512, most: 1 << 10, upTo: 2}, at("w2")},
	{zone{op: lnOp, over: 1 << 10, most: 2<<10 - 1, upTo: 2}, at("br2.w2")}, // 4.08 us, not 4.16, at 40x1000
	{zone{op: lnOp, most: 2<<10 - 1}, at("br8.w4")},
	{zone{op: lnOp, most: 2 << 10, upTo: 2}, at("w4")},
	{zone{op: lnOp, most: 2 << 10}, at("br2.w4")},
	{zone{op: lnOp, most: 8 << 10}, at("w4")},
	{zone{op: lnOp, most: 10 << 10}, at("w8")},
	{zone{op: lnOp, most: 16 << 10}, at("w16")},
	{zone{op: lnOp, most: 32 << 10}, at("w4.cl2")},
}

// wholeShots are for eight whole rows and more to each multiprocessor. They were read off an H200 (bf16, default group), whole
// grids beside the bases of that day: rmsnorm's rows up to 2 KiB are 1 to 6% faster than in cta_reg and smem_pipe, and of 8192
// columns 2 to 4%; layernorm's of 64 and 128 columns 2 to 10%, of 256 and 512 3 to 6% where x has a
// quarter of the L2 or less, and of 2048 1 to 3% where it has more than twice of it. Elsewhere
// smem_pipe is as good or better.
var wholeShots = []zoneConfig{
	{zone{below: 8}, leave},
	{zone{op: lnOp, over: 511, most: 1 << 10, odd: 8}, leave},             // 9.0 us at 20011x256 and 8.9 at 9001x512, where smem_pipe has 8.4 and 7.9
	{zone{op: lnOp, over: 512, most: 700, xOver: 2}, at("br4.w1.u2.ch2")}, // 89.2 us, not 98.3 by smem_pipe, at 330000x264
	{zone{op: lnOp, over: 700, most: 900, xOver: 2}, at("br4.w1.u4.ch2")},

	// Rows of 65 to 255 columns that are no power of two, whose groups of lanes have some without a vector. What is for powers of two
	// was 4% behind the best of a dozen in the mean of 63 problems in rmsnorm and 3% of 24 in layernorm (H200, bf16,
	// neighbours/narrow.jsonl.gz): 13.2 us, not 15.0, at 90001x120, 61.8, not 70.7, at 400000x160.
	{zone{op: rmsOp, over: 128, most: 160, columns: otherwise, least: 100, below: 320}, at("br16.w4")},
	{zone{op: rmsOp, over: 128, most: 160, columns: otherwise, least: 100}, at("br16.w2.u2.ch2")},
	{zone{op: lnOp, over: 128, most: 160, columns: otherwise, least: 100, below: 320}, at("br16.w2.u2.ch2")},
	{zone{over: 128, most: 256, columns: otherwise, least: 100, below: 320}, at("br16.w2.u4.ch2")},
	{zone{op: lnOp, over: 128, most: 200, columns: otherwise, least: 100}, at("br16.w2.ch2")}, // 43.7 us, not 54.4 with two rows to a thread, at 460911x88
	{zone{op: rmsOp, over: 128, most: 256, columns: otherwise, least: 100, xOver: 1}, at("br8.w1.u4.ch2")},
	{zone{over: 128, most: 256, columns: otherwise, least: 100}, at("br8.w1.u4")},
	{zone{op: lnOp, over: 128, most: 511, columns: otherwise, least: 100}, at("br16.w2.u2")}, // 60.1 us, not 68.6 with the hint, at 387262x152
	{zone{over: 128, most: 511, columns: otherwise, least: 100, below: 320}, at("br16.w2.u2")},
	{zone{over: 128, most: 511, columns: otherwise, least: 100, xOver: 2}, at("br8.w1.u2.ch2")},
	{zone{over: 128, most: 511, columns: otherwise, least: 100}, at("br8.w2.ch2")},

	{zone{op: rmsOp, most: 128, xMost: 1. / 8}, at("br16.w4")},
	{zone{op: rmsOp, most: 128}, at("br16.w2.ch2")},
	{zone{op: rmsOp, most: 256}, at("br8.w1.u2.ch2")},
	{zone{op: rmsOp, most: 512, xMost: 1. / 8}, at("br8.w4.ch2")},
	{zone{op: rmsOp, most: 512, upTo: 128}, at("br4.w1.u4.ch2")}, // all of them run at once: 7.2 us at 16384x256, not 7.5; at 20011x256 9.0, where eight rows have 8.2
	{zone{op: rmsOp, most: 512}, at("br8.w1.u4.ch2")},
	{zone{op: rmsOp, most: 1 << 10, xMost: 1. / 4}, at("br8.w2.ch2")},
	{zone{op: rmsOp, most: 1 << 10}, at("br4.w2.u4.ch2")},
	{zone{op: rmsOp, most: 2 << 10, xMost: 1}, at("br4.w4.u4.ch2")},
	{zone{op: rmsOp, most: 2 << 10}, at("br4.w2.u4.ch2")},
	{zone{op: rmsOp, most: 14 << 10}, leave},
	{zone{op: rmsOp, most: 16 << 10}, at("w4.ch2")},

	{zone{op: lnOp, most: 128, xMost: 1. / 8}, at("br16.w4")},
	{zone{op: lnOp, most: 128}, at("br16.w1.u2")},
	{zone{op: lnOp, most: 256, xMost: 1}, at("br16.w2.u4.ch2")},
	{zone{op: lnOp, most: 256}, at("br8.w1.u4.ch2")},
	{zone{op: lnOp, most: 512, xMost: 1. / 4}, at("br8.w1.u2")},
	{zone{op: lnOp, most: 512}, leave},
	{zone{op: lnOp, most: 1 << 10, xMost: 1. / 4}, at("br8.w2.u2")},
	{zone{op: lnOp, most: 4<<10 - 1}, leave},
	{zone{op: lnOp, most: 4 << 10, xOver: 2}, at("w2.ch2")},
	{zone{op: lnOp, most: 8 << 10}, leave},
	{zone{op: lnOp, xMost: 1. / 4}, leave},
	{zone{op: lnOp, most: 10 << 10, xMost: 1}, at("w4")},
	{zone{op: lnOp, xMost: 3. / 8}, leave},
	{zone{op: lnOp, most: 12 << 10, xMost: 3. / 4}, at("w8")},
}
