package learn

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/sweep"
	"normbench/sweep/shapes"
)

// A Policy is what a loop knows before it measures anything.
type Policy struct {
	*Filler
	// Default is what runs where nothing was measured: the prior's pick, or the analytic base.
	Default func(kernels.Problem) (kernels.Variant, error)
	Domain  shapes.Domain
	Only    []kernels.Problem // where set, the problems that there are: a replay has no others
	Classes []kernels.Problem // one problem of each op, pass and type, whatever its shape
	Listed  []shapes.Shape    // shapes that weigh more than others; a third of the draws have their columns
	// Rows is how many problems with the same columns are measured together, and Units how many kernels are
	// compiled for them: what is compiled depends on the columns, and a launch takes a thousandth of compiling.
	Rows, Units int
}

// DefaultPolicy are the sizes of groups.
var DefaultPolicy = Policy{Rows: 8, Units: 40}

// sized is a problem with another shape.
func sized(p kernels.Problem, m, n int64) kernels.Problem {
	p.M, p.N = m, n
	return p
}

// weightOf is how much a shape counts: what it does in the shapes file, 1 where it is not listed.
func (p *Policy) weightOf(m, n int64) float64 {
	for _, s := range p.Listed {
		if s.M == m && s.N == n {
			return s.Weight
		}
	}
	return 1
}

// A Batch is what is measured next.
type Batch struct{ Tasks []sweep.Task }

// A chooser plans batches from what is known. It is made anew for each.
type chooser struct {
	*Policy
	rng     *rand.Rand
	classes map[rule.Class]*class
	have    map[kernels.Problem]bool // known or pending
	pending map[rule.Class][]place
}

func (p *Policy) chooser(points []*Point, rng *rand.Rand, pending ...Batch) *chooser {
	c := &chooser{Policy: p, rng: rng, classes: map[rule.Class]*class{}, have: map[kernels.Problem]bool{},
		pending: map[rule.Class][]place{}}
	for _, b := range pending {
		for _, t := range b.Tasks {
			c.plan(t.Problem)
		}
	}
	for _, q := range points {
		c.have[q.Problem] = true
	}
	for _, k := range classesOf(points) {
		c.classes[k.Class] = k
	}
	for _, q := range p.Classes {
		if cl := rule.ClassOf(q); c.classes[cl] == nil {
			c.classes[cl] = &class{Class: cl}
		}
	}
	return c
}

// plan notes that a problem will be measured.
func (c *chooser) plan(p kernels.Problem) {
	c.have[p] = true
	c.pending[rule.ClassOf(p)] = append(c.pending[rule.ClassOf(p)], placeOf(p))
}

// next plans a batch of so many groups: problems of one class and number of columns each, where most is to be learned.
func (c *chooser) next(groups, step int) (b Batch) {
	for i := range groups {
		of := c.Classes[(step*groups+i)%len(c.Classes)]
		if ps := c.group(of); len(ps) > 0 {
			b.Tasks = append(b.Tasks, c.tasks(ps)...)
		}
	}
	if len(b.Tasks) == 0 { // another class may have some left
		for _, of := range c.Classes {
			if ps := c.group(of); len(ps) > 0 {
				return Batch{c.tasks(ps)}
			}
		}
	}
	return b
}

// group draws columns and takes those whose problems are worth the most.
func (c *chooser) group(of kernels.Problem) []kernels.Problem {
	const draws = 24
	groups, worth := make([][]kernels.Problem, draws), make([]float64, draws)
	for i := range groups {
		groups[i] = c.draw(of)
	}
	var wg sync.WaitGroup
	for i, ps := range groups {
		wg.Go(func() {
			for _, p := range ps {
				worth[i] += c.worth(p)
			}
		})
	}
	wg.Wait()
	best := 0
	for i := range worth {
		if worth[i] > worth[best] {
			best = i
		}
	}
	for _, p := range groups[best] {
		c.plan(p)
	}
	return groups[best]
}

// draw is problems with the same columns that are not known.
func (c *chooser) draw(of kernels.Problem) (ps []kernels.Problem) {
	n, ms := c.shapes(of)
	for _, m := range ms {
		p := sized(of, m, n)
		if len(ps) < c.Rows && !c.have[p] && !slices.Contains(ps, p) && c.Domain.Holds(m, n) && p.CheckFits(c.Device) == nil {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b kernels.Problem) int { return cmp.Compare(a.M, b.M) })
	return ps
}

