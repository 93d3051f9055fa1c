package search

import (
	"math"
	"math/rand/v2"
	"slices"
)

// local climbs: from the base and the winners of neighbouring problems, to whatever
// is fastest among the variants that differ in one knob, the nearest values first.
// At a summit it is kicked: it goes on from a variant that differs from the fastest
// in a few knobs, now and then from one drawn at random (iterated local search:
// Lourenço, Martin and Stützle 2003). A slope that is level within the noise is
// walked too. In the end it races the best.
type local struct {
	s      *Space
	rng    *rand.Rand
	lat    *lattice
	race   *race
	at     int // where it climbs, -1 for none
	best   float64
	leaps  int   // rounds of far neighbours from there
	kicks  int   // since the fastest was last beaten
	kicked []int // variants of the last kick
}

func newLocal(s *Space, rng *rand.Rand) Strategy {
	return &local{s: s, rng: rng, lat: newLattice(s), at: -1, best: math.Inf(1)}
}

const (
	localLaunches = 3
	localRound    = 6  // neighbours of a round, or variants of a kick
	localLeaps    = 2  // rounds of far neighbours of one variant
	localDraws    = 12 // to start from where nothing is known
	localKicks    = 6  // in vain, after which it ends where no budget says more
	localLeast    = 12 // variants to measure before that
)

func (l *local) Ask(b *Board) []Visit {
	if l.race != nil {
		return l.race.next(b)
	}
	launches := min(localLaunches, l.s.Full)
	if !b.Seen(l.s.Keep[0]) {
		vs := slices.Clone(l.s.Keep)
		for _, v := range l.s.Known.Winners(l.s, 3) {
			if !slices.Contains(vs, v) {
				vs = append(vs, v)
			}
		}
		if len(vs) == len(l.s.Keep) { // nothing is known: the first climb starts from the best of a few
			for _, v := range l.fresh(b, localDraws) {
				if !slices.Contains(vs, v) {
					vs = append(vs, v)
				}
			}
		}
		return visitAll(upTo(l.s, vs), launches)
	}
	if room := l.s.limit() - b.Measured(); room > 0 && b.Used() <= exploreShare {
		if vs := l.step(b, room); len(vs) > 0 {
			return visitAll(vs, launches)
		}
	}
	l.race = &race{s: l.s, rng: l.rng, in: b.Ranked(), widen: 2.5, rung: 2, most: 14}
	return l.race.next(b)
}

// step is the next variants to try, none at the end.
func (l *local) step(b *Board, room int) []int {
	ranked := b.Ranked()
	if len(ranked) == 0 {
		return l.fresh(b, min(localRound, room))
	}
	if top := b.Median(ranked[0]); top < l.best {
		l.best, l.kicks, l.at = top, 0, ranked[0]
	}
	if len(l.kicked) > 0 { // the climb goes on from the fastest of them
		l.at = -1
		for _, v := range l.kicked {
			if b.OK(v) && (l.at < 0 || b.Median(v) < b.Median(l.at)) {
				l.at = v
			}
		}
		l.kicked = nil
	}
	if l.at < 0 || !b.OK(l.at) {
		l.at = ranked[0]
	}
	level := 1 + b.Noise()
	for range len(b.order) + 1 {
		// A neighbour that is faster, or as fast and not yet walked on.
		next, fastest := -1, b.Median(l.at)
		var near, far []int
		l.lat.around(l.at, func(n int, close bool) {
			switch {
			case b.OK(n) && b.Median(n) < fastest:
				next, fastest = n, b.Median(n)
			case !b.Seen(n) && close:
				near = append(near, n)
			case !b.Seen(n):
				far = append(far, n)
			}
		})
		if next >= 0 {
			l.at, l.leaps = next, 0
			continue
		}
		if len(near) > 0 {
			l.rng.Shuffle(len(near), func(i, j int) { near[i], near[j] = near[j], near[i] })
			return near[:min(len(near), localRound, room)]
		}
		if len(far) > 0 && l.leaps < localLeaps {
			l.leaps++
			l.rng.Shuffle(len(far), func(i, j int) { far[i], far[j] = far[j], far[i] })
			return far[:min(len(far), localRound, room)]
		}
		// Elsewhere on the plateau, if the fastest is on one.
		moved := false
		for _, v := range ranked[1:min(len(ranked), 8)] {
			if b.Median(v) > b.Median(ranked[0])*level || v == l.at {
				continue
			}
			open := false
			l.lat.around(v, func(n int, _ bool) { open = open || !b.Seen(n) })
			if open {
				l.at, l.leaps, moved = v, 0, true
				break
			}
		}
		if !moved {
			break
		}
	}
	l.kicks++
	if l.s.Limit <= 0 && l.kicks > localKicks && b.Measured() >= localLeast {
		return nil
	}
	l.at, l.leaps = -1, 0
	l.kicked = l.kick(b, ranked[0], min(localRound, room))
	return l.kicked
}

// kick is variants that differ from v in two or more knobs, every third time any.
func (l *local) kick(b *Board, v, n int) []int {
	if l.kicks%3 == 0 {
		return l.fresh(b, n)
	}
	var vs []int
	for i := range 200 {
		rate := float64(2+l.kicks/2+i/50) / float64(len(l.lat.axes)+1)
		if w, ok := l.lat.child(v, v, min(rate, 1), l.rng); ok && !b.Seen(w) && !slices.Contains(vs, w) {
			if vs = append(vs, w); len(vs) == n {
				return vs
			}
		}
	}
	for _, w := range l.fresh(b, n) {
		if len(vs) < n && !slices.Contains(vs, w) {
			vs = append(vs, w)
		}
	}
	return vs
}

func (l *local) fresh(b *Board, n int) []int {
	var vs []int
	for _, v := range shuffled(l.s, l.rng) {
		if len(vs) >= n {
			break
		}
		if !b.Seen(v) {
			vs = append(vs, v)
		}
	}
	return vs
}
