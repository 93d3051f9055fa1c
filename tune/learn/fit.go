package learn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/tune/rules"
)

// Options say how rules are fitted.
type Options struct {
	// MaxRules is the most rules of a class, unless each one more saves three times the price.
	MaxRules int
	// Price is what a rule must save, of the weighted mean of log times over the class.
	Price float64
	// Tolerance is how much of that mean fewer rules may lose.
	Tolerance float64
	// Cliff is the log ratio beyond which a loss counts Steep times more: means hide cliffs.
	Cliff, Steep float64
}

// DefaultOptions are those of learn and tune.
var DefaultOptions = Options{MaxRules: 12, Price: 0.0007, Tolerance: 0.001, Cliff: 0.02, Steep: 2}

// cost is what a log ratio to the default costs a fit.
func (o Options) cost(g float64) float64 { return g + o.Steep*max(0, g-o.Cliff) }

// refusedCost is what it costs a recipe that a problem in its box cannot run it: the box will have to shrink.
const refusedCost = 0.02

// A fitted is the rules of a class with what they rest on.
type fitted struct {
	list  launchrule.List
	of    []int   // the candidate of each rule
	price float64 // at which it was found
}

// The cuts between which rules lie: two an octave in bytes of a row, one in rows per SM, and
// a few below one row for each.
var (
	fewRows  = []int64{1, 2, 8, 32}
	rowCuts  = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8192, 1 << 20}
	byteCuts = func() (cuts []int64) {
		for b := int64(64); b <= 1<<19; b *= 2 {
			cuts = append(cuts, b, b+b/2)
		}
		return cuts
	}()
)

// cell is the place of a problem among the cuts.
func (c *class) cell(p kernels.Problem) (x, y int) {
	x, _ = slices.BinarySearch(byteCuts, p.N*c.Bytes)
	if y, _ = slices.BinarySearch(fewRows, p.M); y < len(fewRows) && p.M <= int64(c.sms()) {
		return x, y
	}
	y, _ = slices.BinarySearch(rowCuts, launchrule.RowsPerSM(p.M, c.sms()))
	return x, y + len(fewRows)
}

func (c *class) sms() int { return max(c.judge.Device.SMs, 1) }

// strata are fitted apart, by the alignment of rows: hardly any config is good for vectors of 16 bytes and for
// narrower ones. A rule of a stratum must hold on each part of the stratum, or it is split by parts: a design
// that copies words loses if rows begin between two words.
var strata = []launchrule.Box{{RowAlign: 16}, {RowUneven: 16}}

// parts are the boxes by which a rule for uneven rows is split where it does not hold on all of them.
func parts(b launchrule.Box) []launchrule.Box {
	if b.RowUneven == 0 {
		return nil
	}
	words, halves := b, b
	words.RowAlign, halves.RowUneven = 4, 4
	return []launchrule.Box{words, halves}
}

// box is the bounds of cells of a stratum, ends included.
func (c *class) box(x0, x1, y0, y1 int, b launchrule.Box) launchrule.Box {
	if x0 > 0 {
		b.NOver = byteCuts[x0-1] / c.Bytes
	}
	if x1 < len(byteCuts) {
		b.NMax = byteCuts[x1] / c.Bytes
	}
	switch few := len(fewRows); {
	case y0 > few:
		b.MOver = launchrule.Whole(rowCuts[y0-few-1])
	case y0 > 0:
		b.RowsOver = fewRows[y0-1]
	}
	switch few := len(fewRows); {
	case y1 < few:
		b.RowsMax = fewRows[y1]
	case y1-few < len(rowCuts):
		b.MMax = launchrule.Whole(rowCuts[y1-few])
	}
	return b
}

// A piece is a rectangle of cells with its candidate, -1 for the default.
type piece struct{ x0, x1, y0, y1, cand int }

// A split has the points in folds that fits leave out, and of each candidate and point what the measurements in each
// fold have to say: a fit without some folds adds up the others.
type split struct {
	fold []int
	sums [][][folds]guess // by candidate and point; the regrets are sums
}

// A left is a set of folds that a fit leaves out.
type left uint

func (s *split) out(l left, i int) bool { return l>>s.fold[i]&1 == 1 }

// folds are how many there are. A fit without two of them has seen three quarters of the points.
const folds = 8

// split sorts the points into folds: those of one shape, or of one number of columns, stay together.
func (c *class) split(how string) *split {
	s := &split{fold: make([]int, len(c.points)), sums: make([][][folds]guess, len(c.cands))}
	for i, p := range c.points {
		key := uint64(p.Problem.N) * 0x9e3779b97f4a7c15
		if how == launchrule.HeldShape {
			key += uint64(p.Problem.M) * 0xd6e8feb86659fd93
		}
		s.fold[i] = int((key^key>>29)*0xbf58476d1ce4e5b9>>33) % folds
	}
	each(len(c.cands), func(x int) {
		s.sums[x] = make([][folds]guess, len(c.points))
		for i, p := range c.points {
			if _, ok := p.regret(c.at(x, p.Problem.N)); ok {
				continue
			}
			for _, e := range c.knownOf(x) {
				g := &s.sums[x][i][s.fold[e.point]]
				k := float64(c.kernel[i][e.point])
				g.regret, g.weight = g.regret+k*e.regret, g.weight+k
			}
		}
	})
	return s
}

