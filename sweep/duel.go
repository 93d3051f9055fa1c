package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"normbench/kernels"
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

// The orders in which a round visits its arms.
const (
	OrderRandom = "random" // shuffled by the seed: what package verdict's error rates rest on
	OrderABBA   = "abba"   // A B A' in one round, A' B A in the next, then the stream: a steady drift cancels over two rounds
)

// DuelOptions say how a duel is fought.
type DuelOptions struct {
	Protocol  record.Protocol // Samples are the launches kept per visit; a median of them is the round's time
	Order     string
	Seed      uint64 // of the inputs, and with the problem of OrderRandom
	Repeats   int
	MinClock  float64 // rounds below this share of the full clock are rejected
	MaxReject int     // rejected rounds before the cell is unfit
	// More is asked after every accepted round whether another one is needed:
	// verdict.Rule.More for the number of duels fought.
	More func(c verdict.Cell) bool
}

// A Visit is the samples of one arm in one round.
type Visit struct {
	Round     int       `json:"round"`
	Place     int       `json:"place"` // in the order of the round
	Arm       string    `json:"arm"`
	SamplesUS []float64 `json:"samples_us"`
}

// A RoundState is what the device said of itself before a round.
type RoundState struct {
	Round    int             `json:"round"`
	Reading  kernels.Reading `json:"reading"`
	Rejected string          `json:"rejected,omitempty"` // why the round does not count
}

// A DuelResult is all that a duel found.
type DuelResult struct {
	Duel
	Status   kernels.Status  `json:"status"`           // ok; how A or B failed; or StatusUnfit
	Reason   string          `json:"reason,omitempty"` // why it is not ok
	Rounds   []verdict.Round `json:"rounds"`           // accepted ones, in microseconds
	Visits   []Visit         `json:"visits"`
	States   []RoundState    `json:"states"`
	StreamUS float64         `json:"stream_us"` // median of its rounds
	CheckA   *kernels.Check  `json:"check_a"`
	CheckB   *kernels.Check  `json:"check_b"`
	StagesBy string          `json:"stages_by,omitempty"` // kernels.ByEvents or ByCUPTI
	StagesA  []record.Stage  `json:"stages_a,omitempty"`
	StagesB  []record.Stage  `json:"stages_b,omitempty"`
}

// RunDuel runs one duel on a device. Variants that fail are a result with a
// status; the error is trouble that is nobody's result, or ctx's.
func RunDuel(ctx context.Context, r *kernels.Registry, dev kernels.Device, d Duel, o DuelOptions) (*DuelResult, error) {
	res := &DuelResult{Duel: d, Status: kernels.StatusOK}
	var bench kernels.Bench
	fail := func(err error, what string) (*DuelResult, error) {
		var f *kernels.Failure
		if !errors.As(err, &f) || ctx.Err() != nil {
			return nil, err
		}
		if f.Broken && bench != nil {
			bench.Close()
			bench = nil
			if err := runStream(ctx, r, dev, d.Problem, o.Seed); errors.As(err, new(*kernels.Gone)) {
				return nil, err // the device is down, and no variant took it down
			}
		}
		res.Status, res.Reason = f.Status, what+": "+f.Reason
		return res, nil
	}
	var err error
	if bench, err = dev.Open(ctx, d.Problem, o.Seed); err != nil {
		bench = nil
		return fail(err, "opening the problem")
	}
	defer func() {
		if bench != nil {
			bench.Close()
		}
	}()
	for _, arm := range []struct {
		name    string
		variant kernels.Variant
		check   **kernels.Check
	}{{ArmA, d.A, &res.CheckA}, {ArmB, d.B, &res.CheckB}} {
		c, err := bench.Check(ctx, arm.variant, o.Repeats)
		if err != nil {
			return fail(err, arm.name)
		}
		*arm.check = &c
		if !c.OK() {
			res.Status, res.Reason = kernels.StatusWrong, arm.name+": "+c.Reason()
			return res, nil
		}
	}
	f := &duelRun{dev: dev, bench: bench, o: o, res: res, rng: orders(o.Seed, d.Problem),
		stream: kernels.Variant{Family: r.StreamOf(d.Problem)}}
	if _, err := f.visit(ctx, f.stream); err != nil {
		return fail(err, "the stream")
	}
	if err := f.warmUp(ctx); err != nil {
		return fail(err, ArmA)
	}
	for rejected := 0; ; {
		ok, err := f.round(ctx, len(res.States))
		if err != nil {
			return fail(err, "a round")
		}
		if !ok {
			if rejected++; rejected > o.MaxReject {
				res.Status = kernels.StatusUnfit
				res.Reason = fmt.Sprintf("%d of %d rounds rejected, last: %s", rejected, len(res.States), res.States[len(res.States)-1].Rejected)
				return res, nil
			}
			continue
		}
		if !o.More(res.Cell()) {
			break
		}
	}
	res.StreamUS = stats.Median(f.streams)
	for _, r := range res.Rounds {
		if why := tooFast(d.Problem, dev.Info(), o.Protocol, min(r.A, r.B)); why != "" {
			res.Status, res.Reason = kernels.StatusUnfit, why
			return res, nil
		}
	}
	if res.StagesA, err = f.stages(ctx, d.A); err == nil {
		res.StagesB, err = f.stages(ctx, d.B)
	}
	var failure *kernels.Failure
	if err != nil && (!errors.As(err, &failure) || ctx.Err() != nil) { // else the rounds stand without them
		return nil, err
	}
	return res, nil
}

