package stats

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Holm adjusts p-values for being one of a family (Holm 1979): with those up to
// alpha rejected, the chance of one or more false rejections in the whole family
// is at most alpha, however the tests depend on each other. The result has the
// order of p.
func Holm(p []float64) []float64 {
	adjusted := make([]float64, len(p))
	worst := 0.0
	for rank, i := range ascendingOrder(p) {
		worst = max(worst, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = worst
	}
	return adjusted
}

// BenjaminiHochberg turns p-values into q-values (Benjamini and Hochberg 1995):
// of those up to q, at most a share q is expected to be false where the tests
// are independent or positively dependent. The result has the order of p.
func BenjaminiHochberg(p []float64) []float64 {
	q := make([]float64, len(p))
	least := 1.0
	order := ascendingOrder(p)
	for rank := len(order) - 1; rank >= 0; rank-- {
		i := order[rank]
		least = min(least, float64(len(p))/float64(rank+1)*p[i])
		q[i] = least
	}
	return q
}

// ascendingOrder lists the indices of p, the index of the smallest value first.
func ascendingOrder(p []float64) []int {
	order := make([]int, len(p))
	floats.ArgsortStable(slices.Clone(p), order)
	return order
}
