package search

import (
	"cmp"
	"math"
	"slices"
)

// build makes the process, with what is known of other problems.
func (m *model) build(b *Board) {
	s := m.s
	cand := make([]point, len(s.Variants))
	for i, v := range s.Variants {
		cand[i] = pointOf(s.Problem, v, s.SMs, 0)
	}
	// Logs are over the stream's time where the bench told it, as they are in the
	// history; else over the base's, which is as good on one problem alone.
	m.unit = b.unit
	if m.unit == 0 {
		m.unit = b.Median(s.Keep[0])
	}
	if math.IsInf(m.unit, 1) {
		if r := b.Ranked(); len(r) > 0 {
			m.unit = b.Median(r[0])
		} else {
			m.unit = 1
		}
	}
	m.gp = newGP(defaultHyper, warp(0.35), cand)
	if !m.o.transfer {
		return
	}
	n := 0
	var noise = b.Noise()
	for task, p := range s.Known.near(s.Problem) {
		for _, f := range p.found {
			if n++; n > m.o.history {
				return
			}
			m.gp.observe(pointOf(p.problem, f.Variant, s.SMs, task+1), warp(f.Log), m.variance(noise, f.Log, f.Launches))
		}
	}
}

// variance is that of the warped log of a median of so many launches.
func (m *model) variance(noise, log float64, launches int) float64 {
	s := 1.25 * noise / unwarp(log)
	return s * s / float64(max(launches, 1))
}

// learn tells the process what the board has that it does not.
func (m *model) learn(b *Board) {
	noise := b.Noise()
	for _, v := range b.order {
		n := b.Launches(v)
		if !b.OK(v) || n == m.told[v] {
			continue
		}
		log := math.Log(median(b.Samples(v)[m.told[v]:]) / m.unit)
		m.gp.observeCandidate(v, warp(log), m.variance(noise, log, n-m.told[v]))
		m.told[v] = n
	}
}

// exploreShare is how much of a budget goes into new variants; the rest is for
// the race of the fastest.
const exploreShare = 0.6

// propose is a round of the variants with the most expected improvement, each as
// if those before it had turned out as expected. It is empty at the end of the
// search.
func (m *model) propose(b *Board) []Visit {
	batch := m.o.batch
	if m.o.few > 0 && m.most < m.o.explore {
		batch = m.o.few
	}
	room := min(max(m.most-int(m.o.polish*float64(m.most)), min(m.most, m.o.explore))-b.Measured(), batch)
	if room <= 0 || b.Used() > exploreShare {
		return nil
	}
	best := math.Inf(1)
	bestLog := 0.0
	for _, v := range b.order {
		if b.OK(v) {
			if e, _ := m.gp.predict(v); e < best {
				best, bestLog = e, math.Log(b.Median(v)/m.unit)
			}
		}
	}
	if math.IsInf(best, 1) {
		best = m.gp.prior
	}
	m.foresee(b, best)
	mark := m.gp.mark()
	defer m.gp.rewind(mark)
	var round []Visit
	for range room {
		pick, most := -1, 0.0
		for v := range m.s.Variants {
			if b.Seen(v) || slices.ContainsFunc(round, func(x Visit) bool { return x.Variant == v }) {
				continue
			}
			if ei := m.gp.improvement(v, best); ei > most || pick < 0 {
				pick, most = v, ei
			}
		}
		if pick < 0 || most*unwarp(bestLog) < m.o.stop && b.Measured()+len(round) >= m.o.least {
			break
		}
		round = append(round, Visit{pick, m.o.first})
		e, _ := m.gp.predict(pick)
		m.gp.observeCandidate(pick, e, m.variance(b.Noise(), bestLog, m.o.first))
	}
	return round
}

// foresee lists the variants with the most expected improvement, more than a
// round of them: those that this round leaves are likely to be in the next.
func (m *model) foresee(b *Board, best float64) {
	m.ahead = m.ahead[:0]
	ei := make(map[int]float64, len(m.s.Variants))
	for v := range m.s.Variants {
		if !b.Seen(v) {
			m.ahead = append(m.ahead, v)
			ei[v] = m.gp.improvement(v, best)
		}
	}
	slices.SortStableFunc(m.ahead, func(x, y int) int { return cmp.Compare(ei[y], ei[x]) })
	m.ahead = m.ahead[:min(foreseen, len(m.ahead))]
}

// foreseen is how many variants beyond a round are announced. With 48, which kept 16 cores busy
// between rounds, 70% of the compiled variants were never launched on an H200.
const foreseen = 8

func (m *model) later() []int { return m.ahead }
