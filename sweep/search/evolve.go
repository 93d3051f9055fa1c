package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// An evolution is the strategy evolve: a genetic algorithm whose children a surrogate ranks. It keeps a
// population, the fastest so far, crosses and mutates it and never tries a variant twice. Each round
// tries the variants that the surrogate expects most of, among children, neighbours of the fastest and
// variants drawn at random. In the end the fastest race.
type evolution struct {
	s     *Candidates
	rng   *rand.Rand
	lat   *lattice
	model *surrogate
	valid *surrogate // of what is invalid; nil until enough is
	most  int
	race  *race
}

// exploreShare is how much of a budget goes into new variants; the rest is for
// the race of the fastest.
const exploreShare = 0.6

const (
	evolveWinners  = 4 // of problems nearby, to start from
	evolveOpening  = 8
	evolveExplore  = 24
	evolveRound    = 12  // variants, of our own families
	evolveLeast    = 3   // observations that the surrogate says anything from
	evolveTrain    = 160 // observations that the surrogate is conditioned on, at most
	evolveFit      = 90  // and fitted to
	evolveRefit    = 1.2 // growth of the observations after which it is fitted again
	evolvePool     = 500 // variants that it ranks in a round
	evolveParents  = 16
	evolveMutation = 0.12
	evolveMost     = 48 // variants, where no budget says otherwise
	// share of what was tried from which the invalid have a surrogate of their own
	evolveInvalid = 0.1
	evolveShare   = 0.75 // of a round that the surrogate chooses; the rest is the population's
	evolveStale   = 32   // tries without a faster one, from which one of each round is drawn at random
	evolveRecent  = 16
	// variance of its labels: 0.05, and a floor of 1e-3, let 85% of a budget fail beyond the border
	evolveDoubt = 0.005
)

func newEvolution(s *Candidates, rng *rand.Rand) Strategy {
	e := &evolution{s: s, rng: rng, lat: newLattice(s)}
	e.model = newSurrogate(s, e.lat)
	e.most = s.limit()
	if s.Allow.Configs == 0 {
		e.most = min(e.most, evolveMost)
	}
	return e
}

// Ask implements Strategy: an opening, then rounds of new variants, then a race of the fastest.
func (e *evolution) Ask(b *Board) []Visit {
	if e.race != nil {
		return e.race.Ask(b)
	}
	room := e.most - b.CountMeasured()
	if b.CountMeasured() == 0 {
		return visitAll(cutAtLimit(e.s, e.openingVariants()), 1)
	}
	if room > 0 && b.UsedShare() <= exploreShare {
		if vs := e.propose(b, room); len(vs) > 0 {
			return visitAll(vs, 1)
		}
	}
	e.race = &race{s: e.s, rng: e.rng, in: b.Ranking(), widen: 3, next: 1, most: 20}
	return e.race.Ask(b)
}

// openingVariants lists the variants to start from: those to keep and the winners of nearby problems.
// Without such winners it draws a few variants that lie far apart from each other.
func (e *evolution) openingVariants() []int {
	vs := slices.Clone(e.s.Keep)
	for _, v := range e.s.Known.Winners(e.s, evolveWinners) {
		if !slices.Contains(vs, v) && len(vs) < e.most {
			vs = append(vs, v)
		}
	}
	if len(vs) > len(e.s.Keep)+1 {
		return vs
	}
	n := min(evolveOpening, max(e.most/5, 2), len(e.s.Variants)-len(vs))
	for range n {
		pick, far := -1, -1
		for range 24 {
			v := e.rng.IntN(len(e.s.Variants))
			if slices.Contains(vs, v) {
				continue
			}
			d := len(e.lat.axes)
			for _, w := range vs {
				d = min(d, e.lat.countDifferences(v, w))
			}
			if d > far {
				pick, far = v, d
			}
		}
		if pick >= 0 {
			vs = append(vs, pick)
		}
	}
	return vs
}

