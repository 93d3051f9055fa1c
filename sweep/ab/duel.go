// Package ab compares two operands live, in rounds on one device: it pairs what they have for each
// problem, runs a duel for each pair, judges them all, confirms what is slower, and keeps the
// experiment in a file that can be resumed. It takes values, and tells through functions; flags and
// terminals are its callers'.
package ab

import (
	"context"
	"slices"

	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A Duel is a live A/B of two variants on one problem.
type Duel struct {
	Problem kernels.Problem `json:"problem"`
	A       kernels.Variant `json:"a"`
	B       kernels.Variant `json:"b"`
}

// The arms of a duel. A2 is a second copy of A: its difference from A is noise,
// measured under the same conditions as B's difference. Every round visits the
// stream too, with which A and B are compared.
const (
	ArmA      = "A"
	ArmB      = "B"
	ArmA2     = "A'"
	ArmStream = "stream"
)

// VisitSamples are the samples of one arm in one round.
type VisitSamples struct {
	Round     int       `json:"round"`
	Place     int       `json:"place"` // in the order of the round
	Arm       string    `json:"arm"`
	SamplesUS []float64 `json:"samples_us"`
}

// A DuelResult is all that a duel found.
type DuelResult struct {
	Duel
	Status   kernels.Status     `json:"status"`           // ok; how A or B failed; or StatusUnfit
	Reason   string             `json:"reason,omitempty"` // why it is not ok
	Rounds   []verdict.Round    `json:"rounds"`           // accepted ones, in microseconds
	Visits   []VisitSamples     `json:"visits"`
	States   []sweep.RoundState `json:"states"`
	StreamUS float64            `json:"stream_us"` // median of its rounds
	CheckA   *kernels.Check     `json:"check_a"`
	CheckB   *kernels.Check     `json:"check_b"`
	StagesBy string             `json:"stages_by,omitempty"` // such as kernels.ByExposed
	StagesA  []record.Stage     `json:"stages_a,omitempty"`
	StagesB  []record.Stage     `json:"stages_b,omitempty"`
	Peers    []PeerLook         `json:"peers,omitempty"` // of peer:best: those that A was chosen from
}

// A PeerLook tells what choosing the fastest peer of a problem saw of one: its median in a few rounds, or why it has none.
type PeerLook struct {
	Peer   string  `json:"peer"`
	US     float64 `json:"us,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// duel runs one duel. more is asked after every accepted round whether another one is needed.
// Variants that fail are a result with a status; the error is trouble that is nobody's result, or
// ctx's.
func (c *Runner) duel(ctx context.Context, d Duel, seed uint64, more func(verdict.PairedRounds) bool) (
	*DuelResult, error) {
	res := &DuelResult{Duel: d, Status: kernels.StatusOK}
	if err := c.refusal(d); err != nil {
		res.Status, res.Reason = kernels.StatusRefused, ArmA+": "+err.Error()
		return res, nil
	}
	s := &sweep.Session{Device: c.Device, Registry: c.Registry, Problem: d.Problem,
		Protocol: c.Protocol, Seed: seed}
	defer s.Close()
	err := failureOf("opening the problem", s.Open(ctx))
	if err == nil {
		err = res.measure(ctx, s, more)
	}
	f := sweep.FailureOf(err)
	if f == nil || ctx.Err() != nil {
		return res, err
	}
	res.Status, res.Reason = f.Status, f.Reason
	return res, nil
}

// measure measures the duel and fills in its result. A *kernels.Failure is that of an arm.
func (r *DuelResult) measure(ctx context.Context, s *sweep.Session,
	more func(verdict.PairedRounds) bool) error {
	for _, arm := range []struct {
		name    string
		variant kernels.Variant
		check   **kernels.Check
	}{{ArmA, r.A, &r.CheckA}, {ArmB, r.B, &r.CheckB}} {
		c, err := s.Check(ctx, arm.variant, sweep.Repeats)
		if err != nil {
			return failureOf(arm.name, err)
		}
		if *arm.check = &c; !c.OK() {
			return kernels.Failf(kernels.StatusWrong, "%s: %s", arm.name, c.Reason())
		}
	}
	if _, err := s.Time(ctx, s.Stream(), s.Protocol.Samples); err != nil {
		return failureOf("the stream", err)
	}
	if err := sweep.WarmUp(func() ([]float64, error) {
		return s.Time(ctx, r.A, s.Protocol.Samples)
	}); err != nil {
		return failureOf(ArmA, err)
	}
	names := []string{ArmA, ArmB, ArmA2, ArmStream}
	arms := []*sweep.Arm{{Variant: r.A}, {Variant: r.B}, {Variant: r.A}, {Variant: s.Stream()}}
	name := map[*sweep.Arm]string{}
	for i, a := range arms {
		name[a] = names[i]
	}
	rounds := &sweep.RoundRunner{Session: s, Rejects: rejects, Launches: s.Protocol.Samples,
		Visited: func(round, place int, a *sweep.Arm, us []float64) {
			r.Visits = append(r.Visits, VisitSamples{Round: round, Place: place, Arm: name[a], SamplesUS: us})
		},
		Sensed: func(state sweep.RoundState) { r.States = append(r.States, state) },
		More: func(n int) bool {
			for i := len(r.Rounds); i < n && !slices.ContainsFunc(arms, hasFailed); i++ {
				r.Rounds = append(r.Rounds,
					verdict.Round{A: arms[0].Rounds[i], B: arms[1].Rounds[i], A2: arms[2].Rounds[i]})
			}
			return n == 0 || len(r.Rounds) == n && more(r.PairedRounds())
		}}
	if err := rounds.Run(ctx, arms); err != nil {
		return err
	}
	if r.States[len(r.States)-1].Rejected != "" {
		return arms[0].Failure // all are unfit
	}
	if i := slices.IndexFunc(arms, hasFailed); i >= 0 {
		return failureOf(names[i]+" in a round", arms[i].Failure)
	}
	r.StreamUS = stats.Median(arms[3].Rounds)
	err := r.stages(ctx, s)
	if sweep.FailureOf(err) != nil && ctx.Err() == nil {
		return nil // the rounds stand without them
	}
	return err
}

// stages times each launch of A and of B.
func (r *DuelResult) stages(ctx context.Context, s *sweep.Session) error {
	for _, x := range []struct {
		variant kernels.Variant
		stages  *[]record.Stage
	}{{r.A, &r.StagesA}, {r.B, &r.StagesB}} {
		stages, err := s.Stages(ctx, x.variant)
		if err != nil {
			return err
		}
		*x.stages, r.StagesBy = stages.Stages, stages.By
	}
	return nil
}

func hasFailed(a *sweep.Arm) bool { return a.Failure != nil }

// failureOf puts in front of a failure what failed.
func failureOf(what string, err error) error {
	f := sweep.FailureOf(err)
	if f == nil {
		return err
	}
	named := *f
	named.Reason = what + ": " + f.Reason
	return &named
}

// PairedRounds makes of the duel what package verdict judges.
func (r *DuelResult) PairedRounds() verdict.PairedRounds {
	var us []float64
	for _, v := range r.Visits {
		us = append(us, v.SamplesUS...)
	}
	return verdict.PairedRounds{Problem: r.Problem, Rounds: r.Rounds, Step: stats.TimerStep(us)}
}
