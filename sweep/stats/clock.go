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
	x := sorted(samples)
	if len(x) == 0 {
		return 0
	}
	// A float32 millisecond has seven digits; what is closer is one value.
	eps := 4e-7 * max(math.Abs(x[0]), math.Abs(x[len(x)-1]))
	var gaps []float64
	for i := 1; i < len(x); i++ {
		if g := x[i] - x[i-1]; g > eps {
			gaps = append(gaps, g)
		}
	}
	stray := max(2, len(gaps)/20)
	if len(gaps) < 12 {
		stray = 0
		if len(gaps) == 0 || len(x) < 4*(len(gaps)+1) {
			return 0
		}
	}
	slices.Sort(gaps)
	explained := func(step float64) bool {
		tol := 0.1*step + eps
		if 0.2*step < eps {
			return false
		}
		off := 0
		for _, g := range gaps {
			if n := math.Round(g / step); n == 0 || math.Abs(g-n*step) > tol {
				if off++; off > stray {
					return false
				}
			}
		}
		return true
	}
	// The smallest gap may be one that is off the grid, or two steps; so every
	// gap up to the median is tried, whole and in parts.
	best := 0.0
	for i, g := range gaps[:len(gaps)/2+1] {
		if i > 0 && g-gaps[i-1] < eps {
			continue
		}
		for _, parts := range []float64{1, 2, 3, 4} {
			if step := g / parts; step > best && explained(step) {
				best = step
			}
		}
	}
	if best == 0 {
		return 0
	}
	// A gap of many steps knows the step better than one.
	sum, count := 0.0, 0.0
	for _, g := range gaps {
		if n := math.Round(g / best); n > 0 && math.Abs(g-n*best) <= 0.1*best+eps {
			sum, count = sum+g, count+n
		}
	}
	return sum / count
}