// propose chooses the new variants of a round, at most room.
func (e *evolution) propose(b *Board, room int) []int {
	ranked := b.Ranking()
	n := len(ranked)
	size := e.roundSize(b, room)
	if n == 0 {
		return e.drawUntried(b, size)
	}
	vs := e.chooseByModel(b, ranked, size)
	take := func(v int) {
		if v >= 0 && !b.HasMeasured(v) && !slices.Contains(vs, v) && len(vs) < size {
			vs = append(vs, v)
		}
	}
	if size > 1 && b.CountMeasured()-slices.Index(b.order, ranked[0]) > evolveStale {
		vs = vs[:min(len(vs), size-1)]
		for _, v := range e.drawUntried(b, 1) {
			take(v)
		}
	}
	for range 40 {
		if len(vs) >= size {
			break
		}
		take(e.breedChild(ranked, n))
	}
	for _, v := range e.drawUntried(b, size) {
		take(v)
	}
	return vs
}

// chooseByModel chooses the surrogate's part of a round: the variants with the most expected improvement
// on the fastest, weighed by the chance that they are valid. It returns none while too few were
// measured.
func (e *evolution) chooseByModel(b *Board, ranked []int, size int) (vs []int) {
	pool := e.candidates(b, ranked)
	y, train := e.trainingSet(b, ranked)
	n := len(ranked)
	if n < evolveLeast || len(pool) == 0 {
		return nil
	}
	sweeps := 2
	if n > 100 {
		sweeps = 1
	}
	e.model.learn(train, y, n, sweeps)
	guesses := e.model.predict(pool)
	ok := e.validChances(b, guesses)
	least := e.leastValidChance(b)
	best := slices.Min(y)
	share := max(int(math.Round(float64(size)*evolveShare)), 1)
	for len(vs) < min(share, len(guesses)) {
		pick, most := -1, math.Inf(-1)
		for i := range guesses {
			x := math.Log(guesses[i].improvement(best)+1e-300) + math.Log(ok[i])
			if ok[i] < least {
				x -= 1e6 // the last choice
			}
			if x > most && !slices.Contains(vs, guesses[i].variant) {
				pick, most = i, x
			}
		}
		if pick < 0 {
			break
		}
		vs = append(vs, guesses[pick].variant)
		if len(vs) < share {
			e.model.assume(guesses[pick], guesses)
		}
	}
	return vs
}

// roundSize computes how many variants a round has. Configs of our families compile side by side before
// a round, so rounds are large; a search of few has small ones, as it learns more from each.
func (e *evolution) roundSize(b *Board, room int) int {
	switch {
	case e.s.Axes != nil:
		return min(max(b.CountMeasured()/12, 1), 8, room)
	case e.most < 24:
		return min(2, room)
	}
	return min(evolveRound, room)
}

// breedChild draws two of the fastest and crosses them; -1 where the space does not have the child.
func (e *evolution) breedChild(ranked []int, n int) int {
	parents := min(evolveParents, n)
	pick := func() int { return ranked[min(e.rng.IntN(parents), e.rng.IntN(parents))] }
	v, ok := e.lat.child(pick(), pick(), evolveMutation+1/float64(len(e.lat.axes)), e.rng)
	if !ok {
		return -1
	}
	return v
}

// drawUntried draws up to n variants that were not tried yet.
func (e *evolution) drawUntried(b *Board, n int) []int {
	var vs []int
	total := len(e.s.Variants)
	for range 20 * n {
		if v := e.rng.IntN(total); !b.HasMeasured(v) && !slices.Contains(vs, v) {
			if vs = append(vs, v); len(vs) == n {
				return vs
			}
		}
	}
	from := e.rng.IntN(total)
	for i := range total { // few are left
		if v := (from + i) % total; !b.HasMeasured(v) && !slices.Contains(vs, v) && len(vs) < n {
			vs = append(vs, v)
		}
	}
	return vs
}

