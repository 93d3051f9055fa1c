package verdict

import (
	"math"
	"testing"

	"normbench/internal/assert"
)

func TestGain(t *testing.T) {
	a := []float64{103, 102, 104, 103, 102, 104, 103, 103}
	b := []float64{100, 100, 100, 100, 100, 100, 100, 100}
	gain, lo, hi, ok := Gain(a, b)
	assert.That(t, ok && gain >= 0.029 && gain <= 0.031 && lo >= 0.02 && lo <= gain && hi >= gain &&
		hi <= 0.04, "%g [%g, %g] %v", gain, lo, hi, ok)
	if _, _, _, ok := Gain(a[:3], b[:3]); ok {
		t.Error("an interval of three rounds")
	}
	if _, _, _, ok := Gain(a, b[:7]); ok {
		t.Error("rounds of different numbers")
	}
}

func TestRace(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want Verdict
	}{
		{[]float64{0.5}, Inconclusive},
		{[]float64{0.5, 0.2}, Slower},
		{[]float64{0.05, 0.06}, Inconclusive},
		{[]float64{0.05, 0.06, 0.055}, Slower},
		{[]float64{0.001, -0.001, 0.0005}, Same},
		{[]float64{0.05, -0.05, 0.02}, Inconclusive},
		{[]float64{0.004, 0.005, 0.0045}, Slower},
	} {
		a, b := make([]float64, len(c.d)), make([]float64, len(c.d))
		for i, d := range c.d {
			a[i], b[i] = 10, 10*math.Exp(d)
		}
		assert.Equal(t, Race(a, b), c.want, c.d)
	}
}
