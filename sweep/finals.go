package sweep

import (
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

// A finalist is a variant with its visits in the finals.
type finalist struct {
	index   int // into the job's variants
	variant kernels.Variant
	rounds  []float64 // medians of the visits
	samples []float64
	visits  []int
	failure *kernels.Failure
	check   *kernels.Check
}

// leastRounds are the fewest of the finals from which verdict.Gain has an interval.
const leastRounds = 6

// freshSeed draws other inputs than a search's.
const freshSeed = 0x5851f42d4c957f2d

// finals measures the best of a search again, with the base, what the job keeps,
// a second copy of the base and the stream, in rounds of random order, chooses the winner,
// and checks it on fresh inputs. Its records end with the base's. Where less than their time is left, in seconds,
// fewer are measured in fewer rounds: at least the base and the best beside it, in leastRounds; or the base
// alone, where it spent the budget.
func (m *measurer) finals(ctx context.Context, b *search.Board, left float64, short bool) ([]*record.Record, error) {
	leave, err := m.v.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	run := m.v.run
	o := run.o.Search
	var fs []*finalist
	n := o.Finals
	if launches := b.Spent().Launches; !math.IsInf(left, 1) && launches > 0 {
		// The time per launch so far includes the flush and the checks.
		visit := m.busy / float64(launches) * float64(FinalLaunches+run.o.Run.Protocol.Discard)
		n = min(max(int(left/visit/leastRounds)-2, 2), n) // the second copy and the stream are visited too
	}
	if short {
		n = 1
	}
	for _, i := range b.Finalists(n) {
		fs = append(fs, &finalist{index: i, variant: m.j.Variants[i]})
	}
	base := slices.IndexFunc(fs, func(f *finalist) bool { return f.variant == m.j.Base })
	var second finalist
	if base >= 0 {
		second = finalist{variant: m.j.Base}
	}
	stream := finalist{variant: kernels.Variant{Family: run.registry.StreamOf(m.j.Problem)}}
	if err := m.visitAll(ctx, fs, &second, &stream, left); err != nil {
		return nil, err
	}
	if len(stream.rounds) > 0 {
		m.stream = stats.Median(stream.rounds)
	}
	m.starved = n < o.Finals || len(stream.rounds) < o.Rounds && !math.IsInf(left, 1)
	winner, why, err := m.choose(ctx, fs, &second, base)
	if err != nil {
		return nil, err
	}
	var recs []*record.Record
	for i, f := range fs {
		rec, err := m.finalRecord(ctx, f, b)
		if err != nil {
			return nil, err
		}
		if i == winner && rec.Status == kernels.StatusOK {
			rec.Chosen = why
			o.Known.Won(m.j.Problem, f.variant)
		}
		if i == base {
			for _, us := range second.rounds {
				rec.BaseAgainUS = append(rec.BaseAgainUS, math.Round(us*1e4)/1e4)
			}
			if rec.Status != kernels.StatusOK {
				rec.BaseAgainUS = nil
			}
		}
		recs = append(recs, rec)
	}
	if base < 0 {
		rec := m.v.failed(m.j, m.j.Base, m.failureOf(b))
		m.final(rec)
		m.common(rec)
		return append(recs, rec), nil
	}
	last := recs[base]
	return append(slices.Delete(recs, base, base+1), last), nil
}

func (m *measurer) isEntry(v kernels.Variant) bool { return m.j.Entry && v == m.j.Checked }

// failureOf is how the base failed in the search.
func (m *measurer) failureOf(b *search.Board) *kernels.Failure {
	if c := m.checks[m.j.Base]; c != nil && !c.OK() {
		return kernels.Failf(kernels.StatusWrong, "%s", c.Reason())
	}
	return kernels.Failf(kernels.StatusLaunch, "it failed in the search")
}

// visitAll visits all finalists in every round. Rounds in which the device was not
// fit are taken again, as many times as there are rounds. After the least rounds it ends when nothing is left.
func (m *measurer) visitAll(ctx context.Context, fs []*finalist, second, stream *finalist, left float64) error {
	run := m.v.run
	least := leastRounds
	if len(fs) == 1 {
		least = 1 // nothing is compared
	}
	start, before := time.Now(), m.busy
	over := func() bool { return max(time.Since(start).Seconds(), m.busy-before) > left }
	arms := slices.Clone(fs)
	for _, f := range []*finalist{second, stream} {
		if f.variant.Family != "" {
			arms = append(arms, f)
		}
	}
	rng := orders(run.o.Search.Seed, m.j.Problem)
	sensor, senses := m.v.dev.(kernels.Sensor)
	for round, rejected := 0, 0; round < run.o.Search.Rounds && (round < least || !over()); {
		type visit struct {
			f  *finalist
			us []float64
		}
		var visits []visit
		for _, i := range rng.Perm(len(arms)) {
			f := arms[i]
			if f.failure != nil {
				continue
			}
			if err := m.open(ctx, run.o.Seed); err != nil {
				return err
			}
			pr := run.o.Run.Protocol
			t, err := m.bench.Time(ctx, f.variant, pr.TimeOptions(FinalLaunches+pr.Discard))
			if beside(err) && ctx.Err() == nil {
				m.broken(err)
				if err = m.open(ctx, run.o.Seed); err != nil {
					return err
				}
				t, err = m.bench.Time(ctx, f.variant, pr.TimeOptions(FinalLaunches+pr.Discard))
			}
			var failure *kernels.Failure
			if errors.As(err, &failure) && ctx.Err() == nil {
				f.failure = failure
				m.broken(err)
				continue
			} else if err != nil {
				return err
			}
			m.busy += t.Busy
			us := record.Micros(t.Seconds[pr.Discard:])
			if why := tooFast(m.j.Problem, run.info, pr, stats.Median(us)); why != "" {
				f.failure = kernels.Failf(kernels.StatusUnfit, "%s", why)
				continue
			}
			visits = append(visits, visit{f, us})
		}
		if senses {
			state, err := sensor.Sense(ctx)
			var failure *kernels.Failure
			if err != nil && (ctx.Err() != nil || !errors.As(err, &failure)) {
				return err
			}
			m.broken(err)
			why := state.Unfit(MinClock)
			if failure != nil {
				why = "sensors: " + failure.Reason
			}
			if why != "" {
				if rejected++; rejected > run.o.Search.Rounds {
					for _, f := range arms {
						f.failure = kernels.Failf(kernels.StatusUnfit, "%d rounds of the finals rejected, last: %s", rejected, why)
					}
					return nil
				}
				continue
			}
		}
		for _, x := range visits {
			x.f.rounds = append(x.f.rounds, stats.Median(x.us))
			x.f.samples = append(x.f.samples, x.us...)
			x.f.visits = append(x.f.visits, len(x.us))
		}
		round++
	}
	return nil
}

// choose picks the winner and checks it with other inputs, for its answer and
// for the same bits every time; one that fails there is out, and the next best
// is chosen.
func (m *measurer) choose(ctx context.Context, fs []*finalist, second *finalist, base int) (winner int, why string, err error) {
	run := m.v.run
	o := run.o.Search
	floor := 0.0
	if base >= 0 && len(second.rounds) > 0 && len(second.rounds) == len(fs[base].rounds) {
		floor, _, _, _ = verdict.Gain(second.rounds, fs[base].rounds)
	}
	band := max(search.TieBand, math.Abs(floor))
	m.close()
	for {
		list := make([]search.Finalist, len(fs))
		for i, f := range fs {
			list[i] = search.Finalist{Variant: f.variant, Rounds: f.rounds, Failed: f.failure != nil,
				Base: i == base, Entry: m.isEntry(f.variant), Shared: o.Known.Sharing(m.j.Problem, f.variant)}
			if _, _, plan, err := run.registry.Resolve(m.j.Problem, f.variant, run.info); err == nil {
				list[i].Cost = search.Cost(plan, f.variant.Config, run.info)
			}
		}
		if winner, why = search.Choose(list, band, floor); winner < 0 {
			return -1, "", nil
		}
		f := fs[winner]
		if err := m.open(ctx, run.o.Seed^freshSeed>>11); err != nil {
			return -1, "", err
		}
		c, err := m.bench.Check(ctx, f.variant, max(run.o.Repeats, 3))
		var failure *kernels.Failure
		switch {
		case ctx.Err() != nil:
			return -1, "", ctx.Err()
		case errors.As(err, &failure):
			m.broken(err)
			f.failure = kernels.Failf(failure.Status, "on fresh inputs: %s", failure.Reason)
		case err != nil:
			return -1, "", err
		case !c.OK():
			f.failure = kernels.Failf(kernels.StatusWrong, "on fresh inputs: %s", c.Reason())
		default:
			m.busy += c.Busy
			f.check = &c
			if c.Differing > 0 {
				why = fmt.Sprintf("%s; %d elements change from run to run", why, c.Differing)
			}
			return winner, why, nil
		}
	}
}

// finalRecord is a finalist's record, with the times of its stages.
func (m *measurer) finalRecord(ctx context.Context, f *finalist, b *search.Board) (*record.Record, error) {
	run := m.v.run
	var rec *record.Record
	if f.failure != nil || len(f.samples) == 0 {
		failure := f.failure
		if failure == nil {
			failure = kernels.Failf(kernels.StatusUnfit, "no round of the finals counts")
		}
		rec = m.v.failed(m.j, f.variant, failure)
	} else {
		rec = m.v.record(m.j, f.variant, kernels.StatusOK)
		rec.SamplesUS, rec.Visits = f.samples, f.visits
		rec.SearchUS = b.Median(f.index)
	}
	rec.Check = m.checks[f.variant]
	if f.check != nil {
		rec.Check = f.check
		rec.Seed = run.o.Seed ^ freshSeed>>11
	}
	rec.Entry = m.isEntry(f.variant)
	m.final(rec)
	m.common(rec)
	_, _, plan, err := run.registry.Resolve(m.j.Problem, f.variant, run.info)
	if pr := run.o.Run.Protocol; rec.Status == kernels.StatusOK && err == nil && len(plan.Launches) > 1 && pr.StageSamples > 0 && (f.check != nil || rec.Base) {
		var s kernels.Timing
		err := m.open(ctx, run.o.Seed^freshSeed>>11)
		if err == nil {
			s, err = m.bench.Time(ctx, f.variant, stageOptions(pr))
		}
		var failure *kernels.Failure
		if errors.As(err, &failure) && ctx.Err() == nil { // the times of the whole stand without them
			m.broken(err)
			return rec, nil
		} else if err != nil {
			return nil, err
		}
		m.busy += s.Busy
		rec.StagesBy = s.By
		for _, stage := range s.Stages {
			rec.Stages = append(rec.Stages, record.Stage{Stage: stage.Stage, SamplesUS: record.Micros(stage.Seconds[pr.Discard:])})
		}
	}
	return rec, nil
}
