package sweep

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// The base stays unless another is proved ahead; of those the fastest wins, or the entry near it:
// testdata/winners.txt.
func TestPickWinner(t *testing.T) {
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		assert.NoError(t, err)
		return x
	}
	rounds := map[byte][]float64{0: {1, 1.001, 0.999, 1, 1, 1}, '~': {0.99, 1.02, 0.98, 1, 1.01, 1},
		'?': {1, 1, 1, 1.2375, 1.2375, 1}}
	assert.Lines(t, "testdata/winners.txt", func(input string) string {
		var fs []*finalist
		floor := 0.0
		for _, word := range strings.Fields(input) {
			if text, ok := strings.CutPrefix(word, "floor="); ok {
				floor = number(text)
				continue
			}
			parts := strings.Split(word, ":")
			us, kind := parts[len(parts)-1], byte(0)
			if strings.ContainsAny(us[:1], "~?") {
				us, kind = us[1:], us[0]
			}
			f := &finalist{Arm: &Arm{}, base: strings.Contains(word, "base:"),
				entry: strings.Contains(word, "entry:")}
			for _, x := range rounds[kind] {
				f.Rounds = append(f.Rounds, x*number(us))
			}
			if strings.Contains(word, "failed:") {
				f.Failure = kernels.Failf(kernels.StatusWrong, "on fresh inputs")
			}
			fs = append(fs, f)
		}
		got, why := pickWinner(fs, tieBand, floor)
		return strings.TrimSpace(fmt.Sprint(got, " ", why))
	})
}
