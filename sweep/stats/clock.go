package stats

import (
	"math"
	"slices"
)

// TimerStep estimates the step of the clock that samples were read from, in their unit; 0 where they
// show none. Event timers on GPUs count in steps of 32 ns to 1 us, and no statistic of such samples
// resolves much less.
//
// Samples of a clock with a step differ by whole multiples of it. TimerStep takes the largest step that
// explains the gaps between neighbouring values. A step explains a gap that is within a tenth of a step
// of a whole multiple; two gaps, or one in twenty, need not be explained. So a few samples off the grid
// do no harm, nor does the rounding of single precision or of a file. By chance a step explains one gap
// in five, so TimerStep needs 12 gaps, or values that come four times each on average.
//
// Pool the raw samples of a device: medians of an even number of them lie halfway between the steps.
func TimerStep(samples []float64) float64 {
	x := sortedCopy(samples)
	if len(x) == 0 {
		return 0
	}
	// A float32 millisecond has seven digits; what is closer is one value.
	g := grid{tolerance: 4e-7 * max(math.Abs(x[0]), math.Abs(x[len(x)-1]))}
	for i := 1; i < len(x); i++ {
		if gap := x[i] - x[i-1]; gap > g.tolerance {
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
		if i > 0 && gap-g.gaps[i-1] < g.tolerance {
			continue
		}
		for _, parts := range []float64{1, 2, 3, 4} {
			step := gap / parts
			if _, off := g.fit(step); step > best && 0.2*step >= g.tolerance && off <= stray {
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

// A grid holds the gaps between neighbouring samples, without those up to tolerance.
type grid struct {
	gaps      []float64
	tolerance float64
}

// fit improves an estimate of the clock's step from all gaps, as a gap of many steps tells it better
// than one. off counts the gaps that are no whole multiple of the step.
func (g grid) fit(step float64) (better float64, off int) {
	sum, count := 0.0, 0.0
	for _, gap := range g.gaps {
		n := math.Round(gap / step)
		if n == 0 || math.Abs(gap-n*step) > 0.1*step+g.tolerance {
			off++
			continue
		}
		sum, count = sum+gap, count+n
	}
	return sum / count, off
}
