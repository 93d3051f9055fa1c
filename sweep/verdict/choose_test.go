package verdict

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/stats"
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

// The rules for a few rounds, for medians, and for the band of SAME: testdata/judging.txt.
func TestJudging(t *testing.T) {
	assert.Lines(t, "testdata/judging.txt", func(input string) string {
		kind, rest, _ := strings.Cut(input, " ")
		var x []float64
		for _, word := range strings.Fields(rest) {
			v, err := strconv.ParseFloat(word, 64)
			assert.NoError(t, err)
			x = append(x, v)
		}
		median := func(us, lo, hi float64) stats.Summary {
			return stats.Summary{Median: us, Lo: lo, Hi: hi}
		}
		switch kind {
		case "race":
			a, b := make([]float64, len(x)), make([]float64, len(x))
			for i, d := range x {
				a[i], b[i] = 10, 10*math.Exp(d)
			}
			return string(Race(a, b))
		case "medians":
			return string(JudgeMedians(median(x[0], x[1], x[2]), median(x[3], x[4], x[5]), x[6], x[7]))
		}
		band := Default().RecordedBand(0.05, x[2], x[3])
		wide, ok := WidenBand(band, x[4], x[5], min(x[0], x[1]))
		if !ok {
			return "no floor"
		}
		return string(JudgeMedians(median(x[0], 0.999*x[0], 1.001*x[0]),
			median(x[1], 0.999*x[1], 1.001*x[1]), 0.05, wide))
	})
}
