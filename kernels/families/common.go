package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/common"
)

// servesAll is Serves of a design without limits of its own.
func servesAll(kernels.Problem) error { return nil }

// servesNoFP8 is Serves of a forward design that has no fp8 output.
func servesNoFP8(p kernels.Problem) error {
	if p.FP8 {
		return fmt.Errorf("the design has no fp8 output")
	}
	return nil
}

// fwdArgs are the arguments of every forward entry without fp8, null where a
// problem has not got them.
func fwdArgs(p kernels.Problem) []kernels.Arg {
	args := append(kernels.Buffers("x"), common.Optional(p.Residual, "res"), common.Optional(!p.NoWeight, "w"), common.Optional(p.Bias, "b"))
	args = append(args, kernels.Buffers("y")...)
	args = append(args, common.Optional(p.Residual, "resout"))
	args = append(args, kernels.Buffers("rstd")...)
	return append(args, common.Optional(p.Op == kernels.LayerNorm, "mean"),
		kernels.Int64("rows", p.M), kernels.Float32("eps", kernels.Eps))
}

// bwdArgs are the arguments of every backward k1 that leaves partial sums, null
// where a problem has not got them. With the knob saved_output, y stands in the
// place of x, and b is given.
func bwdArgs(p kernels.Problem, c kernels.Config) []kernels.Arg {
	x, saved := "x", c.Get(kernels.SavedOutput) == 1
	if saved {
		x = "y"
	}
	args := append(kernels.Buffers(x, "dy"), common.Optional(p.Residual, "dres"), common.Optional(!p.NoWeight, "w"), common.Optional(saved && p.Bias, "b"))
	args = append(append(args, kernels.Buffers("rstd")...), common.Optional(p.Op == kernels.LayerNorm, "mean"))
	args = append(append(args, kernels.Buffers("dx")...), common.Optional(!p.NoWeight, "dw_partial"), common.Optional(p.Bias, "db_partial"))
	return append(args, kernels.Int64("rows", p.M))
}

// grid is how many CTAs walk over the tiles of rows: one per tile, or as
// many as the config's CTAs or ctas_per_sm say, never more than tiles.
func grid(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) int64 {
	tiles := kernels.CeilDiv(p.M, int64(c.Get(kernels.BlockRows)))
	if n := c.Get(kernels.CTAs); n > 0 {
		return min(tiles, int64(n))
	}
	if k := c.Get(kernels.PerSM); k > 0 {
		return min(tiles, int64(k)*int64(d.SMs))
	}
	return tiles
}

// minKept is how many times the last-level cache x is where it helps that its rows leave it
// last (cache_hint 4): docs/performance.md.
const minKept = 2

// keepsX says whether it does.
func keepsX(p kernels.Problem, d kernels.DeviceInfo) bool {
	return p.M*p.N*p.DType.Size() > minKept*d.CacheBytes
}

// refuseLaunch holds what every row kernel needs of its knobs: powers of two
// where threads are grouped, a vector that divides the row, a legal grid.
func refuseLaunch(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	rows, warps, v := c.Get(kernels.BlockRows), c.Get(kernels.Warps), int(common.VectorBytes(p, c))
	switch {
	case !kernels.IsPow2(rows) || rows > 64:
		return fmt.Errorf("block rows are a power of two up to 64")
	case !kernels.IsPow2(warps) || warps > 32:
		return fmt.Errorf("warps are a power of two up to 32")
	case !kernels.IsPow2(v) || v > 16 || int64(v) < p.DType.Size():
		return fmt.Errorf("a vector of %d bytes does not hold whole %s elements in at most 16 bytes", v, p.DType)
	case p.N*p.DType.Size()%int64(v) != 0:
		return fmt.Errorf("rows of %d bytes do not start at multiples of the %d-byte vector", p.N*p.DType.Size(), v)
	case p.N > 1<<24:
		return fmt.Errorf("columns are indexed in 32 bits, at most %d of them", 1<<24)
	case grid(p, c, d) > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	}
	return refuseHint(p, c, d)
}

// refuseHint holds the bits of cache_hint.
func refuseHint(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) error {
	switch hint := c.Get(kernels.CacheHint); {
	case hint > 6 || hint&5 == 5:
		return fmt.Errorf("cache hints are 1 or 4, for reading, and 2 for writing")
	case hint&4 != 0 && !keepsX(p, d):
		return fmt.Errorf("keeping x in the cache pays only where x has more than %d MB, %d times the cache", minKept*d.CacheBytes>>20, minKept)
	}
	return nil
}

// refuseThreadsPerRow holds what designs need that give each row its own group
// of threads: no idle group, and at most maxWords 32-bit words of packed row
// per thread.
func refuseThreadsPerRow(p kernels.Problem, c kernels.Config, maxWords int64) error {
	vecs, vec := common.Vectors(p, c)
	threads := int64(c.Get(kernels.Warps)*32) / int64(c.Get(kernels.BlockRows))
	if threads < 1 {
		return fmt.Errorf("fewer threads than rows in a CTA")
	}
	if threads > max(kernels.CeilPow2(vecs), 8) {
		return fmt.Errorf("%d threads for the %d vectors of a row leave half of them idle", threads, vecs)
	}
	each := kernels.CeilDiv(vecs, threads)
	// An element narrower than a word still takes one when it is loaded alone.
	words := each * max(vec*p.DType.Size()/4, 1)
	if words > maxWords || each > 32 {
		return fmt.Errorf("%d vectors of %d elements per thread do not fit in its registers", each, vec)
	}
	return nil
}

// threadsFor picks the threads for a row so that each holds about perThread
// bytes of it: a power of two from 8 to 1024.
func threadsFor(p kernels.Problem, perThread int64) int64 {
	return min(max(kernels.CeilPow2(kernels.CeilDiv(p.N*p.DType.Size(), perThread)), 8), 1024)
}

// block turns threads per row into block rows and warps, at least minThreads in
// all.
func block(perRow, minThreads int64) (rows, warps int) {
	r := max(minThreads/perRow, 1)
	return int(r), int(r * perRow / 32)
}

func set(k *kernels.Knob, v int) kernels.Setting { return kernels.Setting{Knob: k, Value: v} }

// hasClusters says whether the device has clusters and bulk copies: sm_90.
func hasClusters(d kernels.DeviceInfo) bool { return d.ArchNumber() >= 90 }
