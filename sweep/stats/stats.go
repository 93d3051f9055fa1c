// Package stats summarizes samples of run times. Run times are skewed and have
// outliers on one side, so everything here rests on order: medians, quantiles
// and intervals of order statistics, no means and no assumed distribution.
//
// Functions of samples take them in any order and leave them as they are.
// Samples are numbers without NaN, all in one unit, which the results share.
package stats

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Summary holds the statistics of samples that tables show.
type Summary struct {
	N      int
	Median float64
	Lo, Hi float64 // confidence interval of the median; both 0 where N is too small for one
	Spread float64 // interquartile range over median
}

// Level is the confidence level of a Summary's interval.
const Level = 0.95

// Summarize computes a Summary and sorts only once. No samples give the zero Summary.
func Summarize(samples []float64) Summary {
	if len(samples) == 0 {
		return Summary{}
	}
	x := sortedCopy(samples)
	s := Summary{N: len(x), Median: quantile(0.5, x), Spread: spread(x)}
	if k := medianRank(len(x)); k > 0 {
		s.Lo, s.Hi = x[k-1], x[len(x)-k]
	}
	return s
}

// Median returns the middle sample, or the mean of the two in the middle; NaN where there are none.
func Median(samples []float64) float64 { return Quantile(0.5, samples) }

// Quantile returns the p-quantile, 0 <= p <= 1, linear between the samples at rank 1+p(n-1): type 7 of
// Hyndman and Fan 1996, the default of NumPy and R. It is NaN where there are no samples.
func Quantile(p float64, samples []float64) float64 {
	return quantile(p, sortedCopy(samples))
}

func sortedCopy(samples []float64) []float64 {
	x := slices.Clone(samples)
	slices.Sort(x)
	return x
}

// quantile is Quantile of sorted samples. It does not use stat.Quantile, whose linear rule (type 4) puts
// the median of two samples on the lower one.
func quantile(p float64, x []float64) float64 {
	if len(x) == 0 || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	whole, frac := math.Modf(p * float64(len(x)-1))
	i := int(whole)
	if frac == 0 {
		return x[i]
	}
	if frac == 0.5 { // exact where the two are equal or the sum is
		return x[i]/2 + x[i+1]/2
	}
	return x[i] + frac*(x[i+1]-x[i])
}

// Spread computes the interquartile range over the median: relative noise that a few outliers do not
// move. It is NaN where there are no samples or the median is zero.
func Spread(samples []float64) float64 {
	return spread(sortedCopy(samples))
}

func spread(x []float64) float64 {
	return (quantile(0.75, x) - quantile(0.25, x)) / quantile(0.5, x)
}

// ranks keeps the results of medianRank: a records file needs one for every
// line, and the binomial sums would take longer than reading it.
var ranks sync.Map // n -> k

// medianRank finds the rank k, counted from 1, so that [x(k), x(n+1-k)] is the narrowest interval of
// order statistics that holds the median of n samples at Level, whatever the distribution. Its coverage
// is 1 - 2 P(B < k) with B binomial (n, 1/2). k is 0 where even [min, max] does not reach the level:
// below 6 samples.
func medianRank(n int) (k int) {
	if k, ok := ranks.Load(n); ok {
		return k.(int)
	}
	b := distuv.Binomial{N: float64(n), P: 0.5}
	// The interval narrows as k grows, until the two sides would meet.
	for k < (n+1)/2 && 1-2*b.CDF(float64(k)) >= Level {
		k++
	}
	ranks.Store(n, k)
	return k
}

// GeoMean computes the geometric mean of positive ratios: inverse ratios have the inverse mean. It is
// NaN where there are none.
func GeoMean(ratios []float64) float64 {
	if len(ratios) == 0 {
		return math.NaN()
	}
	return stat.GeometricMean(ratios, nil)
}
