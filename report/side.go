package report

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
)

// SideOf is the operand of the fastest right entry of each problem that keep wants or, where none
// is right, of one that failed.
func SideOf(label string, entries iter.Seq[*record.Outcome], keep func(*record.Outcome) bool) Side {
	best := map[kernels.Problem]*record.Outcome{}
	for x := range entries {
		if x.Variant.Family == record.Stream || !keep(x) {
			continue
		}
		o := best[x.Problem]
		if o == nil || x.Status == kernels.StatusOK &&
			(o.Status != kernels.StatusOK || x.Median < o.Median) {
			best[x.Problem] = new(*x)
		}
	}
	s := Side{Label: label, Cells: map[kernels.Problem]Measurement{}}
	for p, x := range best {
		s.Cells[p] = Measurement{Outcome: *x}
	}
	return s
}

// runs are those of the cells, each as often as it measured one.
func (s Side) runs() (list []*record.Run) {
	for _, c := range s.Cells {
		list = append(list, c.run())
	}
	return list
}

// distinct are the runs that are known, the oldest first. (A tuned table knows little of its own.)
func distinct(runs []*record.Run) []*record.Run {
	by := map[string]*record.Run{}
	for _, r := range runs {
		if r.Device.ID != "" {
			by[r.ID] = r
		}
	}
	return slices.SortedFunc(maps.Values(by), func(a, b *record.Run) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
}

// Title names the devices and protocols that a comparison is of.
func (c *Comparison) Title() string {
	title := "Speed against the stream"
	card := func(r *record.Run) string { return cmp.Or(r.Device.Name, r.Device.ID) }
	if devices := words(card, c.Runs); len(devices) > 0 {
		title += " on " + strings.Join(devices, ", ")
	}
	return strings.Join(append([]string{title}, words(protocolName, c.Runs)...), ", ")
}
