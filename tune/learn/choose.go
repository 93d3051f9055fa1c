package learn

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/sweep"
	"normbench/sweep/search"
	"normbench/sweep/shapes"
)

// A Policy is what a loop knows before it measures anything.
type Policy struct {
	*Filler
	Domain  shapes.Domain
	Classes []kernels.Problem // one problem of each op, pass and type, whatever its shape
	Listed  []shapes.Shape    // that weigh more than others; a third of the draws have their columns
}

// groupRows is how many problems with the same columns are measured together. What is compiled
// depends on the columns, and a launch takes a thousandth of compiling.
const groupRows = 8

// sized is a problem with another shape.
func sized(p kernels.Problem, m, n int64) kernels.Problem {
	p.M, p.N = m, n
	return p
}

// A chooser plans batches from what is known. It is made anew for each.
type chooser struct {
	*Policy
	rng     *rand.Rand
	classes map[rule.Class]*class
	have    map[kernels.Problem]bool // known or pending
}

func (p *Policy) chooser(points []*Point, rng *rand.Rand, pending ...[]sweep.Task) *chooser {
	c := &chooser{p, rng, classesOf(points), map[kernels.Problem]bool{}}
	for _, q := range points {
		c.have[q.Problem] = true
	}
	for _, t := range slices.Concat(pending...) {
		c.have[t.Problem] = true
	}
	return c
}

// rank is what is expected at a problem.
func (c *chooser) rank(p kernels.Problem) []guess {
	k := c.classes[rule.ClassOf(p)]
	return k.rank(k.near(placeOf(p)))
}

// next plans a batch of so many groups: problems of one class and number of columns each. Where a
// class has none left others have their turn.
func (c *chooser) next(groups, step int) (tasks []sweep.Task) {
	for i := range max(groups, len(c.Classes)) {
		if i < groups || len(tasks) == 0 {
			tasks = append(tasks, c.tasks(c.group(c.Classes[(step*groups+i)%len(c.Classes)]))...)
		}
	}
	return tasks
}

// group draws problems with the same columns that are not known, none where 24 draws find none.
func (c *chooser) group(of kernels.Problem) (ps []kernels.Problem) {
	for tries := 0; tries < 24 && len(ps) == 0; tries++ {
		for _, s := range c.draw(of) {
			p := sized(of, s.M, s.N)
			if len(ps) < groupRows && !c.have[p] && c.Domain.Holds(p.M, p.N) && p.CheckFits(c.Device) == nil {
				c.have[p] = true
				ps = append(ps, p)
			}
		}
	}
	slices.SortFunc(ps, func(a, b kernels.Problem) int { return cmp.Compare(a.M, b.M) })
	return ps
}

// draw is shapes with the same columns, spread over the domain, now and then behind up to half a
// group of listed ones. Columns that are no multiple of 8 are drawn more often than they are asked
// for: each alignment is a raster of its own, to be known.
func (c *chooser) draw(of kernels.Problem) (list []shapes.Shape) {
	switch {
	case len(c.Listed) > 0 && c.rng.IntN(3) == 0:
		list = c.listed()
	case c.rng.IntN(2) == 0:
		list = []shapes.Shape{{M: 0, N: c.Domain.RaggedColumns(c.rng)}}
	default:
		list = []shapes.Shape{{M: 0, N: c.Domain.Columns(c.rng)}}
	}
	n := list[0].N
	lo, hi := float64(c.Domain.MMin), float64(min(c.Domain.MMax, c.Domain.Elems/n))
	var shift float64
	for i := range 2 * groupRows { // in even octaves; then again, between them
		if i%groupRows == 0 {
			shift = c.rng.Float64()
		}
		m := int64(lo * math.Pow(hi/lo, (float64(i%groupRows)+shift)/groupRows))
		if c.rng.IntN(2) == 0 { // a round number
			m &^= 1<<max(bits.Len64(uint64(m))-4, 0) - 1
		}
		list = append(list, shapes.Shape{M: m, N: n})
	}
	return list
}

