package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// GeoMeanCI is the geometric mean of ratios of which each cell has measured one
// in several rounds: cells holds the log ratios of the rounds, and a cell's
// ratio is exp of their Hodges-Lehmann estimate.
//
// The interval is the percentile one of a hierarchical bootstrap (Davison and
// Hinkley 1997, 3.8; Kalibera and Jones 2013 for run times): each resample draws
// as many cells with replacement, then as many rounds of each drawn cell. So it
// answers for other cells of the same kind and not only for other rounds of
// these; of one cell it is about the rounds alone. Percentile intervals of few
// cells are too narrow; 10 or more are honest.
//
// clusters says which cells belong together, such as the dtypes of one shape: those of one number
// are drawn as one, because what moves one of them moves the others. Nil is each cell by itself.
//
// The same arguments give the same interval, in whatever order the rounds of a
// cell come. Cells without rounds count as absent; all are NaN of none.
func GeoMeanCI(cells [][]float64, clusters []int, level float64, resamples int, seed uint64) (mean, lo, hi float64) {
	var x [][][]float64 // the cells of each cluster
	at := map[int]int{}
	var logs []float64
	longest := 0
	for i, c := range cells {
		if len(c) > 0 {
			s := sorted(c)
			k := i
			if clusters != nil {
				k = clusters[i]
			}
			if _, ok := at[k]; !ok {
				at[k], x = len(x), append(x, nil)
			}
			x[at[k]], longest = append(x[at[k]], s), max(longest, len(s))
			e, _, _ := HodgesLehmann(s, 1)
			logs = append(logs, e)
		}
	}
	if len(x) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	r := rand.New(rand.NewPCG(seed, 0))
	draw := make([]float64, longest)
	buf := make([]float64, 0, longest*(longest+1)/2)
	means := make([]float64, resamples)
	for i := range means {
		sum, n := 0.0, 0
		for range x {
			for _, c := range x[r.IntN(len(x))] {
				d := draw[:len(c)]
				for j := range d {
					d[j] = c[r.IntN(len(c))]
				}
				sum, n = sum+middle(walsh(buf, d)), n+1
			}
		}
		means[i] = sum / float64(n)
	}
	slices.Sort(means)
	tail := (1 - level) / 2
	sum := 0.0
	for _, e := range logs {
		sum += e
	}
	return math.Exp(sum / float64(len(logs))), math.Exp(quantile(tail, means)), math.Exp(quantile(1-tail, means))
}

// middle is the median of x, NaN of none. It reorders x around the element at
// (len(x)-1)/2.
func middle(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	k := (len(x) - 1) / 2
	m := nth(x, k)
	if len(x)%2 == 0 {
		m = m/2 + slices.Min(x[k+1:])/2
	}
	return m
}

// nth is the k-th smallest of x, counted from 0. It reorders x so that nothing
// before k is larger and nothing behind k is smaller: quickselect (Hoare 1961),
// as a bootstrap takes a hundred thousand medians.
func nth(x []float64, k int) float64 {
	for lo, hi := 0, len(x)-1; lo < hi; {
		pivot := x[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for x[i] < pivot {
				i++
			}
			for x[j] > pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return x[k]
		}
	}
	return x[k]
}
