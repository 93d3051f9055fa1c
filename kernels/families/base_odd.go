package families

import "normbench/kernels"

// The later launch rules of smem_pipe's backwards whose rows are no multiple of 16 bytes: see base.go.

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
		return tile{8 << flag(row <= 400 && p.M >= 160*int64(d.Units)), 1, 4, 2, 4, 2, 1, 0}, true // 14.8 us, not 16.8, at 21471x183
	case row > 512 && row <= 1200 && few:
		return tile{4, 1, 8, 2, 2, 2, 1, 0}, true // 7.8 us, not 8.5, at 741x587
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
	case row > 3*maxRow && !ln:
		return tile{1, 1, 8, 2, 2, 2, 4, 0}, true // 33.2 us, not 40.4, at 371x26339
	case p.M < int64(d.Units) || row <= 1<<10 || row > 3*maxRow:
		return t, false
	case row <= 2<<10: // from 1017 columns on a row may be of 129 vectors, for which layernorm has registers in three programs
		return tile{2, 1, 4, 2, 4 - int(flag(ln && row > 2032)), 2, 1, 0}, true
	case row <= 3<<10:
		return tile{2, 1, 4, 2, 3, 2, 1, 0}, true
	case row > 4<<10 && row <= 5<<10 && row%4 == 0:
		return tile{1, 1, 4, 2, 3, 1, 1, 0}, true
	case row <= 6<<10 && row > 5<<10 && ln && p.M < 12*int64(d.Units):
		return tile{1, 1, 8, 2, 2, 2, 1, 0}, true // 15.3 us, not 17.1, at 1126x2997
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
// 79.4 and 61.1. Few wide rows are evenWideTile's. Layernorm's up to 4 KiB, and rmsnorm's many from 1.7 to 3, have two rows to a thread
// (gaps.jsonl.gz).
func evenTile(p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	row, ln, few := p.N*p.DType.Size(), p.Op == kernels.LayerNorm, p.M < 16*int64(d.Units)
	many, again := p.M > 24*int64(d.Units), int(3*flag(ln))
	switch {
	case row%4 != 0 || p.M < 2*int64(d.Units) && (row <= 12<<10 || 2*p.M < int64(d.Units)):
		return t, false
	case row > 512 && row <= 1040:
		return tile{4, 1, 4, 2, 2 << flag(many), 1, 1, 0}, true
	case row > 1040 && row <= 3<<10 && ln && !many, row > 3<<10 && row <= 4<<10 && few && ln && !fewRows(p, d):
		return tile{2, 2, 4, 2, 2, 1, 1, 4}, true // 7.6 us, not 8.4, at 700x1002; 12.6, not 13.3, at 1800x2006
	case row > 1040 && row <= 3<<10 && ln, row > 1700 && row <= 3<<10 && many:
		return tile{2, 2, 4, 2, 4 - int(flag(row > 1800)), 1, 1, 4}, true // 36.6 us, not 39.8, at 17104x1158; rmsnorm 35.6 and 37.7
	case row > 1040 && row <= 1700 && many: // rmsnorm's from here to 3 KiB
		return tile{4, 1, 4, 2, 2 << flag(row <= 1300), 1, 1, 0}, true // 22.2 us, not 23.9, at 20454x570
	case row > 1040 && row <= 1300 && fewRows(p, d):
		return tile{4, 1, 8, 2, 2, 1, 1, 0}, true // 6.7 us, not 7.1, at 881x618
	case row > 1040 && row <= 3<<10:
		return tile{1, 1, 4, 2, 4 >> flag(row > 2200 && fewRows(p, d)), 1, 1, 0}, true
	case row > 3<<10 && row <= 6<<10 && ln && p.M < 4*int64(d.Units):
		return tile{2, 2, 8, 2, 1, 1, 1, 4}, true // 8.7 us, not 9.6, at 457x2302
	case row > 3<<10 && row <= 6<<10 && fewRows(p, d), row > 5<<10 && row <= 6<<10 && p.M < 60*int64(d.Units):
		return tile{1, 1, 8, 2, 2, 1, 1, 0}, true // 13.5 us at 1616x3006, and 15.4 by bulk copies; layernorm 15.4 and 18.6
	case row > 3<<10 && row <= 4<<10 && few:
		return tile{1, 1, 4, 2, 3, 1, 1, 0}, true // 11.9 us at 1800x2006, and 13.2; layernorm 13.3 and 15.3
	case row > 12<<10 && fewRows(p, d), row > maxRow && ln && p.M < 16*int64(d.Units):
		return evenWideTile(p, d), true
	case row > 6<<10 && row <= 8<<10 && p.M < 8*int64(d.Units) && ln:
		return tile{2, 2, 8, 2, 1, 1, 1, 4}, true // 11.9 us, not 12.5, at 611x3794
	case row > 6<<10 && row <= 8<<10 && p.M < 40*int64(d.Units):
		return tile{1, 1, 4, 3, 2, 1, 1, 0}, true // up to 16 vectors to a thread: 2441x4098 has 17, and 0.54 of the stream where 4094 columns have 0.79
	case row > 8<<10 && row <= 9<<10 && p.M < 16*int64(d.Units):
		return tile{1, 1, 8, 2, 1, 1, 1, again}, true // 18.7 us, not 21.5, at 1538x4202 (layernorm)
	case row > 6<<10 && row <= 9<<10:
		return tile{1, 1, 8, 3, 2, 1, 1, 3}, true
	case row > 9<<10 && row <= maxRow:
		return tile{1, 1, 8, 3 - int(flag(few)), 1 + int(flag(!few && !ln)), 1, 1, 3}, true
	case row > maxRow && row <= 24<<10 && ln:
		return tile{1, 1, 16, 2, 1, 1, 1, 0}, true
	case row > 24<<10 && row <= 30<<10 && ln:
		return tile{1, 1, 8, 2, 2, 1, 4, 4}, true // 58.2 us, not 68.8, at 2271x13002
	case row > 24<<10 && row <= 2*maxRow && !ln:
		return tile{1, 1, 16, 3, 1, 1, 1, 3}, true
	case row > 30<<10 && row <= 2*maxRow:
		return tile{1, 1, 16, 2, 1, 1, 1, 3}, true
	}
	return t, false
}

