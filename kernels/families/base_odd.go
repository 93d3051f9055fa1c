package families

import (
	"slices"

	"normbench/kernels"
)

// The later launch rules of rows that are no multiple of 8 bytes, and of few that are no multiple of
// 16: see base.go.

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
			{13 << 10, "smem_pipe", 1, 4, 16, 1, 0, 0}, {32 << 10, "smem_pipe", 1, 8, 16, 1, 0, 0}, {64 << 10, "smem_pipe", 1, 16, 16, 1, 0, 0},
		},
	}
	evenRules = map[kernels.Op][]fwdRule{ // at multiples of 4
		kernels.RMSNorm:   {{4 << 10, "", 0, 0, 0, 0, 0, 0}, {16 << 10, "cta_reg", 1, 4, 0, 1, 0, 1}},
		kernels.LayerNorm: {{10 << 10, "", 0, 0, 0, 0, 0, 0}, {18 << 10, "smem_pipe", 1, 8, 0, 1, 4, 0}},
	}
)

// unevenRule is the rule for the row. A few wide rows get more threads each.
func unevenRule(p kernels.Problem, d kernels.DeviceInfo) (r fwdRule, ok bool) {
	row := p.N * p.DType.Size()
	switch {
	case !measuredFwd(p, d):
		return r, false
	case fewUneven(p, d):
		return fewRule(p), true
	case row%8 == 0:
		return r, false
	}
	rules := oddRules[p.Op]
	if row%4 == 0 {
		rules = evenRules[p.Op]
	}
	if r, ok = ruleFor(rules, row); !ok || p.M < int64(d.Units) && row <= 8<<10 {
		return r, false
	}
	if p.M < 2*int64(d.Units) {
		r = fwdRule{r.row, "cta_reg", 1, 8, 16, 1, 0, 0}
		if row > 16<<10 {
			r.warps = 32
		}
	}
	return r, true
}

// An unevenShot is what is best for rows of one_shot that are no multiple of 16 bytes, up to so many bytes of
// them and so many elements of all of them (0 for any): the rows of a program, its warps, and the bytes of a
// vector, 0 for the widest that divides a row.
type unevenShot struct {
	row, most        int64
	rows, warps, vec int
}

// The rules were read off an H200 (bf16, 8 samples, whole grids: 220 problems in each op of 52 widths, 280 to 50001
// rows, neighbours/uneven-fwd.jsonl.gz): narrow vectors, each asked for at once, beat those around the row
// and the pipeline nearly everywhere. In us, the default before and this: rmsnorm 7001x1002 14.3 and 10.4, 12001x250
// 8.7 and 6.9, 2003x502 8.0 and 4.7; layernorm 300x999 7.2 and 4.7, 280x2058 7.4 and 4.8, 20011x777 26.4 and
// 21.3, 4001x6002 32.4 and 27.6. Many rows that start at any 2 bytes are the exception, from 1024 columns on in
// rmsnorm and 1400 in layernorm.
var (
	evenShots = map[kernels.Op][]unevenShot{ // rows that start at multiples of 4 bytes
		kernels.RMSNorm: {{288, 0, 8, 4, 0}, {1400, 0, 4, 4, 0}, {3 << 10, 0, 2, 2, 0}, {24 << 10, 30 << 20, 1, 8, 0}},
		kernels.LayerNorm: {
			{288, 0, 8, 4, 0}, {1400, 0, 4, 4, 0}, {3 << 10, 0, 2, 2, 0}, {15 << 10, 0, 1, 4, 0}, {16 << 10, 0, 1, 8, 0},
			{21 << 10, 0, 0, 0, 0}, {24 << 10, 0, 1, 16, 0},
		},
	}
	oddShots = map[kernels.Op][]unevenShot{ // at any 2
		kernels.RMSNorm: {
			{600, 0, 8, 8, 0}, {1400, 0, 2, 4, 0}, {2000, 0, 1, 4, 0}, {2400, 5 << 20, 1, 4, 0}, {2400, 0, 0, 0, 0},
			{5200, 1300 << 10, 1, 8, 0}, {3200, 9 << 20, 2, 4, 16}, {4200, 15 << 20, 1, 2, 16},
			{5200, 0, 0, 0, 0}, {8 << 10, 4500 << 10, 1, 4, 16}, {8 << 10, 0, 0, 0, 0}, {17 << 10, 9 << 20, 1, 8, 16},
		},
		kernels.LayerNorm: {
			{600, 0, 4, 4, 0}, {2 << 10, 0, 2, 2, 0}, {2400, 0, 1, 4, 0}, {2800, 0, 1, 2, 0}, {8 << 10, 5500 << 10, 1, 4, 0},
			{8 << 10, 0, 0, 0, 0}, {11 << 10, 1500 << 10, 1, 8, 0},
		},
	}
)