// each does something for each of n, as many at a time as there are processors.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// gains is each candidate's cost at each point over that of the default: measured, or what is expected.
func (c *class) gains(o Options, s *split, out left) [][]float64 {
	gains := make([][]float64, len(c.cands))
	for x := range c.cands {
		gains[x] = make([]float64, len(c.points))
		for i, p := range c.points {
			if s.out(out, i) {
				continue
			}
			base, _ := p.regret(p.Default)
			if !c.offers(x, i) {
				gains[x][i] = p.Weight * refusedCost
			} else if g, ok := p.regret(c.at(x, p.Problem.N)); ok {
				gains[x][i] = p.Weight * o.cost(g-base)
			} else {
				sum, weight := priorRegret*priorWeight, priorWeight
				for f, g := range s.sums[x][i] {
					if out>>f&1 == 0 {
						sum, weight = sum+g.regret, weight+g.weight
					}
				}
				// Nothing is gained by what nobody has measured.
				gains[x][i] = p.Weight * o.cost(max(sum/weight-base, -base/2))
			}
		}
	}
	return gains
}

// offers says whether candidate x runs at point i.
func (c *class) offers(x, i int) bool {
	k := asked{c.ids[x], c.points[i].Problem}
	at := &c.offered[x][i]
	if known := at.Load(); known != 0 {
		return known > 0
	}
	c.memo.mu.Lock()
	yes, ok := c.memo.offered[k]
	c.memo.mu.Unlock()
	if !ok {
		yes = rules.Offers(c.judge, c.points[i].Problem, c.cands[x])
		c.memo.mu.Lock()
		c.memo.offered[k] = yes
		c.memo.mu.Unlock()
	}
	at.Store(-1)
	if yes {
		at.Store(1)
	}
	return yes
}

// passes bound how often what a fit left over is fitted again.
const passes = 6

// fit finds the rules of the points that out does not hold.
func (c *class) fit(o Options, s *split, out left) fitted {
	f := fitted{list: launchrule.List{Class: c.Class, Rules: []launchrule.Rule{}}}
	var use []int
	total := 0.0
	for i, p := range c.points {
		if !s.out(out, i) {
			use = append(use, i)
			total += p.Weight
		}
	}
	if len(use) == 0 {
		f.list.Hull = launchrule.Hull{NMin: 1, NMax: 1, MMin: 1, MMax: 1, ElemsMax: 1}
		return f
	}
	f.list.Hull = c.hull(use)
	gains := c.gains(o, s, out)
	// Narrowing took points from a rule's box: fit them again without its candidate, as long as that finds rules.
	for again, n := true, 0; again && n < passes && len(use) > 0; n++ {
		use, again = c.pass(o, &f, use, gains, total)
	}
	return f
}

