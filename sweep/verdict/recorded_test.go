package verdict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/stats"
)

// finals are the rounds of n arms on a machine, visited in random order, two launches each. The
// first arm is the base and the second its copy; the last is faster by effect.
func finals(k kind, seed uint64, n, rounds int, effect float64) (arms [][]float64, step float64) {
	m := newMachine(k, seed, 0)
	order := rand.New(rand.NewPCG(seed, 3))
	arms = make([][]float64, n)
	for range rounds {
		for _, i := range order.Perm(n) {
			m.effect = 0
			if i == n-1 {
				m.effect = -effect
			}
			m.launch(armB, 0)
			arms[i] = append(arms[i], (m.launch(armB, 1)+m.launch(armB, 2))/2)
		}
	}
	return arms, m.step
}

// Finals of variants that are all alike call none of them, neither the fastest of eight nor the
// slowest, on any machine; a change of 5% is found, and said of the right side.
func TestFinalsOfAlikeVariantsCallNone(t *testing.T) {
	pairs, wrong, naive, changes, found := 0, 0, 0, 0, 0
	for _, k := range kinds {
		if k.noClaim {
			continue
		}
		for seed := range uint64(130) {
			arms, step := finals(k, seed, 10, 24, 0)
			slices.SortFunc(arms[2:], func(a, b []float64) int {
				return int(1e6 * (stats.Median(a) - stats.Median(b)))
			})
			for _, b := range [][]float64{arms[2], arms[9]} {
				pairs++
				if claimed(JudgeRounds(arms[0], b, arms[1], step, 8).Verdict) {
					wrong++
				}
				if IsAhead(arms[0], b, 0) || IsAhead(b, arms[0], 0) {
					naive++
				}
			}
			if k.noEffect || k.name == "1 us clock" {
				continue
			}
			arms, step = finals(k, seed, 10, 24, 0.05)
			j := JudgeRounds(arms[0], arms[9], arms[1], step, 8)
			if changes++; j.Verdict == Faster {
				found++
			}
			assert.That(t, j.Verdict != Slower && j.Reverse().Verdict != Faster,
				"%s, seed %d: a change of -5%% is %+v", k.name, seed, j)
		}
	}
	t.Logf("%d of %d alike called (%d by a bound above zero alone), %d of %d found", wrong, pairs,
		naive, found, changes)
	assert.That(t, pairs >= 3000 && wrong <= pairs/1000,
		"%d of %d pairs that are alike are called", wrong, pairs)
	assert.That(t, naive >= pairs/20,
		"a bound above zero calls %d of %d: the machines show nothing", naive, pairs)
	assert.That(t, found >= changes*8/10, "%d of %d changes of 5%% found", found, changes)
}

// What recorded finals call: testdata/recorded.txt.
func TestJudgementsOfRecordedFinalsStay(t *testing.T) {
	series := map[string][]float64{
		"a":      {103, 102, 104, 103, 102, 104, 103, 103, 102, 104, 103, 102},
		"b":      slices.Repeat([]float64{100}, 12),
		"noisy":  {127, 111, 865, 129, 135, 119, 140, 230, 128, 131, 118, 410},
		"wide":   {110.2, 126.7, 1138.5, 108.1, 112.3, 143.4, 129.7, 173.2, 128.6, 270.4, 106.3, 126.1},
		"wideB":  {98.2, 98.1, 104, 93.5, 99.7, 97.3, 98.7, 99.7, 98, 100.1, 90.2, 98.9},
		"wideA2": {110.8, 124, 1181.5, 107.1, 113.9, 142.8, 131.1, 172.8, 132.9, 271.6, 107.7, 124.3},
		"apart":  {110, 111, 110, 112, 111, 109, 110, 111, 110, 112, 111, 110},
	}
	for _, name := range []string{"a", "b", "noisy"} {
		series[name+"8"] = series[name][:8]
	}
	series["apart5"] = series["apart"][:5]
	assert.Lines(t, "testdata/recorded.txt", func(input string) string {
		w := strings.Fields(input)
		choices, err := strconv.Atoi(w[3])
		assert.NoError(t, err)
		j := JudgeRounds(series[w[0]], series[w[1]], series[w[2]], 0, choices)
		back := j.Reverse()
		assert.That(t, back.Reverse().Verdict == j.Verdict &&
			(j.Lo <= 0 || back.Lo <= back.Effect && back.Effect <= back.Hi) &&
			claimed(j.Verdict) != (back.Verdict == j.Verdict), "%s: %+v turned %+v", input, j, back)
		return strings.TrimSpace(fmt.Sprint(j.Verdict, " ", j.Reason))
	})
}
