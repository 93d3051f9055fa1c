package families

import "normbench/kernels"

// The later launch rules of few_rows, the backward of few rows: see base.go.

// fewRowsChoice is the config of few_rows where it is the one to take: up to four rows for
// each multiprocessor, and 2Mi elements, which the pipeline has few tiles of and as many
// partial rows. On an H200 (bf16) 29x17389 takes 6.2 us, not 10.2, in rmsnorm and 6.7, not 11.6,
// in layernorm; 128x8192 6.0 and 6.4, not 8.9 and 13.4; 512x2048 7.0 and 7.7, not 8.4 and 8.7;
// 512x4096 9.2 and 10.2, not 9.6 and 11.9. At 1024x1024 it is slower, 8.4 and 9.6, not 7.9 and
// 8.3. More elements were not measured; two kernels of the same kind were 1.2 times slower
// than the pipeline at 8Mi. Nor were more than half a Mi of rows that take narrower vectors than
// 16 bytes; they are trusted to twice that.
func fewRowsChoice(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	units := int64(d.Units)
	if p.Pass != kernels.Bwd || d.Kind != kernels.KindCUDA || !sm90(d) || p.DType.Size() != 2 ||
		p.M > 4*units || p.M*p.N > 2<<20 || servesTwice(p) != nil {
		return c, false
	}
	c = fewRowsBase(p, d)
	whole := vectorBytes(p, c) == 16
	vecs, vec := vectors(p, c)
	var r columnRule
	switch {
	case !whole && p.M*p.N > 1<<20:
		return c, false
	case p.M == 1:
		r = oneRowRule(vecs)
	case p.M <= units && (whole || p.N < 8<<10):
		r = lessThanUnitsRule(p, units, vecs, vec)
	case p.M > units && p.N >= 1<<10:
		r = fewHundredRule(p, units, vec)
	default:
		r = someRowsRule(p, units, vecs, vec)
	}
	c = c.With(set(kernels.Cluster, int(r.cluster)), set(kernels.DWCols, int(r.cols)), set(kernels.CacheHint, r.hint))
	for warps := r.warps; warps <= 32; warps *= 2 { // more threads have fewer rows of a column each
		if c = c.With(set(kernels.Warps, warps)); refuseFewRows(p, c, d) == nil {
			return c, true
		}
	}
	return c, false
}

// A columnRule is what few_rows takes: programs that share a row, columns of dw for each, warps, and the cache hint.
type columnRule struct {
	cluster, cols int64
	warps, hint   int
}

// dealColumns is as few columns, doubled from least on, as so many programs have all of, and most at the most.
func dealColumns(least, most, columns, programs int64) int64 {
	for least < most && ceilDiv(columns, least) > programs {
		least *= 2
	}
	return least
}

// someRowsRule has what the other rules leave: rows below 1024 columns, more of them than multiprocessors, and less of
// uneven ones from 8192 columns on. A row is one program's, or that of eight where all of theirs are at most two to each
// multiprocessor; a thread has two vectors of it, up to eight of narrower ones, and nine of
// single elements, or four up to 640 of them in layernorm: 29x17389 has 8.5 with eight warps, and
// 229x541 takes 5.0 us with eight and 6.3 with four. Columns are dealt to as many programs as there
// are multiprocessors or, of more than 1Mi elements, to one for each 8192 of them.
func someRowsRule(p kernels.Problem, units, vecs, vec int64) columnRule {
	r, each := columnRule{1, max(8, vec), 4, 0}, min(max(16/vec, 2), 9)
	if 4*p.M <= units && p.N >= 8<<10 {
		r.cluster = 8
	}
	if vec == 1 && p.N <= 640 && p.Op == kernels.LayerNorm {
		each = 4
	}
	r.cols = dealColumns(r.cols, 256, p.N, max(units, p.M*p.N>>13, p.M*r.cluster*flag(r.cluster > 1)))
	for r.warps < 16 && vecs > r.cluster*int64(r.warps)*32*each {
		r.warps *= 2
	}
	return r
}

