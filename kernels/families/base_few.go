package families

import "normbench/kernels"

// The later launch rules of few_rows, the backward of few rows: see base.go.

// fewRowsChoice is the config of few_rows where it is the one to take: up to four rows for
// each multiprocessor, or a few more (someMore), and as many elements as mostForFewRows has, which the pipeline
// has few tiles of and as many partial rows. On an H200 (bf16) 29x17389 takes 6.2 us, not 10.2, in rmsnorm and
// 6.7, not 11.6, in layernorm; 128x8192 6.0 and 6.4, not 8.9 and 13.4; 512x2048 7.0 and 7.7, not 8.4 and 8.7;
// 512x4096 9.2 and 10.2, not 9.6 and 11.9. At 1024x1024 it is slower, 8.4 and 9.6, not 7.9 and 8.3.
func fewRowsChoice(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	units := int64(d.Units)
	if p.Pass != kernels.Bwd || d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 || servesTwice(p) != nil {
		return c, false
	}
	c = fewRowsBase(p, d)
	vecs, vec := vectors(p, c)
	if p.M*p.N > mostForFewRows(p, units, vec) {
		return c, false
	}
	c = c.With(oneRow.Settings()...)
	zoned, ok := firstConfig(fewRowsZones, c, p, d)
	switch {
	case p.M == 1:
		c = oneRowRule(c, vecs)
	case ok:
		c = zoned
	case p.M <= units:
		c = lessThanUnitsRule(c, p, units, vecs, vec)
	default:
		c = someRowsRule(c, p, units, vecs, vec)
	}
	for warps := c.Get(kernels.Warps); warps <= 32; warps *= 2 { // more threads have fewer rows of a column each
		if c = c.With(set(kernels.Warps, warps)); refuseFewRows(p, c, d) == nil {
			return c, true
		}
	}
	return c, false
}

// oneRow is what the zones leave out.
var oneRow = at("cl1.ch0")