// unevenShotFor is the rule for the row. Of fewer rows than a program has its rows are less.
func unevenShotFor(p kernels.Problem, d kernels.DeviceInfo) (r unevenShot, ok bool) {
	row := p.N * p.DType.Size()
	if !measuredFwd(p, d) || row%16 == 0 || p.M <= 2*int64(d.Units) && row > 512 {
		return r, false
	}
	rules := evenShots[p.Op]
	if row%4 != 0 {
		rules = oddShots[p.Op]
	}
	i := slices.IndexFunc(rules, func(r unevenShot) bool { return row <= r.row && (r.most == 0 || p.M*p.N <= r.most) })
	if i < 0 || rules[i].rows == 0 {
		return r, false
	}
	r = rules[i]
	if p.Op == kernels.RMSNorm && row%4 == 0 && r.rows == 2 && p.M <= 3*int64(d.Units) {
		r.rows, r.warps = 1, 4 // 4.6 us, not 4.8, at 280x1002
	}
	for ; int64(r.rows) >= 2*p.M && r.warps > 1; r.warps /= 2 {
		r.rows /= 2
	}
	return r, true
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

// raggedTile is for rows that are no multiple of 8 bytes. They cost more registers, for
// a vector more and what is known of its place: some are read again from shared memory.
// Wide ones are better off without a cluster, layernorm's widest with one; few very wide
// ones in larger clusters.
//
// From 2 to 6 KiB it was read off four shapes (neighbours/odd-bwd.jsonl.gz). In us, the tiles
// before and these: rmsnorm 9001x2058 49.1 and 33.7, 7411x2501 38.2 and 34.8, 11003x2742 54.8 and
// 52.2; layernorm 9001x2058 43.0 and 36.4. At 14009x1337 two rows take 34.5 and 37.3, one 35.8 and 42.4
// with more stages or programs.
func raggedTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row, ln, few := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, fewRows(p, d)
	again := int(3 * flag(ln)) // layernorm has more to keep
	if t, ok := evenTile(p, d); ok {
		return t, true
	}
	switch {
	case row <= 512 && row%4 == 0 && few && p.M > 4*int64(d.Units):
		return tile{8, 1, 8, 2, 2, 1, 1, 0}, true
	case row <= 512 && row%4 == 0 && !few:
		return tile{8, 1, 4, 2, 3 + int(flag(row <= 350 && p.M >= 160*int64(d.Units))), 1, 1, 0}, true
	case row <= 512 && p.M >= 24*int64(d.Units):
		return tile{8 << flag(row <= 350 && p.M >= 160*int64(d.Units)), 1, 4, 2, 4, 2, 1, 0}, true
	case row > 512 && row <= 1<<10 && few:
		return tile{4, 1, 8, 2, 2, 2, 1, 0}, true
	case row > 1<<10 && row <= 2<<10 && few:
		return tile{2, 1, 4, 2, 2, 2, 1, 0}, true
	case row > 512 && row <= 1<<10 && !few:
		return narrowOddTile(p, d), true
	case row > 3<<10 && row <= 4<<10 && few && ln:
		return tile{2, 1, 8, 2, 2, 2, 1, 0}, true
	case row > 2*maxRow && p.M <= 4*int64(d.ClustersAtOnce(8)):
		return tile{2, 1, 16, 2, 1, 2, 8, 0}, true
	case row > 2*maxRow && row <= 3*maxRow:
		return tile{1, 1, 16, 2, 1, 2, 2, again}, true
	case p.M < int64(d.Units) || row <= 1<<10 || row > 3*maxRow:
		return t, false
	case row <= 2<<10: // from 1017 columns on a row may be of 129 vectors, for which layernorm has registers in three programs
		return tile{2, 1, 4, 2, 4 - int(flag(ln && row > 2032)), 2, 1, 0}, true
	case row <= 3<<10:
		return tile{2, 1, 4, 2, 3, 2, 1, 0}, true
	case row > 4<<10 && row <= 5<<10 && row%4 == 0:
		return tile{1, 1, 4, 2, 3, 1, 1, 0}, true
	case row <= 6<<10:
		return tile{1, 1, 4, 2, 3, 2, 1, 0}, true
	case row <= 9<<10:
		return tile{1, 1, 8, 3, 2, 2, 1, again}, true
	case row <= 12<<10 && few:
		return tile{1, 1, 8, 2, 1, 2, 1, 0}, true
	case row <= 12<<10:
		return tile{1, 1, 8, 2 + int(flag(ln)), 2, 2, 1, again}, true
	case row <= maxRow:
		return tile{1, 1, 16, 3, 1, 2, 1, 0}, true
	case ln && row <= 24<<10:
		return tile{1, 1, 16, 3, 1, 2, 1, 3}, true
	case row <= 24<<10:
		return tile{1, 1, 16, 2, 1, 2, 1, 0}, true
	case ln:
		return tile{1, 1, 16, 2, 1, 2, 2, 0}, true
	}
	return tile{1, 1, 16, 2, 1, 2, 1, 3}, true
}

