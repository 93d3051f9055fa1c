package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A FittedLine is y = Const + Slope x, with intervals of both.
type FittedLine struct {
	Const, ConstLo, ConstHi float64
	Slope, SlopeLo, SlopeHi float64
}

// TheilSen fits a line: its slope is the median of the slopes between all pairs of points, its constant
// the median of what the slope leaves of y (Theil 1950; Sen 1968). Up to three points in ten may be
// anything. The intervals are percentiles of a bootstrap that draws clusters of points with replacement,
// as GeoMeanCI does.
//
// The same arguments give the same line. All results are NaN where no two points differ in x.
func TheilSen(x, y []float64, clusters []int, level float64, resamples int, seed uint64) FittedLine {
	type pair struct {
		slope float64
		i, j  int
	}
	var pairs []pair
	for i := range x {
		for j := range i {
			if x[i] != x[j] {
				pairs = append(pairs, pair{(y[i] - y[j]) / (x[i] - x[j]), i, j})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.slope, b.slope) })
	// fit is the line through points that count as often as times says. The pairs are sorted once, so a draw
	// costs one walk over them.
	left := make([]float64, 0, len(x))
	fit := func(times []int) (constant, slope float64) {
		all, seen := 0, 0
		for _, p := range pairs {
			all += times[p.i] * times[p.j]
		}
		constant, slope = math.NaN(), math.NaN()
		if all == 0 {
			return constant, slope
		}
		for k, p := range pairs {
			seen += times[p.i] * times[p.j]
			if 2*seen < all {
				continue
			}
			if slope = p.slope; 2*seen == all { // halfway to the next one that counts
				for _, next := range pairs[k+1:] {
					if times[next.i]*times[next.j] > 0 {
						slope = slope/2 + next.slope/2
						break
					}
				}
			}
			break
		}
		left = left[:0]
		for i, n := range times {
			for range n {
				left = append(left, y[i]-slope*x[i])
			}
		}
		slices.Sort(left)
		return quantile(0.5, left), slope
	}
	times := make([]int, len(x))
	for i := range times {
		times[i] = 1
	}
	var l FittedLine
	l.Const, l.Slope = fit(times)
	if math.IsNaN(l.Slope) {
		nan := math.NaN()
		return FittedLine{nan, nan, nan, nan, nan, nan}
	}
	members := map[int][]int{} // points of a cluster
	var names []int
	for i, c := range clusters {
		if members[c] == nil {
			names = append(names, c)
		}
		members[c] = append(members[c], i)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var constants, slopes []float64
	for range resamples {
		clear(times)
		for range names {
			for _, i := range members[names[r.IntN(len(names))]] {
				times[i]++
			}
		}
		if a, b := fit(times); !math.IsNaN(b) { // else a draw of one point
			constants, slopes = append(constants, a), append(slopes, b)
		}
	}
	tail := (1 - level) / 2
	l.ConstLo, l.ConstHi = Quantile(tail, constants), Quantile(1-tail, constants)
	l.SlopeLo, l.SlopeHi = Quantile(tail, slopes), Quantile(1-tail, slopes)
	return l
}
