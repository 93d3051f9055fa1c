package families

import (
	"slices"

	"normbench/kernels"
)

// The later launch rules of forwards whose rows are no multiple of 16 bytes: see base.go.

// The rules were read off an H200 (bf16; N = 257 to 25001, 5 to 42 million elements; the best of
// grids with vectors of 2 bytes and with those around the row, neighbours/odd-fwd.jsonl.gz and
// odd-more.jsonl.gz). Of the stream, rmsnorm has 0.81 to 0.91 by them from 1023 columns on and
// layernorm 0.66 to 0.84. Rows that start at multiples of 4 bytes are better off with vectors of 4.
// Where a width ends is where a thread has one vector more: layernorm's 2223 columns take 47 us with 128
// lanes for a row, and with 64 57.
var (
	oddRules = map[kernels.Op][]fwdRule{ // rows that start at any 2 bytes
		kernels.RMSNorm: {
			{1 << 10, "smem_pipe", 8, 4, 16, 1, 8, 0}, {2 << 10, "smem_pipe", 2, 4, 16, 1, 8, 0}, {5 << 10, "smem_pipe", 2, 4, 16, 1, 0, 0},
			{8<<10 - 16, "smem_pipe", 1, 4, 16, 1, 8, 0}, {10 << 10, "smem_pipe", 1, 4, 16, 1, 0, 0}, {26 << 10, "smem_pipe", 1, 8, 16, 1, 0, 0},
			{32 << 10, "smem_pipe", 1, 8, 16, 1, 4, 0}, {44 << 10, "smem_pipe", 1, 16, 16, 1, 0, 0}, {64 << 10, "smem_pipe", 1, 8, 16, 1, 4, 0},
		},
		kernels.LayerNorm: {
			{768, "cta_reg", 8, 2, 16, 1, 0, 0}, {1 << 10, "cta_reg", 8, 2, 16, 2, 4, 1}, {2 << 10, "", 0, 0, 0, 0, 0, 0},
			{4 << 10, "smem_pipe", 2, 4, 16, 1, 4, 0}, {5 << 10, "smem_pipe", 2, 8, 16, 1, 4, 0}, {8<<10 - 16, "smem_pipe", 1, 4, 16, 1, 4, 0},
			{14 << 10, "smem_pipe", 1, 4, 16, 1, 0, 0}, {32 << 10, "smem_pipe", 1, 8, 16, 1, 0, 0}, {64 << 10, "smem_pipe", 1, 16, 16, 1, 0, 0},
		},
	}
	evenRules = map[kernels.Op][]fwdRule{ // at multiples of 4
		kernels.RMSNorm: {{4 << 10, "", 0, 0, 0, 0, 0, 0}, {16 << 10, "cta_reg", 1, 4, 0, 1, 0, 1}, {27 << 10, "", 0, 0, 0, 0, 0, 0}, {29 << 10, "smem_pipe", 1, 16, 16, 1, 2, 0}, {36 << 10, "smem_pipe", 1, 16, 16, 1, 0, 0}, {128 << 10, "smem_pipe", 1, 16, 16, 1, 2, 0}},
		kernels.LayerNorm: {
			{10 << 10, "", 0, 0, 0, 0, 0, 0}, {18 << 10, "smem_pipe", 1, 8, 0, 1, 4, 0}, {29 << 10, "", 0, 0, 0, 0, 0, 0},
			{31 << 10, "smem_pipe", 1, 4, 16, 1, 4, 0}, {34 << 10, "cta_reg", 1, 16, 4, 1, 0, 0}, {42 << 10, "smem_pipe", 1, 8, 16, 1, 0, 0},
			{44 << 10, "smem_pipe", 1, 16, 16, 1, 0, 0},
		},
	}
)

// An unevenFwd is a rule with what smem_pipe takes beside it: the programs that share a row (0 is 1), whether they read it again
// from shared memory, and the cache hint (0 leaves it as it is).
type unevenFwd struct {
	fwdRule
	cluster, reload, hint int
}