// evenWideTile is evenTile for few rows of more than 6144 columns, which are shared as whole ones are, in slices of about 4096. In us, by
// a program for each row and this (H200, bf16, neighbours/gaps.jsonl.gz): rmsnorm 472x8318 15.2 and 12.9, 274x13162 15.5 and
// 12.4, 705x14338 25.7 and 22.4; layernorm 19.8 and 14.5, 20.2 and 14.9, 31.1 and 25.5.
func evenWideTile(p kernels.Problem, d kernels.DeviceInfo) tile {
	row, ln := p.N*p.DType.Size(), p.Op == kernels.LayerNorm
	switch {
	case row > 3*maxRow:
		return tile{1, 1, 8, 2, 1, 1, 8, 0}
	case row > 36<<10 && ln:
		return tile{2, 2, 8, 2, 2, 1, 8, 4} // 27.6 us, not 47.9, at 475x21530
	case row > 36<<10:
		return tile{1, 1, 8, 2, 3, 1, 8, 0}
	case row <= maxRow && ln:
		return tile{2, 2, 8, 2, 1, 1, 2, 4}
	case row <= maxRow:
		return tile{1, 1, 8, 2, 2, 1, 2, 0}
	case row <= 20<<10 && p.M >= 2*int64(d.Units):
		return tile{2, 2, 4, 2, 2, 1, 4, 4}
	case p.M < 2*int64(d.Units):
		return tile{2, 2, 8, 2, 1, 1, 4, 4}
	}
	return tile{1, 1, 8, 2, 2, 1, 4, 4}
}
