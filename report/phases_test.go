package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/record"
)

func phased(phase string, us float64, configs int) Cell {
	f := float32(us)
	return Cell{Run: fmt.Sprint(us), Variant: kernels.Variant{Family: "f"},
		Status:   kernels.StatusOK,
		MedianUS: us, Bytes: 1000, Phase: phase, Configs: configs,
		Samples: []float32{f, f * 1.001, f * 0.999}}
}

// Where one side has no finals of its best config, both are compared by the search.
func TestAlike(t *testing.T) {
	ps := make([]kernels.Problem, 5)
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
		ps[3]: phased(final, 40, 3),
	}
	aSearched := cells{ps[0]: phased(search, 340, 20), ps[1]: phased(search, 20, 30),
		ps[3]: phased(search, 41, 2)}
	b := cells{
		ps[0]: phased(final, 1083, 3), // somebody else's finals
		ps[1]: phased(final, 10, 3),
		ps[2]: phased(search, 10, 20),
		ps[3]: phased(final, 90, 3),
		ps[4]: phased(search, 10, 20),
	}
	bSearched := cells{ps[0]: phased(search, 31, 19), ps[1]: phased(search, 10, 30),
		ps[3]: phased(search, 10, 40)}
	none := func(kernels.Problem, kernels.Variant) bool { return false }
	sides := []Side{{Label: "a", Cells: Best(a, aSearched, none)},
		{Label: "b", Cells: Best(b, bSearched, none)}}
	MatchPhases(sides)
	c := Compare(sides[0], sides[1])
	want := []struct {
		phase   string
		speedup float64
		mark    Mark
	}{{"search", 340.0 / 31, Faster}, {"finals", 2, Unclear}, {"grid", 2, Unclear}, {"search", 4.1,
		Unclear}}
	assert.Must(t, len(c.Rows) == len(want), "%d rows", len(c.Rows))
	for i, w := range want {
		r := c.Rows[i]
		assert.That(t, r.A.Phase == w.phase && r.Speedup == w.speedup && r.Mark == w.mark,
			"%s: %s %g %q, want %+v", r.Problem, r.A.Phase, r.Speedup, r.Mark, w)
	}
	var text bytes.Buffer
	assert.NoError(t, Render(&text, c, FormatText))
	whole := strings.Join(strings.Fields(text.String()), " ")
	for _, w := range []string{
		"A's times: grid in 1 problem, finals in 1 problem, search in 2 problems; of 2 to 20 " +
			"configs " +
			"(median 4) each.",
		"B's times: finals in 1 problem, search in 3 problems; of 3 to 40 configs (median 19.5) each.",
		"INCONCLUSIVE in 1 problem, as one side has times of a search only, and the other none " +
			"of one.",
		"INCONCLUSIVE in 1 problem, as the search tried fewer than 8 configs of the slower side",
		"FASTER or SLOWER in 1 problem of a search",
	} {
		assert.That(t, strings.Contains(whole, w), "no %q in\n%s", w, text.String())
	}
	// A variant that was named has no other configs, and one that was measured again is believed.
	x, y := phased(search, 41, 1), phased(search, 10, 40)
	x.Named = true
	assert.That(t, !(&Row{a: x, b: y}).unequal(), "a named variant is said to lack configs")
	again := Best(cells{ps[0]: phased(final, 30, 1)}, cells{ps[0]: phased(search, 20, 9)},
		func(kernels.Problem, kernels.Variant) bool { return true })
	assert.Equal(t, again[ps[0]].MedianUS, 30,
		"the finals of a variant do not count against what the search saw of it")
}