// shapes draws columns, with counts of rows: of the problems that there are, else spread over the domain, now and then behind
// those of listed shapes.
func (c *chooser) shapes(of kernels.Problem) (n int64, ms []int64) {
	among := func(list []shapes.Shape, most int) {
		n = list[c.rng.IntN(len(list))].N
		for _, i := range c.rng.Perm(len(list)) {
			if list[i].N == n && len(ms) < most {
				ms = append(ms, list[i].M)
			}
		}
	}
	if len(c.Only) > 0 {
		var left []shapes.Shape
		for _, p := range c.Only {
			if !c.have[p] && c.Domain.Holds(p.M, p.N) && sized(of, p.M, p.N) == p {
				left = append(left, shapes.Shape{M: p.M, N: p.N})
			}
		}
		if len(left) > 0 {
			among(left, len(left))
		}
		return n, ms
	}
	if n = c.Domain.Columns(c.rng); len(c.Listed) > 0 && c.rng.IntN(3) == 0 {
		among(c.Listed, c.Rows/2)
	}
	lo, hi := float64(c.Domain.MMin), float64(max(min(c.Domain.MMax, c.Domain.Elems/n), c.Domain.MMin))
	shift := c.rng.Float64()
	for i := range 2 * c.Rows { // even rows first, then what was taken already moves a bit
		x := math.Mod(float64(i)+shift, float64(c.Rows)) / float64(c.Rows)
		if i >= c.Rows {
			x = c.rng.Float64()
		}
		m := int64(math.Round(lo * math.Pow(hi/lo, x)))
		if c.rng.IntN(2) == 0 {
			m = eighths(m)
		}
		ms = append(ms, min(max(m, c.Domain.MMin), int64(hi)))
	}
	return n, ms
}

// eighths is n with its four highest bits only.
func eighths(n int64) int64 {
	unit := int64(1)
	for n/unit >= 16 {
		unit *= 2
	}
	return (n + unit/2) / unit * unit
}

// worth is how much there is to learn on a problem: what the best known is expected to lose, and how little
// is known nearby.
func (c *chooser) worth(p kernels.Problem) float64 {
	k, at := c.classes[rule.ClassOf(p)], placeOf(p)
	near := k.near(at)
	mass, lost := 0.0, priorRegret
	for _, n := range near {
		mass += n.weight
	}
	for _, q := range c.pending[k.Class] {
		mass += alike(at, q)
	}
	if gs := k.rank(near); len(gs) > 0 {
		lost = max(gs[0].regret, 0)
	}
	return c.weightOf(p.M, p.N) * (lost + doubt/math.Sqrt(1+4*mass))
}

// doubt is what a place without measurements is worth, as a log regret.
const doubt = 0.15

// A rival may win on some problems of a group.
type rival struct {
	variant kernels.Variant
	regret  []float64 // expected at each problem; NaN where it is refused
	sigma   []float64 // how uncertain that is
	plan    string    // of the first problem that takes it
	units   []string  // what is compiled for it, over all problems
}