// pass adds rules for some points. It returns those that are left, and whether another pass may find more: where a
// candidate's rule does not hold, the candidate is barred. The first pass settles the price.
func (c *class) pass(o Options, f *fitted, use []int, gains [][]float64, total float64) (rest []int, again bool) {
	type rule struct {
		launchrule.Rule
		cand int
	}
	var cutters []*cutter
	for _, b := range strata {
		if s := newCutter(c, use, gains, b); s != nil {
			cutters = append(cutters, s)
		}
	}
	solve := func(price float64) (cost float64, n int, ps [][]piece) {
		for _, s := range cutters {
			k, r, pieces := s.solve(price * total)
			cost, n, ps = cost+k/total, n+r, append(ps, pieces)
		}
		return cost, n, ps
	}
	// The fewest rules within the tolerance of what the price leaves; beyond MaxRules a rule costs three times
	// as much.
	price := cmp.Or(f.price, o.Price)
	if len(f.list.Rules) >= o.MaxRules {
		price = max(price, 3*o.Price)
	}
	cost, n, ps := solve(price)
	if f.price == 0 {
		f.price = o.Price
		best := cost - o.Price*float64(n)
		for lo, hi, step := o.Price, 64*o.Price, 0; step < 7 && n > 0; step++ {
			mid := math.Sqrt(lo * hi)
			cost, fewer, pieces := solve(mid)
			if cost-mid*float64(fewer) <= best+o.Tolerance || fewer >= o.MaxRules && mid <= 3*o.Price {
				lo, n, ps, f.price = mid, fewer, pieces, mid
			} else {
				hi = mid
			}
		}
	}
	var found []rule
	for k, s := range cutters {
		for _, p := range ps[k] {
			if p.cand < 0 {
				continue
			}
			// Families may refuse the recipe in the middle of the box. Then several boxes are left.
			whole := c.box(p.x0, p.x1, p.y0, p.y1, s.stratum)
			boxes := []launchrule.Box{whole}
			if !c.evenly(whole, p.cand, use) {
				boxes = parts(whole)
			}
			left, steep := use, []int{}
			for _, b := range boxes {
				for n := 0; n < 4; n++ {
					r, ok, cliffs := c.stands(launchrule.Rule{Box: b, Recipe: c.cands[p.cand]}, p.cand, f.list.Hull, left, o)
					if !ok {
						steep = append(steep, cliffs...)
						break
					}
					found = append(found, rule{r, p.cand})
					left = slices.DeleteFunc(slices.Clone(left), func(i int) bool { return r.Holds(&c.points[i].where) })
				}
			}
			// Cliffs that cost more are cut away from the rest.
			for _, i := range steep {
				gains[p.cand][i], again = 4*gains[p.cand][i], true
			}
			for _, i := range left {
				if len(steep) > 0 {
					break
				}
				if q := c.points[i]; whole.Holds(&q.where) && gains[p.cand][i] < q.Weight*refusedCost {
					gains[p.cand][i], again = q.Weight*refusedCost, true
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b rule) int {
		most := func(v int64) int64 { return cmp.Or(v, math.MaxInt64) }
		return cmp.Or(cmp.Compare(b.RowAlign, a.RowAlign), cmp.Compare(b.RowUneven, a.RowUneven), cmp.Compare(most(a.NMax), most(b.NMax)), cmp.Compare(a.NOver, b.NOver),
			cmp.Compare(most(a.MMax.Num), most(b.MMax.Num)), cmp.Compare(a.MOver.Num, b.MOver.Num), cmp.Compare(most(a.RowsMax), most(b.RowsMax)))
	})
	for _, r := range found {
		f.list.Rules, f.of = append(f.list.Rules, r.Rule), append(f.of, r.cand)
	}
	return slices.DeleteFunc(slices.Clone(use), func(i int) bool {
		return slices.ContainsFunc(found, func(r rule) bool { return r.Holds(&c.points[i].where) })
	}), again
}

// evenly says whether a candidate was measured in all parts of a box and loses in none, in the mean.
func (c *class) evenly(b launchrule.Box, cand int, use []int) bool {
	for _, part := range parts(b) {
		p := c.paired(&launchrule.Rule{Box: part}, cand, use)
		if len(p.gain) == 0 {
			return c.Bytes > 2 && part.RowUneven == 4 // rows of fp32 begin at words
		}
		if mean, _ := p.sum(); mean > 0 {
			return false
		}
	}
	return true
}

// stands narrows a rule to what its recipe is accepted on and says whether the paired times in its box
// hold it: in the mean it gains 0.4%, also less its error (student), and no twentieth of its problems
// falls off a cliff. The default wins ties.
func (c *class) stands(r launchrule.Rule, cand int, h launchrule.Hull, use []int, o Options) (_ launchrule.Rule, ok bool, cliffs []int) {
	var in []kernels.Problem
	for _, i := range use {
		if p := c.points[i].Problem; r.Holds(c.where(p)) {
			in = append(in, p)
		}
	}
	if r.Box, ok = c.narrow(r, h, in); !ok {
		return r, false, nil
	}
	pairs := c.paired(&r, cand, use)
	if len(pairs.gain) == 0 {
		return r, false, nil
	}
	mean, half := pairs.sum()
	if len(pairs.gain) == 1 { // the rest of a box that was narrowed: what is expected there speaks for it too
		if len(in) == 1 { // or is of that problem alone
			p := in[0]
			r.Box = launchrule.Box{NOver: p.N - 1, NMax: p.N, RowsOver: p.M - 1, RowsMax: p.M}
		}
		return r, mean < -0.05, nil
	}
	for k, g := range pairs.gain {
		if g > 2*o.Cliff {
			cliffs = append(cliffs, pairs.point[k])
		}
	}
	if mean+student(len(pairs.gain))*half >= -0.004 {
		return r, false, nil
	}
	return r, 20*len(cliffs) <= len(pairs.gain)+10, cliffs
}

// narrow is the box of a rule as far as its recipe is accepted. A recipe may be refused for few rows, or for more than a
// few: where many of the problems would be lost, a part of the box is tried.
func (c *class) narrow(r launchrule.Rule, h launchrule.Hull, in []kernels.Problem) (best launchrule.Box, ok bool) {
	most := 0
	try := func(b launchrule.Box) {
		if b, fits := c.memo.narrower(c).Narrow(b, r.Recipe, h, in); fits {
			n := 0
			for _, p := range in {
				if b.Holds(c.where(p)) {
					n++
				}
			}
			if n > most {
				best, most, ok = b, n, true
			}
		}
	}
	try(r.Box)
	if r.MOver.Num > 0 {
		return best, ok
	}
	for _, rows := range []int64{2, 8, 32, 64} {
		if 10*most > 9*len(in) {
			break
		}
		if r.RowsOver < rows && (r.RowsMax == 0 || rows < r.RowsMax) {
			over, upTo := r.Box, r.Box
			over.RowsOver, upTo.RowsMax = rows, rows
			try(over)
			try(upTo)
		}
	}
	return best, ok
}

// pairs are the weighted log ratios of a rule to the default at the points where both were measured.
type pairs struct {
	gain, weight []float64
	point        []int
}

func (c *class) paired(r *launchrule.Rule, cand int, use []int) (p pairs) {
	for _, i := range use {
		q := c.points[i]
		if !r.Holds(&q.where) {
			continue
		}
		base, okBase := q.regret(q.Default)
		if g, ok := q.regret(c.at(cand, q.Problem.N)); ok && okBase {
			p.gain, p.weight, p.point = append(p.gain, g-base), append(p.weight, q.Weight), append(p.point, i)
		}
	}
	return p
}

// sum is the weighted mean and its standard error.
func (p pairs) sum() (mean, err float64) {
	total, sq := 0.0, 0.0
	for i, g := range p.gain {
		mean, total = mean+p.weight[i]*g, total+p.weight[i]
	}
	mean /= total
	for i, g := range p.gain {
		sq += p.weight[i] * (g - mean) * (g - mean)
	}
	n := float64(len(p.gain))
	return mean, math.Sqrt(sq / total / max(n-1, 1))
}

// student is the quantile of Student's distribution (1908) that leaves 7%, as 1.5 does of the normal: the error of a mean of
// few is itself uncertain.
func student(n int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.933)
}

// A proof gathers the problems that a rule answers.
type proof struct {
	launchrule.Evidence
	own, next, base, before mean
	worst                   float64
}

// add takes a problem on which the rule runs v, and without the rule next would run.
func (e *proof) add(p *Point, v, next kernels.Variant) {
	g, ok := p.regret(v)
	if !ok {
		return
	}
	e.own.add(p.Weight, g)
	if e.Problems == 0 || g > e.worst {
		e.worst, e.Worst = g, p.Problem.String()
	}
	e.Problems++
	e.Records += len(p.US) + len(p.Failed)
	if d, ok := p.regret(next); ok {
		e.next.add(p.Weight, d-g)
	}
	if b, ok := p.regret(p.Base); ok {
		e.base.add(p.Weight, b-g)
	}
	if d, ok := p.regret(p.Default); ok && v != p.Default {
		e.before.add(p.Weight, d)
	}
}

// evidence is what the problems come to.
func (e *proof) evidence() launchrule.Evidence {
	if e.Problems > 0 {
		e.Regret, e.WorstRegret = e.own.exp(), round(math.Exp(e.worst))
	}
	if e.before.weight > 0 {
		e.DefaultRegret = e.before.exp()
	}
	if e.next.weight > 0 {
		e.OverNext, e.OverNextWorst = e.next.exp(), round(math.Exp(e.next.least))
	}
	if e.base.weight > 0 {
		e.OverBase, e.OverBaseWorst = e.base.exp(), round(math.Exp(e.base.least))
	}
	return e.Evidence
}

// prove gives the rules of a fit their evidence.
func (c *class) prove(f *fitted) {
	proofs := make([]proof, len(f.list.Rules))
	for k := range proofs {
		proofs[k].HeldOutRegret = f.list.Rules[k].Evidence.HeldOutRegret
	}
	for i, p := range c.points {
		if k := c.rule(f, i, 0); k >= 0 {
			next := p.Default // also where the next rule's launch has no time
			if n := c.rule(f, i, k+1); n >= 0 {
				if v := c.at(f.of[n], p.Problem.N); p.US[v] > 0 {
					next = v
				}
			}
			proofs[k].add(p, c.at(f.of[k], p.Problem.N), next)
		}
	}
	for k := range proofs {
		f.list.Rules[k].Evidence = proofs[k].evidence()
	}
}

// A mean of logs.
type mean struct{ sum, weight, least float64 }

func (m *mean) add(weight, log float64) {
	if m.weight == 0 || log < m.least {
		m.least = log
	}
	m.sum, m.weight = m.sum+weight*log, m.weight+weight
}

func (m *mean) exp() float64 { return round(math.Exp(m.sum / m.weight)) }

func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// hull is where the points in use lie.
func (c *class) hull(use []int) (h launchrule.Hull) {
	for k, i := range use {
		p := c.points[i].Problem
		rows := launchrule.RowsPerSM(p.M, c.sms())
		e := p.N * rows
		if k == 0 {
			h = launchrule.Hull{NMin: p.N, NMax: p.N, MMin: rows, MMax: rows, ElemsMax: e}
		}
		h = launchrule.Hull{NMin: min(h.NMin, p.N), NMax: max(h.NMax, p.N), MMin: min(h.MMin, rows), MMax: max(h.MMax, rows), ElemsMax: max(h.ElemsMax, e)}
	}
	return h
}

// ---- The dynamic program ----------------------------------------------------------

// A cutter finds the best pieces of a stratum. It cuts the plane in two and each half again, and takes
// the cuts with the least cost. Each piece that is not the default's has a price.
type cutter struct {
	stratum launchrule.Box
	xs, ys  []int // the cells' columns and rows that hold points
	// By rectangle x0, x1, y0, y1: the best candidate for all of it, and the best way to answer it at the last price.
	leaves, cuts []cut
}

type cut struct {
	cost   float64
	rules  int16
	cand   int16 // -1 for the default, or where the rectangle is cut
	at     int16 // last index of the first half, -1 for none
	alongX bool
}

func (s *cutter) id(x0, x1, y0, y1 int) int { return ((x0*len(s.xs)+x1)*len(s.ys)+y0)*len(s.ys) + y1 }

// rectangles calls do for all, those within another before it.
func (s *cutter) rectangles(do func(x0, x1, y0, y1 int)) {
	for w := range s.xs {
		for x := range len(s.xs) - w {
			for h := range s.ys {
				for y := range len(s.ys) - h {
					do(x, x+w, y, y+h)
				}
			}
		}
	}
}

// newCutter is nil where the stratum has no point.
func newCutter(c *class, use []int, gains [][]float64, stratum launchrule.Box) *cutter {
	s := &cutter{stratum: stratum}
	var mine []int
	var at [][2]int
	for _, i := range use {
		if stratum.Holds(&c.points[i].where) {
			x, y := c.cell(c.points[i].Problem)
			mine, at = append(mine, i), append(at, [2]int{x, y})
			s.xs, s.ys = append(s.xs, x), append(s.ys, y)
		}
	}
	if len(mine) == 0 {
		return nil
	}
	slices.Sort(s.xs)
	slices.Sort(s.ys)
	s.xs, s.ys = slices.Compact(s.xs), slices.Compact(s.ys)
	w, k := len(s.ys)+1, len(gains)
	count, sums := make([]int, (len(s.xs)+1)*w), make([]float64, (len(s.xs)+1)*w*k) // prefix sums over cells, of each candidate
	for j, i := range mine {
		x, _ := slices.BinarySearch(s.xs, at[j][0])
		y, _ := slices.BinarySearch(s.ys, at[j][1])
		p := (x+1)*w + y + 1
		count[p]++
		for c, g := range gains {
			sums[p*k+c] += g[i]
		}
	}
	for p := w; p < len(count); p++ {
		if p%w == 0 {
			continue
		}
		count[p] += count[p-1] + count[p-w] - count[p-w-1]
		for c := range k {
			sums[p*k+c] += sums[(p-1)*k+c] + sums[(p-w)*k+c] - sums[(p-w-1)*k+c]
		}
	}
	s.leaves = make([]cut, len(s.xs)*len(s.xs)*len(s.ys)*len(s.ys))
	s.cuts = make([]cut, len(s.leaves))
	s.rectangles(func(x0, x1, y0, y1 int) {
		l := &s.leaves[s.id(x0, x1, y0, y1)]
		*l = cut{cost: math.Inf(1), cand: -1, at: -1}
		p, q, r, t := (x1+1)*w+y1+1, x0*w+y1+1, (x1+1)*w+y0, x0*w+y0
		if count[p]-count[q]-count[r]+count[t] == 0 {
			return
		}
		ps, qs, rs, ts := sums[p*k:][:k], sums[q*k:][:k], sums[r*k:][:k], sums[t*k:][:k]
		for c := range ps {
			if cost := ps[c] - qs[c] - rs[c] + ts[c]; cost < l.cost-1e-9 {
				l.cand, l.cost = int16(c), cost
			}
		}
	})
	return s
}

// solve is the least cost, the number of rules and the pieces at a price.
func (s *cutter) solve(price float64) (cost float64, n int, ps []piece) {
	s.rectangles(func(x0, x1, y0, y1 int) { s.cuts[s.id(x0, x1, y0, y1)] = s.best(x0, x1, y0, y1, price) })
	b := s.cuts[s.id(0, len(s.xs)-1, 0, len(s.ys)-1)]
	var walk func(x0, x1, y0, y1 int)
	walk = func(x0, x1, y0, y1 int) {
		switch b := s.cuts[s.id(x0, x1, y0, y1)]; {
		case b.at < 0:
			// A border lies at the cut before the next cells that hold points, so that no part is nobody's.
			p := piece{0, len(byteCuts), 0, len(fewRows) + len(rowCuts), int(b.cand)}
			if x0 > 0 {
				p.x0 = border(s.xs[x0-1], s.xs[x0])
			}
			if x1 < len(s.xs)-1 {
				p.x1 = border(s.xs[x1], s.xs[x1+1]) - 1
			}
			if y0 > 0 {
				p.y0 = border(s.ys[y0-1], s.ys[y0])
			}
			if y1 < len(s.ys)-1 {
				p.y1 = border(s.ys[y1], s.ys[y1+1]) - 1
			}
			ps = append(ps, p)
		case b.alongX:
			walk(x0, int(b.at), y0, y1)
			walk(int(b.at)+1, x1, y0, y1)
		default:
			walk(x0, x1, y0, int(b.at))
			walk(x0, x1, int(b.at)+1, y1)
		}
	}
	walk(0, len(s.xs)-1, 0, len(s.ys)-1)
	return b.cost, int(b.rules), ps
}

// border is the first cell of the second half between two cells that hold points: what lies between is halved.
func border(a, b int) int { return (a + b + 2) / 2 }

// best is the best way to answer a rectangle: one answer for all of it, or the best of its cuts in two.
func (s *cutter) best(x0, x1, y0, y1 int, price float64) cut {
	b := cut{cand: -1, at: -1}
	l := &s.leaves[s.id(x0, x1, y0, y1)]
	if l.cand < 0 {
		return b
	}
	if l.cost+price < b.cost-1e-9 {
		b.cost, b.rules, b.cand = l.cost+price, 1, l.cand
	}
	try := func(p, q *cut, at int, alongX bool) {
		cost, n := p.cost+q.cost, p.rules+q.rules
		if cost < b.cost-1e-9 || cost < b.cost+1e-9 && n < b.rules {
			b = cut{cost, n, -1, int16(at), alongX}
		}
	}
	for x := x0; x < x1; x++ {
		try(&s.cuts[s.id(x0, x, y0, y1)], &s.cuts[s.id(x+1, x1, y0, y1)], x, true)
	}
	for y := y0; y < y1; y++ {
		try(&s.cuts[s.id(x0, x1, y0, y)], &s.cuts[s.id(x0, x1, y+1, y1)], y, false)
	}
	return b
}

// ---- All classes, and how good they are ------------------------------------------

// A Result is the rules with how good they are.
type Result struct {
	Set     *launchrule.Set
	Scores  []launchrule.Score
	Presets []PresetScore // each published launch rule by itself, the best of a class first
	// Guessed counts the held-out answers that were not measured: they are what is expected.
	Guessed, Answers int
	// Learned counts the lists that were fitted; those of the prior follow.
	Learned int
	classes []*class
	fits    []fitted
}

// Fit finds the rules of every class of the points. evaluate also tells how good they are held out, by
// 72 more fits.
func Fit(points []*Point, j launchrule.Judge, o Options, m *Memo, evaluate bool) *Result {
	by := map[launchrule.Class][]*Point{}
	for _, p := range points {
		by[launchrule.ClassOf(p.Problem)] = append(by[launchrule.ClassOf(p.Problem)], p)
	}
	res := &Result{Set: &launchrule.Set{Schema: launchrule.Schema, Kind: launchrule.Kind, Device: j.Device, Sources: map[string]string{}}}
	for cl, ps := range by {
		res.classes = append(res.classes, newClass(cl, ps, j, m))
	}
	slices.SortFunc(res.classes, func(a, b *class) int {
		return a.Class.Compare(b.Class)
	})
	for _, c := range res.classes {
		byShape := c.split(launchrule.HeldShape)
		f := c.fit(o, byShape, 0)
		if evaluate {
			scores, published, guessed := c.evaluate(&f, o, byShape)
			res.Scores, res.Presets = append(res.Scores, scores...), append(res.Presets, published...)
			res.Guessed, res.Answers = res.Guessed+guessed, res.Answers+2*len(c.points)
		}
		c.prove(&f)
		res.fits = append(res.fits, f)
		res.Set.Lists = append(res.Set.Lists, f.list)
	}
	res.Set.HeldOut, res.Learned = res.Scores, len(res.Set.Lists)
	return res
}

// where is a problem on the device.
func (c *class) where(p kernels.Problem) *launchrule.Place {
	at := launchrule.At(p, c.judge.Device)
	return &at
}

// HeldFresh is over the problems that were drawn at random, by what was answered when they were drawn.
const HeldFresh = "fresh"

// ChooserDefault is what answers where no rule does.
const ChooserDefault = "default"

// Finish completes the set as a file: where it comes from, and the prior's rules behind its own.
func (p *Policy) Finish(r *Result, tool, commit string, pr record.Protocol, points []*Point, source func(family string) string) error {
	s := r.Set
	s.Tool, s.Measured = tool, commit
	for _, q := range points {
		if q.When.After(s.Date) {
			s.Date = q.When
		}
	}
	var err error
	if s.Protocol, err = json.Marshal(pr); err != nil {
		return err
	}
	s.Lists = s.Lists[:r.Learned:r.Learned]
	for i := range s.Lists {
		for k := range s.Lists[i].Rules {
			rule := &s.Lists[i].Rules[k]
			rule.Evidence.Commit = commit
			s.Sources[rule.Family] = source(rule.Family)
		}
	}
	s.Whole = true
	if p.Prior != nil {
		lists := slices.Clone(p.Prior.Scaled(s.Device).Lists)
		for i := range lists {
			lists[i].Rules = slices.Clone(lists[i].Rules)
			for k := range lists[i].Rules {
				e := &lists[i].Rules[k].Evidence
				if *e == (launchrule.Evidence{}) {
					e.Commit = p.Prior.Measured
				}
				if p.Prior.Device.ID != s.Device.ID { // it is of what was measured there
					e.Device = cmp.Or(e.Device, p.Prior.Device.ID)
				}
			}
		}
		p.prove(r, points, lists, commit)
		s.Lists = append(s.Lists, lists...)
		for f, h := range p.Prior.Sources {
			if s.Sources[f] == "" {
				s.Sources[f] = h
			}
		}
	}
	return s.CheckValid()
}

// rule is the number of the rule of a list that answers at a point, from one on; -1 where none does.
func (c *class) rule(f *fitted, i, from int) int {
	p := c.points[i]
	if !f.list.Hull.Holds(p.Problem.M, p.Problem.N, c.sms()) {
		return -1
	}
	for k := from; k < len(f.list.Rules); k++ {
		// A written file has no box of a refused config.
		if f.list.Rules[k].Holds(&p.where) && c.offers(f.of[k], i) {
			return k
		}
	}
	return -1
}

// prove gives the prior's rules the evidence of the problems that they answer behind the learned rules. A rule that
// none reaches keeps what it had.
func (p *Policy) prove(r *Result, points []*Point, lists []launchrule.List, commit string) {
	type at struct{ list, rule int }
	found, nexts := make([]at, len(points)), make([]kernels.Variant, len(points))
	each(len(points), func(i int) {
		found[i].rule = -1
		q := points[i]
		if a, _ := r.Set.Pick(q.Problem); a.Rule() != nil {
			return
		}
		why := families.Explain(p.Judge.Registry, p.Prior, q.Problem, p.Judge.Device)
		a := why[0].Answer
		if a.Index < 0 || why[0].Variant != q.Default {
			return
		}
		list := slices.IndexFunc(p.Prior.Lists, func(l launchrule.List) bool { return &l.Rules[0] == &a.List.Rules[0] })
		next := q.Base
		if k := slices.IndexFunc(why[1:], func(x families.Reason) bool { return x.Refusal == nil }); k >= 0 {
			next = why[1+k].Variant
		}
		found[i], nexts[i] = at{list, a.Index}, next
	})
	proofs := map[at]*proof{}
	for i, k := range found { // in their order, as sums of floats depend on it
		if k.rule >= 0 {
			if proofs[k] == nil {
				proofs[k] = &proof{}
			}
			proofs[k].add(points[i], points[i].Default, nexts[i])
		}
	}
	for k, e := range proofs {
		if e.Problems > 0 {
			e.Commit = commit
			lists[k.list].Rules[k.rule].Evidence = e.evidence()
		}
	}
}

// answer is the log regret of what a list answers at a point, and whether that is measured.
func (c *class) answer(f *fitted, i int) (g float64, known bool) {
	p := c.points[i]
	k := c.rule(f, i, 0)
	if k < 0 {
		g, _ = p.regret(p.Default)
		return g, true
	}
	if g, ok := p.regret(c.at(f.of[k], p.Problem.N)); ok {
		return g, true
	}
	return c.expect(c.knownOf(f.of[k]), i).regret, false
}

// heldOut is the loss at each point of rules that were fitted without its fold: as the fit has them, and what is left
// when they were distrusted like the rules of all points are. What a fit with a fold less says
// of another fold comes from a fit that has seen neither.
func (c *class) heldOut(s *split, o Options, h launchrule.Hull, base []float64) (raw, loss []float64, guessed int) {
	var pairs [][2]int
	for a := range folds {
		for b := a; b < folds; b++ {
			pairs = append(pairs, [2]int{a, b})
		}
	}
	var fits [folds][folds]fitted
	each(len(pairs), func(k int) {
		a, b := pairs[k][0], pairs[k][1]
		f := c.fit(o, s, 1<<a|1<<b)
		f.list.Hull = h // what lies beyond the hull of the fold is within that of all
		fits[a][b], fits[b][a] = f, f
	})
	raw, loss = make([]float64, len(c.points)), make([]float64, len(c.points))
	for a := range folds {
		held := make([]float64, len(c.points))
		for i := range c.points {
			held[i], _ = c.answer(&fits[a][s.fold[i]], i)
		}
		f := fits[a][a]
		for i := range c.points {
			if s.fold[i] == a {
				raw[i] = held[i]
			}
		}
		c.distrust(&f, held, base, func(i int) bool { return s.fold[i] == a })
		for i := range c.points {
			if s.fold[i] == a {
				known := false
				if loss[i], known = c.answer(&f, i); !known {
					guessed++
				}
			}
		}
	}
	return raw, loss, guessed
}

// evaluate drops the rules that do not hold on problems left out of the fit, and tells how good what is left is.
func (c *class) evaluate(f *fitted, o Options, byShape *split) (scores []launchrule.Score, published []PresetScore, guessed int) {
	all := make([]int, len(c.points))
	base := make([]float64, len(c.points))
	for i, p := range c.points {
		all[i] = i
		base[i], _ = p.regret(p.Default)
	}
	held := map[string][]float64{}
	raw, loss, n := c.heldOut(byShape, o, f.list.Hull, base)
	c.distrust(f, raw, base, func(int) bool { return false })
	held[launchrule.HeldShape], guessed = loss, n
	_, loss, n = c.heldOut(c.split(launchrule.HeldN), o, f.list.Hull, base)
	held[launchrule.HeldN], guessed = loss, guessed+n
	// Rules that lose to the default in the mean of what they have not seen are not worth having.
	for _, loss := range held {
		if c.weighted(loss) > c.weighted(base) {
			f.list.Rules, f.of = []launchrule.Rule{}, nil
			held = map[string][]float64{launchrule.HeldShape: base, launchrule.HeldN: base}
			break
		}
	}
	fits := make([]float64, len(c.points))
	var fresh []int
	asked := make([]float64, len(c.points))
	for i, p := range c.points {
		fits[i], _ = c.answer(f, i)
		if g, ok := p.regret(p.Asked); ok && p.Fresh {
			fresh, asked[i] = append(fresh, i), g
		}
	}
	add := func(how, who string, loss []float64, use []int) {
		if len(use) > 0 {
			scores = append(scores, c.score(how, who, loss, use))
		}
	}
	add(launchrule.HeldNothing, launchrule.ChooserRules, fits, all)
	add(launchrule.HeldNothing, ChooserDefault, base, all)
	for _, how := range []string{launchrule.HeldShape, launchrule.HeldN} {
		add(how, launchrule.ChooserRules, held[how], all)
		add(how, ChooserDefault, base, all)
	}
	// The rules grew better meanwhile: the newer half says what they are worth now.
	slices.SortFunc(fresh, func(a, b int) int {
		return cmp.Or(c.points[a].When.Compare(c.points[b].When), cmp.Compare(a, b))
	})
	fresh = fresh[len(fresh)/2:]
	add(HeldFresh, launchrule.ChooserRules, asked, fresh)
	add(HeldFresh, ChooserDefault, base, fresh)
	return scores, c.presetScores(held[launchrule.HeldShape], base), guessed
}

// weighted is the sum of the points' losses, by weight.
func (c *class) weighted(loss []float64) (sum float64) {
	for i, p := range c.points {
		sum += p.Weight * loss[i]
	}
	return sum
}

// distrust takes away the rules whose problems fits that had not seen them answered worse than the default does, in
// the mean. out are the points that say nothing.
func (c *class) distrust(f *fitted, held, base []float64, out func(int) bool) {
	worse, ours := make([]float64, len(f.list.Rules)), make([]mean, len(f.list.Rules))
	for i, p := range c.points {
		if k := c.rule(f, i, 0); k >= 0 && !out(i) {
			worse[k] += p.Weight * (held[i] - base[i])
			ours[k].add(p.Weight, held[i])
		}
	}
	var kept fitted
	for k, r := range f.list.Rules {
		if worse[k] <= 0 {
			if ours[k].weight > 0 {
				r.Evidence.HeldOutRegret = ours[k].exp()
			}
			kept.list.Rules, kept.of = append(kept.list.Rules, r), append(kept.of, f.of[k])
		}
	}
	f.list.Rules, f.of = append([]launchrule.Rule{}, kept.list.Rules...), kept.of
}

// score is over some points, by weight.
func (c *class) score(held, who string, loss []float64, use []int) launchrule.Score {
	s := launchrule.Score{Class: c.Class.String(), Held: held, Chooser: who, Shapes: len(use)}
	var regret []float64
	var cells [][]float64
	sum, total := 0.0, 0.0
	for _, i := range use {
		p := c.points[i]
		r := math.Exp(loss[i])
		regret = append(regret, r)
		cells = append(cells, []float64{loss[i]})
		sum, total = sum+p.Weight*loss[i], total+p.Weight
		if r > s.Max {
			s.Max, s.Worst = r, p.Problem.String()
		}
		if r <= 1.02 {
			s.Within2 += p.Weight
		}
		if r <= 1.05 {
			s.Within5 += p.Weight
		}
	}
	_, s.Lo, s.Hi = stats.GeoMeanCI(cells, nil, 0.95, 400, 1)
	s.Regret, s.P95 = math.Exp(sum/total), stats.Quantile(0.95, regret)
	s.Lo, s.Hi = min(s.Lo, s.Regret), max(s.Hi, s.Regret)
	for _, f := range []*float64{&s.Regret, &s.Lo, &s.Hi, &s.P95, &s.Max} {
		*f = round(*f)
	}
	s.Within2, s.Within5 = round(s.Within2/total), round(s.Within5/total)
	return s
}

// Mean is the weighted regret of the classes by a way to hold out and a chooser, less one, and its 95th
// percentile of the worst class; ok is false where nothing is known.
func (r *Result) Mean(held, who string) (mean, p95 float64, n int, ok bool) {
	sum := 0.0
	for _, s := range r.Scores {
		if s.Held == held && s.Chooser == who {
			sum, n, p95 = sum+float64(s.Shapes)*math.Log(s.Regret), n+s.Shapes, max(p95, s.P95)
		}
	}
	if n == 0 {
		return 0, 0, 0, false
	}
	return math.Exp(sum/float64(n)) - 1, p95 - 1, n, true
}

func (p *Point) String() string { return fmt.Sprintf("%s: %d variants", p.Problem, len(p.US)) }
