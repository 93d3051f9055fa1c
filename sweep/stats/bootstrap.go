package stats

import (
	"cmp"
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
// are drawn as one, because what moves one of them moves the others.
//
// The same arguments give the same interval, in whatever order the rounds of a
// cell come. Cells without rounds count as absent; all are NaN of none.
func GeoMeanCI(cells [][]float64, clusters []int, level float64, resamples int,
	seed uint64) (mean, lo, hi float64) {
	var x [][]cell // those of each cluster
	at := map[int]int{}
	sum, n := 0.0, 0
	for i, c := range cells {
		if len(c) == 0 {
			continue
		}
		k := clusters[i]
		if _, ok := at[k]; !ok {
			at[k], x = len(x), append(x, nil)
		}
		x[at[k]] = append(x[at[k]], newCell(c))
		e, _, _ := HodgesLehmann(c, 1)
		sum, n = sum+e, n+1
	}
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	mean = math.Exp(sum / float64(n))
	r := rand.New(rand.NewPCG(seed, 0))
	means := make([]float64, resamples)
	for i := range means {
		sum, n := 0.0, 0
		for range x {
			for _, c := range x[r.IntN(len(x))] {
				sum, n = sum+c.resample(r), n+1
			}
		}
		means[i] = sum / float64(n)
	}
	slices.Sort(means)
	tail := (1 - level) / 2
	return mean, math.Exp(quantile(tail, means)), math.Exp(quantile(1-tail, means))
}

// A cell is what a bootstrap draws from: the Walsh averages of its rounds in order, so that the
// median of those of a resample needs no sorting, and how often a resample has each round.
type cell struct {
	averages []average
	drawn    []int
}

// An average is that of two rounds, or of one with itself.
type average struct {
	mean float64
	i, j int
}

func newCell(rounds []float64) cell {
	x := sorted(rounds)
	c := cell{drawn: make([]int, len(x))}
	for i, a := range x {
		for j, b := range x[:i+1] {
			c.averages = append(c.averages, average{(a + b) / 2, i, j})
		}
	}
	slices.SortFunc(c.averages, func(a, b average) int { return cmp.Compare(a.mean, b.mean) })
	return c
}

// resample draws as many rounds as there are, and is their Hodges-Lehmann estimate.
func (c cell) resample(r *rand.Rand) float64 {
	n := len(c.drawn)
	clear(c.drawn)
	for range n {
		c.drawn[r.IntN(n)]++
	}
	all := n * (n + 1) / 2 // averages of a resample
	seen, low := 0, 0.0
	for _, a := range c.averages {
		times := c.drawn[a.i] * c.drawn[a.j]
		if a.i == a.j {
			times = c.drawn[a.i] * (c.drawn[a.i] + 1) / 2
		}
		if seen <= (all-1)/2 {
			low = a.mean
		}
		if seen += times; seen > all/2 {
			return low/2 + a.mean/2
		}
	}
	return math.NaN() // of no rounds
}
