package verdict

import (
	"fmt"

	"normbench/sweep/stats"
)

// A LateVisit took lateTimes its arm's median or more: a kernel was compiled there, or the
// machine slept. One such round would make the interval's end.
type LateVisit struct {
	Round int     `json:"round"` // from 1 on
	Arm   string  `json:"arm"`   // a, b or a2
	Times float64 `json:"times"` // its arm's median
}

const lateTimes = 100

func (l LateVisit) String() string {
	return fmt.Sprintf("round %d: %s is %.0fx its median; was something compiled there?", l.Round, l.Arm,
		l.Times)
}

// countedRounds lists the rounds that can be judged, without those of a late visit. A, B and A'
// are alike to it: a round that counts with A and B exchanged counts as it is.
func (c PairedRounds) countedRounds() (rounds []Round, late []LateVisit) {
	var number []int
	for i, r := range c.Rounds {
		if r.ok() {
			rounds, number = append(rounds, r), append(number, i+1)
		}
	}
	if len(rounds) == 0 {
		return nil, nil
	}
	var medians [3]float64
	for k := range medians {
		var times []float64
		for _, r := range rounds {
			times = append(times, r.times()[k])
		}
		medians[k] = stats.Median(times)
	}
	var count []Round
	for i, r := range rounds {
		before := len(late)
		for k, us := range r.times() {
			// Where there is no second copy, A2 is A.
			if us >= lateTimes*medians[k] && !(k == 2 && r.A2 == r.A) {
				late = append(late, LateVisit{number[i], []string{"a", "b", "a2"}[k], us / medians[k]})
			}
		}
		if len(late) == before {
			count = append(count, r)
		}
	}
	return count, late
}
