package search

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// modelOptions say how a model search goes about it.
type modelOptions struct {
	transfer  bool    // take what History knows into the model
	batch     int     // variants per round
	few       int     // the same where fewer than explore may be measured; 0 is batch
	first     int     // launches of a variant's first visit
	start     int     // variants of neighbours to start from
	cold      int     // variants drawn at random to start from where nothing is known
	least     int     // variants to measure before improvement may end the search
	stop      float64 // relative expected improvement below which it ends
	most      float64 // share of the space to measure at most
	floor     int     // but at least so many
	ceiling   int     // and at most so many; 0 is no bound
	polish    float64 // share of them that is for neighbours of the fastest
	explore   int     // but not before so many were measured
	finalists int     // that go into the race
	history   int     // observations of other problems to take in
	widen     float64
}

// fewKnown is the number of problems nearby below which a search that counts on
// them looks at half as many variants again.
const fewKnown = 4

// modelAlone is the model without help.
var modelAlone = modelOptions{batch: 4, first: 3, cold: 8, least: 12, stop: 0.0005, most: 0.25, floor: 16, finalists: 8, widen: 2.5}

// model is a Gaussian process with expected improvement, and a race among the
// fastest.
type model struct {
	s     *Space
	rng   *rand.Rand
	o     modelOptions
	gp    *gp
	told  []int // launches of each variant that the gp knows of
	round int
	race  *race
	unit  float64
	most  int // variants to measure
	ahead []int
	lat   *lattice // nil until it is needed
}

func newModel(s *Space, rng *rand.Rand, o modelOptions) Strategy {
	m := &model{s: s, rng: rng, o: o, told: make([]int, len(s.Variants))}
	m.most = m.limit() // once: on other devices searches end meanwhile
	return m
}

// limit is the most variants to measure: what the budget allows where there is
// one, else the model's own share of the space.
func (m *model) limit() int {
	if m.s.Limit > 0 {
		return m.s.limit()
	}
	most := m.o.most
	if m.o.transfer && m.s.Known.count(m.s.Problem, 2*neighbour) < fewKnown {
		most *= 1.5
	}
	n := max(int(math.Ceil(most*float64(len(m.s.Variants)))), m.o.floor)
	if m.o.ceiling > 0 {
		n = min(n, m.o.ceiling)
	}
	return max(min(n, m.s.limit()), len(m.s.Keep))
}

func (m *model) Ask(b *Board) []Visit {
	if m.race != nil {
		return m.race.next(b)
	}
	m.round++
	if m.round == 1 {
		return m.opening()
	}
	if m.gp == nil {
		m.build(b)
	}
	m.learn(b)
	if round := m.propose(b); len(round) > 0 {
		return round
	}
	if round := m.polish(b); len(round) > 0 {
		return round
	}
	in := b.Ranked()
	slices.SortStableFunc(in, func(x, y int) int {
		ex, _ := m.gp.predict(x)
		ey, _ := m.gp.predict(y)
		switch {
		case ex < ey:
			return -1
		case ex > ey:
			return 1
		}
		return 0
	})
	in = in[:min(m.o.finalists, len(in))]
	for _, v := range m.s.Keep {
		if !slices.Contains(in, v) && b.OK(v) {
			in = append(in, v)
		}
	}
	m.race = &race{s: m.s, rng: m.rng, in: in, widen: m.o.widen, rung: 1}
	return m.race.next(b)
}

// opening is the first round: what is kept, what won nearby, and, where nothing
// is known, a few at random.
func (m *model) opening() []Visit {
	vs := slices.Clone(m.s.Keep)
	add := func(list []int, n int) {
		for _, v := range list {
			if n > 0 && !slices.Contains(vs, v) && len(vs) < m.most {
				vs = append(vs, v)
				n--
			}
		}
	}
	if m.o.transfer {
		add(m.s.Known.Winners(m.s, m.o.start), m.o.start)
	}
	if !m.o.transfer || len(m.s.Known.near(m.s.Problem)) < 2 {
		add(shuffled(m.s, m.rng), m.o.cold)
	}
	return visitAll(vs, m.o.first)
}

// polished is how many of the fastest have their neighbours tried.
const polished = 6

// polish is the variants that differ from one of the fastest in one knob by one step, the most
// promising first. The length scales of the process are of all problems, and a knob may act less
// smoothly on this one. A search of 64 variants without polish saw none within 1% of the best in
// 11 of 100 cases; a search of 48 with it missed in 1.
func (m *model) polish(b *Board) []Visit {
	room := m.most - b.Measured()
	if m.o.polish == 0 || room <= 0 || b.Used() > exploreShare {
		return nil
	}
	if m.lat == nil {
		m.lat = newLattice(m.s)
	}
	ranked := b.Ranked()
	slices.SortStableFunc(ranked, func(x, y int) int {
		ex, _ := m.gp.predict(x)
		ey, _ := m.gp.predict(y)
		return cmp.Compare(ex, ey)
	})
	var vs []int
	for _, v := range ranked[:min(polished, len(ranked))] {
		m.lat.around(v, func(n int, near bool) {
			if near && !b.Seen(n) && !slices.Contains(vs, n) {
				vs = append(vs, n)
			}
		})
	}
	slices.SortStableFunc(vs, func(x, y int) int {
		ex, _ := m.gp.predict(x)
		ey, _ := m.gp.predict(y)
		return cmp.Compare(ex, ey)
	})
	return visitAll(vs[:min(len(vs), room, m.o.batch)], m.o.first)
}
