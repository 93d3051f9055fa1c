package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"normbench/kernels"
)

// local climbs: from the base and the winners of neighbouring problems, to
// whatever is fastest among the variants that differ in one knob by one value,
// until none is; then it races the best.
type local struct {
	s      *Space
	rng    *rand.Rand
	moves  [][]int // neighbours of each variant
	race   *race
	opened bool
}

func newLocal(s *Space, rng *rand.Rand) Strategy {
	return &local{s: s, rng: rng, moves: neighbours(s)}
}

const (
	localLaunches = 3
	localLeast    = 12 // variants to measure before a summit is believed
	localRestart  = 4  // variants to start again from
)

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
	// A summit this early may be one of a space in pieces: start elsewhere too.
	if b.Measured() < min(localLeast, l.s.limit()) {
		var round []Visit
		for _, v := range shuffled(l.s, l.rng) {
			if !b.Seen(v) && len(round) < localRestart && b.Measured()+len(round) < l.s.limit() {
				round = append(round, Visit{v, localLaunches})
			}
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
	settings := make([][]kernels.Setting, len(s.Variants))
	for i, v := range s.Variants {
		settings[i] = v.Config.Settings()
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
				knob, d, one := oneKnob(settings[i], settings[j])
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
