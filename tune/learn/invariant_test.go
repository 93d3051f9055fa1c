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

// A config that is the fastest of odd rows, and whose bits there depend on a row's number, is in no batch-invariant
// map: the next one is. Books that are given a map with it do not answer with it.
func TestBatchInvariantMapHasNoConfigByPlace(t *testing.T) {
	at := withShape(classProblem(kernels.RMSNorm, kernels.Fwd), 4096, 1027)
	base, _ := bare.Base(at, plain.Device)
	wide := kernels.Variant{Family: base.Family, Config: base.Config.With(kernels.Setting{Knob: kernels.VectorBytes, Value: 16})}
	f, err := bare.Lookup(wide.Family)
	assert.NoError(t, err)
	assert.Must(t, f.Refuse(at, wide.Config, plain.Device) == nil && !f.KeepsRows(at, wide.Config, plain.Device) &&
		f.KeepsRows(at, base.Config, plain.Device), "%s, not %s", wide, base)
	var points []*Point
	for _, m := range []int64{1, 64, 4096, 65536} {
		points = append(points, &Point{Problem: withShape(at, m, at.N), BestUS: 95,
			US: map[kernels.Variant]float64{base: 100, wide: 95}})
	}
	filler := *plain
	filler.Widths = []int64{at.N}
	answer := func(m *launchmap.Map) kernels.Variant {
		return launchmap.NewBook(launchmap.Rung{Map: m, Near: launchmap.Own}, plain.Device, bare).Answer(at).Variant
	}
	free := filler.Fill(points)
	assert.Equal(t, answer(free), wide)
	filler.BatchInvariant = true
	one := filler.Fill(points)
	assert.Equal(t, cellOf(one, at).Variant, base)
	assert.Equal(t, answer(one), base)
	for i := range free.Rasters {
		free.Rasters[i].BatchInvariant = 1 // as maps of earlier versions may say
	}
	got := answer(free)
	f, err = bare.Lookup(got.Family)
	assert.That(t, err == nil && f.KeepsRows(at, got.Config, plain.Device), "a book answers %s", got)
}
