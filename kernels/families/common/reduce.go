package common

import (
	"fmt"

	"normbench/kernels"
)

// The reduction of the partial rows, k2, which every backward that leaves
// partial sums shares.

// ReduceBase leaves k2's tile to tileFor. The best tile depends on k1's config only by the number of
// partial rows, so no grid crosses others; --knob does.
var ReduceBase = []kernels.Setting{{Knob: kernels.ReduceCols}, {Knob: kernels.ReduceRows},
	{Knob: kernels.ReduceWarps}, {Knob: kernels.EarlyReduce}}

// reduceCTAs is how many CTAs tileFor gives k2, for both gradients together,
// if there are columns enough: one for each SM of a large GPU. All of them
// then start beside the last CTAs of k1, and none waits for another to end. They
// are kept apart: where k1 left SMs idle, most went there, and k2 took 1.5
// us longer (H200, rms bwd, bf16: 12.7 us against 11.2 at 29x17389, 57.0 against 55.4
// at 1024x32768).
//
// Before this rule every k2 had tiles of 32 columns and 32 warps. On an H200 (rms
// bwd, bf16) it then took 6.2 us at N = 8192 and 132 partial rows, and 17 to 19 us
// at N = 65536 and 15, in 2048 CTAs of 1024 threads.
const reduceCTAs = 128

// tileFor computes k2's tile for one or two gradients of N columns, from so many partial rows each: as
// few columns as give reduceCTAs CTAs; eight warps, or sixteen where a thread of eight would have more
// than maxInFlight rows; and all rows in flight up to that. (With 16 rows of four columns in flight, the
// compiler put them one behind another: 6.4 us at 132 partial rows of 8192 columns, where 120 rows, 8 in
// flight, took 5.0.)
func tileFor(n, gradients, partials, vec int64) (cols, rows, warps int64) {
	const maxInFlight = 8
	cols = min(max(kernels.CeilPow2(kernels.CeilDiv(n*gradients, reduceCTAs)), 16), 1024)
	var groups, each int64
	for warps = 8; ; warps *= 2 {
		groups = max(32*warps/(cols/vec), 1)
		each = kernels.CeilDiv(max(partials, 1), groups)
		if each <= maxInFlight || warps == 16 {
			break
		}
	}
	return cols, groups * kernels.CeilDiv(each, kernels.CeilDiv(each, maxInFlight)), warps
}

// reduceVector returns how many columns a thread of k2 reads at once.
func reduceVector(p kernels.Problem) int64 {
	if p.N%4 == 0 {
		return 4
	}
	return 1
}

// RefuseReduce refuses values of k2's knobs that do not work.
func RefuseReduce(c kernels.Config) error {
	cols, rows, warps := c.Get(kernels.ReduceCols), c.Get(kernels.ReduceRows), c.Get(kernels.ReduceWarps)
	if c.Get(kernels.EarlyReduce) > 1 {
		return fmt.Errorf("early reduce is 0 or 1")
	}
	if cols == 0 && rows == 0 && warps == 0 {
		return nil
	}
	groups := max(32*warps/max(cols, 1), 1)
	switch {
	case !kernels.IsPow2(cols) || cols < 8 || cols > 256:
		return fmt.Errorf("k2's columns are a power of two from 8 to 256")
	case !kernels.IsPow2(warps) || warps > 32:
		return fmt.Errorf("k2's warps are a power of two up to 32")
	case !kernels.IsPow2(rows) || rows < groups || rows > 128*groups:
		return fmt.Errorf("k2's rows are a power of two from %d to %d for its threads", groups, 128*groups)
	case max(rows/groups, 1)*max(cols/(32*warps), 1) > 128:
		return fmt.Errorf("k2 would have more than 128 partial sums in flight per thread")
	}
	return nil
}

// PartialType returns the type of a config's partial sums.
func PartialType(p kernels.Problem, c kernels.Config) kernels.DType {
	if c.Get(kernels.PartialType) == 1 {
		return p.Weight
	}
	return kernels.FP32
}