// listed is some of the listed shapes with the columns of one of them.
func (c *chooser) listed() (some []shapes.Shape) {
	n := c.Listed[c.rng.IntN(len(c.Listed))].N
	for _, i := range c.rng.Perm(len(c.Listed)) {
		if c.Listed[i].N == n && len(some) < groupRows/2 {
			some = append(some, c.Listed[i])
		}
	}
	return some
}

// How rivals are drawn.
const (
	mostRivals = 24   // of a group
	mostTaken  = 16   // of them by a problem
	bestOf     = 12   // guesses of a problem that are rivals,
	parents    = 4    // and that have children: one or two knobs a step away
	children   = 160  // at most
	strangers  = 160  // drawn from all spaces
	knownMost  = 160  // variants from which the others' regrets are foretold,
	knownLeast = 8    // and at least
	sigma      = 0.10 // spread of a config without measurements
	hopeless   = 0.50 // regret of what is not taken
)

// A rival may win on some problems of a group.
type rival struct {
	variant kernels.Variant
	expects []guess // at each problem; NaN where it is refused
	fresh   bool    // nobody measured it nearby
	unknown bool    // its design may be good at a problem, and was not measured nearby
}

// choose takes rivals for a group. First comes one of each design that is unknown nearby. Then the
// problems have turns. In one, the known rivals draw a regret from what is expected of them, and the
// least is taken (Thompson, 1933), so that what is good runs often, and what is little known
// sometimes. In the other it is the fresh one from which a surrogate of the knobs expects most.
// Nearby problems tell each other their configs so; the map of elites is Mouret and Clune's (2015).
func (c *chooser) choose(ps []kernels.Problem) (chosen []*rival) {
	rivals, proposed := c.rivals(ps)
	designs := map[string]bool{}
	for _, k := range c.rng.Perm(len(rivals)) {
		if r := rivals[k]; r.unknown && !designs[r.variant.Family] {
			designs[r.variant.Family] = true
			chosen = append(chosen, r)
		}
	}
	for turn := 0; turn < 2*mostRivals && len(chosen) < mostRivals; turn++ {
		i := turn / 2 % len(ps)
		var best *rival
		if turn%2 == 0 {
			best = c.drawn(rivals, chosen, i)
		} else {
			for len(proposed[i]) > 0 && best == nil {
				if r := proposed[i][0]; !slices.Contains(chosen, r) {
					best = r
				}
				proposed[i] = proposed[i][1:]
			}
		}
		if best != nil {
			chosen = append(chosen, best)
		}
	}
	return chosen
}

// drawn is the known rival that draws the least regret at the i-th problem, nil where all are
// hopeless.
func (c *chooser) drawn(rivals, chosen []*rival, i int) (best *rival) {
	least := hopeless
	for _, r := range rivals {
		g := r.expects[i]
		x := g.regret + sigma/math.Sqrt(g.weight+2*priorWeight)*c.rng.NormFloat64()
		// NaN is not
		if x < least && !r.fresh && !slices.Contains(chosen, r) {
			best, least = r, x
		}
	}
	return best
}

