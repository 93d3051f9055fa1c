package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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
		if got := Quantile(tc.p, tc.in); !near(got, tc.want, 1e-15) {
			t.Errorf("Quantile(%g, %g) = %g, want %g", tc.p, tc.in, got, tc.want)
		}
	}
	if !slices.Equal(ten[:3], []float64{10, 9, 8}) {
		t.Error("the samples were moved")
	}
	for _, v := range []float64{Median(nil), Quantile(-0.1, ten), Quantile(1.1, ten),
		Quantile(math.NaN(), ten), Spread(nil), GeoMean(nil)} {
		if !math.IsNaN(v) {
			t.Errorf("got %g, want NaN", v)
		}
	}
}

// The ranks of tables of distribution-free intervals of the median, such as Conover, Practical
// Nonparametric Statistics.
func TestMedianCI(t *testing.T) {
	for n, want := range map[int]int{0: 0, 5: 0, 6: 1, 7: 1, 8: 1, 9: 2, 10: 2, 12: 3, 20: 6,
		30: 10, 100: 40} {
		if k := medianRank(n, 0.95); k != want {
			t.Errorf("n=%d: k=%d, want %d", n, k, want)
		}
	}
	if k := medianRank(50, 1); k != 0 {
		t.Errorf("level 1: k=%d, want none", k)
	}
	x := []float64{12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6}
	for n, want := range map[int][2]float64{12: {3, 10}, 6: {1, 12}, 5: {}} {
		if lo, hi, ok := medianCI(sorted(x[:n]), 0.95); lo != want[0] || hi != want[1] || ok != (n > 5) {
			t.Errorf("of %d: [%g, %g] %t, want %g", n, lo, hi, ok, want)
		}
	}
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		x := make([]float64, 1+r.IntN(40))
		for i := range x {
			x[i] = math.Exp(r.NormFloat64())
		}
		s := Summarize(x)
		if s.N != len(x) || s.Median != Median(x) || s.Spread != Spread(x) {
			t.Fatalf("%+v differs from its parts for %g", s, x)
		}
		if lo, hi, ok := medianCI(sorted(x), Level); lo != s.Lo || hi != s.Hi || ok != (len(x) >= 6) {
			t.Fatalf("%+v has another interval than [%g, %g] %t", s, lo, hi, ok)
		}
		if s.Lo != 0 && !(s.Lo <= s.Median && s.Median <= s.Hi) {
			t.Fatalf("%+v: the interval leaves the median out", s)
		}
		y := slices.Clone(x)
		r.Shuffle(len(y), func(i, j int) { y[i], y[j] = y[j], y[i] })
		if Summarize(y) != s {
			t.Fatalf("%+v, permuted %+v", s, Summarize(y))
		}
		for i := range y {
			y[i] *= 8 // exact
		}
		if z := Summarize(y); z != (Summary{s.N, 8 * s.Median, 8 * s.Lo, 8 * s.Hi, s.Spread}) {
			t.Fatalf("%+v, scaled by 8 %+v", s, z)
		}
	}
	if (Summarize(nil) != Summary{}) {
		t.Error("no samples have a summary")
	}
	if g := GeoMean([]float64{1, 2, 4}); !near(g, 2, 1e-15) {
		t.Errorf("GeoMean(1, 2, 4) = %g", g)
	}
}