// Rounds lists what a config rounds before the sums of dw and db: the partial sums where they are not
// fp32, and xhat where it comes from the saved output.
func Rounds(p kernels.Problem, c kernels.Config) []kernels.Rounding {
	var rs []kernels.Rounding
	add := func(has bool, name string, d kernels.DType) {
		if has {
			rs = append(rs, kernels.Rounding{Output: name, DType: d})
		}
	}
	if d := PartialType(p, c); d != kernels.FP32 {
		add(!p.NoWeight, "dw", d)
		add(p.Bias, "db", d)
	}
	saved := c.Get(kernels.SavedOutput) == 1
	add(saved && !p.NoWeight, "dw", p.DType)
	add(saved, "dx", p.DType)
	return rs
}

// Partials lists the scratch buffers of the partial sums of dw and db, with a row for each CTA; none
// without a weight.
func Partials(p kernels.Problem, c kernels.Config, ctas int64) []kernels.Scratch {
	var scratch []kernels.Scratch
	if !p.NoWeight {
		scratch = append(scratch, kernels.Scratch{Name: "dw_partial", DType: PartialType(p, c),
			Elems: ctas * p.N})
	}
	if p.Bias {
		scratch = append(scratch, kernels.Scratch{Name: "db_partial", DType: PartialType(p, c),
			Elems: ctas * p.N})
	}
	return scratch
}

// WithReduce makes the plan of k1, which leaves a partial row for each CTA, and of k2, which sums them.
// A problem without a weight has no k2.
func WithReduce(p kernels.Problem, c kernels.Config, ctas int64, k1 ...kernels.Launch) kernels.Plan {
	plan := kernels.Plan{Launches: k1, Scratch: Partials(p, c, ctas), Rounds: Rounds(p, c)}
	if !p.NoWeight {
		plan.Launches = append(plan.Launches, ReduceLaunch(p, c, ctas))
	}
	return plan
}

// ReduceSource is the file of k2.
const ReduceSource = "reduce.cu"

// ReduceLaunch makes the launch of k2, which sums the partial rows that ctas CTAs of k1 wrote into dw and db.
// Where the knobs of its tile are 0, a rule computes the tile.
func ReduceLaunch(p kernels.Problem, c kernels.Config, ctas int64) kernels.Launch {
	vec := reduceVector(p)
	cols, rows, warps := int64(c.Get(kernels.ReduceCols)), int64(c.Get(kernels.ReduceRows)),
		int64(c.Get(kernels.ReduceWarps))
	if cols == 0 {
		cols, rows, warps = tileFor(p.N, 1+kernels.Flag(p.Bias), ctas, vec)
	}
	return kernels.Launch{
		Stage: "k2", Source: ReduceSource, Entry: "reduce",
		Grid:  [3]int{int(kernels.CeilDiv(p.N, cols)), 1 + int(kernels.Flag(p.Bias)), 1},
		Block: 32 * int(warps),
		Early: c.Get(kernels.EarlyReduce) == 1,
		Apart: c.Get(kernels.EarlyReduce) == 1,
		Defines: []kernels.Define{
			{Name: "EARLY_REDUCE", Value: int64(c.Get(kernels.EarlyReduce))},
			{Name: "X_TYPE", Value: int64(p.DType)},
			{Name: "W_TYPE", Value: int64(p.Weight)},
			{Name: "P_TYPE", Value: int64(PartialType(p, c))},
			{Name: "PARTIALS", Value: ctas},
			{Name: "PARTIAL_COLS", Value: p.N},
			{Name: "REDUCE_VECTOR", Value: vec},
			{Name: "REDUCE_COLS", Value: cols},
			{Name: "REDUCE_ROWS", Value: rows},
			{Name: "REDUCE_WARPS", Value: warps},
		},
		Args: []kernels.Arg{
			{Kind: kernels.ArgBuffer, Name: "dw_partial"}, Optional(p.Bias, "db_partial"),
			Optional(p.Accumulate, "dw_in"), Optional(p.Accumulate && p.Bias, "db_in"),
			{Kind: kernels.ArgBuffer, Name: "dw"}, Optional(p.Bias, "db"),
		},
	}
}
