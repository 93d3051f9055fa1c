package verdict

import (
	"math/rand/v2"
	"slices"
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
func TestFinalsAlike(t *testing.T) {
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

func TestJudgeRecorded(t *testing.T) {
	a := []float64{103, 102, 104, 103, 102, 104, 103, 103, 102, 104, 103, 102}
	b := make([]float64, len(a))
	for i := range b {
		b[i] = 100
	}
	// A cpu that others use: its rounds are up to eight times as long.
	noisy := []float64{127, 111, 865, 129, 135, 119, 140, 230}
	// B was faster in every round, but three of A's made the number: 1.32x (1.15-3.79).
	wide := []float64{110.2, 126.7, 1138.5, 108.1, 112.3, 143.4, 129.7, 173.2, 128.6, 270.4, 106.3,
		126.1}
	wideB := []float64{98.2, 98.1, 104, 93.5, 99.7, 97.3, 98.7, 99.7, 98, 100.1, 90.2, 98.9}
	wideA2 := []float64{110.8, 124, 1181.5, 107.1, 113.9, 142.8, 131.1, 172.8, 132.9, 271.6, 107.7,
		124.3}
	apart := []float64{110, 111, 110, 112, 111, 109, 110, 111, 110, 112, 111, 110}
	for name, x := range map[string]struct {
		a, b, again []float64
		choices     int
		want        Verdict
		reason      string
	}{
		"faster":          {a, b, a, 8, Faster, ""},
		"slower":          {b, a, b, 8, Slower, ""},
		"a wide interval": {wide, wideB, wideA2, 1, Inconclusive, "noise of ±59.6%"},
		"of more choices": {a, b, a, 40, Inconclusive, "12 rounds, at least 14 are needed"},
		"eight rounds": {a[:8], b[:8], a[:8], 1, Inconclusive,
			"8 rounds, at least 9 are needed"},
		"a noisy cpu": {noisy, b[:8], noisy, 8, Inconclusive,
			"8 rounds, at least 12 are needed"},
		"a noisy cpu, 12 rounds": {append(noisy, 128, 131, 118, 410), b,
			append(noisy, 128, 131, 118, 410), 8, Inconclusive, "two modes"},
		"the copy differs":        {a, b, apart, 1, Inconclusive, "a second copy of A differs"},
		"a copy of other rounds":  {a, b, apart[:5], 1, Faster, ""},
		"none":                    {nil, nil, nil, 1, Inconclusive, "no rounds"},
		"one against its own":     {b, b, b, 8, Same, ""},
		"not of one run's rounds": {a, nil, nil, 8, Inconclusive, "no rounds"},
	} {
		j := JudgeRounds(x.a, x.b, x.again, 0, x.choices)
		assert.That(t, j.Verdict == x.want &&
			(x.reason == "" || strings.Contains(j.Reason, x.reason)), "%s: %+v", name, j)
		back := j.Reverse()
		assert.That(t, back.Reverse().Verdict == j.Verdict &&
			(j.Lo <= 0 || back.Lo <= back.Effect && back.Effect <= back.Hi), "%s: turned %+v", name,
			back)
		assert.That(t, claimed(j.Verdict) != (back.Verdict == j.Verdict),
			"%s: %s turned is %s", name, j.Verdict, back.Verdict)
	}
}
