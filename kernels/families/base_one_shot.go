package families

import (
	"slices"

	"normbench/kernels"
)

// The later launch rules of one_shot, the forward of small x and of narrow rows: see base.go.

// A oneShotRule is what is best for rows up to so many bytes, of an x up to so many eighths
// of the L2 (0 for any): the rows of a program, its warps, the rows of a thread, and the cache
// hint. One without rows leaves them to the other designs.
type oneShotRule struct {
	row, most                 int64
	rows, warps, unroll, hint int
}

// The rules were read off an H200 (bf16, default group), whole grids beside the bases of that
// day: rmsnorm's rows up to 2 KiB are 1 to 6% faster than in cta_reg and smem_pipe, and of 8192
// columns 2 to 4%; layernorm's of 64 and 128 columns 2 to 10%, of 256 and 512 3 to 6% where x has a
// quarter of the L2 or less, and of 2048 1 to 3% where it has more than twice of it. Elsewhere
// smem_pipe is as good or better.
var oneShotRules = map[kernels.Op][]oneShotRule{
	kernels.RMSNorm: {
		{128, 1, 16, 4, 1, 0}, {128, 0, 16, 2, 1, 2}, {256, 0, 8, 1, 2, 2}, {512, 1, 8, 4, 1, 2}, {512, 0, 8, 1, 4, 2},
		{1 << 10, 2, 8, 2, 1, 2}, {1 << 10, 0, 4, 2, 4, 2}, {2 << 10, 8, 4, 4, 4, 2}, {2 << 10, 0, 4, 2, 4, 2},
		{14 << 10, 0, 0, 0, 0, 0}, {16 << 10, 0, 1, 4, 1, 2},
	},
	kernels.LayerNorm: {
		{128, 1, 16, 4, 1, 0}, {128, 0, 16, 1, 2, 0}, {256, 8, 16, 2, 4, 2}, {256, 0, 8, 1, 4, 2}, {512, 2, 8, 1, 2, 0}, {512, 0, 0, 0, 0, 0},
		{1 << 10, 2, 8, 2, 2, 0}, {2 << 10, 0, 0, 0, 0, 0},
		{4<<10 - 16, 0, 0, 0, 0, 0}, {4 << 10, 16, 0, 0, 0, 0}, {4 << 10, 0, 1, 2, 1, 2}, {8 << 10, 0, 0, 0, 0, 0},
		{12 << 10, 2, 0, 0, 0, 0}, {10 << 10, 8, 1, 4, 1, 0}, {12 << 10, 3, 0, 0, 0, 0}, {12 << 10, 6, 1, 8, 1, 0},
	},
}

// oneShotRuleFor is the rule for the row, or for few of them. Few uneven ones (fewUneven)
// have a program each: 4.1, 4.5 and 4.5 us on an H200 (rmsnorm 173x409, 229x541, 71x3571), where
// smem_pipe took 4.3, 4.7 and 4.7 on that day; layernorm 4.3, 4.7 and 4.9, not 4.7, 4.9 and 5.2.
func oneShotRuleFor(p kernels.Problem, d kernels.DeviceInfo) (r oneShotRule, ok bool) {
	row := p.N * p.DType.Size()
	switch {
	case !measuredFwd(p, d):
		return r, false
	case fewUneven(p, d):
		r = oneShotRule{rows: 1, warps: 16, unroll: 1}
		switch {
		case row <= 1<<10:
			r.warps = 1
		case row <= 2<<10 && p.Op == kernels.LayerNorm && p.M > 100:
			r.rows, r.warps = 2, 2 // 4.1 us, not 4.7, at 200x900
		case row <= 2<<10 && p.Op == kernels.LayerNorm:
			r.warps = 4
		case row <= 4<<10:
			r.warps = 8
		}
		return r, true
	case row%16 != 0 || p.M < 8*int64(d.Units), pipedNarrow(p, d) && p.Op == kernels.RMSNorm:
		return r, false
	case p.Op == kernels.LayerNorm && row >= 512 && row <= 1<<10 && p.M%8 != 0:
		return r, false // 9.0 us at 20011x256 and 8.9 at 9001x512, where smem_pipe has 8.4 and 7.9
	}
	if r, ok := manyNarrow(p, d); ok {
		return r, true
	}
	rules := oneShotRules[p.Op]
	i := slices.IndexFunc(rules, func(r oneShotRule) bool {
		return row <= r.row && (r.most == 0 || 8*p.M*row <= r.most*d.CacheBytes)
	})
	if i < 0 || rules[i].rows == 0 {
		return r, false
	}
	r = rules[i]
	// Four rows to a program of one warp as long as all of them run at once: 7.2 us at 16384x256, not
	// 7.5; and at 20011x256 9.0, where eight rows have 8.2.
	if r.warps == 1 && p.Op == kernels.RMSNorm && row > 256 && p.M <= 4*32*int64(d.Units) {
		r.rows = 4
	}
	return r, true
}

