package learn

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep"
	"normbench/sweep/shapes"
)

// A Coverage says which problems a map to learn shall answer, and has the filler of the map.
type Coverage struct {
	*Filler
	Domain  shapes.Domain
	Classes []kernels.Problem // one problem of each op, pass and type, whatever its shape
	First   []int64           // of the filler's Widths, those that half of the draws of these have
	HeldOut []shapes.Shape    // that are not measured, so that the map can be judged at them
}

// groupRows is the number of problems with the same columns that are measured together. What is compiled
// depends on the columns, and a launch takes a thousandth of compiling.
const groupRows = 8

// withShape returns p with another shape.
func withShape(p kernels.Problem, m, n int64) kernels.Problem {
	p.M, p.N = m, n
	return p
}

// A chooser plans which problems and variants to measure next, from the points so far. It is made anew
// for each batch.
type chooser struct {
	*Coverage
	rng     *rand.Rand
	classes map[launchmap.Class]*classPoints
	have    map[kernels.Problem]bool // known or pending
	at      map[kernels.Problem]int  // how many of these a class and width has, as a problem of one row; draws too
}

// chooser makes a chooser from the points so far. Problems of pending batches are not chosen again.
func (p *Coverage) chooser(points []*Point, rng *rand.Rand, pending ...[]sweep.Task) *chooser {
	c := &chooser{p, rng, groupByClass(points), map[kernels.Problem]bool{}, map[kernels.Problem]int{}}
	add := func(q kernels.Problem) {
		c.have[q] = true
		c.at[withShape(q, 1, q.N)]++
	}
	for _, q := range points {
		add(q.Problem)
	}
	for _, t := range slices.Concat(pending...) {
		add(t.Problem)
	}
	return c
}

// rank lists the variants measured near a problem by their expected regret.
func (c *chooser) rank(p kernels.Problem) []expectedRegret {
	k := c.classes[launchmap.ClassOf(p)]
	return k.rank(k.neighboursNear(placeOf(p)))
}

// planBatch plans a batch of so many groups, each of problems of one class with the same columns. Where
// a class has no problems left it takes another.
func (c *chooser) planBatch(groups, step int) (tasks []sweep.Task) {
	for i := range max(groups, len(c.Classes)) {
		if i < groups || len(tasks) == 0 {
			tasks = append(tasks, c.planTasks(c.drawGroup(c.Classes[(step*groups+i)%len(c.Classes)]))...)
		}
	}
	return tasks
}

// drawGroup draws problems of a class with the same columns that were not measured, none where 24
// draws find none.
func (c *chooser) drawGroup(class kernels.Problem) (ps []kernels.Problem) {
	for tries := 0; tries < 24 && len(ps) == 0; tries++ {
		for _, s := range c.drawShapes(class) {
			p := withShape(class, s.M, s.N)
			if len(ps) < groupRows && !c.have[p] && !slices.Contains(c.HeldOut, s) && c.Domain.Holds(p.M, p.N) && p.CheckFits(c.Device) == nil &&
				len(c.Registry.Candidates(p)) > 0 {
				c.have[p] = true
				ps = append(ps, p)
			}
		}
	}
	slices.SortFunc(ps, func(a, b kernels.Problem) int { return cmp.Compare(a.M, b.M) })
	return ps
}

// smallElems is the number of elements below which the launch takes all of the time. On an H100, full
// searches found 0.2% over learned maps below twice that, and 4% above.
const smallElems = 1 << 15

// drawColumns draws a number of columns for a class: six of ten are of the widths that have a line of their
// own, one is ragged. With three of four, a map of eight minutes lost 6% at random widths. Without such
// widths in the domain two thirds are ragged, as full searches found four times the regret there.
func (c *chooser) drawColumns(class kernels.Problem) int64 {
	all := c.inDomain(c.Widths)
	listed, ragged := 12, 2 // of 20 draws
	if len(all) == 0 {
		listed, ragged = 0, 13
	}
	switch i := c.rng.IntN(20); {
	case i >= listed+ragged:
		return c.Domain.DrawColumns(c.rng)
	case i >= listed:
		return c.Domain.DrawRaggedColumns(c.rng)
	}
	if first := c.inDomain(c.First); len(first) > 0 && c.rng.IntN(2) == 0 {
		all = first
	}
	return c.leastMeasured(class, all)
}

