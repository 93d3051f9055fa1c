package search

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"normbench/kernels"
)

// A History is what searches found, for the searches after them: the time of
// each variant over that of the problem's stream, or of its base. It may be used
// by several goroutines.
type History struct {
	mu       sync.Mutex
	problems []*past
	winners  map[kernels.Problem]kernels.Variant
}

type past struct {
	problem kernels.Problem
	found   []Found
}

// Found is one variant's time on a problem.
type Found struct {
	Variant kernels.Variant
	Log     float64 // natural log of the time over the problem's unit
}

// Add remembers the board of a finished search. unit is the stream's time in microseconds, by
// which the times of the problem are divided.
func (h *History) Add(b *Board, unit float64) {
	if h == nil {
		return
	}
	p := &past{problem: b.space.Problem}
	for _, v := range b.Ranked() {
		p.found = append(p.found,
			Found{b.space.Variants[v], math.Log(b.cells[v].median / unit)})
	}
	h.add(p)
}

// AddFound remembers what was found of a problem elsewhere.
func (h *History) AddFound(p kernels.Problem, found []Found) {
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b Found) int { return cmp.Compare(a.Log, b.Log) })
	h.add(&past{problem: p, found: found})
}

// add replaces what was known of the problem.
func (h *History) add(p *past) {
	if len(p.found) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = slices.DeleteFunc(h.problems, func(x *past) bool { return x.problem == p.problem })
	h.problems = append(h.problems, p)
}

// Won remembers the winner of a problem.
func (h *History) Won(p kernels.Problem, v kernels.Variant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.winners == nil {
		h.winners = map[kernels.Problem]kernels.Variant{}
	}
	h.winners[p] = v
}

// neighbour is how far away a problem's winner still speaks for another's: two
// octaves of rows, or one of columns.
const neighbour = 1.0

// Sharing counts the neighbouring problems of the same op that v won.
func (h *History) Sharing(p kernels.Problem, v kernels.Variant) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for q, w := range h.winners {
		if q != p && q.Op == p.Op && w == v && distance(p, q) <= neighbour {
			n++
		}
	}
	return n
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

// near lists the problems of the same pass, the nearest first.
func (h *History) near(p kernels.Problem) []*past {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*past
	for _, x := range h.problems {
		if !math.IsInf(distance(p, x.problem), 1) {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(x, y *past) int {
		switch a, b := distance(p, x.problem), distance(p, y.problem); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	return list
}

// Winners are the variants of s that were fastest on the nearest problems, at
// most n, as indices into its variants. A variant of the other op is that of
// the same design.
func (h *History) Winners(s *Space, n int) []int {
	var out []int
	at := index(s)
	for _, p := range h.near(s.Problem) {
		if len(out) >= n {
			break
		}
		if i, ok := at[keyOf(p.found[0].Variant)]; ok && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// A design is a variant without its op and pass.
type design struct{ name, label string }

func keyOf(v kernels.Variant) design { return design{designOf(v.Family), v.Config.String()} }

func index(s *Space) map[design]int {
	at := make(map[design]int, len(s.Variants))
	for i, v := range s.Variants {
		at[keyOf(v)] = i
	}
	return at
}

// designOf is a family's name without its op and pass: reg_persist of
// rms_bwd/reg_persist.
func designOf(family string) string {
	for i := len(family) - 1; i >= 0; i-- {
		if family[i] == '/' {
			return family[i+1:]
		}
	}
	return family
}