// manyNarrow is the rule for 100 rows and more to each multiprocessor, of 65 to 255 columns that are no power of two, whose
// groups of lanes have some without a vector. oneShotRules, of powers of two, were 4% behind the best of a dozen in the mean of 63
// problems in rmsnorm and 3% of 24 in layernorm (H200, bf16, neighbours/narrow.jsonl.gz): 13.2 us, not 15.0, at 90001x120, 61.8,
// not 70.7, at 400000x160.
func manyNarrow(p kernels.Problem, d kernels.DeviceInfo) (r oneShotRule, ok bool) {
	row, ln, some := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, p.M < 320*int64(d.Units)
	if ln && row > 512 && row <= 900 && row%16 == 0 && keepsX(p, d) {
		return oneShotRule{rows: 4, warps: 1, unroll: 2 << flag(row > 700), hint: 2}, true // 89.2 us, not 98.3 by smem_pipe, at 330000x264
	}
	if row <= 128 || row >= 512 || row%16 != 0 || isPow2(int(p.N)) || p.M < 100*int64(d.Units) {
		return r, false
	}
	switch {
	case row <= 160 && some && !ln:
		r = oneShotRule{rows: 16, warps: 4, unroll: 1}
	case row <= 160 && (some || !ln):
		r = oneShotRule{rows: 16, warps: 2, unroll: 2, hint: 2}
	case row <= 256 && some:
		r = oneShotRule{rows: 16, warps: 2, unroll: 4, hint: 2}
	case ln && row <= 200:
		r = oneShotRule{rows: 16, warps: 2, unroll: 1, hint: 2} // 43.7 us, not 54.4 with two rows to a thread, at 460911x88
	case row <= 256:
		r = oneShotRule{rows: 8, warps: 1, unroll: 4, hint: 2 * int(flag(!ln && p.M*row > d.CacheBytes))}
	case some:
		r = oneShotRule{rows: 16, warps: 2, unroll: 2}
	case ln:
		r = oneShotRule{rows: 16, warps: 2, unroll: 2} // 60.1 us, not 68.6 with the hint, at 387262x152
	case keepsX(p, d):
		r = oneShotRule{rows: 8, warps: 1, unroll: 2, hint: 2}
	default:
		r = oneShotRule{rows: 8, warps: 2, unroll: 1, hint: 2}
	}
	return r, true
}

// oneShotChoice is the config of one_shot where it is the one to take.
func oneShotChoice(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	if c, ok = fewWide(p, d); !ok {
		c, ok = fewWhole(p, d)
	}
	if !ok {
		c, ok = unevenOneShot(p, d)
	}
	if !ok {
		r, found := oneShotRuleFor(p, d)
		if !found {
			return c, false
		}
		if even := isPow2(int(p.N)); r.hint == 2 && keepsX(p, d) && (even || p.Op == kernels.RMSNorm && r.unroll < 4) {
			r.hint = 6 // as in pastL2; 400000x200 takes 97 us so, and 80 without, in layernorm
		}
		c = fwdOneShotBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.Unroll, r.unroll),
			set(kernels.Cluster, 1), set(kernels.CacheHint, r.hint))
	}
	return c, refuseOneShot(p, c, d) == nil
}