// candidates lists the variants that the surrogate may choose from: all of a small space; of a large one
// the neighbours of the fastest, children, and variants drawn at random.
func (e *evolution) candidates(b *Board, ranked []int) []int {
	var vs []int
	in := map[int]bool{}
	add := func(v int) {
		if v >= 0 && !in[v] && !b.HasMeasured(v) && len(vs) < evolvePool {
			in[v] = true
			vs = append(vs, v)
		}
	}
	best := ranked[:min(6, len(ranked))]
	if e.s.Axes == nil && b.CountMeasured() >= min(evolveExplore, e.most*2/3) {
		for _, v := range best {
			e.lat.visitNeighbours(v, func(n int, near bool) {
				if near {
					add(n)
				}
			})
		}
		if len(vs) > 0 {
			return vs
		}
	}
	if len(e.s.Variants)-b.CountMeasured() <= evolvePool {
		for v := range e.s.Variants {
			add(v)
		}
		return vs
	}
	for i, v := range best {
		e.lat.visitNeighbours(v, func(n int, near bool) {
			if near || i == 0 && len(vs) < evolvePool/2 || e.rng.IntN(4) == 0 && len(vs) < evolvePool/2 {
				add(n)
			}
		})
	}
	until := len(vs) + (evolvePool-len(vs))/2
	for range 2 * evolvePool {
		if len(vs) >= until {
			break
		}
		add(e.breedChild(ranked, len(ranked)))
	}
	for range 2 * evolvePool {
		add(e.rng.IntN(len(e.s.Variants)))
	}
	return vs
}

// trainingSet chooses the variants that the surrogate learns from, the fastest and a part of the others,
// with the warped logs of their times. It orders them so that the first part is a fair sample too.
func (e *evolution) trainingSet(b *Board, ranked []int) (y []float64, vs []int) {
	vs = slices.Clone(ranked)
	if len(vs) > evolveTrain {
		rest := vs[evolveTrain/2:]
		e.rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		vs = vs[:evolveTrain]
	}
	if len(vs) > evolveFit {
		head := slices.Clone(vs)
		vs = vs[:0]
		for i := range len(head) / 2 {
			vs = append(vs, head[i], head[len(head)-1-i])
		}
	}
	unit := b.Median(ranked[0])
	for _, v := range vs {
		log := math.Log(b.Median(v) / unit)
		y = append(y, warp(log))
	}
	return y, vs
}

// validChances estimates the chance that each config of the pool is valid, by a second surrogate that
// learns 1 of a valid config and -1 of an invalid one. The surrogate of times would not do: the knobs
// that make a config invalid are not those that make it slow, and reach over other distances. Where few
// configs are invalid it returns 1 for all.
func (e *evolution) validChances(b *Board, pool []prediction) []float64 {
	out := slices.Repeat([]float64{1}, len(pool))
	var bad, good []int
	for _, v := range b.order {
		if b.OK(v) {
			good = append(good, v)
		} else {
			bad = append(bad, v)
		}
	}
	n := len(good) + len(bad)
	if len(bad) < 3 || float64(len(bad)) < evolveInvalid*float64(n) {
		return out
	}
	if e.valid == nil {
		e.valid = newSurrogate(e.s, e.lat)
	}
	last := func(vs []int) []int { return vs[max(len(vs)-evolveTrain/2, 0):] }
	good, bad = last(good), last(bad)
	var vs []int
	var y []float64
	for i := range max(len(good), len(bad)) { // in turns, so that a part of it is a fair sample
		if k := len(good) - 1 - i; k >= 0 {
			vs, y = append(vs, good[k]), append(y, 1)
		}
		if k := len(bad) - 1 - i; k >= 0 {
			vs, y = append(vs, bad[k]), append(y, -1)
		}
	}
	e.valid.learn(vs, y, n, 1)
	variants := make([]int, len(pool))
	for i := range pool {
		variants[i] = pool[i].variant
	}
	for i, q := range e.valid.predict(variants) {
		out[i] = max(distuv.UnitNormal.CDF(q.mean/math.Sqrt(q.sd*q.sd+evolveDoubt)), 1e-9)
	}
	return out
}

// leastValidChance returns the chance of being valid below which a variant is tried last: 0.5 if more
// than half of the latest tries failed, else 0. The expected improvement beyond a border of validity
// grows without bound, so a search might spend all of its budget there.
func (e *evolution) leastValidChance(b *Board) float64 {
	last := b.order[max(len(b.order)-evolveRecent, 0):]
	failed := 0
	for _, v := range last {
		if !b.OK(v) {
			failed++
		}
	}
	if 2*failed > evolveRecent {
		return 0.5
	}
	return 0
}
