package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/record"
)

// WidthOf returns the width of a problem: it without its rows. Where a row's bits must not depend on how many rows
// there are, all problems of a width run one config.
func WidthOf(p kernels.Problem) kernels.Problem {
	p.M = 0
	return p
}

// A widthChoice is one variant for all problems of a width that were measured.
type widthChoice struct {
	entries []Entry // of each problem
	cost    float64 // geometric mean of their times over what each problem would have alone
}

// pickForWidth picks one variant for the outcomes of problems of one width: of those that are right on all of
// them and that accepts, the one with the least geometric mean of times. It picks none where there is none.
// Problems on which no variant is right do not count.
func pickForWidth(problems [][]record.Outcome, accepts func(kernels.Variant) bool) (c widthChoice) {
	type score struct {
		variant kernels.Variant
		right   int
		logUS   float64
	}
	var scores []score
	var free []*record.Outcome // what each problem would have alone
	var arms [][]*record.Outcome
	for _, es := range problems {
		won, among := choose(es)
		if won == nil {
			continue
		}
		free, arms = append(free, won), append(arms, among)
		for _, o := range among {
			if !isUsable(o) || !o.Rivals() {
				continue
			}
			i := slices.IndexFunc(scores, func(s score) bool { return s.variant == o.Variant })
			if i < 0 {
				i, scores = len(scores), append(scores, score{variant: o.Variant})
			}
			scores[i].right++
			scores[i].logUS += math.Log(o.Median)
		}
	}
	scores = slices.DeleteFunc(scores, func(s score) bool { return s.right < len(free) })
	slices.SortFunc(scores, func(a, b score) int {
		return cmp.Or(cmp.Compare(a.logUS, b.logUS), cmp.Compare(a.variant.String(), b.variant.String()))
	})
	best := slices.IndexFunc(scores, func(s score) bool { return accepts(s.variant) })
	if best < 0 {
		return c
	}
	logs := 0.0
	for i, among := range arms {
		at := slices.IndexFunc(among, func(o *record.Outcome) bool { return o.Variant == scores[best].variant })
		over := among[at].Median / free[i].Median
		e := newPick(among[at], among)
		e.BatchInvariant = round(over)
		if among[at].Final != nil {
			e.SearchUS, e.Chosen = among[at].Final.SearchUS, "one config for all rows"
		}
		logs += math.Log(over)
		c.entries = append(c.entries, e)
	}
	c.cost = math.Exp(logs / float64(len(arms)))
	return c
}

// ConcludeWidths is Conclude of a batch-invariant sweep: the problems asked for that differ in their rows alone get
// one variant. accepts is asked of a variant that is to be picked for problems.
func (f *Fold) ConcludeWidths(asked map[kernels.Problem]bool, accepts func(ps []kernels.Problem, v kernels.Variant) bool,
	each func(p kernels.Problem, variants []*record.Outcome, picks []Entry)) (notes []string, err error) {
	var order []kernels.Problem
	widths := map[kernels.Problem][][]record.Outcome{}
	for es := range f.current() {
		es = slices.DeleteFunc(es, func(o record.Outcome) bool { return !competes(&o) })
		if len(es) == 0 {
			continue
		}
		if p := es[0].Problem; asked[p] {
			if widths[WidthOf(p)] == nil {
				order = append(order, WidthOf(p))
			}
			widths[WidthOf(p)] = append(widths[WidthOf(p)], es)
		}
	}
	f.table.Entries = nil
	logs, n, most := 0.0, 0, 1.0
	var none []string
	for _, width := range order {
		var ps []kernels.Problem
		for _, es := range widths[width] {
			ps = append(ps, es[0].Problem)
		}
		c := pickForWidth(widths[width], func(v kernels.Variant) bool { return accepts(ps, v) })
		if len(c.entries) == 0 {
			none = append(none, fmt.Sprintf("%s/%s of %d columns", width.Op, width.Pass, width.N))
		}
		f.table.Entries = append(f.table.Entries, c.entries...)
		for _, e := range c.entries {
			logs, n, most = logs+math.Log(e.BatchInvariant), n+1, max(most, e.BatchInvariant)
		}
		for _, es := range widths[width] {
			var variants []*record.Outcome
			for i := range es {
				variants = append(variants, &es[i])
			}
			of := func(e Entry) bool { return e.Problem == es[0].Problem }
			i := slices.IndexFunc(c.entries, of)
			each(es[0].Problem, variants, c.entries[max(i, 0):max(i+1, 0)])
		}
	}
	if n > 0 {
		notes = append(notes, fmt.Sprintf("batch-invariant: %.2fx of free choice, at most %.2fx, over %s of %s",
			math.Exp(logs/float64(n)), most, console.Count(n, "problem"), console.Count(len(order)-len(none), "width")))
	}
	if len(none) > 0 {
		notes = append(notes, "no config is right on all rows: "+strings.Join(none, ", ")+": no entry")
	}
	f.table.addRuns(f.records.Runs...)
	if f.table.Protocol.Phase == record.PhaseFinal {
		f.table.countSearched(f.searched(f.isCurrent))
	}
	notes = append(notes, f.table.complete()...)
	wrote, err := f.write()
	return append(notes, wrote...), err
}
