package stats

import (
	"math"
	"testing"

	"normbench/internal/assert"
)

func near(a, b, rel float64) bool {
	return a == b || math.Abs(a-b) <= rel*max(math.Abs(a), math.Abs(b))
}

func TestQuantile(t *testing.T) {
	ten := []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for _, tc := range []struct {
		p    float64
		in   []float64
		want float64
	}{
		{0.5, []float64{7}, 7},
		{0.5, []float64{1, 2}, 1.5},
		{0.5, []float64{3, 1, 2}, 2},
		{0, ten, 1},
		{1, ten, 10},
		{0.25, ten, 3.25}, // numpy.percentile(range(1, 11), 25)
		{0.9, ten, 9.1},   // numpy.percentile(range(1, 11), 90)
		{0.5, []float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64},
	} {
		got := Quantile(tc.p, tc.in)
		assert.That(t, near(got, tc.want, 1e-15),
			"Quantile(%g, %g) = %g, want %g", tc.p, tc.in, got, tc.want)
	}
	assert.Same(t, ten[:3], []float64{10, 9, 8}, "the samples were moved")
	for _, v := range []float64{Median(nil), Quantile(-0.1, ten), Quantile(1.1, ten),
		Quantile(math.NaN(), ten), Spread(nil), GeoMean(nil)} {
		assert.That(t, math.IsNaN(v), "got %g, want NaN", v)
	}
	assert.Equal(t, Summarize(nil), Summary{}, "of none")
	assert.That(t, near(GeoMean([]float64{1, 2, 4}), 2, 1e-15), "the mean of 1, 2 and 4 is not 2")
}

// The ranks of tables of distribution-free intervals of the median, such as Conover, Practical
// Nonparametric Statistics.
func TestMedianCI(t *testing.T) {
	for n, want := range map[int]int{0: 0, 5: 0, 6: 1, 7: 1, 8: 1, 9: 2, 10: 2, 12: 3, 20: 6,
		30: 10, 100: 40} {
		assert.Equal(t, medianRank(n), want, "n", n, "k")
	}
	x := []float64{12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6}
	for n, want := range map[int][2]float64{12: {3, 10}, 6: {1, 12}, 5: {}} {
		s := Summarize(x[:n])
		assert.Equal(t, [2]float64{s.Lo, s.Hi}, want, "of", n)
	}
}