// unevenRule is the rule for the row. A few wide rows get more threads each.
func unevenRule(p kernels.Problem, d kernels.DeviceInfo) (r unevenFwd, ok bool) {
	row := p.N * p.DType.Size()
	switch {
	case !measuredFwd(p, d):
		return r, false
	case fewUneven(p, d):
		return unevenFwd{fwdRule: fewRule(p)}, true
	case row%16 == 8 && p.Op == kernels.LayerNorm && row > 32<<10 && (row <= 44<<10 && p.M >= 2*int64(d.Units) && fewRows(p, d) || row > 44<<10 && row <= 60<<10 && p.M >= 4*int64(d.Units)):
		return unevenFwd{fwdRule: fwdRule{row, "smem_pipe", 1, 8, 0, 1, 0, 0}}, true // 12.7 us, not 14.4, at 308x19988, 139.7, not 153.7, at 4109x29596
	case row%16 == 8 && p.Op == kernels.RMSNorm && row > 44<<10 && row <= 96<<10 && p.M > 2*int64(d.Units):
		return unevenFwd{fwdRule{row, "smem_pipe", 1, 8, 0, 1, 0, 0}, 2, 1, 2}, true // 83.9 us, not 94.4, at 2423x33004
	case row%8 == 0:
		return r, false
	}
	if r, ok := wideUnevenLN(p, d); ok {
		return r, true
	}
	rules := oddRules[p.Op]
	if row%4 == 0 {
		rules = evenRules[p.Op]
	}
	if r.fwdRule, ok = ruleFor(rules, row); !ok || p.M < int64(d.Units) && row <= 8<<10 {
		return r, false
	}
	if p.M < 2*int64(d.Units) {
		r.fwdRule = fwdRule{r.row, "cta_reg", 1, 8, 16, 1, 0, 0}
		if row > 16<<10 {
			r.warps = 32
		}
	} else if p.Op == kernels.RMSNorm && row%4 != 0 && row > 20<<10 && row <= 44<<10 && fewRows(p, d) {
		r.warps, r.perSM = 16, 2 // 12.6 us, not 13.4, at 807x10493
	}
	if r.perSM == 2 {
		r.cluster, r.hint = 1<<flag(row%4 == 0 && row > 36<<10), 2
	}
	return r, true
}

// wideUnevenLN is layernorm's rule for six rows and more to each multiprocessor of more than 31 KiB, 36 of those that start at any 2
// bytes, and four of more than 54: one program of 16 warps, which takes the next row into shared memory while it writes one, as persistentRow; beyond 54 KiB there is
// no room for two rows. In us, before and now (H200, bf16, neighbours/narrow.jsonl.gz): 4881x16390 153.8 and 99.0, 1599x20002 45.8 and
// 41.0, 2962x27001 103.4 and 98.0, 1999x40002 140.0 and 102.6, 627x50994 69.3 and 48.6.
func wideUnevenLN(p kernels.Problem, d kernels.DeviceInfo) (r unevenFwd, ok bool) {
	row, even := p.N*p.DType.Size(), p.N*p.DType.Size()%4 == 0
	switch {
	case p.Op != kernels.LayerNorm || p.M < 4*int64(d.Units) || row <= 31<<10 || row > 128<<10:
		return r, false
	case !even && (row <= 36<<10 || row > 64<<10), row <= 54<<10 && p.M < 6*int64(d.Units):
		return r, false
	case row <= 54<<10 || !even:
		return unevenFwd{fwdRule{row, "smem_pipe", 1, 16, 16, 2, 1, 0}, 1, 1, 2}, true
	case row <= 90<<10 && p.M >= 8*int64(d.Units):
		return unevenFwd{fwdRule{row, "smem_pipe", 1, 16, 16, 1, 2, 0}, 2, 0, 2}, true
	}
	return unevenFwd{fwdRule{row, "smem_pipe", 1, 16, 16, 1, 1, 0}, 1, 0, 2}, true
}

// An unevenShot is what is best for rows of one_shot that are no multiple of 16 bytes, up to so many bytes of
// them and so many elements of all of them (0 for any): the rows of a program, its warps, and the bytes of a
// vector, 0 for the widest that divides a row.
type unevenShot struct {
	row, most        int64
	rows, warps, vec int
}

