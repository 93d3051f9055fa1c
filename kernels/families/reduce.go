package families

import (
	"fmt"

	"normbench/kernels"
)

// The reduction of the partial rows, k2, which every backward that leaves
// partial sums shares.

// reduceKnobs are k2's ranges in a design's grid, as tiles of columns by rows
// and warps. k2's best tile hardly depends on k1's config, so a grid crosses
// only a few; --knob widens them.
func reduceKnobs(cols, rows, warps []int) []kernels.Range {
	return []kernels.Range{
		kernels.Values(kernels.ReduceCols, cols...),
		kernels.Values(kernels.ReduceRows, rows...),
		kernels.Values(kernels.ReduceWarps, warps...),
		kernels.Values(kernels.EarlyReduce, 0),
	}
}

// early is knobs with a k2 that starts early.
func early(knobs []kernels.Range) []kernels.Range {
	for i, r := range knobs {
		if r.Knob == kernels.EarlyReduce {
			knobs[i] = kernels.Values(r.Knob, 1)
		}
	}
	return knobs
}

// reduceBase: 32 columns give the most programs, 32 warps with four rows each
// the most loads in flight.
var reduceBase = reduceTile(32, 128, 32)

// reduceTile is k2's part of a config.
func reduceTile(cols, rows, warps int) []kernels.Setting {
	return []kernels.Setting{set(kernels.ReduceCols, cols), set(kernels.ReduceRows, rows), set(kernels.ReduceWarps, warps), set(kernels.EarlyReduce, 0)}
}

func refuseReduce(c kernels.Config) error {
	cols, rows, warps := c.Get(kernels.ReduceCols), c.Get(kernels.ReduceRows), c.Get(kernels.ReduceWarps)
	groups := max(32*warps/max(cols, 1), 1)
	switch {
	case !isPow2(cols) || cols < 8 || cols > 256:
		return fmt.Errorf("k2's columns are a power of two from 8 to 256")
	case !isPow2(warps) || warps > 32:
		return fmt.Errorf("k2's warps are a power of two up to 32")
	case !isPow2(rows) || rows < groups || rows > 128*groups:
		return fmt.Errorf("k2's rows are a power of two from %d to %d for its threads", groups, 128*groups)
	case max(rows/groups, 1)*max(cols/(32*warps), 1) > 128:
		return fmt.Errorf("k2 would have more than 128 partial sums in flight per thread")
	}
	return nil
}

// partialType is the type of a config's partial sums.
func partialType(p kernels.Problem, c kernels.Config) kernels.DType {
	if c.Get(kernels.PartialType) == 1 {
		return p.Weight
	}
	return kernels.FP32
}

// rounds is what a config rounds before the sums of dw and db: the partial sums
// where they are not fp32, and xhat where it comes from the saved output.
func rounds(p kernels.Problem, c kernels.Config) []kernels.Rounding {
	var rs []kernels.Rounding
	add := func(has bool, name string, d kernels.DType) {
		if has {
			rs = append(rs, kernels.Rounding{Output: name, DType: d})
		}
	}
	if d := partialType(p, c); d != kernels.FP32 {
		add(!p.NoWeight, "dw", d)
		add(p.Bias, "db", d)
	}
	saved := c.Get(kernels.SavedOutput) == 1
	add(saved && !p.NoWeight, "dw", p.DType)
	add(saved, "dx", p.DType)
	return rs
}

// refusePartials refuses partial sums larger than what they summarize: at one
// row of fp32 per row of input they cost more than a second reading would.
func refusePartials(p kernels.Problem, programs int64) error {
	if programs > 1024 && programs*4 > p.M*p.DType.Size() {
		return fmt.Errorf("%d partial rows for %d rows are more traffic than x itself", programs, p.M)
	}
	return nil
}

// partials are the scratch buffers of the partial sums of dw and db, programs
// rows each; without a weight there are none.
func partials(p kernels.Problem, c kernels.Config, programs int64) []kernels.Scratch {
	var scratch []kernels.Scratch
	if !p.NoWeight {
		scratch = append(scratch, kernels.Scratch{Name: "dw_partial", DType: partialType(p, c), Elems: programs * p.N})
	}
	if p.Bias {
		scratch = append(scratch, kernels.Scratch{Name: "db_partial", DType: partialType(p, c), Elems: programs * p.N})
	}
	return scratch
}

// withReduce is the plan of k1, which leaves programs partial rows, and k2. A
// problem without a weight has no k2.
func withReduce(p kernels.Problem, c kernels.Config, programs int64, k1 ...kernels.Launch) kernels.Plan {
	plan := kernels.Plan{Launches: k1, Scratch: partials(p, c, programs), Rounds: rounds(p, c)}
	if !p.NoWeight {
		plan.Launches = append(plan.Launches, reduceLaunch(p, c, programs))
	}
	return plan
}

// reduceLaunch is k2 over programs partial rows.
func reduceLaunch(p kernels.Problem, c kernels.Config, programs int64) kernels.Launch {
	cols, warps := c.Get(kernels.ReduceCols), c.Get(kernels.ReduceWarps)
	return kernels.Launch{
		Stage: "k2", Source: "reduce.cu", Entry: "reduce",
		Grid:  [3]int{int(ceilDiv(p.N, int64(cols))), 1 + int(flag(p.Bias)), 1},
		Block: 32 * warps,
		Early: c.Get(kernels.EarlyReduce) == 1,
		Defines: []kernels.Define{
			{Name: "EARLY_REDUCE", Value: int64(c.Get(kernels.EarlyReduce))},
			{Name: "X_TYPE", Value: int64(p.DType)},
			{Name: "W_TYPE", Value: int64(p.Weight)},
			{Name: "P_TYPE", Value: int64(partialType(p, c))},
			{Name: "REDUCE_COLS", Value: int64(cols)},
			{Name: "REDUCE_ROWS", Value: int64(c.Get(kernels.ReduceRows))},
			{Name: "REDUCE_WARPS", Value: int64(warps)},
		},
		Args: []kernels.Arg{
			{Kind: kernels.ArgBuffer, Name: "dw_partial"}, optional(p.Bias, "db_partial"),
			optional(p.Accumulate, "dw_in"), optional(p.Accumulate && p.Bias, "db_in"),
			{Kind: kernels.ArgBuffer, Name: "dw"}, optional(p.Bias, "db"),
			kernels.Int64("partials", programs), kernels.Int64("cols", p.N),
		},
	}
}

func hostReduce(h *kernels.HostRun, pid int) {
	name := "dw"
	if pid >= h.Launch.Grid[0] { // second row of the grid
		pid -= h.Launch.Grid[0]
		name = "db"
	}
	lo := int64(pid) * h.Launch.Define("REDUCE_COLS")
	hi := min(lo+h.Launch.Define("REDUCE_COLS"), h.Arg("cols"))
	hostFinish(h, name, h.Mem[name+"_partial"], 0, h.Arg("partials"), lo, hi)
}
