package sweep

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/search"
)

// SearchOptions say how Run looks for winners.
type SearchOptions struct {
	Strategy string
	Budget   search.Budget
	Final    record.Run      // the run under which the winners are measured again
	Finals   int             // variants in the finals, beside the base and what a task keeps
	Rounds   int             // of the finals
	Launches int             // of a visit in the finals, beside those that are dropped; 0 is FinalLaunches
	Known    *search.History // of problems before, to which the run adds its own; SearchBy makes an empty one
}

// IsGrid says whether everything is measured, and nothing searched for.
func (s *SearchOptions) IsGrid() bool { return s.Strategy == search.Grid }

// FinalRounds are the rounds of the finals unless asked otherwise, FinalLaunches the launches of a
// visit. On a cpu it is one: other programs slow a whole visit, and one spoiled round of twelve leaves
// no proof. As many samples in 24 rounds find a base that is slowed by half in 61 of 64 cells where 12
// rounds of three find it in 40 (TestSweepIsRarelyWrongOnANoisyMachine).
const (
	// FinalRounds is the default number of rounds of the finals, FinalLaunches the launches of a visit.
	// On a CPU it is one: other programs slow a whole visit, and one spoiled round of twelve leaves no
	// proof. As many samples in 24 rounds find a base that is slowed by half in 61 of 64 problems where
	// 12 rounds of three find it in 40 (TestSweepRates).
	FinalRounds   = 24
	FinalLaunches = 2
	CPULaunches   = 1
)

// SearchBy turns a grid's run into a search. It changes the protocol of the run and makes that of its
// finals.
func (o *RunOptions) SearchBy(s *SearchOptions) {
	o.Search = s
	pr := &o.Run.Protocol
	pr.Search = strings.TrimSpace(s.Strategy + " " + s.Budget.String())
	s.Final = o.Run
	s.Final.ID += record.FinalsSuffix
	s.Launches, s.Known = cmp.Or(s.Launches, FinalLaunches), cmp.Or(s.Known, &search.History{})
	s.Final.Protocol.Phase, s.Final.Protocol.Samples = record.PhaseFinal, s.Rounds*s.Launches
	pr.Phase = record.PhaseSearch
}

// unsearchedVariants lists all variants of a task that must be searched, none of one that was. It was
// searched if its base has a record of finals, which is the last that a search writes. Searches in other
// families have the base too, so one must also have seen all variants that this task keeps, and another
// variant.
func (r *runState) unsearchedVariants(t Task) []kernels.Variant {
	final := r.options.Search.Final.Protocol
	seen, others := 0, len(t.Variants) == 1
	for _, v := range t.Variants {
		known := false
		for _, pr := range []record.Protocol{r.options.Run.Protocol, final} {
			if _, ok := r.store.Status(r.key(&t, v, pr)); ok {
				known = true
				seen++
			}
		}
		others = others || known && v != t.Base
		if !known && slices.Contains(t.Keep, v) {
			return t.Variants
		}
	}
	if !others || !r.hasRecord(r.key(&t, t.Base, final)) {
		return t.Variants
	}
	r.totals.Skipped += seen
	return nil
}

// CheckBudget refuses a budget with fewer configs than there are problems, as each needs its base.
func CheckBudget(b search.Budget, problems int) error {
	if b.Configs > 0 && b.Configs < problems {
		return hint.Errorf(fmt.Sprintf("give %d or more, or fewer --shapes", problems),
			"budget %s is too small to measure the bases of %d problems", b, problems)
	}
	return nil
}

// NewShortBudgetError makes the error of a budget that was spent by the bases of n problems, the first
// of which is p. took is how long these took, from which the hint computes a budget that is enough.
func NewShortBudgetError(p kernels.Problem, n int, budget string, took time.Duration) error {
	what := "the base of " + p.String()
	if n > 1 {
		what = fmt.Sprintf("the bases of %d problems", n)
	}
	least := (4*took + time.Second - 1).Truncate(time.Second) // so that something is found
	return hint.Errorf(fmt.Sprintf("give %s or more, or leave --budget out", least),
		"budget %s is spent by %s alone", budget, what)
}

