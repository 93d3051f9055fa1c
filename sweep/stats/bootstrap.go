package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// GeoMeanCI computes the geometric mean of ratios, given by their logs, with the percentile interval of
// a bootstrap that draws as many clusters with replacement (Davison and Hinkley 1997, 3.8). So the
// interval holds for other problems of the same kind, not only for these. What the rounds of a problem
// scatter by is in its ratio already. Intervals of few clusters are too narrow; 10 or more are honest.
//
// clusters has a number for each ratio; ratios with one number are drawn together, because what moves
// one of them moves the others. The dtypes of one shape are a cluster, for example.
//
// The same arguments give the same interval. All results are NaN where there are no ratios.
func GeoMeanCI(logs []float64, clusters []int, level float64, resamples int,
	seed uint64) (mean, lo, hi float64) {
	if len(logs) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	type cluster struct{ sum, n float64 }
	var x []cluster
	at := map[int]int{}
	for i, log := range logs {
		k, ok := at[clusters[i]]
		if !ok {
			k = len(x)
			at[clusters[i]], x = k, append(x, cluster{})
		}
		x[k].sum, x[k].n = x[k].sum+log, x[k].n+1
	}
	r := rand.New(rand.NewPCG(seed, 0))
	means := make([]float64, resamples)
	for i := range means {
		var drawn cluster
		for range x {
			c := x[r.IntN(len(x))]
			drawn.sum, drawn.n = drawn.sum+c.sum, drawn.n+c.n
		}
		means[i] = drawn.sum / drawn.n
	}
	slices.Sort(means)
	tail := (1 - level) / 2
	return math.Exp(stat.Mean(logs, nil)), math.Exp(quantile(tail, means)),
		math.Exp(quantile(1-tail, means))
}
