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

// A finalist is a variant in the finals of a search.
type finalist struct {
	*Arm
	index int  // into the job's variants
	base  bool // it is what runs untuned
	entry bool // it is the checked-in entry
	check *kernels.Check
}

func (f *finalist) runs() bool { return f.Failure == nil && len(f.Rounds) > 0 }

// tieBand is how much slower the checked-in entry may be than the fastest, relatively, and still be
// chosen: two sweeps of one device differ by as much. The band is wider if two copies of the base
// differ by more.
const tieBand = 0.01

// leastRounds are the fewest of the finals from which verdict.Gain has an interval.
const leastRounds = 6

// freshSeed draws other inputs than a search's.
const freshSeed = 0x5851f42d4c957f2d

// finals measures the best of a search again, with the base, what the job keeps, a second copy of
// the base and the stream, in rounds of random order, chooses the winner, and checks it on fresh
// inputs. Its records end with the base's. If less than their time is left, in seconds, fewer are
// measured in fewer rounds: at least the base and the best beside it, in leastRounds; or the base
// alone, if it spent the budget.
func (m *measurer) finals(ctx context.Context, b *search.Board, left float64, short bool) (
	recs []*record.Record, err error) {
	o := m.v.run.o.Search
	n := m.finalists(b, left, short)
	var fs []*finalist
	var arms []*Arm
	for _, i := range b.Finalists(n) {
		v := m.j.Variants[i]
		fs = append(fs, &finalist{Arm: &Arm{Variant: v}, index: i, base: v == m.j.Base,
			entry: v == m.j.Checked})
		arms = append(arms, fs[len(fs)-1].Arm)
	}
	base := slices.IndexFunc(fs, func(f *finalist) bool { return f.base })
	second, stream := &Arm{Variant: m.j.Base}, &Arm{Variant: m.Stream()}
	if base >= 0 {
		arms = append(arms, second)
	}
	least := leastRounds
	if len(fs) == 1 {
		least = 1 // nothing is compared
	}
	start, before := time.Now(), m.Busy
	over := func() bool { return max(time.Since(start).Seconds(), m.Busy-before) > left }
	rounds := &Rounds{Session: m.Session, Launches: FinalLaunches, Rejects: o.Rounds,
		More: func(n int) bool { return n < o.Rounds && (n < least || !over()) }}
	if err := rounds.Run(ctx, append(arms, stream)); err != nil {
		return nil, err
	}
	if len(stream.Rounds) > 0 {
		m.stream = stats.Median(stream.Rounds)
	}
	winner, why, err := m.choose(ctx, fs, second, base)
	if err != nil {
		return nil, err
	}
	for i, f := range fs {
		rec, err := m.finalRecord(ctx, f, b)
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
		if rec.Status != kernels.StatusOK {
			continue
		}
		if i == winner {
			rec.Chosen = why
		}
		if i == base {
			rec.BaseAgainUS = second.Rounds
		}
	}
	if base < 0 {
		failure := b.Failure(slices.Index(m.j.Variants, m.j.Base))
		return append(recs, m.record(&o.Final, m.j.Base, failure)), nil
	}
	last := recs[base]
	return append(slices.Delete(recs, base, base+1), last), nil
}

// finalists is how many there are in the finals: as many as asked, or as there is time for.
func (m *measurer) finalists(b *search.Board, left float64, short bool) int {
	n := m.v.run.o.Search.Finals
	if short {
		return 1
	}
	if launches := b.Spent().Launches; !math.IsInf(left, 1) && launches > 0 {
		// The time per launch so far includes the flush and the checks.
		visit := m.Busy / float64(launches) * float64(FinalLaunches+m.Protocol.Discard)
		// The second copy and the stream are visited too.
		n = min(max(int(left/visit/leastRounds)-2, 2), n)
	}
	return n
}