// The rules were read off an H200 (bf16, 8 samples, whole grids: 220 problems in each op of 50 widths, 280 to 50001
// rows, neighbours/uneven-fwd.jsonl.gz): narrow vectors, each asked for at once, beat those around the row
// and the pipeline nearly everywhere. In us, the default before and this: rmsnorm 7001x1002 14.3 and 10.4, 12001x250
// 8.7 and 6.9, 2003x502 8.0 and 4.7; layernorm 300x999 7.2 and 4.7, 280x2058 7.4 and 4.8, 20011x777 26.4 and
// 21.3, 4001x6002 32.4 and 27.6. Many rows that start at any 2 bytes are the exception, from 1024 columns on in
// rmsnorm and 1400 in layernorm.
var (
	evenShots = map[kernels.Op][]unevenShot{ // rows that start at multiples of 4 bytes
		kernels.RMSNorm: {{400, 0, 8, 4, 0}, {1400, 0, 4, 4, 0}, {3 << 10, 0, 2, 2, 0}, {16 << 10, 30 << 20, 1, 8, 0}, {24 << 10, 0, 1, 8, 0}, {32 << 10, 30 << 20, 1, 8, 0}},
		kernels.LayerNorm: {
			{400, 0, 8, 4, 0}, {1400, 0, 4, 4, 0}, {3 << 10, 0, 2, 2, 0}, {15 << 10, 0, 1, 4, 0}, {19 << 10, 0, 1, 8, 0},
			{24 << 10, 0, 1, 16, 0}, {29 << 10, 0, 1, 8, 0},
		},
	}
	oddShots = map[kernels.Op][]unevenShot{ // at any 2
		kernels.RMSNorm: {
			{600, 0, 8, 8, 0}, {1400, 0, 2, 4, 0}, {2000, 0, 1, 4, 0}, {2400, 5 << 20, 1, 4, 0}, {2400, 0, 0, 0, 0},
			{5200, 1300 << 10, 1, 8, 0}, {3200, 9 << 20, 2, 4, 16}, {4200, 15 << 20, 1, 2, 16},
			{5200, 0, 0, 0, 0}, {8 << 10, 1300 << 10, 1, 8, 0}, {8 << 10, 4500 << 10, 1, 4, 16}, {8 << 10, 0, 0, 0, 0}, {17 << 10, 9 << 20, 1, 8, 16},
		},
		kernels.LayerNorm: {
			{600, 0, 4, 4, 0}, {2 << 10, 0, 2, 2, 0}, {2400, 0, 1, 4, 0}, {2800, 0, 1, 2, 0}, {8 << 10, 5500 << 10, 1, 4, 0},
			{8 << 10, 0, 0, 0, 0}, {11 << 10, 1500 << 10, 1, 8, 0},
		},
	}
)

// unevenOneShot is one_shot by the rule for the row. Of fewer rows than a program has its rows are less. A y larger
// than the L2 is better not kept there: 39.9 us, not 42.1, at 40001x1002 (rmsnorm).
func unevenOneShot(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row := p.N * p.DType.Size()
	if p.M <= 2*int64(d.Units) && row > 8<<10 {
		return fewWideUneven(p, d)
	}
	if measuredFwd(p, d) && p.Op == kernels.LayerNorm && row%8 == 4 && row > 36<<10 && row <= 54<<10 && p.M < 6*int64(d.Units) {
		// 15.9 us, not 18.4, at 399x20002
		return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 1), set(kernels.Warps, 16), set(kernels.Unroll, 1), set(kernels.Cluster, 1)), true
	}
	if !measuredFwd(p, d) || row%16 == 0 || p.M <= 2*int64(d.Units) && row > 512 {
		return c, false
	}
	if p.Op == kernels.RMSNorm && row%4 == 0 && row > 29<<10 && row <= 44<<10 && (row <= 36<<10 || row%8 == 0) && fewRows(p, d) {
		// 13.5 us, not 16.1 by one program, at 601x16382, and 10.1, not 13.5, at 308x19988
		return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 1), set(kernels.Warps, 8), set(kernels.VectorBytes, 0), set(kernels.Unroll, 1),
			set(kernels.Cluster, 2<<flag(row > 36<<10)), set(kernels.CacheHint, 2*int(flag(row <= 36<<10)))), true
	}
	rules := evenShots[p.Op]
	if row%4 != 0 {
		rules = oddShots[p.Op]
	}
	i := slices.IndexFunc(rules, func(r unevenShot) bool { return row <= r.row && (r.most == 0 || p.M*p.N <= r.most) })
	if i < 0 || rules[i].rows == 0 {
		return c, false
	}
	r, unroll, hint := rules[i], 1, 2*int(flag(p.M*row > d.CacheBytes))
	switch units := int64(d.Units); {
	case p.Op == kernels.RMSNorm && row <= 512 && p.M <= 4:
		r.rows, r.warps = 1, 2 // 3.4 us, not 3.8, at 3x207
	case p.Op == kernels.RMSNorm && row%4 == 0 && r.rows == 2 && p.M <= 3*units:
		r.rows, r.warps = 1, 4 // 4.6 us, not 4.8, at 280x1002
	case p.Op == kernels.RMSNorm && row%4 == 0 && row%8 != 0 && row > 27<<10:
		return c, false // 978x14270 17.4 us by smem_pipe, and 18.2
	case p.Op == kernels.LayerNorm && row%4 == 0 && row > 18<<10 && row <= 21<<10 && p.M < 4*units:
		return c, false // 300x10002 8.3 us by cta_reg, and 9.1
	case p.Op == kernels.RMSNorm && row%4 != 0 && row > 1700 && row <= 2000 && p.M >= 60*units:
		r.rows, r.vec = 2, 16 // 15.7 us, not 18.0, at 12085x985
	case p.Op == kernels.RMSNorm && row%4 == 0 && row > 3<<10 && row <= 8<<10 && p.M > 8*units && p.M <= 9*units:
		r.warps = 4 // of 8 warps no more than eight programs run at once: 6.3 us, not 7.0, at 1102x2492
	case row%16 == 8 && row > 128 && row <= 400 && p.M >= 100*units && (row <= 256 || p.Op == kernels.LayerNorm):
		r.rows, r.warps, unroll, hint = 16, 2, 4, 2 // 5.7 us, not 6.1, at 20000x100 (rmsnorm)
	case row%8 == 4 && row > 128 && row <= 200 && p.M >= 100*units && p.M < 320*units && p.Op == kernels.RMSNorm:
		r.rows = 16 // 5.4 us, not 6.1, at 20000x90
	case row%16 == 8 && row > 256 && row <= 400 && p.M >= 100*units:
		r.rows = 16 // 6.2 us, not 6.6, at 20000x140
	case row%4 != 0 && row > 128 && row <= 256 && p.M >= 100*units && p.Op == kernels.LayerNorm:
		r.rows, unroll = 8, 2 // 30.4 us, not 35.0, at 177062x117
	case row%4 == 0 && row > 400 && row <= 512 && p.M >= 300*units:
		r.rows, r.warps, unroll, hint = 4, 1, 4, 2 // 17.4 us, not 19.0, at 63581x220 (layernorm)
	case row%4 == 0 && row > 128 && row <= 256 && p.M >= 300*units && p.Op == kernels.LayerNorm:
		r.rows, r.warps, unroll, hint = 8, 1, 4, 2 // 12.8 us, not 14.1, at 70748x124
	}
	for ; int64(r.rows) >= 2*p.M && r.warps > 1; r.warps /= 2 {
		r.rows /= 2
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.VectorBytes, r.vec),
		set(kernels.Unroll, unroll), set(kernels.Cluster, 1), set(kernels.CacheHint, hint)), true
}

