package families

import (
	"math"
	"slices"

	"normbench/kernels"
)

// The later launch rules of fp8 with its transpose: see base.go.

// A tileRule is what is best for rows up to so many bytes: the vector, slots, programs
// per multiprocessor (0 for one to a slice), the copy path, the programs of a cluster or,
// through global memory, of a row.
type tileRule struct {
	row                                int64
	vec, stages, perSM, path, cl, ctas int
}

// The rules were read off an H200 (bf16, te): of 50 to 130 configs the best, or one
// within 1% of it that is more like its neighbours. All write 32 bytes of a column at a
// time, and let those lines stay in L2 until the others have come: with the streaming
// hint 83.1 us and not 81.3 at 8192x8192.
var tileRules = map[kernels.Op][]tileRule{
	kernels.RMSNorm: {
		{2 << 10, 0, 1, 0, 1, 1, 1}, {4 << 10, 0, 2, 1, 1, 2, 1}, {8 << 10, 8, 2, 2, 2, 8, 1}, {16 << 10, 0, 2, 1, 1, 8, 1},
		{24 << 10, 0, 1, 2, 1, 8, 1}, {32 << 10, 0, 1, 3, 1, 16, 1}, {64 << 10, 0, 1, 3, 1, 1, 32}, {math.MaxInt64, 0, 1, 1, 2, 1, 32},
	},
	kernels.LayerNorm: {
		{2 << 10, 8, 1, 0, 1, 1, 1}, {4 << 10, 0, 1, 2, 1, 2, 1}, {8 << 10, 0, 1, 3, 1, 4, 1}, {16 << 10, 0, 1, 3, 1, 8, 1},
		{24 << 10, 0, 1, 2, 1, 8, 1}, {32 << 10, 0, 1, 3, 1, 16, 1}, {64 << 10, 0, 1, 1, 1, 16, 1}, {math.MaxInt64, 0, 1, 1, 1, 1, 32},
	},
}

// tileBase is the rule for the row or, where that is refused, fwdTileBase.
func tileBase(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	rules := tileRules[p.Op]
	r := rules[slices.IndexFunc(rules, func(r tileRule) bool { return p.N*p.DType.Size() <= r.row })]
	c := tileConfig(r.vec, r.stages, r.path, r.cl, r.ctas).With(set(kernels.PerSM, r.perSM))
	if d.Kind == kernels.KindCUDA && refuseTile(p, c, d) == nil {
		return c
	}
	return fwdTileBase(p, d)
}

// A bandRule is what is best for rows up to so many bytes: the rows of a band, the warps of a
// program, stages, programs per multiprocessor, and the programs of a cluster or, where that is 0,
// the most bytes of a row that programs have each that meet in global memory.
type bandRule struct {
	row                                   int64
	rows, warps, stages, perSM, cl, slice int
}

// The rules were read off an H200 (bf16), of 20 to 180 configs at te and 18 shapes more
// (results/nvidia-h200/fp8t). Those of a cluster are for widths that it divides into whole vectors for all lanes,
// and the first in global memory, where any number of programs may meet, for the others.
var bandRules = map[kernels.Op][]bandRule{
	kernels.RMSNorm: {
		{2 << 10, 32, 8, 2, 2, 1, 0}, {8 << 10, 64, 8, 2, 2, 8, 0}, {16 << 10, 64, 8, 2, 1, 16, 0}, {24 << 10, 64, 16, 2, 1, 16, 0},
		{64 << 10, 64, 8, 2, 2, 0, 1 << 10}, {math.MaxInt64, 64, 16, 2, 1, 0, 2 << 10},
	},
	kernels.LayerNorm: {
		{2 << 10, 32, 8, 2, 2, 1, 0}, {4 << 10, 64, 8, 2, 2, 8, 0}, {8 << 10, 64, 8, 2, 1, 8, 0},
		{14 << 10, 32, 8, 2, 2, 0, 2 << 10}, {16 << 10, 32, 16, 2, 1, 8, 0},
		{24 << 10, 64, 16, 2, 1, 16, 0}, {64 << 10, 32, 8, 2, 2, 0, 2 << 10}, {math.MaxInt64, 64, 16, 2, 1, 0, 2 << 10},
	},
}

// unevenBands are for rows of yt that are no multiple of a sector of 32 bytes, so that bands share sectors at
// both ends: fewer of them, if that leaves no more multiprocessors idle in the last round than bands half as high
// do. The best or within 4% of it at 12 problems (fp8t/grid.jsonl.gz), 2 to 16% faster than bandRules at the ten where both were measured.
var unevenBands = []bandRule{{4 << 10, 128, 16, 2, 1, 8, 0}, {32 << 10, 128, 16, 2, 1, 0, 1 << 10}}

// bandChoice is the rule for the row or, where that is refused, the first in global memory.
func bandChoice(p kernels.Problem, d kernels.DeviceInfo) (kernels.Config, bool) {
	within := func(r bandRule) bool { return p.N*p.DType.Size() <= r.row }
	rules := bandRules[p.Op]
	own := slices.IndexFunc(rules, within)
	apart := slices.IndexFunc(rules, func(r bandRule) bool { return r.cl == 0 })
	try := []bandRule{rules[own], rules[max(own, apart)]}
	if i := slices.IndexFunc(unevenBands, within); p.M%32 != 0 && i >= 0 {
		high := unevenBands[i]
		low := high
		low.rows, low.warps = high.rows/2, high.warps/2
		if low.use(p, d) > 1.2*high.use(p, d) {
			high = low
		}
		try = slices.Insert(try, 0, high)
	}
	for _, r := range try {
		if c := r.config(p, d); d.Kind == kernels.KindCUDA && refuseBand(p, c, d) == nil {
			return c, true
		}
	}
	return kernels.Config{}, false
}

func (r bandRule) config(p kernels.Problem, d kernels.DeviceInfo) kernels.Config {
	ctas := int64(1)
	if r.cl == 0 {
		ctas = bandSlices(p, int64(r.slice))
	}
	return fwdBandBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.Stages, r.stages), set(kernels.PerSM, r.perSM),
		set(kernels.Cluster, max(r.cl, 1)), set(kernels.CTAsPerRow, int(ctas)))
}

// use is how much of what programs could do in as many rounds there is to do.
func (r bandRule) use(p kernels.Problem, d kernels.DeviceInfo) float64 {
	c := r.config(p, d)
	if refuseBand(p, c, d) != nil {
		return 0
	}
	rounds := ceilDiv(ceilDiv(p.M, int64(r.rows)), bandGroups(p, c, d))
	return float64(p.M) * float64(bandRanks(c)) / float64(rounds*int64(r.rows)*int64(r.perSM*d.Units))
}

// bandSlices is the fewest programs whose slices of whole vectors for all lanes have no more than most bytes.
func bandSlices(p kernels.Problem, most int64) int64 {
	n := ceilDiv(p.N*p.DType.Size(), most)
	for n < p.N && p.N%(n*max(512/p.DType.Size(), 128)) != 0 {
		n++
	}
	return n
}
