package families

import "normbench/kernels"

// The later launch rules of forwards whose rows are no multiple of 16 bytes: see base.go.

// A zoneDesign is the design that is best in a zone, and what its knobs are set to. One without a design leaves the zone to other rules.
type zoneDesign struct {
	zone
	design string
	set    kernels.Config
}

// unevenRule is the first of unevenFwds that p is in; ok is false where that has no design, or there is none.
func unevenRule(p kernels.Problem, d kernels.DeviceInfo) (r zoneDesign, ok bool) {
	if !measuredFwd(p, d) {
		return r, false
	}
	for _, r := range unevenFwds {
		if r.holds(p, d) {
			return r, r.design != ""
		}
	}
	return r, false
}

// unevenFwds were read off an H200 (bf16; N = 257 to 25001, 5 to 42 million elements; the best of
// grids with vectors of 2 bytes and with those around the row, neighbours/odd-fwd.jsonl.gz and
// odd-more.jsonl.gz). Of the stream, rmsnorm has 0.81 to 0.91 by them from 1023 columns on and
// layernorm 0.66 to 0.84. Rows that start at multiples of 4 bytes are better off with vectors of 4.
// Where a width ends is where a thread has one vector more: layernorm's 2223 columns take 47 us with 128
// lanes for a row, and with 64 57.
var unevenFwds = []zoneDesign{
	// Few rows, that one_shot has by default: 4.2, 4.4 and 4.7 us (rmsnorm 173x409, 229x541,
	// 71x3571) where coop's programs of 8 warps took 4.5 and 4.7 at the last two, and a program
	// for eight rows 7.6 at the first; layernorm 4.5, 4.6 and 5.1, coop 4.7 and 5.1.
	{zone{over: 512, most: 4 << 10, uneven: 16, upTo: 2}, "smem_pipe", at("w8")},
	{zone{over: 4 << 10, most: 8 << 10, uneven: 16, upTo: 2}, "smem_pipe", at("w16")},
	// Multiples of 8 bytes.
	{zone{op: lnOp, over: 32 << 10, most: 44 << 10, aligned: 8, uneven: 16, least: 2, below: 8}, "smem_pipe", at("w8")},    // 12.7 us, not 14.4, at 308x19988
	{zone{op: lnOp, over: 44 << 10, most: 60 << 10, aligned: 8, uneven: 16, least: 4}, "smem_pipe", at("w8")},              // 139.7 us, not 153.7, at 4109x29596
	{zone{op: rmsOp, over: 44 << 10, most: 96 << 10, aligned: 8, uneven: 16, above: 2}, "smem_pipe", at("w8.rl1.cl2.ch2")}, // 83.9 us, not 94.4, at 2423x33004
	{zone{aligned: 8}, "", leave},
	// Layernorm's wide rows: one program of 16 warps, which takes the next row into shared memory while it writes one, as persistentRows; beyond
	// 54 KiB there is no room for two rows. In us, before and now (neighbours/narrow.jsonl.gz): 4881x16390 153.8 and 99.0, 1599x20002 45.8
	// and 41.0, 2962x27001 103.4 and 98.0, 1999x40002 140.0 and 102.6, 627x50994 69.3 and 48.6.
	{zone{op: lnOp, over: 31 << 10, most: 54 << 10, aligned: 4, least: 6}, "smem_pipe", at("w16.v16.st2.k1.rl1.ch2")},
	{zone{op: lnOp, over: 36 << 10, most: 54 << 10, uneven: 4, least: 6}, "smem_pipe", at("w16.v16.st2.k1.rl1.ch2")},
	{zone{op: lnOp, over: 54 << 10, most: 64 << 10, uneven: 4, least: 4}, "smem_pipe", at("w16.v16.st2.k1.rl1.ch2")},
	{zone{op: lnOp, over: 54 << 10, most: 90 << 10, aligned: 4, least: 8}, "smem_pipe", at("w16.v16.k2.cl2.ch2")},
	{zone{op: lnOp, over: 54 << 10, most: 128 << 10, aligned: 4, least: 4}, "smem_pipe", at("w16.v16.k1.ch2")},
	// What no grid has, or narrow vectors are best for.
	{zone{most: 8 << 10, below: 1}, "", leave},
	{zone{op: rmsOp, most: 4 << 10, aligned: 4}, "", leave},
	{zone{op: rmsOp, over: 16 << 10, most: 27 << 10, aligned: 4}, "", leave},
	{zone{op: rmsOp, over: 128 << 10, aligned: 4}, "", leave},
	{zone{op: lnOp, most: 10 << 10, aligned: 4}, "", leave},
	{zone{op: lnOp, over: 18 << 10, most: 29 << 10, aligned: 4}, "", leave},
	{zone{op: lnOp, over: 44 << 10, aligned: 4}, "", leave},
	{zone{op: lnOp, over: 1 << 10, most: 2 << 10, uneven: 4}, "", leave},
	{zone{over: 64 << 10, uneven: 4}, "", leave},
	// A few wide rows get more threads each.
	{zone{over: 16 << 10, below: 2}, "cta_reg", at("w32.v16")},
	{zone{below: 2}, "cta_reg", at("w8.v16")},
	// Multiples of 4 bytes.
	{zone{op: rmsOp, most: 16 << 10, aligned: 4}, "cta_reg", at("w4.ho1")},
	{zone{op: rmsOp, most: 29 << 10, aligned: 4}, "smem_pipe", at("w16.v16.k2.ch2")},
	{zone{op: rmsOp, most: 36 << 10, aligned: 4}, "smem_pipe", at("w16.v16")},
	{zone{op: rmsOp, aligned: 4}, "smem_pipe", at("w16.v16.k2.cl2.ch2")},
	{zone{op: lnOp, most: 18 << 10, aligned: 4}, "smem_pipe", at("w8.k4")},
	{zone{op: lnOp, most: 31 << 10, aligned: 4}, "smem_pipe", at("w4.v16.k4")},
	{zone{op: lnOp, most: 34 << 10, aligned: 4}, "cta_reg", at("w16.v4")},
	{zone{op: lnOp, most: 42 << 10, aligned: 4}, "smem_pipe", at("w8.v16")},
	{zone{op: lnOp, aligned: 4}, "smem_pipe", at("w16.v16")},
	// Any 2.
	{zone{op: rmsOp, over: 20 << 10, most: 44 << 10, below: 8}, "smem_pipe", at("w16.v16.k2.ch2")}, // 12.6 us, not 13.4, at 807x10493
	{zone{op: rmsOp, most: 1 << 10}, "smem_pipe", at("br8.w4.v16.k8")},
	{zone{op: rmsOp, most: 2 << 10}, "smem_pipe", at("br2.w4.v16.k8")},
	{zone{op: rmsOp, most: 5 << 10}, "smem_pipe", at("br2.w4.v16")},
	{zone{op: rmsOp, most: 8<<10 - 16}, "smem_pipe", at("w4.v16.k8")},
	{zone{op: rmsOp, most: 10 << 10}, "smem_pipe", at("w4.v16")},
	{zone{op: rmsOp, most: 26 << 10}, "smem_pipe", at("w8.v16")},
	{zone{op: rmsOp, most: 32 << 10}, "smem_pipe", at("w8.v16.k4")},
	{zone{op: rmsOp, most: 44 << 10}, "smem_pipe", at("w16.v16")},
	{zone{op: rmsOp}, "smem_pipe", at("w8.v16.k4")},
	{zone{op: lnOp, most: 768}, "cta_reg", at("br8.w2.v16")},
	{zone{op: lnOp, most: 1 << 10}, "cta_reg", at("br8.w2.v16.st2.k4.ho1")},
	{zone{op: lnOp, most: 4 << 10}, "smem_pipe", at("br2.w4.v16.k4")},
	{zone{op: lnOp, most: 5 << 10}, "smem_pipe", at("br2.w8.v16.k4")},
	{zone{op: lnOp, most: 8<<10 - 16}, "smem_pipe", at("w4.v16.k4")},
	{zone{op: lnOp, most: 14 << 10}, "smem_pipe", at("w4.v16")},
	{zone{op: lnOp, most: 32 << 10}, "smem_pipe", at("w8.v16")},
	{zone{op: lnOp}, "smem_pipe", at("w16.v16")},
}

