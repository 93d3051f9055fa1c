package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"normbench/internal/assert"
)

func TestTimerStepIsFoundInNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	read := func(n int, us, noise, step float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			v := us * math.Exp(noise*r.NormFloat64())
			if step > 0 {
				v = step * math.Floor(v/step+r.Float64())
			}
			x[i] = float64(float32(v/1e3)) * 1e3 // cudaEventElapsedTime gives float32 ms
		}
		return x
	}
	var kernels, offGrid, fine []float64
	for _, us := range []float64{8, 11, 17, 34, 52, 90} {
		kernels = append(kernels, read(20, us, 0.03, 0.032)...)
		offGrid = append(offGrid, read(20, us, 0.03, 1.024)...)
		fine = append(fine, read(20, us, 0.03, 0)...)
	}
	offGrid[7] += 0.3
	for _, tc := range []struct {
		name string
		x    []float64
		want float64
	}{
		{"32 ns", kernels, 0.032},
		{"1.024 us, one sample off the grid", offGrid, 1.024},
		{"none", fine, 0},
		{"one kernel on a coarse clock", read(30, 52, 0.02, 1), 1},
		{"500 ns", read(200, 40, 0.03, 0.5), 0.5},
		{"one value", []float64{52, 52, 52, 52, 52, 52, 52, 52, 52}, 0},
		{"few values", []float64{1, 2, 4}, 0},
		{"no values", nil, 0},
	} {
		got := TimerStep(tc.x)
		assert.That(t, near(got, tc.want, 1e-3), "%s: step %g, want %g", tc.name, got, tc.want)
	}
	wrong := 0
	for range 200 {
		if TimerStep(read(5+r.IntN(60), 30, 0.03, 0)) != 0 {
			wrong++
		}
	}
	assert.That(t, wrong <= 2, "%d of 200 clocks without a step have one", wrong)
}

func TestGeoMeanCIIsTheSameForOneSeed(t *testing.T) {
	logs, clusters := []float64{0.02, 0.01, 0.03, 0.02, 0.025, 0.015}, []int{0, 1, 2, 3, 4, 5}
	m1, lo1, hi1 := GeoMeanCI(logs, clusters, 0.95, 500, 7)
	m2, lo2, hi2 := GeoMeanCI(logs, clusters, 0.95, 500, 7)
	assert.That(t, m1 == m2 && lo1 == lo2 && hi1 == hi2 && near(m1, math.Exp(0.02), 1e-12) &&
		lo1 < m1 && m1 < hi1, "%g [%g, %g], again %g [%g, %g]", m1, lo1, hi1, m2, lo2, hi2)
	m, _, _ := GeoMeanCI(nil, nil, 0.95, 10, 0)
	assert.That(t, math.IsNaN(m), "of none: %g", m)
}

// The interval holds the truth about as often as it says where cells of one shape share what moves
// them, if it knows that they do; if it does not, it is far too sure.
func TestGeoMeanCIHoldsTheTruthOfClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const trials, shapes, each = 400, 20, 5
	together, alone := 0, 0
	for i := range trials {
		var cells []float64
		var clusters, own []int
		for s := range shapes {
			shared := 0.02 * r.NormFloat64()
			for range each {
				cells = append(cells, 0.1+shared+0.004*r.NormFloat64())
				clusters, own = append(clusters, s), append(own, len(own))
			}
		}
		holds := func(clusters []int) bool {
			_, lo, hi := GeoMeanCI(cells, clusters, 0.95, 200, uint64(i))
			return lo <= math.Exp(0.1) && math.Exp(0.1) <= hi
		}
		if holds(clusters) {
			together++
		}
		if holds(own) {
			alone++
		}
	}
	assert.That(t, together >= trials*89/100 && alone <= trials*70/100,
		"of %d, %d hold the truth by shape and %d by cell", trials, together, alone)
}