// tasks are the contests of a group. Its problems have the same rivals.
func (c *chooser) tasks(ps []kernels.Problem) (tasks []sweep.Task) {
	if len(ps) == 0 {
		return nil
	}
	chosen := c.choose(ps)
	for i, p := range ps {
		t := sweep.Task{Problem: p}
		plans := map[string]bool{}
		add := func(v kernels.Variant) {
			if f := c.family(p, v); f != nil {
				if plan := f.Plan(p, v.Config, c.Device).String(); !plans[plan] {
					plans[plan] = true
					t.Variants = append(t.Variants, v)
				}
			}
		}
		for _, g := range c.rank(p) { // the first is the map's answer
			if len(t.Variants) == 0 {
				add(g.variant)
			}
		}
		// a prior's pick is to be judged; the analytic base is a rival
		if c.Prior.Map != nil || len(t.Variants) == 0 {
			add(c.Prior.Answer(p).Variant)
		}
		slices.SortStableFunc(chosen, func(a, b *rival) int { // NaN first
			return cmp.Compare(a.expects[i].regret, b.expects[i].regret)
		})
		for _, r := range chosen {
			if !math.IsNaN(r.expects[i].regret) && len(t.Variants) < mostTaken {
				add(r.variant)
			}
		}
		if len(t.Variants) > 0 {
			t.Base = t.Variants[0]
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// family is that of v if it takes v for p, else nil.
func (c *chooser) family(p kernels.Problem, v kernels.Variant) *kernels.Family {
	f, err := c.Registry.Lookup(v.Family)
	if err != nil || f.CheckServes(p) != nil || f.Refuse(p, v.Config, c.Device) != nil {
		return nil
	}
	return f
}

// rivals lists who may win: the nominees of the designs, what did well nearby or farther around, its
// children, and strangers. A nominee is expected to lose as much as its design did, and nothing where
// that was not measured: so no design is absent by chance. What is expected of children and strangers
// is foretold, and the most promising of them are proposed for each problem.
func (c *chooser) rivals(ps []kernels.Problem) (list []*rival, proposed [][]*rival) {
	around := make([]*surroundings, len(ps))
	for i, p := range ps {
		around[i] = c.around(p)
	}
	seen, plans := map[kernels.Variant]bool{}, map[string]bool{}
	add := func(v kernels.Variant, fresh bool, expected func(s *surroundings) float64) {
		if seen[v] {
			return
		}
		seen[v] = true
		r, plan := &rival{variant: v, fresh: fresh, expects: make([]guess, len(ps))}, ""
		for i, p := range ps {
			f := c.family(p, v)
			if f == nil {
				r.expects[i].regret = math.NaN()
				continue
			}
			r.expects[i] = around[i].known[v].with(expected(around[i]))
			g := around[i].designs[v.Family]
			r.unknown = r.unknown || !fresh && g.weight < priorWeight && g.regret < priorRegret
			plan = cmp.Or(plan, f.Plan(p, v.Config, c.Device).String())
		}
		if plan != "" && !plans[plan] { // some knobs change nothing
			plans[plan] = true
			list = append(list, r)
		}
	}
	for i, p := range ps {
		nominees := around[i].elites
		if i == 0 || i == len(ps)/2 || i == len(ps)-1 {
			nominees = append(nominees, c.Prior.Answer(p).Variant)
			for _, f := range c.Registry.Candidates(p) {
				nominees = append(nominees, kernels.Variant{Family: f.Name, Config: f.Base(p, c.Device)})
			}
		}
		for _, v := range nominees {
			add(v, false, func(s *surroundings) float64 { return s.designs[v.Family].regret })
		}
	}
	for _, s := range around {
		for _, g := range s.rank[:min(len(s.rank), bestOf)] {
			add(g.variant, false, func(*surroundings) float64 { return priorRegret })
		}
	}
	for k := range children + strangers {
		i := c.rng.IntN(len(ps))
		v := c.stranger(ps[i])
		if gs := around[i].rank; k < children && len(gs) > 0 {
			v = c.child(gs[c.rng.IntN(min(len(gs), parents))].variant)
		}
		add(v, true, func(*surroundings) float64 { return hopeless })
	}
	return list, c.foretell(ps, around, list)
}

// foretell says what is expected of the fresh rivals, by a surrogate of the knobs that knows what was
// measured around each problem, and lists the most promising of each.
func (c *chooser) foretell(ps []kernels.Problem, around []*surroundings, list []*rival) [][]*rival {
	proposed := make([][]*rival, len(ps))
	var all sync.WaitGroup
	for i, p := range ps {
		var fresh []*rival
		var candidates, known []kernels.Variant
		for _, r := range list {
			if r.fresh && !math.IsNaN(r.expects[i].regret) {
				fresh, candidates = append(fresh, r), append(candidates, r.variant)
			}
		}
		var regrets []float64
		for _, g := range around[i].nearest(knownMost) {
			known, regrets = append(known, g.variant), append(regrets, max(g.regret, 0))
		}
		if len(known) < knownLeast || len(fresh) == 0 {
			proposed[i] = fresh
			continue
		}
		all.Go(func() {
			picks, expected := search.Propose(p, c.Device.SMs, known, regrets, candidates,
				mostRivals/len(ps)+1)
			for k, r := range fresh {
				r.expects[i].regret = expected[k]
			}
			for _, k := range picks {
				proposed[i] = append(proposed[i], fresh[k])
			}
		})
	}
	all.Wait()
	return proposed
}

// Surroundings are what was measured around a problem.
type surroundings struct {
	rank    []guess                   // of variants nearby, the least regret first
	known   map[kernels.Variant]guess // the same without the prior
	designs map[string]guess          // of the best of each family, 0 where there is none
	elites  []kernels.Variant         // the best of each family farther around
}

// nearest are the n variants that were measured nearest, the most first.
func (s *surroundings) nearest(n int) []guess {
	list := slices.Collect(maps.Values(s.known))
	slices.SortFunc(list, func(a, b guess) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), compareVariants(a.variant, b.variant))
	})
	return list[:min(len(list), n)]
}