// unevenShots are one_shot's for rows that are no multiple of 16 bytes, with vectors as wide as divide a row, or around it (16). They
// were read off an H200 (bf16, 8 samples, whole grids: 220 problems in each op of 50 widths, 280 to 50001
// rows, neighbours/uneven-fwd.jsonl.gz): narrow vectors, each asked for at once, beat those around the row
// and the pipeline nearly everywhere. In us, the default before and this: rmsnorm 7001x1002 14.3 and 10.4, 12001x250
// 8.7 and 6.9, 2003x502 8.0 and 4.7; layernorm 300x999 7.2 and 4.7, 280x2058 7.4 and 4.8, 20011x777 26.4 and
// 21.3, 4001x6002 32.4 and 27.6. Many rows that start at any 2 bytes are the exception, from 1024 columns on in
// rmsnorm and 1400 in layernorm.
var unevenShots = []zoneConfig{
	// Few wide rows have a program each or, of elements that come one by one, a cluster of four: 5.5 us at 140x5555 (rmsnorm) and 6.4 at
	// 150x9999, where cta_reg took 6.4 and 8.7; layernorm 6.2 and 7.2, not 6.9 and 10.4 (neighbours/few-hundred.jsonl.gz).
	{zone{op: rmsOp, over: 90 << 10, most: 128 << 10, aligned: 4, above: 1, upTo: 2}, at("w8.cl8.ch2")}, // 13.5 us, not 16.8, at 156x50994
	{zone{op: rmsOp, over: 48 << 10, most: 128 << 10, aligned: 4, above: 1, upTo: 2}, at("w4.cl8.ch2")},
	{zone{over: 26 << 10, upTo: 2}, leave},
	{zone{over: 16 << 10, aligned: 4, upTo: 2}, at("w8")},
	{zone{over: 8 << 10, aligned: 4, upTo: 2}, at("w4")},
	{zone{over: 8 << 10, upTo: 2, rowsOver: 200}, at("w16.v16")},
	{zone{op: rmsOp, over: 8 << 10, upTo: 2}, at("w8.cl4")},
	{zone{op: lnOp, over: 8 << 10, upTo: 2}, at("w4.cl4")},
	// Few others have a program each: 4.1, 4.5 and 4.5 us (rmsnorm 173x409, 229x541, 71x3571), where
	// smem_pipe took 4.3, 4.7 and 4.7 on that day; layernorm 4.3, 4.7 and 4.9, not 4.7, 4.9 and 5.2.
	{zone{over: 4 << 10, upTo: 2}, at("w16")},
	{zone{op: lnOp, over: 1 << 10, most: 2 << 10, upTo: 2, rowsOver: 100}, at("br2.w2")}, // 4.1 us, not 4.7, at 200x900
	{zone{op: lnOp, over: 1 << 10, most: 2 << 10, upTo: 2}, at("w4")},
	{zone{over: 1 << 10, upTo: 2}, at("w8")},
	{zone{over: 512, upTo: 2}, at("w1")},

	{zone{op: lnOp, over: 36 << 10, most: 54 << 10, aligned: 4, uneven: 8, below: 6}, at("w16")}, // 15.9 us, not 18.4, at 399x20002
	{zone{op: rmsOp, over: 29 << 10, most: 36 << 10, aligned: 4, below: 8}, at("w8.cl2.ch2")},    // 13.5 us, not 16.1 by one program, at 601x16382
	{zone{op: rmsOp, over: 36 << 10, most: 44 << 10, aligned: 8, below: 8}, at("w8.cl4")},        // 10.1 us, not 13.5, at 308x19988
	{zone{op: rmsOp, over: 27 << 10, aligned: 4, uneven: 8}, leave},                              // 978x14270 17.4 us by smem_pipe, and 18.2
	{zone{op: lnOp, over: 18 << 10, most: 21 << 10, aligned: 4, below: 4}, leave},                // 300x10002 8.3 us by cta_reg, and 9.1

	{zone{op: rmsOp, most: 512, rowsMost: 4}, at("w2")},                                      // 3.4 us, not 3.8, at 3x207
	{zone{op: rmsOp, over: 1400, most: 3 << 10, aligned: 4, upTo: 3}, at("w4")},              // 4.6 us, not 4.8, at 280x1002
	{zone{op: rmsOp, over: 1700, most: 2000, uneven: 4, least: 60}, at("br2.w4.v16")},        // 15.7 us, not 18.0, at 12085x985
	{zone{op: rmsOp, over: 3 << 10, most: 8 << 10, aligned: 4, above: 8, upTo: 9}, at("w4")}, // of 8 warps no more than eight programs run at once: 6.3 us, not 7.0, at 1102x2492
	{zone{over: 128, most: 256, aligned: 8, least: 100}, at("br16.w2.u4.ch2")},               // 5.7 us, not 6.1, at 20000x100 (rmsnorm)
	{zone{op: lnOp, over: 128, most: 400, aligned: 8, least: 100}, at("br16.w2.u4.ch2")},
	{zone{op: rmsOp, over: 128, most: 200, aligned: 4, uneven: 8, least: 100, below: 320}, at("br16.w4")}, // 5.4 us, not 6.1, at 20000x90
	{zone{op: rmsOp, over: 256, most: 400, aligned: 8, least: 100}, at("br16.w4")},                        // 6.2 us, not 6.6, at 20000x140
	{zone{op: lnOp, over: 128, most: 256, uneven: 4, least: 100}, at("br8.w4.u2")},                        // 30.4 us, not 35.0, at 177062x117
	{zone{over: 400, most: 512, aligned: 4, least: 300}, at("br4.w1.u4.ch2")},                             // 17.4 us, not 19.0, at 63581x220 (layernorm)
	{zone{op: lnOp, over: 128, most: 256, aligned: 4, least: 300}, at("br8.w1.u4.ch2")},                   // 12.8 us, not 14.1, at 70748x124

	// Rows that start at multiples of 4 bytes.
	{zone{most: 400, aligned: 4}, at("br8.w4")},
	{zone{most: 1400, aligned: 4}, at("br4.w4")},
	{zone{most: 3 << 10, aligned: 4}, at("br2.w2")},
	{zone{op: rmsOp, most: 24 << 10, aligned: 4}, at("w8")},
	{zone{op: rmsOp, most: 32 << 10, aligned: 4, xMost: 1}, at("w8")},
	{zone{op: lnOp, most: 15 << 10, aligned: 4}, at("w4")},
	{zone{op: lnOp, most: 19 << 10, aligned: 4}, at("w8")},
	{zone{op: lnOp, most: 24 << 10, aligned: 4}, at("w16")},
	{zone{op: lnOp, most: 29 << 10, aligned: 4}, at("w8")},
	{zone{aligned: 4}, leave},
	// At any 2.
	{zone{op: rmsOp, most: 600}, at("br8.w8")},
	{zone{op: rmsOp, most: 1400}, at("br2.w4")},
	{zone{op: rmsOp, most: 2000}, at("w4")},
	{zone{op: rmsOp, most: 2400, xMost: 10 * mib}, at("w4")},
	{zone{op: rmsOp, most: 2400}, leave},
	{zone{op: rmsOp, most: 8 << 10, xMost: 2.54 * mib}, at("w8")},
	{zone{op: rmsOp, most: 3200, xMost: 18 * mib}, at("br2.w4.v16")},
	{zone{op: rmsOp, most: 4200, xMost: 30 * mib}, at("w2.v16")},
	{zone{op: rmsOp, most: 5200}, leave},
	{zone{op: rmsOp, most: 8 << 10, xMost: 8.79 * mib}, at("w4.v16")},
	{zone{op: rmsOp, most: 8 << 10}, leave},
	{zone{op: rmsOp, most: 17 << 10, xMost: 18 * mib}, at("w8.v16")},
	{zone{op: lnOp, most: 600}, at("br4.w4")},
	{zone{op: lnOp, most: 2 << 10}, at("br2.w2")},
	{zone{op: lnOp, most: 2400}, at("w4")},
	{zone{op: lnOp, most: 2800}, at("w2")},
	{zone{op: lnOp, most: 8 << 10, xMost: 10.74 * mib}, at("w4")},
	{zone{op: lnOp, most: 8 << 10}, leave},
	{zone{op: lnOp, most: 11 << 10, xMost: 2.93 * mib}, at("w8")},
}

// unevenShot is base for them. Of fewer rows than a program has its rows are less. A y larger
// than the L2 is better not kept there: 39.9 us, not 42.1, at 40001x1002 (rmsnorm).
func unevenShot(base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	base = base.With(set(kernels.CacheHint, 2*int(flag(p.M*p.N*p.DType.Size() > d.CacheBytes))))
	c, ok = firstConfig(unevenShots, base, p, d)
	rows, warps := c.Get(kernels.BlockRows), c.Get(kernels.Warps)
	for ; int64(rows) >= 2*p.M && warps > 1; warps /= 2 {
		rows /= 2
	}
	return c.With(set(kernels.BlockRows, rows), set(kernels.Warps, warps)), ok
}
