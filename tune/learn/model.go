package learn

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/tune/rules"
)

// A Point is what is known of one problem.
type Point struct {
	Problem kernels.Problem
	Weight  float64         // how much it counts in fits and means
	Default kernels.Variant // what answers where no learned rule does
	Base    kernels.Variant // the analytic base
	US      map[kernels.Variant]float64
	Failed  map[kernels.Variant]bool
	Best    kernels.Variant
	BestUS  float64
	Stream  float64         // microseconds; 0 where it is not known
	Fresh   bool            // drawn at random
	Asked   kernels.Variant // what the rules of that time answered; zero where that is not known
	When    time.Time       // it was measured

	at    place
	where launchrule.Place
}

// regret is the log of a variant's time over the best known, and whether it was measured.
func (p *Point) regret(v kernels.Variant) (float64, bool) {
	us, ok := p.US[v]
	return math.Log(us / p.BestUS), ok
}

// A place is a problem as the model sees it: octaves, so that distances are.
type place struct {
	columns, rows float64
	uneven        int // 0 where rows begin at multiples of 16 bytes, 1 to 3 at fewer
	round         bool
}

func placeOf(p kernels.Problem) place {
	row := p.N * p.DType.Size()
	uneven := 0
	for a := int64(16); a > 2 && row%a != 0; a /= 2 {
		uneven++
	}
	return place{math.Log2(float64(p.N)), math.Log2(float64(p.M)), uneven, p.N&(p.N-1) == 0}
}

// How far a measurement counts for other problems: octaves of columns and rows at which its weight
// falls to 0.6, and the weight between rows of different alignment.
const (
	reachColumns = 0.55
	reachRows    = 1.1
	otherAligned = 0.15 // vectors of 16 bytes against none
	otherUneven  = 0.5
	otherRound   = 0.7
)

// alike is the weight of what is known at one place for another, 1 at the same.
func alike(a, b place) float64 {
	n, m := (a.columns-b.columns)/reachColumns, (a.rows-b.rows)/reachRows
	k := math.Exp(-(n*n + m*m) / 2)
	switch {
	case (a.uneven == 0) != (b.uneven == 0):
		k *= otherAligned
	case a.uneven != b.uneven:
		k *= otherUneven
	}
	if a.round != b.round {
		k *= otherRound
	}
	return k
}

// priorRegret is the expected regret of a variant that was not measured, as log time over the best.
// It counts as much as priorWeight measurements.
const (
	priorRegret = 0.12
	priorWeight = 0.25
)

// A guess is what is expected of a variant at a place.
type guess struct {
	regret float64 // log of its time over the best
	weight float64 // of the measurements behind it
}

// optimistic is the guess less its uncertainty. It decides which variant is measured.
func (g guess) optimistic() float64 { return g.regret - 0.05/math.Sqrt(0.3+g.weight) }

// A Memo is what the registry was asked: fits ask the same again and again. It may be used by several goroutines.
type Memo struct {
	mu        sync.Mutex
	offered   map[asked]bool
	narrowers map[launchrule.Class]*narrower
}

type asked struct {
	recipe  string
	problem kernels.Problem
}

// NewMemo makes one.
func NewMemo() *Memo {
	return &Memo{offered: map[asked]bool{}, narrowers: map[launchrule.Class]*narrower{}}
}

func (m *Memo) narrower(c *class) *narrower {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.narrowers[c.Class]
	if n == nil {
		n = newNarrower(c.Class, c.judge)
		m.narrowers[c.Class] = n
	}
	return n
}

// A class is the points of one class of problems, with who may win there.
type class struct {
	launchrule.Class
	judge  launchrule.Judge
	points []*Point
	memo   *Memo
	cands  []launchrule.Recipe
	ids    []string    // their effects
	kernel [][]float32 // alike of each two points

	ats    []map[int64]kernels.Variant // what each candidate runs at each number of columns
	knowns [][]entry                   // where each candidate was measured
	// offered says of each candidate and point whether it runs there: 1, -1, or 0 where nobody asked.
	offered [][]atomic.Int32
}

// expect guesses a recipe's regret at point i from the others.
func (c *class) expect(known []entry, i int) guess {
	sum, weight := priorRegret*priorWeight, priorWeight
	for _, e := range known {
		if e.point != i {
			k := float64(c.kernel[i][e.point])
			sum, weight = sum+k*e.regret, weight+k
		}
	}
	return guess{sum / weight, weight - priorWeight}
}

// An entry is the measured regret of a recipe at a point.
type entry struct {
	point  int
	regret float64
}

// known lists where a recipe was measured that runs what at says.
func (c *class) known(at map[int64]kernels.Variant) (es []entry) {
	for i, p := range c.points {
		if g, ok := p.regret(at[p.Problem.N]); ok {
			es = append(es, entry{i, g})
		}
	}
	return es
}