// around looks around a problem.
func (c *chooser) around(p kernels.Problem) *surroundings {
	k, at := c.classes[rule.ClassOf(p)], placeOf(p)
	s := &surroundings{rank: k.rank(k.near(at)), known: map[kernels.Variant]guess{},
		designs: map[string]guess{}}
	for _, g := range k.rank(k.far(at)) {
		name := g.variant.Family
		if _, has := s.designs[name]; has {
			continue
		}
		if _, v, _, err := c.Registry.Resolve(p, g.variant, c.Device); err == nil {
			s.designs[name] = guess{regret: g.regret}
			s.elites = append(s.elites, v)
		}
	}
	for _, g := range s.rank {
		g.regret = (g.regret*(g.weight+priorWeight) - priorRegret*priorWeight) / g.weight
		s.known[g.variant] = g
		d := s.designs[g.variant.Family]
		if d.weight == 0 {
			d.regret = g.with(d.regret).regret
		}
		d.weight += g.weight
		s.designs[g.variant.Family] = d
	}
	return s
}

// child is a variant with one knob a step away, or two.
func (c *chooser) child(v kernels.Variant) kernels.Variant {
	f, err := c.Registry.Lookup(v.Family)
	if err != nil || len(f.Knobs) == 0 {
		return v
	}
	for range 1 + c.rng.IntN(4)/3 {
		r := f.Knobs[c.rng.IntN(len(f.Knobs))]
		i := slices.Index(r.Values, v.Config.Get(r.Knob)) + 1 - 2*c.rng.IntN(2)
		if i >= 0 && i < len(r.Values) {
			v.Config = v.Config.With(kernels.Setting{Knob: r.Knob, Value: r.Values[i]})
		}
	}
	return v
}

// stranger is a variant of any family with half of its knobs drawn.
func (c *chooser) stranger(p kernels.Problem) kernels.Variant {
	families := c.Registry.Candidates(p)
	f := families[c.rng.IntN(len(families))]
	v := kernels.Variant{Family: f.Name, Config: f.Base(p, c.Device)}
	for _, r := range f.Knobs {
		if len(r.Values) > 0 && c.rng.IntN(2) == 0 {
			v.Config = v.Config.With(kernels.Setting{Knob: r.Knob,
				Value: r.Values[c.rng.IntN(len(r.Values))]})
		}
	}
	return v
}
