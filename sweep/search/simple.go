package search

import (
	"math/rand/v2"
	"slices"
)

// grid measures all, in the order of the space, in one go.
type grid struct {
	s    *Space
	next int
}

func newGrid(s *Space, _ *rand.Rand) Strategy { return &grid{s: s} }

func (g *grid) Ask(*Board) []Visit {
	if g.next > 0 {
		return nil
	}
	g.next = len(g.s.Variants)
	return visitAll(upTo(g.s, allOf(g.s)), g.s.Full)
}

// random measures variants in random order, all launches at once: the floor
// that a strategy has to be above.
type random struct {
	s    *Space
	rng  *rand.Rand
	done bool
}

func newRandom(s *Space, rng *rand.Rand) Strategy { return &random{s: s, rng: rng} }

func (r *random) Ask(*Board) []Visit {
	if r.done {
		return nil
	}
	r.done = true
	return visitAll(upTo(r.s, shuffled(r.s, r.rng)), r.s.Full)
}

// shuffled are all variants in random order, those to keep first.
func shuffled(s *Space, rng *rand.Rand) []int {
	vs := without(allOf(s), s.Keep)
	rng.Shuffle(len(vs), func(i, j int) { vs[i], vs[j] = vs[j], vs[i] })
	return append(slices.Clone(s.Keep), vs...)
}

func allOf(s *Space) []int {
	vs := make([]int, len(s.Variants))
	for i := range vs {
		vs[i] = i
	}
	return vs
}

func without(vs, drop []int) []int {
	return slices.DeleteFunc(slices.Clone(vs), func(v int) bool { return slices.Contains(drop, v) })
}

// upTo cuts a list of variants at the space's limit; Keep is in it whatever the limit.
func upTo(s *Space, vs []int) []int {
	if n := s.limit(); n < len(vs) {
		vs = append(slices.Clone(s.Keep), without(vs, s.Keep)...)[:n]
	}
	return vs
}

func visitAll(vs []int, launches int) []Visit {
	round := make([]Visit, len(vs))
	for i, v := range vs {
		round[i] = Visit{v, launches}
	}
	return round
}