// narrowOddTile is the tile of many rows of 257 to 512 columns that start at any 2 bytes: 8 rows up to 350 columns and 4
// beyond, four programs to a multiprocessor where there are rows enough. In us, smemPipeBase's and this: rmsnorm
// 12001x257 17.7 and 14.4, 12001x333 18.3 and 14.4, layernorm 30011x257 35.8 and 29.7.
func narrowOddTile(p kernels.Problem, d kernels.DeviceInfo) tile {
	row, units := p.N*p.DType.Size(), int64(d.Units)
	switch {
	case row <= 700 && p.Op == kernels.LayerNorm:
		return tile{8, 1, 4, 2, 2 << flag(p.M >= 160*units), 2, 1, 0}
	case row <= 700:
		return tile{8, 1, 4, 2, 2 << flag(p.M >= 24*units), 2, 1, 0}
	case p.M < 60*units:
		return tile{4, 1, 8, 2, 2, 2, 1, 0}
	}
	return tile{4, 1, 4, 2, 4, 2, 1, 0}
}

// eightTile is the tile of rows that start at multiples of 8 bytes, up to 3750 columns: each thread's own copies, of 16
// rows to 2, and two to a thread but for the narrowest. In us, the tiles of whole vectors' rows and these: rmsnorm
// 2003x700 10.3 and 8.7, 2003x3500 19.5 and 16.2, layernorm 700x700 8.7 and 7.2, 50021x100 17.1 and 14.7.
func eightTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row, ln, few, many := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, fewRows(p, d), p.M >= 40*int64(d.Units)
	perSM := 2 << flag(many)
	switch {
	case row%16 != 8 || p.M < 4*int64(d.Units) || many && row > 3100:
		return t, false
	case row <= 256:
		return tile{16, 1, 4, 2, 2 << flag(p.M >= 160*int64(d.Units)), 1, 1, 0}, row > 128
	case row <= 512 || row <= 1040 && many:
		return t, false
	case row <= 700:
		return tile{8, 1, 4, 2, 2, 1, 1, 0}, true
	case row <= 1040 && few:
		return tile{2, 2, 4, 2, 4, 1, 1, 0}, ln
	case row <= 1040:
		return tile{8, 2, 4, 2, 2, 1, 1, 0}, true
	case row <= 1600:
		return tile{4, 2, 4, 2, perSM, 1, 1, 0}, true
	case row <= 3100:
		return tile{2, 2, 4, 2, perSM, 1, 1, 0}, true
	case row > 7500:
		return t, false
	case few:
		return tile{2, 1 << flag(ln), 8, 2, 1, 1, 1, 0}, true
	case ln && row > 5400:
		return tile{2, 1, 8, 2, 1, 1, 1, 0}, true
	}
	return tile{2, 1 << flag(ln), 8, 2, 2, 1, 1, 0}, true
}

