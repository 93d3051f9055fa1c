package learn

import (
	"math"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/launchmap"
)

// invariantLoop is a loop that learns a batch-invariant map.
func invariantLoop(t *testing.T, s *sim, budget time.Duration, class kernels.Problem) *Loop {
	t.Helper()
	l := loopOn(t, s, budget, nil, class)
	filler := *l.Filler
	filler.BatchInvariant = true
	l.Filler = &filler
	return l
}

// A batch-invariant map answers all rows of a width with one config, which is near the optimum of a simulated GPU,
// and says what that costs.
func TestBatchInvariantMapHasOneConfigForAWidth(t *testing.T) {
	class := classProblem(kernels.RMSNorm, kernels.Fwd)
	s := newSim(2, 0)
	m, answer := learnt(t, invariantLoop(t, s, 8*time.Second, class))
	sum, n := 0.0, 0.0
	for _, columns := range []int64{256, 512, 1027, 1536, 2048, 2880, 4096, 5120, 8192} {
		first := answer(withShape(class, 1, columns))
		for rows := int64(1); rows*columns <= launchmap.MaxElems; rows = rows*3 + 1 {
			p := withShape(class, rows, columns)
			assert.That(t, answer(p) == first && cellOf(m, p).Match == launchmap.MatchCell, "%s runs %s, and one row %s", p,
				answer(p), first)
			sum, n = sum+math.Log(s.seconds(p, first)/s.best(p)), n+1
		}
	}
	t.Logf("one config for a width takes %.3fx of the optimum", math.Exp(sum/n))
	assert.That(t, sum/n <= 0.1, "one config for a width takes %.3fx of the optimum", math.Exp(sum/n))
	for i := range m.Rasters {
		r := &m.Rasters[i]
		assert.That(t, r.BatchInvariant >= 1 && r.BatchInvariant < 1.5, "%s: %g of free choice", r.Title(), r.BatchInvariant)
	}
}