// fewWideUneven is one_shot for up to two uneven rows of more than 8 KiB for each multiprocessor, of a program each or, of
// elements that come one by one, a cluster of four: 5.5 us at 140x5555 on an H200 (rmsnorm) and 6.4 at 150x9999, where cta_reg took 6.4 and
// 8.7; layernorm 6.2 and 7.2, not 6.9 and 10.4 (neighbours/few-hundred.jsonl.gz).
func fewWideUneven(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	row, ln := p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	warps, cluster, vec, hint := 4, 1, 0, 0
	switch {
	case !measuredFwd(p, d) || row%16 == 0:
		return c, false
	case !ln && row%4 == 0 && row > 48<<10 && row <= 128<<10 && p.M > int64(d.Units): // 13.5 us, not 16.8, at 156x50994
		warps, cluster, hint = 4<<flag(row > 90<<10), 8, 2
	case row > 26<<10:
		return c, false
	case row%4 == 0:
		warps = 4 << flag(row > 16<<10)
	case p.M > 200:
		warps, vec = 16, 16
	default:
		warps, cluster = 8>>flag(ln), 4
	}
	return fwdOneShotBase(p, d).With(set(kernels.BlockRows, 1), set(kernels.Warps, warps), set(kernels.VectorBytes, vec),
		set(kernels.Unroll, 1), set(kernels.Cluster, cluster), set(kernels.CacheHint, hint)), true
}

// fewUneven says whether a forward has so few rows of narrow vectors that each should have
// a program, of more threads than a longer list of rows is worth.
func fewUneven(p kernels.Problem, d kernels.DeviceInfo) bool {
	row := p.N * p.DType.Size()
	return row%16 != 0 && row > 512 && row <= 8<<10 && p.M <= 2*int64(d.Units)
}

// fewRule is what smem_pipe has for it: 4.2, 4.4 and 4.7 us on an H200 (rmsnorm 173x409, 229x541,
// 71x3571) where coop's programs of 8 warps took 4.5 and 4.7 at the last two, and a program
// for eight rows 7.6 at the first; layernorm 4.5, 4.6 and 5.1, coop 4.7 and 5.1.
func fewRule(p kernels.Problem) fwdRule {
	return fwdRule{8 << 10, "smem_pipe", 1, 8 << flag(p.N*p.DType.Size() > 4<<10), 0, 1, 0, 0}
}
