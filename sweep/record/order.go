package record

import (
	"cmp"

	"normbench/kernels"
)

// CompareProblems orders problems as every table shows them: by op (rmsnorm first, the others in
// reverse order of their names), pass (fwd first), options, dtypes, columns, rows.
func CompareProblems(a, b kernels.Problem) int {
	return cmp.Or(
		cmp.Compare(b.Op, a.Op),
		cmp.Compare(b.Pass, a.Pass),
		kernels.CompareOptions(a, b),
		cmp.Compare(a.DType.String(), b.DType.String()),
		cmp.Compare(a.Weight.String(), b.Weight.String()),
		cmp.Compare(a.N, b.N),
		cmp.Compare(a.M, b.M),
	)
}
