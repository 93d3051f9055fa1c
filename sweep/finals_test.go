package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// The base stays unless another is proved ahead; of those the fastest wins, or the entry near it:
// testdata/winners.txt.
func TestWinnerIsTheBaseUnlessProven(t *testing.T) {
	number := func(text string) float64 { return assert.Numbers(t, text)[0] }
	rounds := map[byte][]float64{0: {1, 1.001, 0.999, 1, 1, 1}, '~': {0.99, 1.02, 0.98, 1, 1.01, 1},
		'?': {1, 1, 1, 1.2375, 1.2375, 1}}
	assert.Lines(t, "testdata/winners.txt", func(input string) string {
		f, floor := &finalState{task: &Task{}, base: -1, entry: -1, second: &Arm{}}, 0.0
		for _, word := range strings.Fields(input) {
			if word == "cpu" {
				f.strict = true
				continue
			}
			if text, ok := strings.CutPrefix(word, "floor="); ok {
				floor = number(text)
				continue
			}
			parts := strings.Split(word, ":")
			us, kind := parts[len(parts)-1], byte(0)
			if strings.ContainsAny(us[:1], "~?") {
				us, kind = us[1:], us[0]
			}
			a := &Arm{}
			kinds := rounds[kind]
			if f.strict { // six rounds prove nothing by the rule
				kinds = slices.Repeat(kinds, 2)
			}
			for _, x := range kinds {
				a.Rounds = append(a.Rounds, x*number(us))
			}
			if strings.Contains(word, "failed:") {
				a.Failure = kernels.Failf(kernels.StatusWrong, "on fresh inputs")
			}
			if strings.Contains(word, "other:") {
				f.task.BaseOf, a.Variant.Family = "mine", "theirs"
			} else {
				a.Variant.Family = "mine"
			}
			if strings.Contains(word, "base:") {
				f.base = len(f.arms)
			}
			if strings.Contains(word, "entry:") {
				f.entry = len(f.arms)
			}
			f.arms = append(f.arms, a)
		}
		if f.base >= 0 {
			for _, us := range f.arms[f.base].Rounds {
				f.second.Rounds = append(f.second.Rounds, us*(1+floor))
			}
		}
		f.pickWinner()
		return strings.TrimSpace(fmt.Sprint(f.winner, " ", f.why))
	})
}
