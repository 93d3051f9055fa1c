package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// tieBand is the fraction by which the checked-in entry may be slower than the fastest and still be
// chosen: two sweeps of one device differ by as much. The band is wider if two copies of the base differ
// by more.
const tieBand = 0.01

// leastRounds is the number of rounds from which verdict.Gain has an interval.
const leastRounds = 6

// freshSeed changes the seed of a search's inputs, so that its winner is checked on others.
const freshSeed = 0x5851f42d4c957f2d

// CPUFinals is the number of variants in the finals of a search on a CPU, beside the base and those to
// keep. A sample there is mostly the flush, of milliseconds. The fewer variants there are, the more the
// rounds prove: each has a larger share of verdict.Rule's Alpha.
const CPUFinals = 4

// finals measures the best variants of a search again, in rounds of random order with the base, a second
// copy of the base, the variants to keep and the stream. Then it chooses the winner and checks it on
// fresh inputs. The base's record is the last that it returns.
//
// left is the time that is left, in seconds. Where it is short, fewer variants are measured in fewer
// rounds: at least the base and the best beside it in leastRounds, or the base alone if it spent the
// budget.
func (m *searchMeasurer) finals(ctx context.Context, b *search.Board, left float64) (
	recs []*record.Record, err error) {
	o := m.loop.run.options.Search
	in := b.Finalists(m.countFinalists(b, left))
	f := &finalState{task: &m.job.Task, base: -1, entry: -1, winner: -1, second: &Arm{Variant: m.job.Base},
		strict: m.loop.run.info.Kind == kernels.KindCPU}
	for i, k := range in {
		v := m.job.Variants[k]
		f.arms = append(f.arms, &Arm{Variant: v})
		if v == m.job.Base {
			f.base = i
		}
		if v == m.job.Checked {
			f.entry = i
		}
	}
	stream := &Arm{Variant: m.Stream()}
	visited := append(slices.Clone(f.arms), stream)
	if f.base >= 0 {
		visited = slices.Insert(visited, len(in), f.second)
	}
	least := leastRounds
	if len(in) == 1 {
		least = 1 // nothing is compared
	}
	start, before := time.Now(), m.Busy
	over := func() bool { return max(time.Since(start).Seconds(), m.Busy-before) > left }
	rounds := &RoundRunner{Session: m.Session, Launches: o.Launches, Rejects: o.Rounds,
		More: func(n int) bool { return n < o.Rounds && (n < least || !over()) }}
	if err := rounds.Run(ctx, visited); err != nil {
		return nil, err
	}
	if len(stream.Rounds) > 0 {
		m.stream = stats.Median(stream.Rounds)
	}
	if err := m.chooseWinner(ctx, f); err != nil {
		return nil, err
	}
	for i, k := range in {
		rec, err := m.finalRecord(ctx, f, i, b.Median(k))
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	if f.base < 0 {
		failure := b.Failure(slices.Index(m.job.Variants, m.job.Base))
		return append(recs, m.record(&o.Final, m.job.Base, failure)), nil
	}
	last := recs[f.base]
	return append(slices.Delete(recs, f.base, f.base+1), last), nil
}

// countFinalists computes how many variants the finals have: as many as asked, or as there is time for.
func (m *searchMeasurer) countFinalists(b *search.Board, left float64) int {
	o := m.loop.run.options.Search
	n := o.Finals
	if b.Short {
		return 1
	}
	if launches := b.Spent().Launches; !math.IsInf(left, 1) && launches > 0 {
		// The time per launch so far includes the flush and the checks.
		visit := m.Busy / float64(launches) * float64(o.Launches+m.Protocol.Discard)
		// The second copy and the stream are visited too.
		n = min(max(int(left/visit/leastRounds)-2, 2), n)
	}
	return n
}

// A finalState says who is in the finals of a search, and who won. Indices are into its arms, -1 for
// none.
type finalState struct {
	arms        []*Arm
	task        *Task
	base, entry int  // what runs untuned; the checked-in entry
	second      *Arm // another copy of the base
	strict      bool // the winner must be FASTER
	winner      int
	why         string
	check       *kernels.Check // of the winner, on fresh inputs
}

// pickWinner sets the winner of the finals and why it won. The base wins unless rounds prove others
// faster (isAhead). Of those, the checked-in entry wins if it is within the band of the fastest, else
// the fastest by the median of its rounds. The winner is -1 where no arm is left.
func (f *finalState) pickWinner() {
	runs := func(i int) bool { return i >= 0 && f.arms[i].Failure == nil && len(f.arms[i].Rounds) > 0 }
	floor, others := 0.0, 0
	if f.base >= 0 {
		floor, _, _, _ = verdict.Gain(f.second.Rounds, f.arms[f.base].Rounds)
	}
	band := max(tieBand, math.Abs(floor))
	var ahead []int // the fastest first
	for i, a := range f.arms {
		if i == f.base || !runs(i) || !f.task.Rivals(a.Variant) {
			continue
		}
		others++
		if !runs(f.base) || f.isAhead(a, floor) {
			ahead = append(ahead, i)
		}
	}
	f.winner, f.why = -1, ""
	if runs(f.base) {
		if f.winner, f.why = f.base, "base: none is faster beyond doubt"; others == 0 {
			f.why = "base: nothing else was in the finals"
		}
	}
	if len(ahead) == 0 {
		return
	}
	slices.SortStableFunc(ahead, func(a, b int) int {
		return cmp.Compare(stats.Median(f.arms[a].Rounds), stats.Median(f.arms[b].Rounds))
	})
	f.winner, f.why = ahead[0], "fastest"
	if slices.Index(ahead, f.entry) > 0 {
		behind, _, _, _ := verdict.Gain(f.arms[f.entry].Rounds, f.arms[ahead[0]].Rounds)
		if behind <= band {
			f.winner, f.why = f.entry, fmt.Sprintf("checked in, within %.1f%% of the fastest", 100*band)
		}
	}
}

// isAhead says whether an arm may win in place of the base. floor is the relative difference between the
// two copies of the base.
//
// On a GPU a wrong choice among ties costs little, so verdict.IsAhead is enough. On a CPU the noise of
// other programs would choose another variant each time. There the arm must be FASTER than both copies
// of the base, by the rule and half the share of Alpha that the table has. A copy that met more noise than
// the other makes an arm look fast against it alone. The share is halved because, on a machine that is
// busy all the time, the signed ranks of two copies scatter more than chance allows.
func (f *finalState) isAhead(a *Arm, floor float64) bool {
	base := f.arms[f.base]
	if !f.strict {
		return verdict.IsAhead(base.Rounds, a.Rounds, floor)
	}
	faster := func(than, again *Arm) bool {
		step := stats.TimerStep(slices.Concat(than.Samples, a.Samples))
		j := verdict.JudgeRounds(than.Rounds, a.Rounds, again.Rounds, step, 2*(len(f.arms)-1))
		return j.Verdict == verdict.Faster
	}
	return faster(base, f.second) && faster(f.second, base)
}

// chooseWinner picks the winner and checks it on fresh inputs: its answers, and that its bits are the
// same every time. A winner that fails is out, and the next best is picked.
func (m *searchMeasurer) chooseWinner(ctx context.Context, f *finalState) error {
	m.Seed = m.loop.run.options.Seed ^ freshSeed>>11
	defer func() {
		if m.Draw != kernels.DrawUnit {
			m.Close()
			m.Draw = kernels.DrawUnit
		}
	}()
	for f.pickWinner(); f.winner >= 0; f.pickWinner() {
		a := f.arms[f.winner]
		// Rows with a mean first: the stages are timed behind the other draw.
		mean, err := m.checkFresh(ctx, a, kernels.DrawMean, 1)
		if err != nil || mean == nil {
			if err != nil {
				return err
			}
			continue
		}
		if f.check, err = m.checkFresh(ctx, a, kernels.DrawUnit, max(Repeats, 3)); err != nil {
			return err
		}
		if f.check != nil {
			if f.check.Differing > 0 {
				f.why = fmt.Sprintf("%s; %d elements change from run to run", f.why, f.check.Differing)
			}
			return nil
		}
	}
	return nil
}

// checkFresh checks an arm on inputs drawn anew. Where the answer is wrong it sets the arm's Failure and
// returns no check.
func (m *searchMeasurer) checkFresh(ctx context.Context, a *Arm, draw kernels.Draw, repeats int) (*kernels.Check, error) {
	m.Close()
	m.Draw = draw
	c, err := m.Check(ctx, a.Variant, repeats)
	on := "on fresh inputs"
	if draw != kernels.DrawUnit {
		on += " of " + draw.About()
	}
	var failure *kernels.Failure
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &failure):
		a.Failure = kernels.Failf(failure.Status, "%s: %s", on, failure.Reason)
		return nil, nil
	case err != nil:
		return nil, err
	case !c.OK():
		a.Failure = kernels.Failf(kernels.StatusWrong, "%s: %s", on, c.Reason())
		return nil, nil
	}
	return &c, nil
}

// finalRecord makes the record of arm i of the finals. The winner's and the base's have the times of
// their stages, which are taken here.
func (m *searchMeasurer) finalRecord(ctx context.Context, f *finalState, i int, searchUS float64) (
	*record.Record, error) {
	a := f.arms[i]
	if a.Failure == nil && len(a.Samples) == 0 {
		a.Failure = kernels.Failf(kernels.StatusUnfit, "no round of the finals counts")
	}
	rec := m.armRecord(&m.loop.run.options.Search.Final, a)
	if rec.Entry = i == f.entry; rec.Status != kernels.StatusOK {
		return rec, nil
	}
	rec.SearchUS = searchUS
	if i == f.base {
		rec.BaseAgainUS = f.second.Rounds
	}
	if i == f.winner {
		rec.Chosen, rec.Check, rec.Seed = f.why, f.check, m.Seed
	} else if i != f.base {
		return rec, nil
	}
	err := m.stages(ctx, rec)
	if ctx.Err() != nil || err != nil && FailureOf(err) == nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return rec, nil // the times of the whole stand without those of the stages
}