// tasks are the contests of a group. Its problems have the same rivals: for each problem in turn, rivals draw a
// regret from what is expected of them, and the least is taken (Thompson, 1933). So what is good runs often, and what is
// little known sometimes. Nearby problems tell each other their configs so; the map of elites is
// Mouret and Clune's (2015).
func (c *chooser) tasks(ps []kernels.Problem) (tasks []sweep.Task) {
	rivals := c.rivals(ps)
	taken, units := map[string]bool{}, map[string]bool{}
	var chosen []*rival
	for turn := 0; turn < mostRivals && len(units) < c.Units; turn++ {
		i := turn % len(ps)
		best, least := -1, math.Inf(1)
		for k, r := range rivals {
			if math.IsNaN(r.regret[i]) || taken[r.plan] {
				continue
			}
			if x := r.regret[i] + r.sigma[i]*c.rng.NormFloat64(); x < least {
				best, least = k, x
			}
		}
		if best < 0 {
			continue
		}
		r := rivals[best]
		taken[r.plan] = true
		chosen = append(chosen, r)
		for _, u := range r.units {
			units[u] = true
		}
	}
	for i, p := range ps {
		base, err := c.Default(p)
		if err != nil {
			continue
		}
		pick := base
		k := c.classes[rule.ClassOf(p)]
		for _, g := range k.rank(k.near(placeOf(p))) {
			if v := k.variants[g.variant]; c.runs(p, v) {
				pick = v
				break
			}
		}
		t := sweep.Task{Problem: p, Base: pick, Variants: []kernels.Variant{pick}}
		seen := map[string]bool{c.planOf(p, pick): true}
		add := func(v kernels.Variant) {
			if plan := c.planOf(p, v); plan != "" && !seen[plan] {
				seen[plan] = true
				t.Variants = append(t.Variants, v)
			}
		}
		if c.Prior != nil { // a prior's pick is to be judged; the analytic base is among the rivals
			add(base)
		}
		for _, r := range chosen {
			if !math.IsNaN(r.regret[i]) {
				add(r.variant)
			}
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// runs says whether the family of v takes it for p.
func (c *chooser) runs(p kernels.Problem, v kernels.Variant) bool {
	f, err := c.Registry.Lookup(v.Family)
	return err == nil && f.CheckServes(p) == nil && f.Refuse(p, v.Config, c.Device) == nil
}

// planOf is what v launches for p as text, "" where it is refused.
func (c *chooser) planOf(p kernels.Problem, v kernels.Variant) string {
	if !c.runs(p, v) {
		return ""
	}
	f, _ := c.Registry.Lookup(v.Family)
	return f.Plan(p, v.Config, c.Device).String()
}

// unitsOf are the kernels that v needs compiled for p.
func unitsOf(f *kernels.Family, p kernels.Problem, v kernels.Variant, d kernels.DeviceInfo) (units []string) {
	for _, l := range f.Plan(p, v.Config, d).Launches {
		if l.IsKernel() {
			var b strings.Builder
			fmt.Fprint(&b, l.Source, l.Entry, l.Defines)
			units = append(units, b.String())
		}
	}
	return units
}

// How rivals are drawn.
const (
	mostRivals = 32   // of a group
	bestOf     = 12   // guesses of a problem that are rivals,
	parents    = 4    // and that have children: one or two knobs a step away
	children   = 160  // at most
	strangers  = 60   // drawn from all spaces
	sigma      = 0.10 // spread of a config without measurements
	childStep  = 0.05 // regret that is expected of a child beside its parent's
)

// rivals lists who may win: what did well nearby, its children, the families' bases, and strangers. A child is expected to
// lose a bit more than its parent, what nobody measured nearby as much as the model says.
func (c *chooser) rivals(ps []kernels.Problem) (list []*rival) {
	k := c.classes[rule.ClassOf(ps[0])]
	ranks, known := make([][]guess, len(ps)), make([]map[kernels.Variant]guess, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() {
			ranks[i], known[i] = k.rank(k.near(placeOf(p))), map[kernels.Variant]guess{}
			for _, g := range ranks[i] {
				known[i][k.variants[g.variant]] = g
			}
		})
	}
	wg.Wait()
	seen, plans := map[kernels.Variant]bool{}, map[string]bool{}
	add := func(v, parent kernels.Variant) {
		if seen[v] {
			return
		}
		seen[v] = true
		r := &rival{variant: v, regret: make([]float64, len(ps)), sigma: make([]float64, len(ps))}
		for i, p := range ps {
			if r.regret[i] = math.NaN(); !c.runs(p, v) {
				continue
			}
			g, ok := known[i][parent]
			if !ok {
				g.regret = priorRegret
			}
			if v != parent {
				g.regret, g.weight = g.regret+childStep, min(g.weight, priorWeight)
			}
			r.regret[i], r.sigma[i] = g.regret, sigma/math.Sqrt(g.weight+2*priorWeight)
			f, _ := c.Registry.Lookup(v.Family)
			if r.plan == "" {
				r.plan = f.Plan(p, v.Config, c.Device).String()
			}
			r.units = append(r.units, unitsOf(f, p, v, c.Device)...)
		}
		if r.plan != "" && !plans[r.plan] {
			plans[r.plan] = true
			list = append(list, r)
		}
	}
	alone := func(v kernels.Variant) { add(v, v) }
	for _, gs := range ranks {
		for _, g := range gs[:min(len(gs), bestOf)] {
			alone(k.variants[g.variant])
		}
	}
	for _, p := range []kernels.Problem{ps[0], ps[len(ps)/2], ps[len(ps)-1]} {
		if v, err := c.Default(p); err == nil {
			alone(v)
		}
		for _, f := range c.Registry.Candidates(p) {
			alone(kernels.Variant{Family: f.Name, Config: f.Base(p, c.Device)})
		}
	}
	for range children {
		if gs := ranks[c.rng.IntN(len(ranks))]; len(gs) > 0 {
			parent := k.variants[gs[c.rng.IntN(min(len(gs), parents))].variant]
			add(c.child(parent), parent)
		}
	}
	for range strangers {
		alone(c.stranger(ps[c.rng.IntN(len(ps))]))
	}
	return list
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
			v.Config = v.Config.With(kernels.Setting{Knob: r.Knob, Value: r.Values[c.rng.IntN(len(r.Values))]})
		}
	}
	return v
}
