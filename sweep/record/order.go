package record

import (
	"cmp"

	"normbench/kernels"
)

// CompareProblems orders problems as every table shows them: by op (rmsnorm
// first), pass (fwd first), options, dtypes, columns, rows.
func CompareProblems(a, b kernels.Problem) int {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(b.Op, a.Op),
		cmp.Compare(b.Pass, a.Pass),
		cmp.Compare(flag(a.Bias), flag(b.Bias)),
		cmp.Compare(flag(a.ZeroCentered), flag(b.ZeroCentered)),
		cmp.Compare(flag(a.NoWeight), flag(b.NoWeight)),
		cmp.Compare(flag(a.Residual), flag(b.Residual)),
		cmp.Compare(flag(a.FP8), flag(b.FP8)),
		cmp.Compare(flag(a.Transpose), flag(b.Transpose)),
		cmp.Compare(flag(a.Accumulate), flag(b.Accumulate)),
		cmp.Compare(a.DType.String(), b.DType.String()),
		cmp.Compare(a.Weight.String(), b.Weight.String()),
		cmp.Compare(a.N, b.N),
		cmp.Compare(a.M, b.M),
	)
}