// noteSpent adds what the search of a job has used to the run's total, and takes its variants off those
// to come. It is called for a job that could not be opened too, as its share is then for others.
func (m *searchMeasurer) noteSpent() {
	run := m.loop.run
	run.mu.Lock()
	defer run.mu.Unlock()
	run.spent.Seconds += m.spent.Seconds
	run.spent.Configs += m.spent.Configs
	run.toCome -= len(m.job.Variants)
}

// search looks for the problem's winner, measures the best again in finals, and sends all records as one
// append.
func (m *searchMeasurer) search(ctx context.Context) error {
	o := m.loop.run.options.Search
	space := m.loop.candidates(m.job)
	start := time.Now()
	share := space.Allow.Seconds
	space.Allow.Seconds *= searchShare
	board, err := search.Drive(ctx, o.Strategy, space, m)
	if ctx.Err() != nil {
		return ctx.Err() // what it says may be of the stopping
	}
	if err != nil {
		return err
	}
	recs := m.records(board)
	for _, rec := range recs {
		rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3 / float64(len(recs))
	}
	left := math.Inf(1)
	if share > 0 {
		left = share - max(m.Busy, time.Since(m.begun).Seconds())
	}
	var finals []*record.Record
	err = m.loop.takeTurn(ctx, func() (err error) {
		finals, err = m.finals(ctx, board, left)
		return err
	})
	if ctx.Err() != nil || err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	o.Known.Add(board)
	m.spent = board.Spent()
	m.spent.Seconds = max(m.Busy, time.Since(m.begun).Seconds()) // a replay takes less than it tells
	for _, rec := range finals {
		rec.Finals = len(finals)
	}
	recs = append(recs, finals...)
	m.loop.send(batch{recs: recs, busy: m.Busy, searched: true, short: board.Short})
	return nil
}

// searchShare is the part of a problem's share of a time budget that its search may use. The rest is for
// its finals.
const searchShare = 0.6

// candidates makes the space of a job's search: its variants, those to keep, and what it may use.
func (v *deviceLoop) candidates(j *job) *search.Candidates {
	o := v.run.options.Search
	s := &search.Candidates{Problem: j.Problem, SMs: v.run.info.SMs, Variants: j.Variants, Known: o.Known,
		Full: v.run.options.Run.Protocol.Samples, Noise: v.noise, Seed: v.run.options.Seed}
	for _, k := range append([]kernels.Variant{j.Base}, j.Keep...) {
		s.Keep = append(s.Keep, slices.Index(j.Variants, k))
	}
	v.run.mu.Lock()
	defer v.run.mu.Unlock()
	b := o.Budget
	b.Time *= time.Duration(v.run.loops) // who waits, waits for all of them at once
	s.Allow = b.Allow(len(j.Variants), v.run.toCome, v.run.spent)
	return s
}

// Announce implements search.Measurer.
func (m *searchMeasurer) Announce(vs []kernels.Variant) { m.loop.dev.Prefetch(m.job.Problem, vs) }

// Visit implements search.Measurer. busy includes compiling, for which a person waits, but not the turns
// of other loops.
func (m *searchMeasurer) Visit(ctx context.Context, v kernels.Variant, launches int) (
	us []float64, busy float64, err error) {
	start, before, waited := time.Now(), m.Busy, m.loop.waited
	us, err = m.visit(ctx, v, launches)
	return us, max(m.Busy-before, (time.Since(start) - m.loop.waited + waited).Seconds()), err
}

// records makes the records of the search's visits, in the order of first visits.
func (m *searchMeasurer) records(b *search.Board) []*record.Record {
	var recs []*record.Record
	for _, i := range b.Order() {
		rec := m.record(&m.loop.run.options.Run, m.job.Variants[i], b.Failure(i))
		if rec.Status == kernels.StatusOK {
			rec.SamplesUS = b.Samples(i)
			if n := b.Visits(i); len(n) > 1 {
				rec.Visits = n
			}
		}
		recs = append(recs, rec)
	}
	return recs
}
