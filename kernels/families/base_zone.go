package families

import "normbench/kernels"

// A zone is a part of the problems: rows of more than over and at most most bytes, that are a multiple of aligned of them,
// and from least to fewer than below of them for each multiprocessor, in more than so many L2. A zero bound is none, an
// empty op either.
type zone struct {
	op                  kernels.Op
	over, most, aligned int64
	least, below        int64
	caches              int64
}

// holds says whether p is in the zone.
func (z zone) holds(p kernels.Problem, d kernels.DeviceInfo) bool {
	row, units := p.N*p.DType.Size(), int64(d.Units)
	return (z.op == "" || p.Op == z.op) &&
		row > z.over && (z.most == 0 || row <= z.most) && (z.aligned == 0 || row%z.aligned == 0) &&
		p.M >= z.least*units && (z.below == 0 || p.M < z.below*units) &&
		(z.caches == 0 || p.M*row > z.caches*d.CacheBytes)
}

// A zoneTile is a tile for a zone. One without rows leaves the zone to other rules.
type zoneTile struct {
	zone
	tile
}

// firstTile is the tile of the first zone that p is in; ok is false where that has none, or there is no such zone.
func firstTile(zones []zoneTile, p kernels.Problem, d kernels.DeviceInfo) (t tile, ok bool) {
	for _, z := range zones {
		if z.holds(p, d) {
			return z.tile, z.rows > 0
		}
	}
	return t, false
}

// Short names for the tables.
const (
	rmsOp = kernels.RMSNorm
	lnOp  = kernels.LayerNorm
)
