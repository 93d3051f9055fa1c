package search

import (
	"math/rand/v2"
	"slices"
)

// A singleRound is the strategies grid and random. It visits each variant once, with all launches at
// once: grid in the order of the space, random in random order. Random is there to compare others with.
type singleRound struct {
	s  *Candidates
	vs []int
}

// Ask implements Strategy: all variants in its only round, then none.
func (o *singleRound) Ask(*Board) []Visit {
	vs := o.vs
	o.vs = nil
	return visitAll(cutAtLimit(o.s, vs), o.s.Full)
}

// shuffleVariants lists all variants in random order behind those to keep.
func shuffleVariants(s *Candidates, rng *rand.Rand) []int {
	vs := dropVariants(allVariants(s), s.Keep)
	rng.Shuffle(len(vs), func(i, j int) { vs[i], vs[j] = vs[j], vs[i] })
	return append(slices.Clone(s.Keep), vs...)
}

// allVariants lists the indices of all variants.
func allVariants(s *Candidates) []int {
	vs := make([]int, len(s.Variants))
	for i := range vs {
		vs[i] = i
	}
	return vs
}

// dropVariants returns vs without those of drop.
func dropVariants(vs, drop []int) []int {
	return slices.DeleteFunc(slices.Clone(vs), func(v int) bool { return slices.Contains(drop, v) })
}

// cutAtLimit cuts a list of variants to the space's limit; the variants to keep stay in it.
func cutAtLimit(s *Candidates, vs []int) []int {
	if n := s.limit(); n < len(vs) {
		vs = append(slices.Clone(s.Keep), dropVariants(vs, s.Keep)...)[:n]
	}
	return vs
}

// visitAll makes a round that visits each variant once with so many launches.
func visitAll(vs []int, launches int) []Visit {
	round := make([]Visit, len(vs))
	for i, v := range vs {
		round[i] = Visit{v, launches}
	}
	return round
}
