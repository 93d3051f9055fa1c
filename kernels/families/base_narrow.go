package families

import "normbench/kernels"

// The later launch rules of smem_pipe's backwards of many narrow rows: see base.go.

// narrowBwd is for 100 rows and more to each multiprocessor, of 65 to 255 columns that are no power of two, at multiples of 4 bytes:
// the heads of attention, but for those of 64, 128 and 256 columns, which the other rules were read off. They had a tile for whole vectors that fit the next
// power of two, and rows at multiples of 8 bytes had none from 129 columns on: 91835x140 took 42.2 us in rmsnorm and 52.9 in
// layernorm, of 24.4 and 26.0. ahead is whether statistics are loaded for 32 tiles at a time. At 109 problems (H200, bf16, 20000, 90001 and
// 400000 rows, neighbours/narrow.jsonl.gz) the default was 8% behind the best of some 12 in rmsnorm and 14% in layernorm, and is 1% now.
func narrowBwd(p kernels.Problem, d kernels.DeviceInfo) (t tile, ahead int, ok bool) {
	row := p.N * p.DType.Size()
	if row <= 128 || row >= 512 || row%4 != 0 || isPow2(int(p.N)) || p.M < 100*int64(d.Units) {
		return t, 0, false
	}
	many := 0 // of 100 to 399 rows, of more, and of a dx that is larger than what the L2 holds of it
	switch {
	case 4*p.M*row >= 3*d.CacheBytes:
		many = 2
	case p.M >= 400*int64(d.Units):
		many = 1
	}
	rules := narrowEven
	switch {
	case row%16 == 0:
		rules = narrowWhole
	case row%8 == 0:
		rules = narrowEights
	}
	for _, r := range rules[p.Op] {
		if row <= r.row {
			c := r.by[many]
			return c.tile, c.ahead, c.rows > 0
		}
	}
	return t, 0, false
}

// A narrowRule is what is best for rows of up to so many bytes, by how many they are. One without rows leaves them to other rules.
type narrowRule struct {
	row int64
	by  [3]aheadTile
}

// An aheadTile is a tile with whether statistics are loaded far ahead.
type aheadTile struct {
	tile
	ahead int
}

var (
	narrowWhole = map[kernels.Op][]narrowRule{ // rows of whole vectors
		kernels.RMSNorm: {
			{160, [3]aheadTile{{}, {tile{32, 1, 8, 2, 2, 2, 1, 4}, 1}, {tile{64, 2, 8, 3, 2, 2, 1, 0}, 0}}},
			{256, [3]aheadTile{{}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}, {tile{16, 1, 8, 2, 4, 2, 1, 0}, 1}}},
			{512, [3]aheadTile{{tile{8, 1, 8, 3, 2, 1, 1, 4}, 1}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}, {tile{32, 2, 8, 2, 2, 1, 1, 0}, 0}}},
		},
		kernels.LayerNorm: {
			{160, [3]aheadTile{{}, {tile{16, 1, 4, 2, 4, 1, 1, 4}, 0}, {tile{16, 1, 2, 2, 8, 2, 1, 0}, 1}}},
			{256, [3]aheadTile{{tile{16, 1, 8, 2, 2, 1, 1, 4}, 1}, {tile{32, 2, 8, 3, 2, 1, 1, 4}, 1}, {tile{32, 1, 8, 2, 2, 2, 1, 4}, 1}}},
			{340, [3]aheadTile{{tile{8, 1, 4, 2, 4, 2, 1, 4}, 0}, {tile{16, 1, 4, 3, 2, 1, 1, 0}, 1}, {tile{8, 1, 2, 2, 8, 2, 1, 0}, 0}}},
			{512, [3]aheadTile{{tile{8, 1, 4, 2, 4, 2, 1, 4}, 0}, {tile{16, 1, 4, 3, 2, 1, 1, 0}, 1}, {tile{8, 1, 4, 2, 4, 2, 1, 4}, 0}}},
		},
	}
	narrowEights = map[kernels.Op][]narrowRule{ // at multiples of 8 bytes
		kernels.RMSNorm: {
			{256, [3]aheadTile{{tile{16, 1, 4, 2, 4, 1, 1, 0}, 0}, {tile{16, 1, 8, 2, 4, 1, 1, 0}, 0}, {tile{16, 1, 4, 2, 6, 1, 1, 0}, 0}}},
			{400, [3]aheadTile{{tile{16, 1, 8, 2, 2, 1, 1, 0}, 0}, {tile{16, 1, 8, 2, 4, 1, 1, 0}, 0}, {tile{16, 1, 4, 2, 4, 1, 1, 0}, 0}}},
		},
		kernels.LayerNorm: {
			{256, [3]aheadTile{{tile{16, 1, 4, 2, 4, 1, 1, 0}, 0}, {tile{16, 2, 4, 3, 4, 1, 1, 4}, 0}, {tile{16, 1, 4, 3, 4, 1, 1, 4}, 1}}},
			{400, [3]aheadTile{{tile{16, 2, 4, 3, 2, 1, 1, 4}, 1}, {tile{16, 2, 4, 3, 2, 1, 1, 4}, 1}, {tile{16, 1, 4, 2, 4, 1, 1, 0}, 0}}},
		},
	}
	narrowEven = map[kernels.Op][]narrowRule{ // at multiples of 4
		kernels.RMSNorm: {
			{256, [3]aheadTile{{tile{16, 1, 8, 2, 4, 1, 1, 0}, 0}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}}},
			{350, [3]aheadTile{{tile{8, 1, 4, 2, 4, 1, 1, 0}, 0}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}}},
		},
		kernels.LayerNorm: {
			{350, [3]aheadTile{{tile{8, 1, 4, 2, 4, 1, 1, 0}, 0}, {}, {tile{16, 1, 8, 3, 3, 1, 1, 0}, 1}}},
		},
	}
)