// fewWide shares wide rows that are less than half as many as the multiprocessors among clusters of
// up to eight programs, of a thread for eight elements and of at least 128 threads; and whole ones of 12288
// columns and more, that are no more than the multiprocessors, among four or eight of 128 threads. On an
// H200 (bf16) 29x17389 takes 5.5 us in rmsnorm and 6.1 in layernorm, a program for each row 6.7 and 8.3; 1x8192
// 4.1 and 4.5, and 4.6 and 5.0. Four programs of 512 threads took 5.5 and 7.5 us at 64x20000, and those of 128
// 5.2 (eight) and 5.8 (neighbours/few-fwd.jsonl.gz). Uneven ones of more than 6000 columns have eight of 256 threads, or
// of 512 for up to 16 of rmsnorm's, and from 16384 columns on as long as they are three quarters of the multiprocessors (gaps.jsonl.gz).
func fewWide(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row, ln, cluster, warps := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, 1, 1
	whole, shared := row%16 == 0 && row >= 24<<10, row%16 != 0 && row > 12000
	switch {
	case !measuredFwd(p, d) || fewUneven(p, d) || row < 4<<10 || p.M > int64(d.Units):
		return c, false
	case whole && row > 96<<10 && 2*p.M > int64(d.Units):
		return c, false // 8.5 us by smem_pipe at 90x53152 (rmsnorm), and 10.1
	case shared && (2*p.M <= int64(d.Units) || 4*p.M <= 3*int64(d.Units) && row > 32<<10):
		cluster, warps = 8, 8 // 7.3 us, not 9.6, at 36x47007 (rmsnorm) by four of 1024 threads
		switch {
		case !ln && p.M <= 16:
			warps = 16
		case ln && 2*p.M > int64(d.Units):
			warps = 4 // 6.9 us, not 8.1, at 84x20810
		}
	case !whole && 2*p.M > int64(d.Units):
		return c, false
	case whole && ln && row >= 48<<10 && 4*p.M <= int64(d.Units):
		cluster, warps = 8, 4 // 4.5 us, not 4.9, at 2x26176
	case ln && row%16 == 0 && row <= 8<<10 && p.M > 8:
		return c, false // 4.1 us at 23x2048 by a program for each, and 4.4 by two
	case whole && (ln && row < 64<<10 || p.M > 3*int64(d.Units)/4):
		cluster, warps = 4, 4 // 128x16384: 6.7 us in layernorm, and 7.6 with eight
		switch nearlyAll := ln && 8*p.M > 7*int64(d.Units); {
		case nearlyAll && row > 40<<10:
			cluster, warps = 1, 16 // 128x27648: 8.2 us, and 9.4 by four
		case nearlyAll && row > 32<<10:
			cluster, warps = 2, 8 // 128x18432: 6.8 us, and 7.8
		}
	case whole:
		cluster, warps = 8, 4
	default:
		for cluster < 8 && 2*int64(cluster)*p.M <= 2*int64(d.Units) && 2*cluster*1024 <= int(p.N) {
			cluster *= 2
		}
		for warps < 32 && 2*warps*32*8*cluster <= int(p.N) {
			warps *= 2
		}
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 1), set(kernels.Warps, warps), set(kernels.Unroll, 1), set(kernels.Cluster, cluster)), true
}

// A smallRule is what is best for a small x of rows up to so many bytes: the rows of a program, its warps, and
// the programs of a row.
type smallRule struct {
	row                  int64
	rows, warps, cluster int
}

// smallRules are for an x of no more than 5 MB (6 in layernorm's rows below 1024 columns): up to 512
// columns programs of 64 to 128 threads, a lane for each vector of a row as far as a warp goes, and from
// 1024 columns on a program for each row, or two of the widest. On an H200 (bf16,
// neighbours/few-fwd.jsonl.gz) that is 0 to 8% behind the best of a grid, where the rules for more rows
// were up to 24%: 2003x512 5.0 us, not 5.9, in rmsnorm and 5.0, not 5.1, in layernorm; 256x4096 4.9, not
// 5.6, and 4.9, not 5.5.
var smallRules = map[kernels.Op][]smallRule{
	kernels.RMSNorm: {
		{256, 16, 4, 1}, {1<<10 - 1, 8, 4, 1}, {2<<10 - 1, 4, 4, 1}, {4<<10 - 1, 1, 4, 1}, {10 << 10, 1, 8, 1},
		{24 << 10, 1, 16, 1}, {32 << 10, 1, 16, 2},
	},
	kernels.LayerNorm: {
		{128, 8, 2, 1}, {2<<10 - 1, 8, 4, 1}, {2 << 10, 2, 4, 1}, {8 << 10, 1, 4, 1}, {10 << 10, 1, 8, 1},
		{16 << 10, 1, 16, 1}, {32 << 10, 1, 4, 2},
	},
}