// maxCandidates bounds the recipes that a fit weighs.
const maxCandidates = 56

// near is how far behind the best, as a log ratio, a variant may be to be a candidate there.
const near = 0.03

// newClass sorts out the points of a class: whose winners may be rules, and how alike the points are.
func newClass(cl launchrule.Class, points []*Point, j launchrule.Judge, m *Memo) *class {
	c := &class{Class: cl, judge: j, points: points, memo: m}
	slices.SortFunc(c.points, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.Problem.N, b.Problem.N), cmp.Compare(a.Problem.M, b.Problem.M), cmp.Compare(a.Problem.String(), b.Problem.String()))
	})
	c.kernel = make([][]float32, len(points))
	for i, p := range c.points {
		c.kernel[i] = make([]float32, len(points))
		for k := range i {
			x := float32(alike(p.at, c.points[k].at))
			c.kernel[i][k], c.kernel[k][i] = x, x
		}
		c.kernel[i][i] = 1
	}
	c.cands = c.propose()
	for _, r := range c.cands {
		at := map[int64]kernels.Variant{}
		for _, p := range c.points {
			if _, ok := at[p.Problem.N]; !ok {
				at[p.Problem.N] = r.At(p.Problem.N, cl.Bytes)
			}
		}
		c.ids = append(c.ids, c.effect(r))
		c.ats, c.knowns = append(c.ats, at), append(c.knowns, c.known(at))
		c.offered = append(c.offered, make([]atomic.Int32, len(c.points)))
	}
	return c
}

// at is what candidate x runs on rows of n elements, of a number that the points have.
func (c *class) at(x int, n int64) kernels.Variant { return c.ats[x][n] }

// knownOf lists where candidate x was measured.
func (c *class) knownOf(x int) []entry { return c.knowns[x] }

// propose makes recipes of all that is near the best somewhere, and keeps those that together cover
// the points best: greedily, one after the other that lowers the sum of expected regrets most
// (the greedy portfolio of Hydra: Xu, Hoos and Leyton-Brown, AAAI 2010).
func (c *class) propose() []launchrule.Recipe {
	wins := map[string]int64{} // in whole numbers, whose sum depends on no order
	recipes := map[string]launchrule.Recipe{}
	for _, p := range c.points {
		for v := range p.US {
			g, _ := p.regret(v)
			if g > near {
				continue
			}
			for _, r := range rules.RecipesOf(v, p.Problem.N, c.Bytes) {
				if !rules.Offers(c.judge, p.Problem, r) { // its knobs do not follow the row so
					continue
				}
				id := c.effect(r)
				if old, ok := recipes[id]; !ok || rules.CompareRecipes(r, old) < 0 {
					recipes[id] = r
				}
				wins[id] += int64(1e9 * p.Weight * (near - g))
			}
		}
	}
	ids := make([]string, 0, len(recipes))
	for id := range recipes {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(wins[b], wins[a]), cmp.Compare(a, b)) })
	ids = ids[:min(len(ids), 6*maxCandidates)]
	all := make([]launchrule.Recipe, len(ids))
	loss := make([][]float64, len(ids))
	for x, id := range ids {
		all[x] = recipes[id]
		at := map[int64]kernels.Variant{}
		for _, p := range c.points {
			if _, ok := at[p.Problem.N]; !ok {
				at[p.Problem.N] = all[x].At(p.Problem.N, c.Bytes)
			}
		}
		known := c.known(at)
		loss[x] = make([]float64, len(c.points))
		for i, p := range c.points {
			if g, ok := p.regret(at[p.Problem.N]); ok {
				loss[x][i] = g
			} else {
				loss[x][i] = c.expect(known, i).regret
			}
		}
	}
	have := make([]float64, len(c.points))
	for i := range have {
		have[i] = 0.3
	}
	var keep []launchrule.Recipe
	taken := make([]bool, len(all))
	for len(keep) < maxCandidates {
		best, gain := -1, 1e-4
		for x := range all {
			if taken[x] {
				continue
			}
			g := 0.0
			for i, h := range have {
				g += c.points[i].Weight * max(0, h-loss[x][i])
			}
			if g > gain+1e-12 {
				best, gain = x, g
			}
		}
		if best < 0 {
			break
		}
		taken[best] = true
		keep = append(keep, all[best])
		for i := range have {
			have[i] = min(have[i], loss[best][i])
		}
	}
	return keep
}

// effect is what a recipe runs on the widths that rows may have: recipes of one effect are one.
func (c *class) effect(r launchrule.Recipe) string {
	if r.RowBytes == 0 {
		return r.String()
	}
	var b strings.Builder
	for n := int64(64); n <= 1<<16; n *= 2 {
		b.WriteString(r.At(n, c.Bytes).String())
		b.WriteByte(' ')
	}
	return b.String()
}
