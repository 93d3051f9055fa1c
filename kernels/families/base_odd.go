package families

import "normbench/kernels"

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
func raggedTile(p kernels.Problem, d kernels.DeviceInfo, cl int) (t tile, ok bool) {
	row, ln, few := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, fewRows(p, d)
	again := int(3 * flag(ln)) // layernorm has more to keep
	if t, ok := evenTile(p, d); ok {
		return t, true
	}
	switch {
	case row <= 512 && row%4 == 0 && !few:
		return tile{8, 1, 4, 2, 3, 1, 1, 0}, true
	case row > 512 && row <= 2<<10 && few:
		return tile{int(4 - 2*flag(row > 1<<10)), 1, 8, 2, 1, 2, cl, 0}, true
	case row > 2*maxRow && p.M <= 4*int64(d.ClustersAtOnce(8)):
		return tile{2, 1, 16, 2, 1, 2, 8, 0}, true
	case row > 2*maxRow && row <= 3*maxRow:
		return tile{1, 1, 16, 2, 1, 2, 2, again}, true
	case p.M < int64(d.Units) || row <= 1<<10 || row > 3*maxRow:
		return t, false
	case row <= 2<<10:
		return tile{2, 1, 4, 2, 4 - int(flag(ln && p.M < 100*int64(d.Units))), 2, 1, 0}, true
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

// evenTile is raggedTile for rows of 6 to 32 KiB at multiples of 4 bytes, where each thread's own
// copies of 4 bytes are faster than bulk copies and shifted vectors, and wide rows are read again from
// shared memory. In us, bulk copies and these (H200, bf16, neighbours/odd-more.jsonl.gz): rmsnorm
// 2447x4094 23.7 and 20.9, 1231x8186 25.2 and 23.1, layernorm 29.8 and 23.3, 31.3 and 25.0, 4001x8190
// 79.4 and 61.1. At 705x14338 they are the same in rmsnorm, and in layernorm the bulk copies are faster.
func evenTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row, ln, few := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, p.M < 16*int64(d.Units)
	switch {
	case row%4 != 0 || p.M < 2*int64(d.Units):
		return t, false
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
