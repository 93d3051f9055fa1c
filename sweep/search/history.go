package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
)

// A History is what searches found, for the searches after them. It may be used by several
// goroutines.
type History struct {
	mu       sync.Mutex
	problems []kernels.Problem // in the order in which they came
	fastest  map[kernels.Problem]kernels.Variant
}

// Add remembers the board of a finished search. A nil history does not.
func (h *History) Add(b *Board) {
	if ranked := b.Ranking(); h != nil && len(ranked) > 0 {
		h.Found(b.space.Problem, b.space.Variants[ranked[0]])
	}
}

// Found remembers the fastest variant that a search saw of a problem.
func (h *History) Found(p kernels.Problem, v kernels.Variant) {
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

// distance tells how far two problems of one pass lie apart, in octaves of
// columns; +Inf for another pass. A factor of rows counts less, as beyond a few
// rows per SM it only repeats what a CTA does; the other op moves
// the same tensors and does a little more with them.
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

// Winners are the variants of s that were fastest on the nearest problems of its pass, at most n,
// as indices into its variants. A variant of the other op is that of the same design.
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

// designOf is a variant without its op and pass: reg_persist of rms_bwd/reg_persist.
func designOf(v kernels.Variant) kernels.Variant {
	v.Family = v.Family[strings.LastIndexByte(v.Family, '/')+1:]
	return v
}
