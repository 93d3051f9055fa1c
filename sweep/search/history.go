package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
)

// A History holds the winners of finished searches, from which searches of nearby problems start.
// Several goroutines may use it.
type History struct {
	mu       sync.Mutex
	problems []kernels.Problem // in the order in which they came
	fastest  map[kernels.Problem]kernels.Variant
}

// Add adds the fastest variant of a finished search. On a nil History it does nothing.
func (h *History) Add(b *Board) {
	if ranked := b.Ranking(); h != nil && len(ranked) > 0 {
		h.AddWinner(b.space.Problem, b.space.Variants[ranked[0]])
	}
}

// AddWinner adds the fastest variant that a search has found for a problem.
func (h *History) AddWinner(p kernels.Problem, v kernels.Variant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fastest == nil {
		h.fastest = map[kernels.Problem]kernels.Variant{}
	}
	if _, ok := h.fastest[p]; !ok {
		h.problems = append(h.problems, p)
	}
	h.fastest[p] = v
}

// distance computes how far two problems of one pass lie apart, in octaves of columns; +Inf for
// different passes. A factor of rows counts half, as beyond a few rows per SM it only repeats the work
// of a CTA. Another op moves the same tensors and computes little more, so it counts as one octave.
func distance(a, b kernels.Problem) float64 {
	if a.Pass != b.Pass {
		return math.Inf(1)
	}
	n := math.Log2(float64(a.N) / float64(b.N))
	m := math.Log2(float64(a.M) / float64(b.M))
	d := math.Sqrt(n*n + m*m/4)
	if a.Op != b.Op {
		d++
	}
	if a.Bias != b.Bias {
		d += 0.5
	}
	if a.DType != b.DType || a.Weight != b.Weight {
		d++
	}
	return d
}

// Winners returns the variants of s that were fastest on the nearest problems of the same pass, at most
// n, as indices into s.Variants. Where the op differs it takes the same design and config.
func (h *History) Winners(s *Candidates, n int) (out []int) {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.Clone(h.problems)
	slices.SortStableFunc(list, func(p, q kernels.Problem) int {
		return cmp.Compare(distance(s.Problem, p), distance(s.Problem, q))
	})
	for _, p := range list {
		if p.Pass != s.Problem.Pass || len(out) >= n {
			break
		}
		design := designOf(h.fastest[p])
		i := slices.IndexFunc(s.Variants, func(v kernels.Variant) bool { return designOf(v) == design })
		if i >= 0 && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// designOf removes op and pass from a variant's family: rms_bwd/reg_persist becomes reg_persist.
func designOf(v kernels.Variant) kernels.Variant {
	v.Family = v.Family[strings.LastIndexByte(v.Family, '/')+1:]
	return v
}
