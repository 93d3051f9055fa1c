package sweep

import (
	"hash/fnv"
	"math/rand/v2"

	"normbench/kernels"
)

// orders draws the orders of visits to the variants of a problem: for one seed, others for each
// problem (its op, pass, shape, types and options) and the same ones each time. If all cells of a
// run had one sequence of orders, what a place in a round costs would be in all of them alike.
func orders(seed uint64, p kernels.Problem) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(p.String()))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
