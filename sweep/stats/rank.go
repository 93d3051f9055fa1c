package stats

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
)

// HodgesLehmann estimates the centre of symmetry of d as the median of the Walsh averages (d[i]+d[j])/2,
// i <= j (Hodges and Lehmann 1963). The interval holds the centres that the signed-rank test does not
// reject (Tukey; Hollander and Wolfe, Nonparametric Statistical Methods, 3.2 and 3.3).
//
// The interval holds the centre with at least this level whatever the distribution, provided that each d
// is as likely to lie above the centre as below it by as much. Equal values and zeros only make it wider
// (Noether 1967). It is [-Inf, +Inf] where d is too short for the level: below 6 numbers at 95 %.
//
// The work grows with n(n+1)/2, which is fine for rounds. The estimate is NaN where d is empty.
func HodgesLehmann(d []float64, level float64) (est, lo, hi float64) {
	w := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i, a := range d {
		for _, b := range d[i:] {
			w = append(w, (a+b)/2)
		}
	}
	slices.Sort(w)
	est, lo, hi = quantile(0.5, w), math.Inf(-1), math.Inf(1)
	if k := walshRank(len(d), level); k > 0 {
		lo, hi = w[k-1], w[len(w)-k]
	}
	return est, lo, hi
}

// SignedRank computes the exact two-sided p-value of the Wilcoxon signed-rank test (Wilcoxon 1945): how
// likely chance alone makes d at least so lopsided, if it is symmetric about 0.
//
// It uses the permutation distribution given |d|: each sign is a fair coin. So equal values, which share
// the mean of their ranks, need no correction. The p-value is right for any noise for which chance alone
// could have turned each sign. Zeros follow Pratt 1959: they are ranked and then have no sign. The other
// convention drops them before the ranking; then d with one zero less can weigh more.
//
// The least p-value of n numbers, 2^(1-n), is 0.031 at n=6, 0.0078 at 8, 0.00195 at 10, 0.00049 at 12
// and 0.00024 at 13. The work grows as n³. The p-value of an empty d is 1.
func SignedRank(d []float64) (p float64) {
	v := slices.Clone(d)
	slices.SortFunc(v, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	// Twice the ranks are whole numbers, ties or not.
	var twice []int
	neg, all := 0, 0
	for i := 0; i < len(v); {
		j := i + 1
		for j < len(v) && math.Abs(v[j]) == math.Abs(v[i]) {
			j++
		}
		r := i + 1 + j // ranks i+1 … j
		for ; i < j; i++ {
			if v[i] == 0 {
				continue
			}
			twice = append(twice, r)
			all += r
			if v[i] < 0 {
				neg += r
			}
		}
	}
	return min(1, 2*floats.Sum(flips(twice)[:min(neg, all-neg)+1]))
}

// flips computes the distribution of a sum of ranks when a fair coin decides for each rank whether it
// counts; p[s] is the probability of the sum s. Up to 53 ranks every probability is exact.
func flips(ranks []int) []float64 {
	all := 0
	for _, r := range ranks {
		all += r
	}
	p := make([]float64, all+1)
	p[0] = 1
	top := 0
	for _, r := range ranks {
		top += r
		for s := top; s >= 0; s-- {
			p[s] /= 2
			if s >= r {
				p[s] += p[s-r] / 2 // p[s-r] is not halved yet
			}
		}
	}
	return p
}

var signedRanks sync.Map // n -> []float64

// signedRankCDF returns P(T <= t) at index t, where T is the signed-rank statistic of n values without
// ties and zeros. It keeps what it has computed.
func signedRankCDF(n int) []float64 {
	if c, ok := signedRanks.Load(n); ok {
		return c.([]float64)
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	c := flips(ranks)
	floats.CumSum(c, c)
	signedRanks.Store(n, c)
	return c
}

// walshRank finds the rank k, counted from 1, so that the interval from the k-th smallest to the k-th
// largest Walsh average of n numbers has the level: the narrowest with 1 - 2 P(T < k) >= level. It is 0
// where there is none. 1-level is rounded up a little, for levels such as 0.95.
func walshRank(n int, level float64) (k int) {
	cdf := signedRankCDF(n)
	alpha := (1 - level) * (1 + 1e-9)
	for k < (len(cdf)+1)/2 && 2*cdf[k] <= alpha {
		k++
	}
	return k
}
