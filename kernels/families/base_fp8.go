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
// program, stages, programs per multiprocessor, and the programs of a cluster.
type bandRule struct {
	row                            int64
	rows, warps, stages, perSM, cl int
}

// The rules were read off an H200 (bf16, te), of 20 to 90 configs.
var bandRules = map[kernels.Op][]bandRule{
	kernels.RMSNorm: {
		{2 << 10, 32, 8, 1, 1, 1}, {4 << 10, 32, 16, 2, 1, 1}, {8 << 10, 64, 8, 2, 2, 16}, {16 << 10, 64, 16, 1, 1, 8}, {24 << 10, 64, 32, 2, 1, 16},
		{math.MaxInt64, 32, 16, 2, 1, 16},
	},
	kernels.LayerNorm: {
		{2 << 10, 32, 8, 1, 1, 1}, {4 << 10, 32, 8, 1, 1, 2}, {8 << 10, 64, 8, 2, 1, 8}, {16 << 10, 64, 16, 1, 1, 8}, {24 << 10, 32, 16, 1, 1, 8},
		{32 << 10, 64, 16, 1, 1, 16}, {math.MaxInt64, 32, 16, 1, 1, 16},
	},
}

// bandChoice is the rule for the row, if it is accepted.
func bandChoice(p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	rules := bandRules[p.Op]
	r := rules[slices.IndexFunc(rules, func(r bandRule) bool { return p.N*p.DType.Size() <= r.row })]
	c = fwdBandBase(p, d).With(set(kernels.BlockRows, r.rows), set(kernels.Warps, r.warps), set(kernels.Stages, r.stages), set(kernels.PerSM, r.perSM),
		set(kernels.Cluster, r.cl))
	return c, d.Kind == kernels.KindCUDA && refuseBand(p, c, d) == nil
}
