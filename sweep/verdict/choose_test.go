package verdict

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/stats"
)

// The rules for a few rounds, for medians, and for the band of SAME: testdata/judging.txt.
func TestRulesFitFewRoundsAndMedians(t *testing.T) {
	assert.Lines(t, "testdata/judging.txt", func(input string) string {
		kind, rest, _ := strings.Cut(input, " ")
		x := assert.Numbers(t, rest)
		median := func(us, lo, hi float64) stats.Summary {
			return stats.Summary{Median: us, Lo: lo, Hi: hi}
		}
		switch kind {
		case "gain": // of as many rounds of each, where they are even
			gain, lo, hi, ok := Gain(x[:len(x)/2], x[len(x)/2:])
			return fmt.Sprintf("%.3f %.3f %.3f %t", gain, lo, hi, ok)
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
