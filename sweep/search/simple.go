package search

import (
	"math/rand/v2"
	"slices"
)

// singleRound is the strategies grid and random. It visits each variant once, with all launches at once: grid
// in the order of the space, random in random order. A strategy has to be better than random.
type singleRound struct {
	s  *Candidates
	vs []int
}

func (o *singleRound) Ask(*Board) []Visit {
	vs := o.vs
	o.vs = nil
	return visitAll(cutAtLimit(o.s, vs), o.s.Full)
}

// shuffleVariants lists all variants in random order, those to keep first.
func shuffleVariants(s *Candidates, rng *rand.Rand) []int {
	vs := dropVariants(allVariants(s), s.Keep)
	rng.Shuffle(len(vs), func(i, j int) { vs[i], vs[j] = vs[j], vs[i] })
	return append(slices.Clone(s.Keep), vs...)
}

func allVariants(s *Candidates) []int {
	vs := make([]int, len(s.Variants))
	for i := range vs {
		vs[i] = i
	}
	return vs
}

func dropVariants(vs, drop []int) []int {
	return slices.DeleteFunc(slices.Clone(vs), func(v int) bool { return slices.Contains(drop, v) })
}

// cutAtLimit cuts a list of variants at the space's limit; Keep is in it whatever the limit.
func cutAtLimit(s *Candidates, vs []int) []int {
	if n := s.limit(); n < len(vs) {
		vs = append(slices.Clone(s.Keep), dropVariants(vs, s.Keep)...)[:n]
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
