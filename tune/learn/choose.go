package learn

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/sweep"
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

// smallElems is how many elements a tensor has below which the launch is all of the time. On an H100,
// full searches found 0.2% over learned maps below twice that, and 4% above.
const smallElems = 1 << 15

// draw is shapes with the same columns, spread over the domain, now and then behind up to half a
// group of listed ones. Columns that are no multiple of 8 are drawn more often than they are asked
// for: full searches found four times the regret there. Three groups of four leave out small tensors.
func (c *chooser) draw(of kernels.Problem) (list []shapes.Shape) {
	switch {
	case len(c.Listed) > 0 && c.rng.IntN(3) == 0:
		list = c.listed()
	case c.rng.IntN(3) > 0:
		list = []shapes.Shape{{M: 0, N: c.Domain.RaggedColumns(c.rng)}}
	default:
		list = []shapes.Shape{{M: 0, N: c.Domain.Columns(c.rng)}}
	}
	n := list[0].N
	lo, hi := float64(c.Domain.MMin), float64(min(c.Domain.MMax, c.Domain.Elems/n))
	if c.rng.IntN(4) > 0 {
		lo = min(max(lo, float64(smallElems/n)), hi)
	}
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
	mostRivals = 20   // of a group
	bestOf     = 12   // guesses of a problem that are rivals,
	parents    = 4    // and that have children: one or two knobs a step away
	children   = 160  // at most
	strangers  = 60   // drawn from all spaces
	sigma      = 0.10 // spread of a config without measurements
	childStep  = 0.05 // regret that is expected of a child beside its parent's
	hopeless   = 0.50 // regret of what is not taken
)

// A rival may win on some problems of a group.
type rival struct {
	variant kernels.Variant
	expects []guess // at each problem; NaN where it is refused
	source  source
	unknown bool // its design may be good at a problem, and was not measured nearby
}

// A source is where a rival comes from. Each has its share of the turns: the many of one would else
// leave nothing to the few of another.
type source int

const (
	elite    source = iota // did well nearby, or is nominated by a design
	child                  // of such a one
	stranger               // drawn from a space
)

// turns are who may be taken in turn.
var turns = []source{elite, child, elite, stranger}

// choose takes rivals for a group. First comes one of each design that is unknown nearby. Then, for
// each problem in turn, rivals draw a regret from what is expected of them, and the least is taken
// (Thompson, 1933). So what is good runs often, and what is little known sometimes. Nearby problems
// tell each other their configs so; the map of elites is Mouret and Clune's (2015).
func (c *chooser) choose(ps []kernels.Problem) (chosen []*rival) {
	rivals := c.rivals(ps)
	designs := map[string]bool{}
	for _, k := range c.rng.Perm(len(rivals)) {
		if r := rivals[k]; r.unknown && !designs[r.variant.Family] {
			designs[r.variant.Family] = true
			chosen = append(chosen, r)
		}
	}
	for turn := 0; turn < 2*mostRivals && len(chosen) < mostRivals; turn++ {
		var best *rival
		least := hopeless
		for _, r := range rivals {
			g := r.expects[turn%len(ps)]
			x := g.regret + sigma/math.Sqrt(g.weight+2*priorWeight)*c.rng.NormFloat64()
			// NaN is not
			if x < least && r.source == turns[(turn+turn/len(ps))%len(turns)] && !slices.Contains(chosen, r) {
				best, least = r, x
			}
		}
		if best != nil {
			chosen = append(chosen, best)
		}
	}
	return chosen
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
		for _, r := range chosen {
			if !math.IsNaN(r.expects[i].regret) {
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
// that was not measured: so no design is absent by chance. A stranger loses more, a child a bit more
// than its parent.
func (c *chooser) rivals(ps []kernels.Problem) (list []*rival) {
	around := make([]*surroundings, len(ps))
	for i, p := range ps {
		around[i] = c.around(p)
	}
	seen, plans := map[kernels.Variant]bool{}, map[string]bool{}
	add := func(v kernels.Variant, from source, expected func(s *surroundings) float64) {
		if seen[v] {
			return
		}
		seen[v] = true
		r, plan := &rival{variant: v, source: from, expects: make([]guess, len(ps))}, ""
		for i, p := range ps {
			f := c.family(p, v)
			if f == nil {
				r.expects[i].regret = math.NaN()
				continue
			}
			r.expects[i] = around[i].known[v].with(expected(around[i]))
			g := around[i].designs[v.Family]
			r.unknown = r.unknown || from == elite && g.weight < priorWeight && g.regret < priorRegret
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
			add(v, elite, func(s *surroundings) float64 { return s.designs[v.Family].regret })
		}
	}
	for _, s := range around {
		for _, g := range s.rank[:min(len(s.rank), bestOf)] {
			add(g.variant, elite, func(*surroundings) float64 { return priorRegret })
		}
	}
	for k := range children + strangers {
		i := c.rng.IntN(len(ps))
		if k >= children {
			v := c.stranger(ps[i])
			add(v, stranger, func(s *surroundings) float64 { return s.designs[v.Family].regret + priorRegret })
		} else if gs := around[i].rank; len(gs) > 0 {
			parent := gs[c.rng.IntN(min(len(gs), parents))].variant
			add(c.child(parent), child, func(s *surroundings) float64 {
				return s.known[parent].with(priorRegret).regret + childStep
			})
		}
	}
	return list
}

// Surroundings are what was measured around a problem.
type surroundings struct {
	rank    []guess                   // of variants nearby, the least regret first
	known   map[kernels.Variant]guess // the same without the prior
	designs map[string]guess          // of the best of each family, 0 where there is none
	elites  []kernels.Variant         // the best of each family farther around
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
