package sweep

import (
	"context"
	"errors"

	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// RaceProtocol adapts a grid's protocol to a race of so many rounds. name is the strategy that chose the
// variants, for the record.
func RaceProtocol(pr record.Protocol, name string, rounds int) record.Protocol {
	pr.Phase, pr.Search, pr.Samples, pr.StageSamples = record.PhaseSearch, name,
		rounds*FinalLaunches, 0
	return pr
}

// race measures the variants of a job in rounds, and drops those that are certainly slower. It sends all
// their records as one append.
func (m *searchMeasurer) race(ctx context.Context) error {
	most := m.loop.run.options.RaceRounds
	arms := make([]*Arm, len(m.job.Variants))
	for i, variant := range m.job.Variants {
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
	if err := m.loop.takeTurn(ctx, func() error { return rounds.Run(ctx, arms) }); err != nil {
		return err
	}
	var recs []*record.Record
	for _, a := range arms {
		recs = append(recs, m.armRecord(&m.loop.run.options.Run, a))
	}
	m.loop.send(batch{recs: recs, busy: m.Busy, searched: true})
	return nil
}

// armRecord makes the record of an arm, with the samples of its rounds or its failure.
func (m *searchMeasurer) armRecord(in *record.Run, a *Arm) *record.Record {
	rec := m.record(in, a.Variant, a.Failure)
	if a.Failure == nil {
		rec.SamplesUS, rec.Visits = a.Samples, a.Visits
	}
	return rec
}

// DropSlower marks as Out the arms that are certainly slower than the fastest. It returns true when the
// rest is tied, which ends the race. All arms that are still in must have had the same rounds.
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
