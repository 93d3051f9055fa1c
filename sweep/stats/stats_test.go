package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
)

func near(a, b, rel float64) bool {
	return a == b || math.Abs(a-b) <= rel*max(math.Abs(a), math.Abs(b))
}

// What tables and other programs say of samples: testdata/samples.txt, by a statistic, its numbers
// and samples.
func TestStatisticsOfSamplesAreRight(t *testing.T) {
	assert.Lines(t, "testdata/samples.txt", func(input string) string {
		what, rest, _ := strings.Cut(input, " ")
		numbers, samples, _ := strings.Cut(rest, "[")
		in, x := assert.Numbers(t, numbers), assert.Numbers(t, strings.Trim(samples, "]"))
		was := slices.Clone(x)
		var out []any
		switch what {
		case "signed-rank":
			out = append(out, SignedRank(x))
			var back []float64 // the other way around, and the other signs
			for _, d := range x {
				back = slices.Insert(back, 0, -d)
			}
			assert.Equal(t, SignedRank(back), SignedRank(x), input)
		case "hodges-lehmann":
			est, lo, hi := HodgesLehmann(x, in[0])
			out = append(out, est, lo, hi)
		case "walsh-rank":
			out = append(out, walshRank(int(in[0]), in[1]))
		case "median-rank":
			out = append(out, medianRank(int(in[0])))
		case "holm", "benjamini-hochberg":
			adjust := map[string]func([]float64) []float64{"holm": Holm,
				"benjamini-hochberg": BenjaminiHochberg}[what]
			for _, p := range adjust(x) {
				out = append(out, p)
			}
		case "quantile":
			out = append(out, Quantile(in[0], x))
		case "summary":
			out = append(out, fmt.Sprintf("%+v", Summarize(x)))
		case "means":
			out = append(out, Median(x), Spread(x), GeoMean(x))
		}
		assert.Same(t, x, was, input, "the samples were moved")
		for i, v := range out {
			if f, ok := v.(float64); ok {
				out[i] = fmt.Sprintf("%.12g", f)
			}
		}
		return strings.TrimSuffix(fmt.Sprintln(out...), "\n")
	})
}
