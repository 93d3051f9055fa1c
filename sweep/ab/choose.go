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
	_, peers := kernels.PeerName(vs[0].Family)
	r := &sweep.Rounds{Session: s, Rejects: rejects}
	r.Launches = func(round int, a *sweep.Arm) int {
		if c.Visiting != nil {
			c.Visiting(a)
		}
		if round == 0 {
			return firstLook
		}
		return secondLook
	}
	r.Order = func(round, n int) []int { // as given, then the fastest first, then the other way around
		order := make([]int, n)
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
	r.More = func(rounds int) bool {
		if rounds == 0 || !peers {
			return rounds == 0
		}
		best := slices.MinFunc(arms, faster)
		near := 0
		for _, a := range arms {
			a.Out = a.Out || len(a.Samples) > 0 && stats.Median(a.Samples) > farBehind*stats.Median(best.Samples)
			if !a.Out && a.Failure == nil {
				near++
			}
		}
		return rounds < looks && near > 1
	}
	if err := r.Run(ctx, arms); err != nil {
		return kernels.Variant{}, nil, err
	}
	slices.SortStableFunc(arms, faster)
	if arms[0].Failure != nil {
		return vs[0], arms, nil
	}
	return arms[0].Variant, arms, nil
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