func (c *chooser) inDomain(widths []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(widths), func(n int64) bool { return !c.Domain.Holds(c.Domain.MMin, n) })
}

// leastMeasured draws one of the widths at which the class has the fewest problems: a budget that ends
// early has been at as many widths as it can. A draw counts as a group, so that a width without problems
// left is not drawn again and again.
func (c *chooser) leastMeasured(class kernels.Problem, widths []int64) int64 {
	measured := func(n int64) int { return c.at[withShape(class, 1, n)] }
	c.rng.Shuffle(len(widths), func(i, j int) { widths[i], widths[j] = widths[j], widths[i] })
	n := slices.MinFunc(widths, func(a, b int64) int { return cmp.Compare(measured(a), measured(b)) })
	c.at[withShape(class, 1, n)] += groupRows
	return n
}

// drawShapes draws shapes of a class with the same columns, spread over the domain's rows. Three groups of four
// leave out small tensors.
func (c *chooser) drawShapes(class kernels.Problem) (list []shapes.Shape) {
	n := c.drawColumns(class)
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

// How rivals are drawn.
const (
	mostRivals = 20   // of a group
	bestOf     = 12   // guesses of a problem that are rivals,
	parents    = 4    // and that have children: one or two knobs a step away
	children   = 300  // at most
	strangers  = 300  // drawn from all spaces
	sigma      = 0.10 // spread of a measurement at another place
	hopeless   = 0.50 // regret of what is not taken
)

// A contender is a variant that may be measured on a group of problems.
type contender struct {
	variant kernels.Variant
	rows    [][]float64 // of its design's model at each problem; nil where it is refused
}

// chooseRivals picks the variants that a group of problems will run, by Thompson sampling (Thompson,
// 1933). For each problem in turn it draws a model of each design from those that the measurements
// nearby leave likely. It computes the expected regret of each variant: its measured regret nearby, or
// the model's where little was measured. It takes the variant with the least.
//
// Of a batch-invariant map all problems judge in each turn: the variant with the least mean is taken.
//
// So good configs run often, and little known ones and designs without measurements nearby sometimes.
// Configs that do well spread from problem to problem, as in a map of elites (Mouret and Clune, 2015).
func (c *chooser) chooseRivals(ps []kernels.Problem) (chosen []*contender) {
	around := make([]*surroundings, len(ps))
	for i, p := range ps {
		around[i] = c.lookAround(p)
	}
	rivals := c.listRivals(ps, around)
	for turn := 0; turn < 2*mostRivals && len(chosen) < mostRivals; turn++ {
		judges := []int{turn % len(ps)} // problems
		if c.BatchInvariant {           // one config must do for all of them
			judges = c.rng.Perm(len(ps))
		}
		models := make([]map[string][]float64, len(ps))
		for _, i := range judges {
			models[i] = map[string][]float64{}
			for _, f := range c.Registry.Candidates(ps[i]) {
				models[i][f.Name] = around[i].designs[f.Name].sample(c.rng)
			}
		}
		var best *contender
		least := hopeless
		for _, r := range rivals {
			if slices.Contains(chosen, r) || slices.ContainsFunc(judges, func(i int) bool { return r.rows[i] == nil }) {
				continue
			}
			sum := 0.0
			for _, i := range judges {
				g := around[i].known[r.variant]
				x := g.blend(predict(models[i][r.variant.Family], r.rows[i])).regret
				share := g.weight / (g.weight + priorWeight) // of what was measured in it
				sum += x + share*sigma/math.Sqrt(g.weight+2*priorWeight)*c.rng.NormFloat64()
			}
			if x := sum / float64(len(judges)); x < least {
				best, least = r, x
			}
		}
		if best != nil {
			chosen = append(chosen, best)
		}
	}
	return chosen
}

// planTasks makes the tasks of a group: each problem races the map's answer, the prior's and the rivals
// that its families accept.
func (c *chooser) planTasks(ps []kernels.Problem) (tasks []sweep.Task) {
	if len(ps) == 0 {
		return nil
	}
	chosen := c.chooseRivals(ps)
	for i, p := range ps {
		t := sweep.Task{Problem: p, BaseOf: c.Registry.BaseOf}
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
			if r.rows[i] != nil {
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

// family returns v's family if it accepts v for p, and the map may have it, else nil.
func (c *chooser) family(p kernels.Problem, v kernels.Variant) *kernels.Family {
	f, err := c.Registry.Lookup(v.Family)
	if err != nil || f.CheckServes(p) != nil || f.Refuse(p, v.Config, c.Device) != nil ||
		c.BatchInvariant && !f.KeepsRows(p, v.Config, c.Device) {
		return nil
	}
	return f
}

// listRivals lists the variants that may win on a group: the bases of the designs, variants that did
// well nearby, mutations of these, and variants drawn at random. It leaves out variants that launch the
// same as another.
func (c *chooser) listRivals(ps []kernels.Problem, around []*surroundings) (list []*contender) {
	seen, plans := map[kernels.Variant]bool{}, map[string]bool{}
	add := func(v kernels.Variant) {
		if seen[v] {
			return
		}
		seen[v] = true
		r, plan := &contender{v, make([][]float64, len(ps))}, ""
		for i, p := range ps {
			if f := c.family(p, v); f != nil && around[i].designs[v.Family] != nil {
				r.rows[i] = row(f, p, v.Config, c.Device.SMs)
				plan = cmp.Or(plan, f.Plan(p, v.Config, c.Device).String())
			}
		}
		if plan != "" && !plans[plan] { // some knobs change nothing
			plans[plan] = true
			list = append(list, r)
		}
	}
	for _, i := range []int{0, len(ps) / 2, len(ps) - 1} {
		add(c.Prior.Answer(ps[i]).Variant)
		for _, f := range c.Registry.Candidates(ps[i]) {
			add(kernels.Variant{Family: f.Name, Config: f.Base(ps[i], c.Device)})
		}
	}
	for _, s := range around {
		for _, v := range s.elites {
			add(v)
		}
		for _, g := range s.rank[:min(len(s.rank), bestOf)] {
			add(g.variant)
		}
	}
	for k := range children + strangers {
		i := c.rng.IntN(len(ps))
		if k >= children {
			add(c.randomVariant(ps[i]))
		} else if gs := around[i].rank; len(gs) > 0 {
			add(c.mutate(gs[c.rng.IntN(min(len(gs), parents))].variant))
		}
	}
	return list
}

// Surroundings hold what was measured around a problem.
type surroundings struct {
	rank    []expectedRegret                   // of variants nearby, the least regret first
	known   map[kernels.Variant]expectedRegret // the same without the prior
	elites  []kernels.Variant                  // the best of each design, farther around
	designs map[string]*regression             // of each, from there
}

// lookAround collects what was measured around a problem, and fits a model of each design to it.
func (c *chooser) lookAround(p kernels.Problem) *surroundings {
	k, at := c.classes[launchmap.ClassOf(p)], placeOf(p)
	s := &surroundings{rank: k.rank(k.neighboursNear(at)), known: map[kernels.Variant]expectedRegret{},
		designs: map[string]*regression{}}
	for _, g := range s.rank {
		g.regret = (g.regret*(g.weight+priorWeight) - priorRegret*priorWeight) / g.weight
		s.known[g.variant] = g
	}
	families := map[string]*kernels.Family{}
	seen := map[string][]observation{}
	for _, f := range c.Registry.Candidates(p) {
		families[f.Name] = f
	}
	far := k.neighboursFar(at)
	for _, g := range k.rank(far) {
		if families[g.variant.Family] == nil || seen[g.variant.Family] != nil {
			continue
		}
		if _, v, _, err := c.Registry.Resolve(p, g.variant, c.Device); err == nil {
			seen[g.variant.Family] = []observation{}
			s.elites = append(s.elites, v)
		}
	}
	for _, n := range far {
		q := k.points[n.point].Problem
		for _, t := range k.timings[n.point] {
			v := k.variants[t.variant]
			if f := families[v.Family]; f != nil {
				seen[v.Family] = append(seen[v.Family],
					observation{row(f, q, v.Config, c.Device.SMs), t.regret, n.weight})
			}
		}
	}
	for name, f := range families {
		s.designs[name] = fit(len(row(f, p, f.Base(p, c.Device), c.Device.SMs)), seen[name])
	}
	return s
}

// mutate changes one knob of a variant by a step, sometimes two.
func (c *chooser) mutate(v kernels.Variant) kernels.Variant {
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

// randomVariant draws a family and half of its knobs.
func (c *chooser) randomVariant(p kernels.Problem) kernels.Variant {
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