// fewRowsZones are those whose columns of dw and threads are no matter of arithmetic: programs that share a row, columns of dw for each, and
// warps. Of no more rows than multiprocessors these are the uneven and the widest; the others have lessThanUnitsRule.
//
// Up to a fourth as many uneven rows as multiprocessors share each row
// among four or eight programs of many columns of dw: rmsnorm 21x7327 5.0 us, not 7.0, and 8x7903 4.5, not 6.9; layernorm
// 21x7327 5.2, not 7.7 (H200, bf16, neighbours/gaps.jsonl.gz, gaps-first.csv).
//
// A few hundred rows of 1024 columns and more have four warps, however many vectors of a
// whole row a thread has, and columns dealt by 16. Uneven rows have more threads, or a cluster where elements come one by one
// and there are many of them; what they write is better kept in L2, as programs meet in its sectors. Grids at 22 problems
// in each op (H200, bf16, neighbours/few-hundred.jsonl.gz): someRowsRule, with two vectors to a thread and more columns, was 15% (rmsnorm)
// and 23% (layernorm) behind the best in the mean; this is 0.5 and 0.8%. In us, before and now: rmsnorm 272x4608 9.2 and 7.2, 300x2501 10.2 and
// 7.6; layernorm 400x4608 13.9 and 9.3, 140x5555 11.8 and 7.7. Rows at multiples of 8 bytes: rmsnorm 400x4004 8.4 us, and 9.9 by the pipeline,
// layernorm 9.1 and 12.5; 200x8004 7.6 and 10.8, 7.9 and 13.1 (neighbours/gaps.jsonl.gz).
var fewRowsZones = []zoneConfig{
	// More than four for each multiprocessor.
	{zone{op: rmsOp, most: 2 << 10, above: 4}, at("dc8.w2")},
	{zone{op: lnOp, most: 3 << 10, above: 4}, at("dc8.w2")},
	{zone{above: 4}, at("dc16.w4")}, // 8.9 us, not 9.6, at 567x3008 (rmsnorm), 9.4, not 10.9 (layernorm)

	// Uneven, and less than multiprocessors.
	{zone{over: 40 << 10, uneven: 16, upTo: .25, rowsOver: 23}, at("cl8.dc64.w8.ch2")},
	{zone{over: 24<<10 - 1, uneven: 16, upTo: .25, rowsOver: 23}, at("cl8.dc64.w4.ch2")},
	{zone{over: 24<<10 - 1, uneven: 16, upTo: .25}, at("cl8.dc128.w8.ch2")},
	{zone{over: 2000, uneven: 16, upTo: .25, rowsMost: 8}, at("cl8.dc64.w4.ch2")},
	{zone{over: 4999, uneven: 16, upTo: .25}, at("cl4.dc64.w8.ch2")},
	{zone{over: 2000, uneven: 16, upTo: .25}, at("dc64.w16")},
	{zone{over: 32<<10 - 1, uneven: 16, upTo: 1}, at("cl8.dc128.w8")},
	{zone{over: 16<<10 - 1, uneven: 16, upTo: 1}, at("dc128.w16")},
	{zone{over: 5999, uneven: 16, upTo: 1}, at("dc32.w16.ch2")},
	{zone{over: 2000, uneven: 16, upTo: 1}, at("dc16.w16")},
	// Whole, wide, and less than multiprocessors.
	{zone{over: 48 << 10, above: .25, upTo: 1}, at("cl4.dc64.w8")}, // 12.7 us, not 15.9, at 109x31488
	{zone{over: 36 << 10, above: .25, upTo: 1}, at("cl4.dc64.w4")}, // 8.8 us, not 10.4, at 92x19392 (layernorm)

	{zone{upTo: 1}, leave},
	{zone{most: 2<<10 - 1}, leave},

	// Multiples of 8 bytes.
	{zone{over: 16 << 10, aligned: 8, uneven: 16}, at("cl4.dc16.w4.ch2")}, // 8.9 us, not 10.1, at 156x11492
	{zone{over: 10 << 10, aligned: 8, uneven: 16}, at("dc32.w8.ch2")},
	{zone{op: lnOp, most: 4999, aligned: 8, uneven: 16}, at("dc8.w4.ch2")},
	{zone{op: lnOp, most: 6999, aligned: 8, uneven: 16, above: 3.2}, at("dc8.w4.ch2")},
	{zone{op: rmsOp, most: 3399, aligned: 8, uneven: 16, above: 3.5}, at("dc8.w8.ch2")},
	{zone{aligned: 8, uneven: 16}, at("dc16.w8.ch2")},
	// Whole.
	{zone{over: 20 << 10, aligned: 16, upTo: 2}, at("dc64.w8")}, // 10.1 us, not 11.6, at 203x11480 (rmsnorm)
	{zone{over: 16 << 10, aligned: 16, upTo: 2}, at("dc32.w8.ch2")},
	{zone{over: 8000, aligned: 16, upTo: 2}, at("dc32.w8")}, // 6.7 us, not 7.7, at 177x5664 (layernorm)
	{zone{op: rmsOp, over: 5200, aligned: 16, upTo: 2}, at("dc32.w8")},
	{zone{op: lnOp, over: 5200, aligned: 16, upTo: 2}, at("dc32.w4")},       // 5.8 us, not 6.3, at 230x2688
	{zone{op: lnOp, over: 9000, aligned: 16, upTo: 2.6}, at("dc16.w4.ch2")}, // 10.0 us, not 11.7, at 318x6272
	{zone{over: 12000, aligned: 16, above: 2.6}, at("dc16.w8.ch2")},         // 10.3 us, not 10.8 by the pipeline, at 420x6272
	{zone{op: rmsOp, over: 14000, aligned: 16}, at("dc32.w8.ch2")},
	{zone{op: rmsOp, over: 9000, aligned: 16}, at("dc32.w8")},
	{zone{op: rmsOp, over: 8000, aligned: 16, upTo: 2.6}, at("dc32.w8")}, // 7.9 us, not 8.5, at 318x5160
	{zone{op: rmsOp, over: 5200, aligned: 16, upTo: 2.6}, at("dc32.w4")}, // 6.7 us, not 7.1, at 318x3456
	{zone{op: rmsOp, aligned: 16, rowsMost: 229}, at("dc32.w4")},
	{zone{aligned: 16}, at("dc16.w4")},
	// Multiples of 4 bytes, and any 2.
	{zone{op: lnOp, aligned: 4, least: 1.939}, at("dc16.w16.ch2")},
	{zone{aligned: 4}, at("dc32.w16.ch2")},
	{zone{over: 9000}, at("cl4.dc8.w4.ch2")},
	{zone{op: lnOp, least: 1.939}, at("dc8.w4.ch2")},
	{zone{least: 1.939}, at("dc8.w8.ch2")},
	{zone{}, at("dc16.w8.ch2")},
}

// someMore says whether more than four whole rows for each multiprocessor are few_rows' still: up to six of 320 to 640 columns, five
// to 1024, and four and a half to 4096.
func someMore(p kernels.Problem, units, vec int64) bool {
	switch {
	case vec < 8 || p.N < 320:
		return false
	case p.N <= 640:
		return p.M <= 6*units
	case p.N <= 1<<10:
		return p.M <= 5*units
	}
	return p.N <= 4<<10 && 2*p.M <= 9*units
}

// mostForFewRows is how many elements are few_rows' at the most. Of no more rows than multiprocessors it was faster than the best of the
// pipeline at 3.4 million in layernorm (109x31488 12.7 us, and 13.6) and 3% slower in rmsnorm; at 2.5 million of rows at multiples of 4
// bytes (46x54562 11.3 and 12.5), and not at 3.8 (75x50994 16.0 and 13.9). Of more rows it has up to 2.3 million (203x11480), of rows at multiples of
// 8 bytes 1.8 (156x11492) and at multiples of 4 less than 2 (224x8718 10.6 and 9.9). Of rows that start anywhere 0.8 is
// the most that was measured.
func mostForFewRows(p kernels.Problem, units, vec int64) int64 {
	switch {
	case p.M > 4*units && !someMore(p, units, vec):
		return 0
	case vec == 8 && p.M > 2*units && 5*p.M <= 16*units && p.N <= 8<<10: // 420x7424 11.1 us, not 11.9 (rmsnorm), 11.9, not 12.4 (layernorm)
		return 25 << 17
	case vec == 8 && p.M > 7*units/2 && p.N >= 3200 && p.Op == kernels.LayerNorm: // 520x3456 9.7 us by the pipeline, and 10.2
		return 0
	case p.M <= units && vec == 8:
		return 7 << 19
	case p.M <= units && vec > 1:
		return 5 << 19
	case vec == 8:
		return 9 << 18
	case vec == 4:
		return 2 << 20
	}
	return 1 << 20
}

