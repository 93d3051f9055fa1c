package report

import (
	"iter"

	"normbench/kernels"
	"normbench/sweep/record"
)

// SideOf is the operand of the fastest right entry of each problem that keep wants or, where none
// is right, of one that failed.
func SideOf(label string, entries iter.Seq[*record.Entry], keep func(*record.Entry) bool) Side {
	best := map[kernels.Problem]*record.Entry{}
	for x := range entries {
		if x.Variant.Family == record.Stream || !keep(x) {
			continue
		}
		o := best[x.Problem]
		if o == nil || x.Status == kernels.StatusOK && (o.Status != kernels.StatusOK || x.Median < o.Median) {
			best[x.Problem] = new(*x)
		}
	}
	s := Side{Label: label, Cells: map[kernels.Problem]Cell{}}
	for p, x := range best {
		s.Cells[p] = CellOf(*x)
	}
	return s
}
