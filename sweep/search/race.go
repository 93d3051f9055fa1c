package search

import (
	"math"
	"math/rand/v2"
	"slices"
)

// rungs are the launches that a variant has had in all after each round of a
// race. Racing 1, 3, 7, 15 costs 1.03 to 1.10 launches per variant where few are
// near the best, and 6.7 where most are, at the regret of 15 for all (replays of
// the AutoTuningAssociation's benchmark_hub).
var rungs = []int{1, 3, 7, 15}

// A race eliminates variants round by round: a round visits those that are left
// in random order, the incumbent among them, and drops those whose time over
// the incumbent's, from the rounds that they shared, is beyond what noise
// explains.
type race struct {
	s     *Space
	rng   *rand.Rand
	in    []int
	rung  int
	widen float64 // standard deviations that a variant may lie behind
	most  int     // left after a rung, so that noise alone does not keep hundreds; 0 is no bound
}

// next is the next round of the race, nil at its end.
func (r *race) next(b *Board) []Visit {
	for ; r.rung < len(rungs); r.rung++ {
		r.in = r.left(b)
		target := min(rungs[r.rung], r.s.Full)
		var round []Visit
		for _, v := range r.in {
			if n := target - b.Launches(v); n > 0 && !b.cells[v].failed && !b.cells[v].out {
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
		r.rung++
		return round
	}
	return nil
}

// left are the variants that may still be the fastest. Those to keep stay.
func (r *race) left(b *Board) []int {
	ranked := slices.DeleteFunc(b.Ranked(), func(v int) bool { return !slices.Contains(r.in, v) })
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
		if keep := slices.Contains(r.s.Keep, v); keep || b.ratio(v, best) <= factor && (r.most == 0 || i < r.most) {
			in = append(in, v)
		}
	}
	for _, v := range r.in { // not seen yet
		if !b.Seen(v) {
			in = append(in, v)
		}
	}
	return in
}

// halving races all variants that the limit allows, drawn at random.
type halving struct{ race }

func newHalving(s *Space, rng *rand.Rand) Strategy {
	return &halving{race{s: s, rng: rng, in: upTo(s, shuffled(s, rng)), widen: 2.5}}
}

func (h *halving) Ask(b *Board) []Visit { return h.next(b) }

// local climbs: from the base and the winners of neighbouring problems, to
// whatever is fastest among the variants that differ in one knob by one value,
// until none is; then it races the best.
type local struct {
	s      *Space
	rng    *rand.Rand
	moves  [][]int // neighbours of each variant
	race   *race
	at     int
	opened bool
}

func newLocal(s *Space, rng *rand.Rand) Strategy {
	return &local{s: s, rng: rng, moves: neighbours(s), at: -1}
}

const localLaunches = 3

func (l *local) Ask(b *Board) []Visit {
	if l.race != nil {
		return l.race.next(b)
	}
	if !l.opened {
		l.opened = true
		vs := slices.Clone(l.s.Keep)
		for _, v := range l.s.Known.Winners(l.s, 3) {
			if !slices.Contains(vs, v) {
				vs = append(vs, v)
			}
		}
		return visitAll(upTo(l.s, vs), localLaunches)
	}
	// The fastest whose neighbours are not all known: from a summit, the next
	// lower slope, as long as it is within noise of the summit.
	ranked := b.Ranked()
	for _, v := range ranked {
		if b.Median(v) > b.Median(ranked[0])*(1+3*b.Noise()) {
			break
		}
		var round []Visit
		for _, n := range l.moves[v] {
			if !b.Seen(n) {
				round = append(round, Visit{n, localLaunches})
			}
		}
		if left := l.s.limit() - b.Measured(); len(round) > left {
			l.rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
			round = round[:max(left, 0)]
		}
		if len(round) > 0 {
			return round
		}
	}
	l.race = &race{s: l.s, rng: l.rng, in: b.Ranked(), widen: 2.5, rung: 2}
	return l.race.next(b)
}

// neighbours lists for each variant those of its family that differ in one knob
// by one value of those in the space, and the nearest of each other family.
func neighbours(s *Space) [][]int {
	out := make([][]int, len(s.Variants))
	points := make([]point, len(s.Variants))
	for i, v := range s.Variants {
		points[i] = pointOf(s.Problem, v, s.Units, 0)
	}
	type step struct{ knob, up string }
	for i, a := range s.Variants {
		best := map[step]int{}
		gap := map[step]float64{}
		for j, b := range s.Variants {
			if i == j {
				continue
			}
			var k step
			size := 0.0
			if a.Family != b.Family {
				k, size = step{"family", b.Family}, between(points[i], points[j])
			} else {
				knob, d, one := oneKnob(a, b)
				if !one {
					continue
				}
				k, size = step{knob, "down"}, math.Abs(d)
				if d > 0 {
					k.up = "up"
				}
			}
			if g, ok := gap[k]; !ok || size < g {
				best[k], gap[k] = j, size
			}
		}
		for _, j := range best {
			out[i] = append(out[i], j)
		}
		slices.Sort(out[i])
	}
	return out
}

func between(a, b point) float64 {
	sum := 0.0
	for i := range a.x {
		sum += (a.x[i] - b.x[i]) * (a.x[i] - b.x[i])
	}
	return sum
}