// columnsDealt is base with what few_rows takes: programs that share a row, columns of dw for each, and warps.
func columnsDealt(base kernels.Config, cluster, cols int64, warps int) kernels.Config {
	return base.With(set(kernels.Cluster, int(cluster)), set(kernels.DWCols, int(cols)), set(kernels.Warps, warps))
}

// dealColumns is as few columns, doubled from least on, as so many programs have all of, and most at the most.
func dealColumns(least, most, columns, programs int64) int64 {
	for least < most && ceilDiv(columns, least) > programs {
		least *= 2
	}
	return least
}

// warpsFor is as many warps, doubled from least to at most most, as leave a thread of so many programs no more than each vectors.
func warpsFor(vecs, programs, each int64, least, most int) int {
	for least < most && vecs > programs*int64(least)*32*each {
		least *= 2
	}
	return least
}

// someRowsRule is base for more rows than multiprocessors, below 1024 columns. A row is one program's; a thread has two
// vectors of it, up to eight of narrower ones, and four single elements: 437x751 takes 6.7 us with eight warps and
// 8.1 with four. Columns are dealt to as many programs as there are multiprocessors.
func someRowsRule(base kernels.Config, p kernels.Problem, units, vecs, vec int64) kernels.Config {
	each := max(16/vec, 2)
	if vec == 1 {
		each = 4
	}
	return columnsDealt(base, 1, dealColumns(max(8, vec), 256, p.N, units), warpsFor(vecs, 1, each, 4, 16))
}

// lessThanUnitsRule is base for no more rows than multiprocessors, of whole vectors or up to 1000 columns: columns
// are dealt to no more programs than rows, or 16; up to 512 of them have programs of one or two warps, and
// those from 5120 to 8192 clusters of four. At 98 problems in each op, of 2 to 130 rows, that is 1.6 and 1.8%
// behind the best of a grid in the mean, where more programs cost up to 11% and the pipeline, which had the
// narrow ones, 20 to 38% (neighbours/few-bwd.jsonl.gz): rmsnorm 4x512 4.1 us, not 5.2, 16x2048 4.2 and 4.4,
// layernorm 4.4 and 5.3, 4.5 and 4.6.
func lessThanUnitsRule(base kernels.Config, p kernels.Problem, units, vecs, vec int64) kernels.Config {
	cluster, cols, most, each := int64(1), max(8, vec), int64(128), min(max(16/vec, 2), 9)
	switch {
	case 4*p.M <= units && p.N >= 8<<10:
		cluster, most = 8, 256
		if p.N > 32<<10 && p.Op == kernels.LayerNorm {
			each = 8 // 8.5 us, not 10.1, at 25x59776
		}
	case vec == 8 && p.N > 5<<10 && p.N < 8<<10:
		each = 3
		if 8*p.M <= units {
			cluster = 4
		}
	case vecs <= 32 && p.M >= 64:
		return columnsDealt(base, 1, cols, 1)
	case vecs <= 64 && p.M >= 96:
		return columnsDealt(base, 1, max(16, vec), 2)
	case vecs <= 64 && p.M >= 64:
		return columnsDealt(base, 1, cols, 2)
	case vecs <= 64:
		return columnsDealt(base, 1, max(16, vec), 1)
	case vec == 1:
		most, each = 32, 2 // 4.3 us, not 4.8, at 50x777 (rmsnorm)
	}
	cols = dealColumns(cols, most, p.N, max(16, p.M, p.M*p.N>>13, p.M*cluster/2*flag(cluster > 1)))
	return columnsDealt(base, cluster, cols, warpsFor(vecs, cluster, each, 4, 16))
}

// oneRowRule is base with a vector for each thread, of one program or of a cluster of up to sixteen. In us, the best of a
// grid before dw came from what is read for dx, and now: rmsnorm 1x512 3.8 and 3.7, 1x1024 3.9 and 3.7, 1x8192 4.3 and 4.0,
// layernorm 4.2 and 3.8, 4.2 and 3.8, 4.5 and 4.1.
func oneRowRule(base kernels.Config, vecs int64) kernels.Config {
	cluster, most := int64(1), 8
	switch {
	case vecs >= 4096:
		cluster = 16
	case vecs >= 1024:
		cluster = 8
	case vecs >= 512:
		cluster = 4
	default:
		most = 16
	}
	return columnsDealt(base, cluster, 8, warpsFor(vecs, cluster, 1, 1, most))
}
