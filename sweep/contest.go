package sweep

import (
	"context"
	"errors"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A Contest has Run measure the variants of each task against each other: after the check all
// are visited round by round in random order, FinalLaunches launches each. One that is behind the
// fastest beyond doubt is left out of the rounds that follow. A problem is done when what is
// left is tied, or after Rounds. Its records are appended together, also of variants that the sink
// holds: their rounds are paired.
type Contest struct {
	Rounds int    // at most
	Seed   uint64 // of the order of the visits
}

// ContestProtocol is a grid's protocol as a contest takes times. name stands for who chose the variants.
func ContestProtocol(pr record.Protocol, name string, rounds int) record.Protocol {
	pr.Phase, pr.Search, pr.Samples, pr.StageSamples = record.PhaseSearch, name, rounds*FinalLaunches, 0
	return pr
}

// contest measures one job.
func (v *visitor) contest(ctx context.Context, j *job) error {
	m := &measurer{v: v, j: j, checks: map[kernels.Variant]*kernels.Check{}}
	defer m.close()
	var err error
	if m.bench, m.stream, err = v.open(ctx, j, len(j.Variants)); err != nil {
		var f *kernels.Failure
		if !errors.As(err, &f) || ctx.Err() != nil {
			return err
		}
		j.failure = f
		if doubtful(err) != nil {
			return v.doubt(&uncertain{j, func() { v.unopened(j, nil, f) }}, f)
		}
		v.unopened(j, nil, f)
		return nil
	}
	fs := make([]*finalist, len(j.Variants))
	for i, variant := range j.Variants {
		fs[i] = &finalist{index: i, variant: variant}
		if err := m.admit(ctx, fs[i]); err != nil {
			return err
		}
	}
	if err := m.rounds(ctx, fs); err != nil {
		return err
	}
	var recs []*record.Record
	for _, f := range fs {
		var rec *record.Record
		if f.failure != nil {
			rec = v.failed(j, f.variant, f.failure)
		} else {
			rec = v.record(j, f.variant, kernels.StatusOK)
			rec.SamplesUS, rec.Visits = f.samples, f.visits
		}
		rec.Check = m.checks[f.variant]
		m.common(rec)
		recs = append(recs, rec)
	}
	v.out <- finished{recs: recs, busy: m.busy, searched: true}
	return nil
}

// admit checks a variant. One that fails is out. The error is trouble that is no variant's result.
func (m *measurer) admit(ctx context.Context, f *finalist) error {
	if _, _, _, err := m.v.run.registry.Resolve(m.j.Problem, f.variant, m.v.run.info); err != nil {
		f.failure = kernels.Failf(kernels.StatusRefused, "%v", err)
		return nil
	}
	if err := m.open(ctx, m.v.run.o.Seed); err != nil {
		return err
	}
	c, err := m.bench.Check(ctx, f.variant, m.v.run.o.Repeats)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f.failure):
		m.broken(err)
		return nil
	case err != nil:
		return err
	}
	m.busy += c.Busy
	m.checks[f.variant] = &c
	if !c.OK() {
		f.failure = kernels.Failf(kernels.StatusWrong, "%s", c.Reason())
	}
	return nil
}

// rounds visits the variants that are still in, until the contest is decided. A round with an unfit
// device does not count. After as many unfit rounds as the contest has, all variants are unfit.
func (m *measurer) rounds(ctx context.Context, fs []*finalist) error {
	run := m.v.run
	o := run.o.Contest
	rng := orders(o.Seed, m.j.Problem)
	sensor, senses := m.v.dev.(kernels.Sensor)
	pr := run.o.Run.Protocol
	in := make([]bool, len(fs))
	for i, f := range fs {
		in[i] = f.failure == nil
	}
	for round, rejected := 0, 0; round < o.Rounds; {
		us := make([][]float64, len(fs))
		for _, i := range rng.Perm(len(fs)) {
			if !in[i] {
				continue
			}
			if err := m.open(ctx, run.o.Seed); err != nil {
				return err
			}
			t, err := m.bench.Time(ctx, fs[i].variant, pr.TimeOptions(FinalLaunches+pr.Discard))
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, &fs[i].failure):
				m.broken(err)
				in[i] = false
				continue
			case err != nil:
				return err
			}
			m.busy += t.Busy
			us[i] = record.Micros(t.Seconds[pr.Discard:])
			if why := tooFast(m.j.Problem, run.info, pr, stats.Median(us[i])); why != "" {
				fs[i].failure, in[i] = kernels.Failf(kernels.StatusUnfit, "%s", why), false
			}
		}
		if senses {
			state, err := sensor.Sense(ctx)
			if err != nil {
				return err
			}
			if why := state.Unfit(MinClock); why != "" {
				if rejected++; rejected <= o.Rounds {
					continue
				}
				for _, f := range fs {
					f.failure = kernels.Failf(kernels.StatusUnfit, "%d rounds rejected, last: %s", rejected, why)
				}
				return nil
			}
		}
		for i, f := range fs {
			if in[i] {
				f.rounds = append(f.rounds, stats.Median(us[i]))
				f.samples = append(f.samples, us[i]...)
				f.visits = append(f.visits, len(us[i]))
			}
		}
		if round++; settle(fs, in) {
			return nil
		}
	}
	return nil
}

// settle drops the variants that are behind, and says whether the rest is tied. Variants that are in have all rounds.
func settle(fs []*finalist, in []bool) bool {
	best := -1
	for i, f := range fs {
		if !in[i] {
			continue
		}
		if best < 0 {
			best = i
		} else if gain, _, _, _ := verdict.Gain(f.rounds, fs[best].rounds); gain < 0 {
			best = i
		}
	}
	done := true
	for i, f := range fs {
		if in[i] && i != best {
			v := verdict.Race(fs[best].rounds, f.rounds)
			in[i] = v != verdict.Slower
			done = done && v != verdict.Inconclusive
		}
	}
	return done
}