// fewHundredRule is for more rows than multiprocessors, of 1024 columns and more: four warps, however many vectors of a
// whole row a thread has, and columns dealt by 16. Uneven rows have more threads, or a cluster where elements come one by one
// and there are many of them; what they write is better kept in L2, as programs meet in its sectors. Grids at 22 problems
// in each op (H200, bf16, neighbours/few-hundred.jsonl.gz): someRowsRule, with two vectors to a thread and more columns, was 15% (rmsnorm)
// and 23% (layernorm) behind the best in the mean; this is 0.5 and 0.8%. In us, before and now: rmsnorm 272x4608 9.2 and 7.2, 300x2501 10.2 and
// 7.6; layernorm 400x4608 13.9 and 9.3, 140x5555 11.8 and 7.7.
func fewHundredRule(p kernels.Problem, units, vec int64) columnRule {
	ln, more := p.Op == kernels.LayerNorm, p.M >= 2*units-8 // 256 where there are 132
	switch {
	case vec == 8 && ln && p.N > 6500: // 8 vectors to a thread are too many: 256x8192 8.7 us, and 10.6 with four warps
		return columnRule{1, 32, 16, 0}
	case vec == 8 && !ln && p.M < 300:
		return columnRule{1, 32, 4, 0}
	case vec == 8:
		return columnRule{1, 16, 4, 0}
	case vec > 1 && ln && more:
		return columnRule{1, 16, 16, 2}
	case vec > 1:
		return columnRule{1, 32, 16, 2}
	case p.N > 4500:
		return columnRule{4, 8, 4, 2}
	case more && ln:
		return columnRule{1, 8, 4, 2}
	case more:
		return columnRule{1, 8, 8, 2}
	}
	return columnRule{1, 16, 8, 2}
}

// lessThanUnitsRule is for no more rows than multiprocessors, of whole vectors or less than 8192 columns: columns
// are dealt to no more programs than rows, or 16; up to 512 of them have programs of one or two warps, and
// those from 5120 to 8192 clusters of four. At 98 problems in each op, of 2 to 130 rows, that is 1.6 and 1.8%
// behind the best of a grid in the mean, where more programs cost up to 11% and the pipeline, which had the
// narrow ones, 20 to 38% (neighbours/few-bwd.jsonl.gz): rmsnorm 4x512 4.1 us, not 5.2, 16x2048 4.2 and 4.4,
// layernorm 4.4 and 5.3, 4.5 and 4.6.
func lessThanUnitsRule(p kernels.Problem, units, vecs, vec int64) columnRule {
	r, most, each := columnRule{1, max(8, vec), 4, 0}, int64(128), min(max(16/vec, 2), 9)
	switch {
	case 4*p.M <= units && p.N >= 8<<10:
		r.cluster, most = 8, 256
	case vec == 8 && p.N > 5<<10 && p.N < 8<<10:
		each = 3
		if 8*p.M <= units {
			r.cluster = 4
		}
	case vecs <= 32 && p.M >= 64:
		return columnRule{1, r.cols, 1, 0}
	case vecs <= 64 && p.M >= 96:
		return columnRule{1, max(16, vec), 2, 0}
	case vecs <= 64 && p.M >= 64:
		return columnRule{1, r.cols, 2, 0}
	case vecs <= 64:
		return columnRule{1, max(16, vec), 1, 0}
	case vec == 1:
		most, each = 32, 2 // 4.3 us, not 4.8, at 50x777 (rmsnorm)
	}
	r.cols = dealColumns(r.cols, most, p.N, max(16, p.M, p.M*p.N>>13, p.M*r.cluster/2*flag(r.cluster > 1)))
	for r.warps < 16 && vecs > r.cluster*int64(r.warps)*32*each {
		r.warps *= 2
	}
	return r
}

// oneRowRule has a vector for each thread, of one program or of a cluster of up to sixteen. In us, the best of a
// grid before dw came from what is read for dx, and now: rmsnorm 1x512 3.8 and 3.7, 1x1024 3.9 and 3.7, 1x8192 4.3 and 4.0,
// layernorm 4.2 and 3.8, 4.2 and 3.8, 4.5 and 4.1.
func oneRowRule(vecs int64) columnRule {
	r, most := columnRule{1, 8, 1, 0}, 8
	switch {
	case vecs >= 4096:
		r.cluster = 16
	case vecs >= 1024:
		r.cluster = 8
	case vecs >= 512:
		r.cluster = 4
	default:
		most = 16
	}
	for r.warps < most && vecs > r.cluster*int64(r.warps)*32 {
		r.warps *= 2
	}
	return r
}