// someWide says whether there are two to four rows of 5121 to 8192 columns for each multiprocessor, a program each: less
// threads are better then than smallRules has for fewer. 400x5376 5.7 us in rmsnorm, and 6.6 with 16 warps, 300x7168 6.2 in
// layernorm, and 7.7 (H200, bf16, neighbours/few-hundred.jsonl.gz).
func someWide(p kernels.Problem, d kernels.DeviceInfo) bool {
	row, units := p.N*p.DType.Size(), int64(d.Units)
	return row > 10<<10 && row <= 16<<10 && p.M > 2*units && p.M <= 4*units
}

// twoRows is one_shot with two rows to a program, and to a thread from 15 for each multiprocessor on, for rows of 1025 to 1536
// columns: 5.9 us at 1744x1336 and 7.7 at 3000x1448 in rmsnorm, and 6.7 and 8.4 with one (few-hundred). In
// layernorm the pipeline is as good from 20 on.
func twoRows(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	units, most := int64(d.Units), int64(27)
	if p.Op == kernels.LayerNorm {
		most = 20
	}
	if p.N*p.DType.Size() <= 2<<10 || p.M < 11*units || p.M > most*units {
		return c, false
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 2), set(kernels.Warps, 2), set(kernels.Unroll, 1+int(flag(p.M >= 15*units))),
		set(kernels.Cluster, 1)), true
}

// fewWhole is one_shot by smallRules, for rows of whole vectors. rmsnorm's of 1025 to 4096 columns have a
// program each up to 10 MB, of fewer threads, as long as all of them run at once: of 9 to 15 rows of 2049 to 3072
// columns for each multiprocessor a program has two, in a thread each.
func fewWhole(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row, ln := p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	x, narrow := p.M*row, row < 2<<10
	rules := smallRules[p.Op]
	i := slices.IndexFunc(rules, func(r smallRule) bool { return row <= r.row })
	if !measuredFwd(p, d) || row%16 != 0 || row <= 64 || i < 0 {
		return c, false
	}
	if narrow && p.M >= 8*int64(d.Units) && (p.M%16 == 0 && row&(row-1) == 0 || p.M > 32*int64(d.Units)) {
		return c, false // oneShotRules were read off whole tiles of powers of two: 5.8 us at 4096x512 in layernorm, and 6.6 by this
	}
	r := rules[i]
	if !ln && row > 4<<10 && row <= 6<<10 && p.M > 4*int64(d.Units) {
		r.warps = 4 // 5.7 us, not 6.7, at 1000x2304
	}
	if !ln && row <= 512 && p.M <= 16 { // of a warp each: 3.5 us, not 4.0, at 4x128
		r = smallRule{rows: int(max(512/ceilPow2(row), 1)), warps: 1, cluster: 1}
	}
	if row > 512 && row <= 2<<10 && p.M <= 2*int64(d.Units) && (narrow || ln) { // 4.0 us, not 4.3, at 200x480 in rmsnorm
		r = smallRule{rows: 1, warps: 1 << (flag(ln) + flag(!narrow)), cluster: 1}
		if ln && narrow && row > 1<<10 {
			r.rows = 2 // 4.08 us, not 4.16, at 40x1000
		}
	}
	some := someWide(p, d)
	switch {
	case some:
		r = smallRule{rows: 1, warps: 8 >> flag(ln), cluster: 1}
	case r.rows == 1 && row <= 3<<10:
		if c, ok := twoRows(p, d); ok {
			return c, true
		}
	}
	if units := int64(d.Units); !ln && row > 4<<10 && row <= 6<<10 && p.M > 8*units && p.M <= 15*units {
		return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 2), set(kernels.Warps, 4), set(kernels.Unroll, 2), set(kernels.Cluster, 1),
			set(kernels.CacheHint, 2)), true // 6.6 us, not 7.1, at 1600x2176
	}
	if most := d.CacheBytes / 12; x > most && !(ln && narrow && x <= d.CacheBytes/10) && !(ln && some && x <= d.CacheBytes/9) {
		switch {
		case x > 2*most || ln && (row <= 4<<10 || row > 5<<10) || row <= 2<<10 || row > 8<<10:
			return c, false
		case !ln && row > 4<<10 && p.M > 8*int64(d.Units):
			return c, false // more programs than run at once: 8.4 us at 1311x3328, and 7.6 by smem_pipe
		}
		r.warps = 2 << flag(row > 4<<10 && !ln)
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.Unroll, 1), set(kernels.Cluster, r.cluster)), true
}
