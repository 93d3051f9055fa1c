package families

import (
	"normbench/kernels"
	"normbench/kernels/common"
)

// Rows that are no multiple of 16 bytes, by the aligned vectors of 16 around them
// (ragged.cuh).

// plainVectors is c, or with vectors that divide the row where its own do not.
func plainVectors(p kernels.Problem, c kernels.Config) kernels.Config {
	if common.RaggedVectors(p, c) {
		return c.With(set(kernels.VectorBytes, 0))
	}
	return c
}

// rowVectors is vectors, or how many a ragged row has at the most.
func rowVectors(p kernels.Problem, c kernels.Config) (vecs, vec int64) {
	if !common.RaggedVectors(p, c) {
		return common.Vectors(p, c)
	}
	return aroundRow(p)
}

// aroundRow is the aligned vectors of 16 bytes that a row may have an element of, and the
// elements in one.
func aroundRow(p kernels.Problem) (vecs, vec int64) {
	vec = 16 / p.DType.Size()
	return kernels.CeilDiv(p.N+vec-1, vec), vec
}

// startsAlike is how many tiles of the config lie between rows that start alike in their
// vectors: 1, 2, 4 or 8.
func startsAlike(p kernels.Problem, c kernels.Config) int64 {
	vec := 16 / p.DType.Size()
	phases := vec / gcd(p.N, vec)
	return phases / gcd(int64(c.Get(kernels.BlockRows)), phases)
}

// alignPrograms leaves out as many of n persistent CTAs as let each thread have rows
// that start alike: then what it has of the weights serves all of them.
func alignCTAs(p kernels.Problem, c kernels.Config, n int64) int64 {
	if step := startsAlike(p, c); common.RaggedVectors(p, c) && n >= step {
		n -= n % step
	}
	return n
}

// shifts says that a thread of n CTAs, fewer than tiles, has ragged rows that start
// differently in their vectors.
func shifts(p kernels.Problem, c kernels.Config, n int64) bool {
	return common.RaggedVectors(p, c) && (n%startsAlike(p, c) != 0 || c.Get(kernels.RowOrder) != 0)
}

func gcd(a, b int64) int64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}
