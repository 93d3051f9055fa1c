package verdict

import (
	"fmt"
	"math"
	"slices"

	"normbench/sweep/stats"
)

// Modes are two modes of a cell: of its rounds' B over A, or of its visits, whichever arm they are of.
type Modes struct {
	Apart  float64 `json:"apart"`
	Share  float64 `json:"share"` // in the slower
	Rounds bool    `json:"rounds,omitempty"`
}

func (m *Modes) String() string {
	of := "visits"
	if m.Rounds {
		of = "rounds"
	}
	apart := percent(m.Apart)
	if m.Apart >= 0.1 {
		apart = fmt.Sprintf("%.0f%%", 100*m.Apart)
	}
	return fmt.Sprintf("two modes, %s apart, %.0f%% of the %s in the slower", apart, 100*m.Share, of)
}

// Two modes explain what one does not where the split of the visits in two
// explains this share of their variance and each side has this share of them.
// The best split of a normal distribution explains 64 %, of a uniform one 75 %;
// of 12 to 24 rounds of noise, less than 1 % pass for modes.
const (
	modesExplain = 0.82
	modesShare   = 0.1
)

// modes is the distance of two modes that a cell's visits fall into, and the
// share of the slower one; both are 0 where one mode will do. cleared are the logs of the
// arms with the distance taken off the slower visits.
//
// A kernel with two modes has no one time, and what B seems to differ by is how
// often each arm met the slow one. A wide interquartile range alone does not
// tell modes from noise, and noise the intervals account for. It takes no side: the arms are all
// alike to it.
func modes(logs [][]float64) (apart, share float64, cleared [][]float64) {
	visits := excessTimes(logs)
	apart, share, cut := split(visits, modesExplain)
	cleared = make([][]float64, len(logs))
	for k := range logs {
		cleared[k] = slices.Clone(logs[k])
	}
	for i, v := range visits {
		if v > cut {
			cleared[i%len(logs)][i/len(logs)] -= apart
		}
	}
	return math.Expm1(apart), share, cleared
}

// excessTimes computes what each visit takes more than its arm's level and its round's fastest visit explain,
// by round and then by arm: drift and effect are taken away. Of two modes what is left is either
// about zero or about their distance.
func excessTimes(logs [][]float64) (visits []float64) {
	n := len(logs[0])
	free := make([][]float64, len(logs))
	for i := range n {
		mean := 0.0
		for k := range logs {
			mean += logs[k][i] / float64(len(logs))
		}
		for k := range logs {
			free[k] = append(free[k], logs[k][i]-mean)
		}
	}
	for k := range free {
		m := stats.Median(free[k])
		for i := range free[k] {
			free[k][i] -= m
		}
	}
	for i := range n {
		least := math.Inf(1)
		for k := range free {
			least = min(least, free[k][i])
		}
		for k := range free {
			visits = append(visits, free[k][i]-least)
		}
	}
	return visits
}

// split is the distance of the two groups of values whose split at cut explains most of their
// variance (Otsu 1979), and the share of the upper one; 0 and 0 where it does not explain enough.
func split(values []float64, explain float64) (apart, share, cut float64) {
	u := slices.Sorted(slices.Values(values))
	sum, squares := 0.0, 0.0
	for _, v := range u {
		sum, squares = sum+v, squares+v*v
	}
	all := float64(len(u))
	variance := squares - sum*sum/all
	best, below := 0.0, 0.0
	for i, v := range u[:len(u)-1] {
		below += v
		fast, slow := float64(i+1), all-float64(i+1)
		gap := (sum-below)/slow - below/fast
		if between := fast * slow / all * gap * gap; between > best {
			best, apart, share, cut = between, gap, slow/all, (v+u[i+1])/2
		}
	}
	if !(variance > 0) || best < explain*variance || min(share, 1-share) < modesShare {
		return 0, 0, 0
	}
	return apart, share, cut
}

// roundModes are two modes of the rounds' log(B/A), and the share of the slow one.
type roundModes struct {
	fast, slow interval
	share      float64
}

// fewRounds is the least share of the rounds that makes a mode of its own. Fewer are outliers, which
// the rank statistics bear: one or two changes of the clock fall between two visits of a round.
const fewRounds = 0.2

// splitRounds finds the modes of an arm that changed its speed for some rounds: another process took
// the machine, or left it. It is zero where one mode will do.
func splitRounds(d []float64, level float64) (m roundModes) {
	// So few values fall apart by chance: of 10 to 24 rounds of noise, 0.5% pass for modes.
	apart, share, cut := split(d, 0.78+1.44/float64(len(d)))
	if apart == 0 || min(share, 1-share) < fewRounds {
		return m
	}
	var fast, slow []float64
	for _, v := range d {
		if v > cut {
			slow = append(slow, v)
		} else {
			fast = append(fast, v)
		}
	}
	of := func(logs []float64) interval {
		x := newInterval(logs, level)
		if math.IsInf(x.lo, -1) { // too few rounds for one
			x.lo, x.hi = slices.Min(logs), slices.Max(logs)
		}
		return x
	}
	return roundModes{of(fast), of(slow), share}
}

// distance computes how far the modes lie apart, relatively.
func (m roundModes) distance() float64 { return math.Expm1(m.slow.est - m.fast.est) }

// isBeyond says whether both modes lie beyond a band, to one side.
func (m roundModes) isBeyond(band float64) bool { return m.fast.est > band || m.slow.est < -band }

// span is the effect of the mode that is nearer to none, in an interval that holds both modes. What
// lies between the modes is the effect of no round.
func (m roundModes) span(x interval) interval {
	x.est = m.fast.est
	if math.Abs(m.slow.est) < math.Abs(m.fast.est) {
		x.est = m.slow.est
	}
	x.lo, x.hi = min(x.lo, m.fast.lo), max(x.hi, m.slow.hi)
	return x
}