// evenTile is raggedTile for rows at multiples of 4 bytes, where each thread's own
// copies of 4 bytes are faster than bulk copies and shifted vectors, and wide rows are read again from
// shared memory. Up to 3 KiB it was read off eight widths, each with 700 to 12001 rows
// (neighbours/uneven-bwd.jsonl.gz): in us, before and now, rmsnorm 12001x258 16.7 and 10.8, 5003x1002 15.5 and 13.6,
// layernorm 19.7 and 12.3, 18.4 and 16.0. Wider, bulk copies and these (H200, bf16, neighbours/odd-more.jsonl.gz): rmsnorm
// 2447x4094 23.7 and 20.9, 1231x8186 25.2 and 23.1, layernorm 29.8 and 23.3, 31.3 and 25.0, 4001x8190
// 79.4 and 61.1. At 705x14338 they are the same in rmsnorm, and in layernorm the bulk copies are faster.
func evenTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row, ln, few := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, p.M < 16*int64(d.Units)
	many := p.M > 24*int64(d.Units)
	switch {
	case row%4 != 0 || p.M < 2*int64(d.Units):
		return t, false
	case row > 512 && row <= 1040:
		return tile{4, 1, 4, 2, 2 << flag(many), 1, 1, 0}, true
	case row > 1040 && row <= 2200 && many:
		return tile{4, 1, 4, 2, 2, 1, 1, 0}, true
	case row > 1040 && row <= 3<<10:
		return tile{1, 1, 4, 2, 4 >> flag(row > 2200 && fewRows(p, d)), 1, 1, 0}, true
	case row > 3<<10 && row <= 6<<10 && fewRows(p, d):
		return tile{1, 1, 8, 2, 2, 1, 1, 0}, true
	case row > 6<<10 && row <= 8<<10 && p.M < 40*int64(d.Units):
		return tile{1, 1, 4, 3, 2, 1, 1, 0}, true // up to 16 vectors to a thread: 2441x4098 has 17, and 0.54 of the stream where 4094 columns have 0.79
	case row > 6<<10 && row <= 9<<10:
		return tile{1, 1, 8, 3, 2, 1, 1, 3}, true
	case row > 9<<10 && row <= maxRow:
		return tile{1, 1, 8, 3 - int(flag(few)), 1 + int(flag(!few && !ln)), 1, 1, 3}, true
	case row > maxRow && row <= 24<<10 && ln:
		return tile{1, 1, 16, 2, 1, 1, 1, 0}, true
	case row > 24<<10 && row <= 2*maxRow && !ln:
		return tile{1, 1, 16, 3, 1, 1, 1, 3}, true
	case row > 30<<10 && row <= 2*maxRow:
		return tile{1, 1, 16, 2, 1, 1, 1, 3}, true
	}
	return t, false
}