// Cell is the duel as package verdict judges it.
func (r *DuelResult) Cell() verdict.Cell {
	var us []float64
	for _, v := range r.Visits {
		us = append(us, v.SamplesUS...)
	}
	return verdict.Cell{Problem: r.Problem, Rounds: r.Rounds, Step: stats.TimerStep(us)}
}

type duelRun struct {
	dev   kernels.Device
	bench kernels.Bench
	o     DuelOptions
	res   *DuelResult
	rng   *rand.Rand

	stream  kernels.Variant
	streams []float64 // its times in the rounds that count
}

// visit takes a few launches of a variant and drops the first, which comes
// after a pause and is biased.
func (f *duelRun) visit(ctx context.Context, v kernels.Variant) ([]float64, error) {
	pr := f.o.Protocol
	t, err := f.bench.Time(ctx, v, pr.TimeOptions(pr.Samples+pr.Discard))
	if err != nil {
		return nil, err
	}
	return record.Micros(t.Seconds[pr.Discard:]), nil
}

// warmUp visits A until two visits in a row agree within 1%, 20 times at most:
// clocks rise under load.
func (f *duelRun) warmUp(ctx context.Context) error {
	for last, i := 0.0, 0; i < 20; i++ {
		us, err := f.visit(ctx, f.res.A)
		if err != nil {
			return err
		}
		m := stats.Median(us)
		if settled(last, m) {
			return nil
		}
		last = m
	}
	return nil
}

// round visits all arms once and says whether the round counts.
func (f *duelRun) round(ctx context.Context, n int) (bool, error) {
	state := RoundState{Round: n}
	if s, ok := f.dev.(kernels.Sensor); ok {
		var err error
		if state.Reading, err = s.Sense(ctx); err != nil {
			return false, err
		}
	}
	arms := []string{ArmA, ArmB, ArmA2, ArmStream}
	switch {
	case f.o.Order == OrderRandom:
		f.rng.Shuffle(len(arms), func(i, j int) { arms[i], arms[j] = arms[j], arms[i] })
	case n%2 == 1:
		arms[0], arms[2] = arms[2], arms[0]
	}
	times := map[string]float64{}
	for place, arm := range arms {
		v := f.res.A
		switch arm {
		case ArmB:
			v = f.res.B
		case ArmStream:
			v = f.stream
		}
		us, err := f.visit(ctx, v)
		if err != nil {
			return false, err
		}
		f.res.Visits = append(f.res.Visits, Visit{Round: n, Place: place, Arm: arm, SamplesUS: us})
		times[arm] = stats.Median(us)
	}
	// The state is judged as it was under load.
	if s, ok := f.dev.(kernels.Sensor); ok {
		after, err := s.Sense(ctx)
		if err != nil {
			return false, err
		}
		state.Reading = after
		state.Rejected = after.Unfit(f.o.MinClock)
	}
	f.res.States = append(f.res.States, state)
	if state.Rejected != "" {
		return false, nil
	}
	f.streams = append(f.streams, times[ArmStream])
	f.res.Rounds = append(f.res.Rounds, verdict.Round{A: times[ArmA], B: times[ArmB], A2: times[ArmA2]})
	return true, nil
}

// stages times each launch of a variant, in a pass of its own.
func (f *duelRun) stages(ctx context.Context, v kernels.Variant) ([]record.Stage, error) {
	pr := f.o.Protocol
	o := stageOptions(pr)
	o.Trace = true
	t, err := f.bench.Time(ctx, v, o)
	if err != nil {
		return nil, err
	}
	f.res.StagesBy = t.By
	var stages []record.Stage
	for _, s := range t.Stages {
		stages = append(stages, record.Stage{Stage: s.Stage, SamplesUS: record.Micros(s.Seconds[pr.Discard:])})
	}
	return stages, nil
}
