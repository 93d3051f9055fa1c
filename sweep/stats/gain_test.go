package stats

import "testing"

func TestGain(t *testing.T) {
	a := []float64{103, 102, 104, 103, 102, 104, 103, 103}
	b := []float64{100, 100, 100, 100, 100, 100, 100, 100}
	gain, lo, hi, ok := Gain(a, b)
	if !ok || gain < 0.029 || gain > 0.031 || lo < 0.02 || lo > gain || hi < gain || hi > 0.04 {
		t.Errorf("%g [%g, %g] %v", gain, lo, hi, ok)
	}
	if _, _, _, ok := Gain(a[:3], b[:3]); ok {
		t.Error("an interval of three rounds")
	}
	if _, _, _, ok := Gain(a, b[:7]); ok {
		t.Error("rounds of different numbers")
	}
}
