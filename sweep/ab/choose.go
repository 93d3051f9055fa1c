package ab

import (
	"cmp"
	"context"
	"slices"

	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/stats"
)

const (
	look    = 5 // samples of a candidate in a round: as many as Triton's autotuner takes at least
	looks   = 5 // rounds of peers at most
	rejects = 8 // rounds that an unfit device may cost, here and in a duel
)

// Choose returns the fastest of the variants of a session's problem, and all arms if it visited them:
// the fastest first, those behind, and those that failed. Of our own it is what a system that times
// its candidates itself would settle on, after one round. Peers are visited until they are decided.
// If all fail, the first variant is the answer, and measuring it will say why. visiting is told
// before each visit; it may be nil.
func Choose(ctx context.Context, s *sweep.Session, vs []kernels.Variant, visiting func(*sweep.Arm)) (
	kernels.Variant, []*sweep.Arm, error) {
	if len(vs) == 1 {
		return vs[0], nil, nil
	}
	s.Device.Prefetch(s.Problem, vs)
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return kernels.Variant{}, nil, err
	}
	arms := make([]*sweep.Arm, len(vs))
	for i, v := range vs {
		arms[i] = &sweep.Arm{Variant: v}
	}
	most := 1
	if _, peers := kernels.PeerName(vs[0].Family); peers {
		most = looks
	}
	r := &sweep.RoundRunner{Session: s, Rejects: rejects, Launches: look, Visiting: visiting,
		More: func(n int) bool { return n == 0 || n < most && !sweep.DropSlower(arms) }}
	if err := r.Run(ctx, arms); err != nil {
		return kernels.Variant{}, nil, err
	}
	slices.SortStableFunc(arms, func(a, b *sweep.Arm) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			cmp.Compare(stats.Median(a.Samples), stats.Median(b.Samples)))
	})
	if arms[0].Failure != nil {
		return vs[0], arms, nil
	}
	return arms[0].Variant, arms, nil
}

// rank puts the arms that are behind after the others, and those that failed last.
func rank(a *sweep.Arm) int {
	switch {
	case a.Failure != nil:
		return 2
	case a.Out:
		return 1
	}
	return 0
}
