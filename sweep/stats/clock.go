package stats

import (
	"math"
	"slices"
)

// TimerStep is the step of the clock that samples were read from, in their
// unit, or 0 where they show none. Event timers on GPUs count in steps of 32 ns
// to 1 us, and no statistic of such samples resolves much less.
//
// Samples of a clock with a step differ by whole multiples of it. Of all steps
// that explain the gaps between neighbouring values, it is the largest. A gap is
// explained within a tenth of a step of a whole multiple, and one in twenty need
// not be, or two: so a few samples that are off the grid do no harm, nor does
// the rounding of single precision or of a file. Chance explains one gap in
// five. So it takes 12 gaps to tell, or values that come four times each on
// average.
//
// Pool the raw samples of a device: medians of an even number of them lie
// halfway between the steps.
func TimerStep(samples []float64) float64 {
	x := sortedCopy(samples)
	if len(x) == 0 {
		return 0
	}
	// A float32 millisecond has seven digits; what is closer is one value.
	g := grid{eps: 4e-7 * max(math.Abs(x[0]), math.Abs(x[len(x)-1]))}
	for i := 1; i < len(x); i++ {
		if gap := x[i] - x[i-1]; gap > g.eps {
			g.gaps = append(g.gaps, gap)
		}
	}
	stray := max(2, len(g.gaps)/20)
	if len(g.gaps) < 12 {
		stray = 0
		if len(g.gaps) == 0 || len(x) < 4*(len(g.gaps)+1) {
			return 0
		}
	}
	slices.Sort(g.gaps)
	// The smallest gap may be one that is off the grid, or two steps; so every
	// gap up to the median is tried, whole and in parts.
	best := 0.0
	for i, gap := range g.gaps[:len(g.gaps)/2+1] {
		if i > 0 && gap-g.gaps[i-1] < g.eps {
			continue
		}
		for _, parts := range []float64{1, 2, 3, 4} {
			step := gap / parts
			if _, off := g.fit(step); step > best && 0.2*step >= g.eps && off <= stray {
				best = step
			}
		}
	}
	if best == 0 {
		return 0
	}
	best, _ = g.fit(best)
	return best
}

// A grid is the gaps between the values of a clock with a step. Gaps of eps are none.
type grid struct {
	gaps []float64
	eps  float64
}

// fit is the step that the gaps show which are whole multiples of about step, as a gap of many
// steps knows it better than one; off is how many gaps are none.
func (g grid) fit(step float64) (better float64, off int) {
	sum, count := 0.0, 0.0
	for _, gap := range g.gaps {
		n := math.Round(gap / step)
		if n == 0 || math.Abs(gap-n*step) > 0.1*step+g.eps {
			off++
			continue
		}
		sum, count = sum+gap, count+n
	}
	return sum / count, off
}
