package verdict

import (
	"fmt"
	"math"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// A Recording is a problem for which A and B have samples that were not taken
// in turns: by two sweeps, on two days, on two cards. Each side is its visits,
// and each visit its launches.
type Recording struct {
	Problem kernels.Problem
	A, B    [][]float64
	Step    float64 // of the clock, in the unit of the samples
	// Control is the time of one and the same code in the recordings of A and of
	// B, such as the stream's; 0 and 0 where there is none.
	ControlA, ControlB float64
	// Widen widens a band by what the floors of the two runs differ by; it is false where no
	// verdict is possible. nil widens none. See WidenBand.
	Widen func(band float64) (float64, bool)
}

// FloorMatters is the time in microseconds below which two runs do not compare unless the floor
// of both is known. Between hosts an empty launch differs by up to 2 us: 4% of this.
const FloorMatters = 50

// WidenBand is a relative band about the times of two runs, widened by the difference of their
// floors, the times of an empty launch. A floor is 0 where it is not known. us is the shorter of
// the two times; all three are in microseconds. It is false where the times do not compare.
func WidenBand(band, floorA, floorB, us float64) (wide float64, ok bool) {
	if !(floorA > 0 && floorB > 0) {
		return band, us >= FloorMatters
	}
	return band + math.Abs(floorA-floorB)/us, true
}

// visitsAlone is the number of visits per side from which they are the unit: of
// 6 and 6 the least p-value is 0.002.
const visitsAlone = 6

// JudgeUnpaired judges recordings, and marks what it says as unpaired. There is
// no A' and nothing cancels: what moved between the two recordings is part of
// the effect, and no count of samples tells one from the other. So
//
//   - the effect is the Hodges-Lehmann shift of the logs, with its interval at
//     Rule.Alpha, and P is Mann and Whitney's; of visits where each side has 6,
//     else of launches, for which both are too sure of themselves,
//   - the floor is how far the halves of either side lie apart, or the controls,
//   - the band starts at Rule.Unpaired and not at MinEffect, and every clock step
//     counts,
//   - between two runs on GPUs the band grows by the difference of their floors,
//   - SAME is about that band too.
//
// A recording can find a change of 20 %. For less, compare live.
func JudgeUnpaired(cells []Recording, rule Rule) []Judged {
	judged := make([]Judged, len(cells))
	for i, c := range cells {
		judged[i] = judgeUnpaired(c, rule)
	}
	correct(judged, rule)
	return judged
}

func judgeUnpaired(c Recording, rule Rule) Judged {
	a, b := units(c.A), units(c.B)
	if len(a) < visitsAlone || len(b) < visitsAlone {
		a, b = launches(c.A), launches(c.B)
	}
	j := Judged{Problem: c.Problem, Unpaired: true, Rounds: min(len(a), len(b)), P: 1, Band: rule.Unpaired, Verdict: Inconclusive}
	if j.Rounds == 0 {
		j.Reason = "no samples"
		return j
	}
	est, lo, hi := stats.HodgesLehmannShift(a, b, 1-rule.Alpha)
	j.P = stats.MannWhitney(a, b)
	moved := max(halves(a), halves(b))
	if c.ControlA > 0 && c.ControlB > 0 {
		moved = max(moved, math.Abs(math.Log(c.ControlB/c.ControlA)))
	}
	j.Floor = math.Expm1(moved)
	j.Step = max(0, c.Step) / math.Exp(min(stats.Median(a), stats.Median(b)))
	j.Band = max(rule.Unpaired, rule.FloorFactor*j.Floor, j.Step)
	unwidened, comparable := j.Band, true
	if c.Widen != nil {
		j.Band, comparable = c.Widen(j.Band)
	}
	j.effect(est, lo, hi)
	j.logs = []float64{est}
	if math.IsInf(lo, -1) {
		j.Reason = "too few samples"
		return j
	}
	band := math.Log1p(j.Band)
	switch {
	case !comparable:
		j.Reason = "two runs, and the floor of one is unknown"
	case math.Abs(est) > band && hi < 0:
		j.Verdict = Faster
	case math.Abs(est) > band && lo > 0:
		j.Verdict = Slower
	case unwidened == rule.Unpaired && max(-lo, hi) < math.Log1p(2*rule.Unpaired-j.Band):
		j.Verdict = Same // also if the floors' difference is all on one side
	case j.Band > unwidened:
		j.Reason = fmt.Sprintf("not interleaved, and the floors differ by %s of the time", percent(j.Band-unwidened))
	case j.Band > rule.Unpaired && j.Band == j.Step:
		j.Reason = fmt.Sprintf("not interleaved, and the clock's step is %s of the time", percent(j.Step))
	case j.Band > rule.Unpaired:
		j.Reason = fmt.Sprintf("not interleaved, and the same code moved by %s", percent(j.Floor))
	default:
		j.Reason = fmt.Sprintf("not interleaved, and within %s or noisy", percent(j.Band))
	}
	return j
}

// units are the logs of the medians of the visits that have samples.
func units(visits [][]float64) (logs []float64) {
	for _, v := range visits {
		if x := launches([][]float64{v}); len(x) > 0 {
			logs = append(logs, stats.Median(x))
		}
	}
	return logs
}

// launches are the logs of all samples, in the order taken.
func launches(visits [][]float64) (logs []float64) {
	for _, v := range visits {
		for _, t := range v {
			if t > 0 && !math.IsInf(t, 1) {
				logs = append(logs, math.Log(t))
			}
		}
	}
	return logs
}

// halves is how far the median of the first half lies from that of the second.
func halves(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	return math.Abs(stats.Median(x[:len(x)/2]) - stats.Median(x[len(x)/2:]))
}
