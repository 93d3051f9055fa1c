package report

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/record"
)

func phased(phase string, us float64, configs int) Cell {
	c := timed(us)
	c.Run = coldRun(fmt.Sprint(us), "")
	c.Run.Protocol.Phase = phase
	c.Variant.Family, c.Bytes, c.Configs = "f", 1000, configs
	c.Lo, c.Hi, c.SamplesUS = us*0.999, us*1.001, []float64{us, us * 1.001, us * 0.999}
	return c
}

// A side whose finals lack its best variant has that of the search, of which no verdict is given.
func TestAlike(t *testing.T) {
	ps := make([]kernels.Problem, 4)
	for i := range ps {
		ps[i] = kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: int64(8 * (i + 1)),
			N:     64,
			DType: kernels.BF16, Weight: kernels.BF16}
	}
	type cells = map[kernels.Problem]Cell
	const search, final = record.PhaseSearch, record.PhaseFinal
	a := cells{
		ps[0]: phased(final, 344, 1), // of the base alone
		ps[1]: phased(final, 20, 3),
		ps[2]: phased("", 20, 5), // a grid, which has no search
	}
	b := cells{
		ps[0]: phased(final, 1083, 3), // somebody else's finals
		ps[1]: phased(final, 10, 3),
		ps[2]: phased("", 10, 20),
		ps[3]: phased(search, 10, 20),
	}
	none := func(kernels.Problem, kernels.Variant) bool { return false }
	c := Compare(Side{Label: "a", Cells: Best(a, cells{ps[0]: phased(search, 340, 20)}, none)},
		Side{Label: "b", Cells: Best(b, cells{ps[0]: phased(search, 31, 19)}, none)})
	var got strings.Builder
	for _, r := range c.Rows {
		fmt.Fprintf(&got, "%s: %s %.3f %s %.20s\n", r.Problem, phaseName(r.B.Run.Protocol.Phase),
			r.Speedup, r.Verdict, r.why)
	}
	assert.NoError(t, Render(&got, c, FormatText))
	assert.Golden(t, "testdata/phases.txt", got.String())
	again := Best(cells{ps[0]: phased(final, 30, 1)}, cells{ps[0]: phased(search, 20, 9)},
		func(kernels.Problem, kernels.Variant) bool { return true })
	assert.Equal(t, again[ps[0]].Median, 30,
		"the finals of a variant do not count against what the search saw of it")
}