// pickWinner is the winner of the finals. The base stays unless the rounds prove another
// ahead (verdict.IsAhead, with floor of two copies of the base). Of those that are, the winner is the
// checked-in entry if it is within the band of the fastest, else the fastest by the median of its
// rounds. It says why, and is -1 where none is left.
func pickWinner(fs []*finalist, band, floor float64) (winner int, why string) {
	base := slices.IndexFunc(fs, func(f *finalist) bool { return f.base && f.runs() })
	others := 0
	var ahead []int // the fastest first
	for i, f := range fs {
		if f.base || !f.runs() {
			continue
		}
		others++
		if base < 0 || verdict.IsAhead(fs[base].Rounds, f.Rounds, floor) {
			ahead = append(ahead, i)
		}
	}
	if len(ahead) == 0 {
		return base, map[bool]string{true: "base: nothing else was in the finals",
			false: "base: none is faster beyond doubt"}[others == 0]
	}
	slices.SortStableFunc(ahead, func(a, b int) int {
		return cmp.Compare(stats.Median(fs[a].Rounds), stats.Median(fs[b].Rounds))
	})
	entry := slices.IndexFunc(ahead, func(i int) bool { return fs[i].entry })
	if entry > 0 {
		behind, _, _, _ := verdict.Gain(fs[ahead[entry]].Rounds, fs[ahead[0]].Rounds)
		if behind <= band {
			return ahead[entry], fmt.Sprintf("checked in, within %.1f%% of the fastest", 100*band)
		}
	}
	return ahead[0], "fastest"
}

// choose picks the winner and checks it with other inputs, for its answer and
// for the same bits every time; one that fails there is out, and the next best
// is chosen.
func (m *measurer) choose(ctx context.Context, fs []*finalist, second *Arm, base int) (
	winner int, why string, err error) {
	floor := 0.0
	if base >= 0 && len(second.Rounds) > 0 && len(second.Rounds) == len(fs[base].Rounds) {
		floor, _, _, _ = verdict.Gain(second.Rounds, fs[base].Rounds)
	}
	band := max(tieBand, math.Abs(floor))
	m.Close()
	m.Seed = m.v.run.o.Seed ^ freshSeed>>11
	for {
		if winner, why = pickWinner(fs, band, floor); winner < 0 {
			return -1, "", nil
		}
		f := fs[winner]
		c, err := m.Check(ctx, f.Variant, max(Repeats, 3))
		var failure *kernels.Failure
		switch {
		case ctx.Err() != nil:
			return -1, "", ctx.Err()
		case errors.As(err, &failure):
			f.Failure = kernels.Failf(failure.Status, "on fresh inputs: %s", failure.Reason)
		case err != nil:
			return -1, "", err
		case !c.OK():
			f.Failure = kernels.Failf(kernels.StatusWrong, "on fresh inputs: %s", c.Reason())
		default:
			f.check = &c
			if c.Differing > 0 {
				why = fmt.Sprintf("%s; %d elements change from run to run", why, c.Differing)
			}
			return winner, why, nil
		}
	}
}

// finalRecord is a finalist's record, with the times of its stages.
func (m *measurer) finalRecord(ctx context.Context, f *finalist, b *search.Board) (
	*record.Record, error) {
	if f.Failure == nil && len(f.Samples) == 0 {
		f.Failure = kernels.Failf(kernels.StatusUnfit, "no round of the finals counts")
	}
	rec := m.armRecord(&m.v.run.o.Search.Final, f.Arm)
	if f.Failure == nil {
		rec.SearchUS = b.Median(f.index)
	}
	if f.check != nil {
		rec.Check, rec.Seed = f.check, m.Seed
	}
	rec.Entry = f.entry
	if rec.Status != kernels.StatusOK || f.check == nil && !rec.Base {
		return rec, nil
	}
	err := m.stages(ctx, rec)
	if ctx.Err() != nil || err != nil && FailureOf(err) == nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return rec, nil // the times of the whole stand without those of the stages
}
