package sweep

import (
	"context"
	"errors"

	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// ContestProtocol is a grid's protocol as a contest takes times. name is who chose the variants.
func ContestProtocol(pr record.Protocol, name string, rounds int) record.Protocol {
	pr.Phase, pr.Search, pr.Samples, pr.StageSamples = record.PhaseSearch, name,
		rounds*FinalLaunches, 0
	return pr
}

// contest measures a job in rounds.
func (m *searchMeasurer) contest(ctx context.Context) error {
	most := m.v.run.o.Contest
	arms := make([]*Arm, len(m.j.Variants))
	for i, variant := range m.j.Variants {
		arms[i] = &Arm{Variant: variant}
		_, err := m.visit(ctx, variant, 0)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.As(err, &arms[i].Failure) {
			return err
		}
	}
	rounds := &RoundRunner{Session: m.Session, Launches: FinalLaunches, Rejects: most,
		More: func(n int) bool { return n == 0 || n < most && !DropSlower(arms) }}
	if err := m.v.takeTurn(ctx, func() error { return rounds.Run(ctx, arms) }); err != nil {
		return err
	}
	var recs []*record.Record
	for _, a := range arms {
		recs = append(recs, m.armRecord(&m.v.run.o.Run, a))
	}
	m.v.send(batch{recs: recs, busy: m.Busy, searched: true})
	return nil
}

// armRecord is the record of an arm in a run, with all that the rounds know of it.
func (m *searchMeasurer) armRecord(in *record.Run, a *Arm) *record.Record {
	rec := m.record(in, a.Variant, a.Failure)
	if a.Failure == nil {
		rec.SamplesUS, rec.Visits = a.Samples, a.Visits
	}
	return rec
}

// DropSlower takes the variants that are certainly slower than the best out of a contest, and says whether
// the rest is tied, which ends it. All variants that are still in have had the same rounds.
func DropSlower(arms []*Arm) bool {
	var best *Arm
	in := func(a *Arm) bool { return a.Failure == nil && !a.Out }
	for _, a := range arms {
		if !in(a) {
			continue
		}
		if best == nil {
			best = a
		} else if gain, _, _, _ := verdict.Gain(a.Rounds, best.Rounds); gain < 0 {
			best = a
		}
	}
	done := true
	for _, a := range arms {
		if in(a) && a != best {
			v := verdict.Race(best.Rounds, a.Rounds)
			a.Out = v == verdict.Slower
			done = done && v != verdict.Inconclusive
		}
	}
	return done
}
