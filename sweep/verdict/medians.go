package verdict

import (
	"math"

	"normbench/sweep/stats"
)

// The tests in this file are for recordings: A and B were not measured in turns, but by two sweeps,
// on two days or on two cards. There is no A' and nothing cancels. What moved between the two is
// part of the effect, and no count of samples tells one from the other. So the samples are not
// tested: their medians and the intervals of these say as much.

// JudgeMedians judges times of which only medians are known. b is FASTER or SLOWER if the medians
// are more than wide apart and their intervals do not meet. Noise is no evidence of equality: SAME
// takes intervals that leave no room for more than band, and what wide exceeds band by counts as
// room.
func JudgeMedians(a, b stats.Summary, band, wide float64) Verdict {
	known := a.Lo > 0 && b.Lo > 0
	for _, m := range []*stats.Summary{&a, &b} {
		if !(m.Lo > 0) {
			m.Lo, m.Hi = m.Median, m.Median
		}
	}
	apart := a.Lo > b.Hi || b.Lo > a.Hi
	switch {
	case apart && a.Median > b.Median*(1+wide):
		return Faster
	case apart && b.Median > a.Median*(1+wide):
		return Slower
	case known && max(a.Hi/b.Lo, b.Hi/a.Lo)+wide-band <= 1+band:
		return Same
	}
	return Inconclusive
}

// RecordedBand is how far apart the medians of two recordings must be, at least so much. Control is
// the time of one and the same code in each, such as the stream's, 0 where it is not known: what it
// moved by is no effect.
func (r Rule) RecordedBand(least, controlA, controlB float64) float64 {
	if !(controlA > 0) || !(controlB > 0) {
		return least
	}
	return max(least, r.FloorFactor*(max(controlA/controlB, controlB/controlA)-1))
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
