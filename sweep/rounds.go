package sweep

import (
	"context"
	"hash/fnv"
	"math/rand/v2"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// An Arm is one of the variants that are visited in rounds, with what its visits found.
type Arm struct {
	Variant kernels.Variant
	Rounds  []float64 // medians of its visits in the rounds that count, microseconds
	Samples []float64 // of all of these visits
	Visits  []int     // how many samples each has
	Out     bool      // it is visited no more
	Failure *kernels.Failure
}

// A RoundState is the reading of the device's sensors after a round.
type RoundState struct {
	Round    int             `json:"round"`
	Reading  kernels.Reading `json:"reading"`
	Rejected string          `json:"rejected,omitempty"` // why the round does not count
}

// A RoundRunner visits arms in rounds, so that drift between rounds cancels. A round in which the device
// was not fit does not count.
type RoundRunner struct {
	Session  *Session
	Launches int                   // samples kept of a visit
	Rejects  int                   // rounds that may be rejected before all arms are unfit
	More     func(rounds int) bool // asked before a round; rounds are those that count
	// Visiting is told before each visit, Visited after it, and Sensed of each round; they may be nil.
	Visiting func(*Arm)
	Visited  func(round, place int, arm *Arm, us []float64)
	Sensed   func(RoundState)
}

// Run visits the arms round by round until More says that it is enough. It adds the samples to the arms.
// Rounds that do not count are numbered too.
func (r *RoundRunner) Run(ctx context.Context, arms []*Arm) error {
	rng := newOrders(r.Session.Seed, r.Session.Problem)
	for n, counted := 0, 0; r.More(counted); n++ {
		us, err := r.visit(ctx, n, arms, rng.Perm(len(arms)))
		if err != nil {
			return err
		}
		state, err := r.sense(ctx, n)
		switch rejected := n + 1 - counted; {
		case err != nil:
			return err
		case state.Rejected == "":
			counted++
			for i, a := range arms {
				a.add(us[i])
			}
		case rejected > r.Rejects:
			for _, a := range arms {
				if a.Failure == nil {
					a.Failure = kernels.Failf(kernels.StatusUnfit, "%d of %d rounds rejected, last: %s",
						rejected, n+1, state.Rejected)
				}
			}
			return nil
		}
	}
	return nil
}

// visit visits each arm that is not out once, in the given order, and returns the samples of each.
func (r *RoundRunner) visit(ctx context.Context, round int, arms []*Arm, order []int) ([][]float64,
	error) {
	us := make([][]float64, len(arms))
	for place, i := range order {
		a := arms[i]
		if a.Out || a.Failure != nil {
			continue
		}
		if r.Visiting != nil {
			r.Visiting(a)
		}
		var err error
		us[i], err = r.Session.Time(ctx, a.Variant, r.Launches)
		if err != nil {
			if a.Failure = FailureOf(err); a.Failure == nil || ctx.Err() != nil {
				return nil, err
			}
		} else if r.Visited != nil {
			r.Visited(round, place, a, us[i])
		}
	}
	return us, nil
}

// add adds a visit in a round that counts.
func (a *Arm) add(us []float64) {
	if us != nil && a.Failure == nil {
		a.Rounds = append(a.Rounds, stats.Median(us))
		a.Samples = append(a.Samples, us...)
		a.Visits = append(a.Visits, len(us))
	}
}

// sense reads the device's sensors after a round, when it was under load, and says in Rejected why the
// round does not count. It reads each round for a listener, else only where the device was not fit a
// moment ago.
func (r *RoundRunner) sense(ctx context.Context, round int) (state RoundState, err error) {
	state.Round = round
	if r.Sensed == nil && r.Session.wasFitJustNow() {
		return state, nil
	}
	if state.Reading, err = r.Session.Sense(ctx); err != nil {
		return state, err
	}
	state.Rejected = r.Session.noteReading(state.Reading)
	if r.Sensed != nil {
		r.Sensed(state)
	}
	return state, nil
}

// newOrders makes the generator of the rounds' orders: for one seed the same orders for a problem each
// time, and others for each problem. If all problems of a run had the same orders, the cost of a place
// in a round would be the same in all of them.
func newOrders(seed uint64, p kernels.Problem) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(p.String()))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
