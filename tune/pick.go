package tune

import (
	"cmp"
	"slices"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// TieBand is how much faster, relatively, a variant must at least be than the base to be
// picked over it by a grid. Two sweeps of one device differ by about that much, so within
// the band a pick would follow noise and change with every sweep.
const TieBand = 0.01

// beats says whether a grid's times prove e faster than the base: by TieBand, and by intervals of
// the medians that do not meet. Without intervals, of fewer than six samples, nothing is proved.
func beats(e, base *record.Entry) bool {
	m := func(e *record.Entry) verdict.Median { return verdict.Median{US: e.Median, Lo: e.Lo, Hi: e.Hi} }
	return e.Hi > 0 && base.Lo > 0 && verdict.JudgeMedians(m(base), m(e), TieBand, TieBand) == verdict.Faster
}

// Pick returns the table's entries for what was measured: per problem the ok variant with the
// lowest median time, or the base unless that is faster beyond doubt. The stream, peers and
// problems without an ok variant are left out. Entries come in the order of record.CompareProblems.
//
// If a search has chosen, its choice stands, with the numbers of its finals. The numbers of the
// search flatter the choice, because it was chosen by them.
//
// Pass record.File.Latest: of entries that differ only in source or driver,
// the fastest would be taken, however old. Pick is exhaustive over what is
// there; which variants are measured at all is the search's business.
func Pick(entries []record.Entry) []Entry {
	byProblem := map[kernels.Problem][]record.Entry{}
	for _, e := range entries {
		if _, peer := kernels.PeerName(e.Variant.Family); !peer && e.Variant.Family != record.Stream {
			byProblem[e.Problem] = append(byProblem[e.Problem], e)
		}
	}
	var picks []Entry
	for _, es := range byProblem {
		if e, ok := pickFinal(es); ok {
			picks = append(picks, e)
		} else if e, ok := pick(es); ok {
			picks = append(picks, e)
		}
	}
	slices.SortFunc(picks, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	return picks
}

func pick(es []record.Entry) (Entry, bool) {
	var ok []record.Entry
	for _, e := range es {
		// A pick must give the same bits every time, or the user has to ask for it.
		if e.Status == kernels.StatusOK && !e.Unordered && e.Differing == 0 {
			ok = append(ok, e)
		}
	}
	if len(ok) == 0 {
		return Entry{}, false
	}
	slices.SortFunc(ok, func(a, b record.Entry) int {
		return cmp.Or(cmp.Compare(a.Median, b.Median), cmp.Compare(a.Variant.String(), b.Variant.String()))
	})
	best := 0
	base := slices.IndexFunc(ok, func(e record.Entry) bool { return e.Base })
	if base > 0 && !beats(&ok[0], &ok[base]) {
		best = base
	}
	b := ok[best]
	e := entryOf(&b)
	e.Variants = Counts{Measured: len(es), OK: len(ok), Failed: len(es) - len(ok)}
	if base >= 0 {
		o := ok[base]
		e.Base = rivalOf(&o)
		e.Speedup = round(o.Median / b.Median)
	}
	if len(ok) > 1 {
		o := ok[0]
		if best == 0 {
			o = ok[1]
		}
		e.RunnerUp = &RunnerUp{*rivalOf(&o), round(100 * (o.Median/b.Median - 1))}
	}
	return e, true
}

// entryOf is an entry with the numbers of what is picked.
func entryOf(b *record.Entry) Entry {
	e := Entry{Problem: b.Problem, Family: b.Variant.Family, Config: b.Variant.Config, Source: b.Source,
		MedianUS: b.Median, Samples: b.N, StreamUS: b.StreamUS}
	if b.Run != nil {
		e.Run = b.Run.ID
	}
	if b.Lo > 0 {
		e.CIUS = []float64{b.Lo, b.Hi}
	}
	if b.StreamUS > 0 {
		e.StreamPercent = round(100 * b.StreamUS / b.Median)
	}
	return e
}

func rivalOf(e *record.Entry) *Rival {
	return &Rival{Family: e.Variant.Family, Config: e.Variant.Config, MedianUS: e.Median}
}
