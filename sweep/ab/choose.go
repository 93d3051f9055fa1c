package ab

import (
	"cmp"
	"context"
	"slices"

	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A Chooser settles on one of the variants that an operand has for a problem. Of our own it is what
// a system that times its candidates itself would settle on: the lowest median of a few cold
// samples. Of peers, which differ by more than their noise, those that are not clearly slower than
// the best get two more looks.
type Chooser struct {
	Registry *kernels.Registry
	Device   kernels.Device
	Protocol record.Protocol
	Seed     uint64
	Visiting func(*sweep.Arm) // told before each visit; may be nil
}

const (
	firstLook  = 5   // samples of each candidate: as many as Triton's autotuner takes at least
	secondLook = 10  // samples of a peer that is near the best
	farBehind  = 1.5 // times the best: a peer that is out after the first look
	looks      = 3   // at peers
	rejects    = 8   // rounds that an unfit device may cost
)

// Choose returns the fastest of the variants, and all arms if it visited them: the fastest first,
// those that failed last. Arms that are out had the first look only. If all fail, the first
// variant is the answer, and measuring it will say why.
func (c *Chooser) Choose(ctx context.Context, p kernels.Problem, vs []kernels.Variant) (kernels.Variant, []*sweep.Arm, error) {
	if len(vs) == 1 {
		return vs[0], nil, nil
	}
	c.Device.Prefetch(p, vs)
	s := &sweep.Session{Device: c.Device, Registry: c.Registry, Problem: p, Protocol: c.Protocol, Seed: c.Seed}
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return kernels.Variant{}, nil, err
	}
	arms := make([]*sweep.Arm, len(vs))
	for i, v := range vs {
		arms[i] = &sweep.Arm{Variant: v}
	}
	r := &sweep.Rounds{Session: s, Rejects: rejects, Launches: c.launches,
		Order: func(round, _ int) []int { return order(arms, round) },
		More:  func(rounds int) bool { return rounds == 0 || more(arms, rounds) }}
	if err := r.Run(ctx, arms); err != nil {
		return kernels.Variant{}, nil, err
	}
	slices.SortStableFunc(arms, faster)
	if arms[0].Failure != nil {
		return vs[0], arms, nil
	}
	return arms[0].Variant, arms, nil
}

func (c *Chooser) launches(round int, a *sweep.Arm) int {
	if c.Visiting != nil {
		c.Visiting(a)
	}
	if round == 0 {
		return firstLook
	}
	return secondLook
}

// order is that of the arms in a round: as given, then the fastest first, then the other way around.
func order(arms []*sweep.Arm, round int) []int {
	order := make([]int, len(arms))
	for i := range order {
		order[i] = i
	}
	if round > 0 {
		slices.SortStableFunc(order, func(i, j int) int { return faster(arms[i], arms[j]) })
	}
	if round > 1 {
		slices.Reverse(order)
	}
	return order
}

// more leaves out the peers that are far behind, and says whether the others need another round.
func more(arms []*sweep.Arm, rounds int) bool {
	if _, peers := kernels.PeerName(arms[0].Variant.Family); !peers {
		return false
	}
	best := slices.MinFunc(arms, faster)
	near := 0
	for _, a := range arms {
		if a.Failure == nil && !a.Out {
			if a.Out = stats.Median(a.Samples) > farBehind*stats.Median(best.Samples); !a.Out {
				near++
			}
		}
	}
	return rounds < looks && near > 1
}

// faster orders arms by their medians, those that failed last.
func faster(a, b *sweep.Arm) int {
	if a.Failure != nil || b.Failure != nil {
		return cmp.Compare(failed(a), failed(b))
	}
	return cmp.Compare(stats.Median(a.Samples), stats.Median(b.Samples))
}

func failed(a *sweep.Arm) int {
	if a.Failure != nil {
		return 1
	}
	return 0
}
