package tune

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// TieBand is the fraction by which a variant must at least be faster than the base for a grid to pick
// it. Two sweeps of one device differ by about that much: within the band a pick would follow noise and
// change with every sweep.
const TieBand = 0.01

// beats says whether a grid's times prove e faster than the base: by TieBand, and by intervals of the
// medians that do not overlap. Fewer than six samples have no interval and prove nothing.
func beats(e, base *record.Outcome) bool {
	return e.Hi > 0 && base.Lo > 0 &&
		verdict.JudgeMedians(base.Summary, e.Summary, TieBand, TieBand) == verdict.Faster
}

// Pick makes the table's entries: for each problem the variant with the lowest median time, or the base
// unless that variant is faster beyond doubt. It leaves out the stream, peers and problems without a
// right variant. Entries come in the order of record.CompareProblems.
//
// In a sweep of one family no other family's variant is picked. The choice of a search stands, with the
// numbers of its finals: those of the search itself flatter the choice, because it was chosen by them.
//
// Pass record.File.LatestOutcomes: among outcomes that differ only in source or driver Pick takes the
// fastest, however old.
func Pick(entries []record.Outcome) []Entry {
	byProblem := map[kernels.Problem][]record.Outcome{}
	for _, e := range entries {
		if competes(&e) {
			byProblem[e.Problem] = append(byProblem[e.Problem], e)
		}
	}
	var picks []Entry
	for _, es := range byProblem {
		if e, ok := pickEntry(es); ok {
			picks = append(picks, e)
		}
	}
	slices.SortFunc(picks, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	return picks
}

// competes says whether an outcome is of a kernel of ours or of the user's: not of the stream, nor of a peer.
func competes(o *record.Outcome) bool {
	_, peer := kernels.PeerName(o.Variant.Family)
	return !peer && o.Variant.Family != record.Stream
}

// byTime orders outcomes, the fastest first, equal ones by name.
func byTime(a, b *record.Outcome) int {
	return cmp.Or(cmp.Compare(a.Median, b.Median), cmp.Compare(a.Variant.String(), b.Variant.String()))
}

// pickEntry makes the entry of one problem; false where no variant is right.
func pickEntry(es []record.Outcome) (Entry, bool) {
	won, arms := choose(es)
	if won == nil {
		return Entry{}, false
	}
	return newPick(won, arms), true
}

// choose finds what a search has chosen, or the fastest of a grid, and what it was chosen among: nil where no
// variant is right.
func choose(es []record.Outcome) (won *record.Outcome, arms []*record.Outcome) {
	if won, arms = findChosen(es); won == nil {
		won, arms = pickFastest(es)
	}
	return won, arms
}

// newPick makes the entry of an outcome that was picked among arms.
func newPick(won *record.Outcome, arms []*record.Outcome) Entry {
	slices.SortFunc(arms, byTime)
	e := newEntry(won)
	for _, o := range arms {
		ok := isUsable(o)
		if o.Rivals() {
			e.Variants.add(ok)
		}
		if !ok {
			continue
		}
		of, rival := o.Finals(), &Rival{Family: o.Variant.Family, Config: o.Variant.Config, MedianUS: o.Median}
		gain, lo, hi, paired := verdict.Gain(of.Rounds, won.Finals().Rounds)
		if paired {
			rival.GainLo = round(lo)
		}
		if o.Base {
			e.Base = rival
			e.Speedup = round(o.Median / won.Median)
			if paired && o.Variant != won.Variant { // what drifts between rounds cancels
				e.Speedup = round(1 + gain)
				e.SpeedupCI = []float64{round(1 + lo), round(1 + hi)}
			}
			if floor, _, _, ok := verdict.Gain(of.BaseAgain, of.Rounds); ok {
				e.Noise = round(math.Abs(floor))
			}
		}
		if of.Entry {
			e.Held = rival
		}
		if o.Default {
			e.Default = rival
		}
		if o.Variant != won.Variant && e.RunnerUp == nil && o.Rivals() {
			e.RunnerUp = &RunnerUp{*rival, round(100 * (o.Median/won.Median - 1))}
		}
	}
	return e
}

// isUsable says whether an outcome may be picked: its variant gives the same bits every time, or was in
// finals, as whoever asked for other bits gets a note.
func isUsable(e *record.Outcome) bool {
	return e.Status == kernels.StatusOK && (e.Final != nil || !e.Unordered && e.Differing == 0)
}

// findChosen finds the variant that a search has chosen, nil for none, and the finals of its run. Of
// several searches it takes the last in the file, not the latest date, as clocks are set back.
func findChosen(es []record.Outcome) (won *record.Outcome, finals []*record.Outcome) {
	for i := range es {
		e := &es[i]
		if e.Finals().Chosen != "" && e.Status == kernels.StatusOK &&
			(won == nil || e.Finals().Place > won.Finals().Place) {
			won = e
		}
	}
	if won == nil {
		return nil, nil
	}
	for i := range es {
		if es[i].Run == won.Run {
			finals = append(finals, &es[i])
		}
	}
	// What is chosen is ahead of the base by its rounds. Where the medians of all samples have the
	// base ahead, nothing is proved.
	for _, o := range finals {
		if o.Base && o.Status == kernels.StatusOK && o.Median < won.Median {
			of, base := o.Finals(), *o
			of.Chosen = "base: none is faster beyond doubt"
			base.Final = &of
			return &base, finals
		}
	}
	return won, finals
}

// pickFastest finds the fastest variant of a grid, or the base unless another is faster beyond doubt. It
// also returns all outcomes.
func pickFastest(es []record.Outcome) (best *record.Outcome, all []*record.Outcome) {
	var base *record.Outcome
	for i := range es {
		e := &es[i]
		if all = append(all, e); !isUsable(e) || !e.Rivals() {
			continue
		}
		if e.Base {
			base = e
		}
		if best == nil || byTime(e, best) < 0 {
			best = e
		}
	}
	if base != nil && best != base && !beats(best, base) {
		best = base
	}
	return best, all
}

// newEntry makes an entry with the numbers of the picked outcome.
func newEntry(b *record.Outcome) Entry {
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
	if of := b.Finals(); of.Chosen != "" {
		e.SearchUS, e.Chosen, e.Unstable = of.SearchUS, of.Chosen, b.Differing > 0
	}
	return e
}

// countSearched counts, in each entry that a search chose, the variants that the search measured.
func (t *TunedTable) countSearched(entries record.Outcomes) {
	at := map[kernels.Problem]*Counts{}
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Chosen != "" {
			e.Variants = Counts{}
			at[e.Problem] = &e.Variants
		}
	}
	for _, e := range entries {
		if c := at[e.Problem]; c != nil && e.Variant.Family != record.Stream {
			c.add(e.Status == kernels.StatusOK)
		}
	}
}
