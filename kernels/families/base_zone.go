package families

import (
	"slices"

	"normbench/kernels"
)

// A zone is a part of the problems. A zero bound is none, an empty op either.
type zone struct {
	op kernels.Op

	over, most      int64 // bytes of a row: more than over, at most most,
	aligned, uneven int64 // a multiple of aligned, and none of uneven
	columns         int   // powerOfTwo, or otherwise

	least, below       float64 // rows for each multiprocessor: from least to less than below,
	above, upTo        float64 // more than above, at most upTo
	rowsOver, rowsMost int64   // and of all of them
	multiple, odd      int64   // a multiple of one, and none of the other

	xOver, xMost float64 // the size of x, in L2s
}

// Columns that are a power of two, and that are none.
const (
	powerOfTwo = 1 + iota
	otherwise
)

// mib is a MiB of an H200's L2.
const mib = 1. / 60

// holds says whether p is in the zone.
func (z zone) holds(p kernels.Problem, d kernels.DeviceInfo) bool {
	const exact = 1e-3 // of fractions that are no binary ones
	row, m, units := p.N*p.DType.Size(), float64(p.M), float64(d.Units)
	x, l2 := float64(p.M*row), float64(d.CacheBytes)
	return (z.op == "" || p.Op == z.op) &&
		row > z.over && (z.most == 0 || row <= z.most) &&
		(z.aligned == 0 || row%z.aligned == 0) && (z.uneven == 0 || row%z.uneven != 0) &&
		(z.columns == 0 || (z.columns == powerOfTwo) == isPow2(int(p.N))) &&
		m >= z.least*units && (z.below == 0 || m < z.below*units) &&
		(z.above == 0 || m > z.above*units+exact) && (z.upTo == 0 || m <= z.upTo*units+exact) &&
		p.M > z.rowsOver && (z.rowsMost == 0 || p.M <= z.rowsMost) &&
		(z.multiple == 0 || p.M%z.multiple == 0) && (z.odd == 0 || p.M%z.odd != 0) &&
		(z.xOver == 0 || x > z.xOver*l2+exact) && (z.xMost == 0 || x <= z.xMost*l2+exact)
}

// A zoneConfig is what knobs are set to in a zone; an empty config leaves it to other rules.
type zoneConfig struct {
	zone
	set kernels.Config
}

// firstConfig is base with what the first zone sets that p is in; ok is false where that sets nothing, or there is no such zone.
func firstConfig(zones []zoneConfig, base kernels.Config, p kernels.Problem, d kernels.DeviceInfo) (c kernels.Config, ok bool) {
	for _, z := range zones {
		if z.holds(p, d) {
			return base.With(z.set.Settings()...), z.set != leave
		}
	}
	return base, false
}

// inZone says whether p is in one of zones.
func inZone(zones []zoneConfig, p kernels.Problem, d kernels.DeviceInfo) bool {
	return slices.ContainsFunc(zones, func(z zoneConfig) bool { return z.holds(p, d) })
}

// leave is the config of a zone that other rules are better for.
var leave kernels.Config

// at is the config of a label.
func at(label string) kernels.Config {
	c, err := kernels.ParseConfig(label)
	if err != nil {
		panic(err) // a table has a mistake
	}
	return c
}

// Short names for the tables.
const (
	rmsOp = kernels.RMSNorm
	lnOp  = kernels.LayerNorm
)
