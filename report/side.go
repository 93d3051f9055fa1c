package report

import (
	"cmp"
	"iter"
	"slices"
	"strings"

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
		if o == nil || x.Status == kernels.StatusOK &&
			(o.Status != kernels.StatusOK || x.Median < o.Median) {
			best[x.Problem] = new(*x)
		}
	}
	s := Side{Label: label, Cells: map[kernels.Problem]Cell{}}
	for p, x := range best {
		s.Cells[p] = Cell{Entry: *x}
	}
	return s
}

// RunsOf are the runs that measured the cells of sides, the oldest first.
func RunsOf(sides ...Side) (runs []*record.Run) {
	for _, side := range sides {
		for _, c := range side.Cells {
			run := c.run() // a tuned table knows little of it
			if run.Device.ID != "" &&
				!slices.ContainsFunc(runs, func(r *record.Run) bool { return r.ID == run.ID }) {
				runs = append(runs, run)
			}
		}
	}
	slices.SortFunc(runs, func(a, b *record.Run) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	return runs
}

// OperandHelp is the grammar of recorded operands in words, for hints.
const OperandHelp = "an operand is a records file or results folder, with #base, #peers, " +
	"#FAMILY, #FAMILY@LABEL or #peer:NAME behind it if need be, or tuned:FILE"

// TitleOf names the devices and protocols that arms are of.
func TitleOf(arms []Side) string {
	title := "Speed against the stream"
	card := func(c Cell) string { return cmp.Or(c.run().Device.Name, c.run().Device.ID) }
	if devices := words(card, arms...); len(devices) > 0 {
		title += " on " + strings.Join(devices, ", ")
	}
	protocol := func(c Cell) string { return c.run().Protocol.Name }
	if protocols := words(protocol, arms...); len(protocols) > 0 {
		title += ", " + strings.Join(protocols, ", ")
	}
	return title
}
