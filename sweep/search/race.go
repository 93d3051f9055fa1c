package search

import (
	"math"
	"math/rand/v2"
	"slices"
)

// raceLaunches are the launches that a variant has had in all after each round of a race. Racing 1, 3,
// 7, 15 costs 1.03 to 1.10 launches per variant where few are near the best, and 6.7 where most are, at
// the regret of 15 for all (replays of the AutoTuningAssociation's benchmark_hub).
var raceLaunches = []int{1, 3, 7, 15}

// A race is the strategy halving, and the end of evolve. A round visits the variants that are left, the
// fastest among them, in random order. Then those are dropped whose time over the fastest's, from the
// rounds that they shared, is more than noise explains.
type race struct {
	s     *Candidates
	rng   *rand.Rand
	in    []int
	next  int     // index of the next round in raceLaunches
	widen float64 // standard deviations that a variant may lie behind
	most  int     // left after a rung, so that noise alone does not keep hundreds; 0 is no bound
}

// Ask implements Strategy: the next round of the race, nil at its end.
func (r *race) Ask(b *Board) []Visit {
	for ; r.next < len(raceLaunches); r.next++ {
		r.in = r.possibleWinners(b)
		target := min(raceLaunches[r.next], r.s.Full)
		var round []Visit
		for _, v := range r.in {
			if n := target - b.Launches(v); n > 0 && b.Failure(v) == nil {
				round = append(round, Visit{v, n})
			}
		}
		if len(r.in) == 1 && b.Launches(r.in[0]) > 0 {
			return nil // there is no one to race with
		}
		if len(round) == 0 {
			continue
		}
		r.rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		r.next++
		return round
	}
	return nil
}

// possibleWinners lists the variants that may still be the fastest, and those to keep.
func (r *race) possibleWinners(b *Board) []int {
	ranked := slices.DeleteFunc(b.Ranking(), func(v int) bool { return !slices.Contains(r.in, v) })
	if len(ranked) == 0 {
		return r.in
	}
	best := ranked[0]
	noise := b.Noise()
	var in []int
	for i, v := range ranked {
		// The median of n normal values varies 1.25 times as much as their mean.
		n := float64(min(b.Launches(v), b.Launches(best)))
		factor := 1 + r.widen*1.25*noise*math.Sqrt(2/n)
		if keep := slices.Contains(r.s.Keep, v); keep || b.ratio(v, best) <= factor &&
			(r.most == 0 || i < r.most) {
			in = append(in, v)
		}
	}
	for _, v := range r.in { // not seen yet
		if !b.HasMeasured(v) {
			in = append(in, v)
		}
	}
	return in
}
