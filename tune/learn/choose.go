package learn

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune/rules"
)

// A Policy is what a loop knows before it measures anything.
type Policy struct {
	Judge launchrule.Judge
	// Default is what answers a problem where no learned rule does: the prior's pick, or the analytic base.
	Default func(kernels.Problem) (kernels.Variant, error)
	// Analytic is the base that needs no measurement, as what is learned is compared with it. It may be Default.
	Analytic func(kernels.Problem) (kernels.Variant, error)
	Domain   shapes.Domain
	Only     []kernels.Problem // where set, the problems that there are: a replay has no others
	Prior    *launchrule.Set   // what Default answers from, where that is a file
	Classes  []kernels.Problem // one problem of each op, pass and type, whatever its shape
	Listed   []shapes.Shape    // shapes that weigh more than others; a tenth of the draws are of these
	// Challengers are measured beside the pick, at most; in a batch there are about so many problems.
	Challengers, Batch int
	// Wide is the part of the batches with a group that has Fan challengers: a search for what nobody runs yet.
	Wide float64
	Fan  int
	Memo *Memo
}

// problem is one of a class with a shape.
func problem(of kernels.Problem, m, n int64) kernels.Problem {
	of.M, of.N = m, n
	return of
}

// Weight is how much a problem counts: what its shape does in the shapes file, 1 where it is not listed.
func (p *Policy) Weight(q kernels.Problem) float64 {
	for _, s := range p.Listed {
		if s.M == q.M && s.N == q.N {
			return s.Weight
		}
	}
	return 1
}

// A Batch is what is measured next.
type Batch struct {
	Tasks []sweep.Task
	Fresh bool // drawn at random
}

// A chooser plans batches from what is known. It is made anew for each.
type chooser struct {
	*Policy
	rng     *rand.Rand
	classes map[launchrule.Class]*class
	rules   *Result // may be nil
	have    map[kernels.Problem]bool
}

// chooser plans from points and the rules that were fitted to them. What pending batches will measure is not drawn again.
func (p *Policy) chooser(points []*Point, fit *Result, rng *rand.Rand, pending ...Batch) *chooser {
	c := &chooser{Policy: p, rng: rng, rules: fit, classes: map[launchrule.Class]*class{}, have: map[kernels.Problem]bool{}}
	for _, b := range pending {
		for _, t := range b.Tasks {
			c.have[t.Problem] = true
		}
	}
	by := map[launchrule.Class][]*Point{}
	for _, q := range points {
		c.have[q.Problem] = true
		by[launchrule.ClassOf(q.Problem)] = append(by[launchrule.ClassOf(q.Problem)], q)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for cl, ps := range by {
		wg.Go(func() {
			k := newClass(cl, ps, p.Judge, p.Memo)
			mu.Lock()
			defer mu.Unlock()
			c.classes[cl] = k
		})
	}
	wg.Wait()
	return c
}

// pick is what is answered today: by the learned rules, else the default.
func (c *chooser) pick(p kernels.Problem) (kernels.Variant, error) {
	if c.rules != nil {
		if v, ok := c.rules.Pick(p); ok && c.Judge.Accepts(p, v) {
			return v, nil
		}
	}
	return c.Default(p)
}

// Pick is what the rules answer; ok is false where none does.
func (r *Result) Pick(p kernels.Problem) (v kernels.Variant, ok bool) {
	a, v := r.Set.Pick(p)
	return v, a.Rule() != nil
}

// A rival is a variant that may beat the pick, with what is expected of it.
type rival struct {
	variant kernels.Variant
	guess   guess
}

// rivals lists who may win on a problem, the most promising first, each plan once. It is the learned
// portfolio, what won nearby, what the default runs on problems beside this, and the bases of all families.
func (c *chooser) rivals(p kernels.Problem) []rival {
	k := c.classes[launchrule.ClassOf(p)]
	at := placeOf(p)
	var near []entry // points by how alike they are
	if k != nil {
		for i, q := range k.points {
			if w := alike(at, q.at); w > 1e-3 {
				near = append(near, entry{i, w})
			}
		}
		slices.SortStableFunc(near, func(a, b entry) int { return cmp.Compare(b.regret, a.regret) })
		near = near[:min(len(near), 40)]
	}
	expected := func(v kernels.Variant, r *launchrule.Recipe) guess {
		sum, weight := priorRegret*priorWeight, priorWeight
		for _, e := range near {
			q := k.points[e.point]
			w := v
			if r != nil {
				w = r.At(q.Problem.N, k.Bytes)
			}
			if g, ok := q.regret(w); ok {
				sum, weight = sum+e.regret*g, weight+e.regret
			} else if q.Failed[w] {
				sum, weight = sum+e.regret*0.5, weight+e.regret
			}
		}
		return guess{sum / weight, weight - priorWeight}
	}
	found := map[kernels.Variant]guess{}
	add := func(v kernels.Variant, g guess) {
		if old, ok := found[v]; !ok || g.optimistic() < old.optimistic() {
			found[v] = g
		}
	}
	if k != nil {
		for i := range k.cands {
			r := &k.cands[i]
			add(r.At(p.N, k.Bytes), expected(kernels.Variant{}, r))
		}
		for _, e := range near[:min(len(near), 6)] {
			q := k.points[e.point]
			for _, r := range rules.RecipesOf(q.Best, q.Problem.N, k.Bytes) {
				add(r.At(p.N, k.Bytes), expected(kernels.Variant{}, &r))
			}
		}
	}
	for _, q := range []kernels.Problem{p, problem(p, p.M, roundUp(p.N)), problem(p, p.M, p.N+p.N/2), problem(p, max(p.M/2, 1), p.N), problem(p, 2*p.M, p.N)} {
		if v, err := c.Default(q); err == nil {
			add(v, expected(v, nil))
		}
	}
	if v, err := c.Analytic(p); err == nil {
		add(v, expected(v, nil))
	}
	for _, f := range c.Judge.Registry.Serving(p) {
		v := kernels.Variant{Family: f.Name, Config: f.Base(p, c.Judge.Device)}
		add(v, expected(v, nil))
	}
	list := make([]rival, 0, len(found))
	for v, g := range found {
		list = append(list, rival{v, g})
	}
	slices.SortFunc(list, func(a, b rival) int {
		return cmp.Or(cmp.Compare(a.guess.optimistic(), b.guess.optimistic()), cmp.Compare(a.variant.String(), b.variant.String()))
	})
	return list
}

// roundUp is the next power of two.
func roundUp(n int64) int64 {
	p := int64(1)
	for p < n {
		p *= 2
	}
	return p
}

// tasks are the contests of a group of problems with one number of columns: of each the pick, the default and
// the analytic base, and of all the same few challengers, the most promising over the group: what is compiled
// depends on the columns, and a launch takes a thousandth of what compiling does. One or two of the challengers
// are drawn from all, so that nothing is left out for ever.
func (c *chooser) tasks(ps []kernels.Problem, wide bool) []sweep.Task {
	type promise struct {
		variant kernels.Variant
		gain    float64
	}
	promises := map[kernels.Variant]float64{}
	lists := make([][]rival, len(ps))
	var wg sync.WaitGroup
	for i, p := range ps {
		wg.Go(func() { lists[i] = c.rivals(p) })
	}
	wg.Wait()
	for i, list := range lists {
		if len(list) == 0 {
			continue
		}
		best := list[0].guess.optimistic()
		for _, r := range list {
			promises[r.variant] += c.Weight(ps[i]) * max(0, 0.06-(r.guess.optimistic()-best))
		}
	}
	order := make([]promise, 0, len(promises))
	for v, g := range promises {
		order = append(order, promise{v, g})
	}
	slices.SortFunc(order, func(a, b promise) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.variant.String(), b.variant.String()))
	})
	var chosen []kernels.Variant
	left := c.Challengers
	for _, x := range order[:min(len(order), left)] {
		if left == 1+c.rng.IntN(2) {
			break
		}
		chosen = append(chosen, x.variant)
		left--
	}
	for tries := 0; left > 0 && len(order) > 0 && tries < 8; tries++ {
		if v := order[min(c.rng.IntN(len(order)), c.rng.IntN(len(order)))].variant; !slices.Contains(chosen, v) {
			chosen = append(chosen, v)
			left--
		}
	}
	if wide {
		var from []kernels.Variant
		for _, x := range order[:min(len(order), 3)] {
			from = append(from, x.variant)
		}
		chosen = append(chosen, c.strangers(ps, from)...)
	}
	var tasks []sweep.Task
	for i, p := range ps {
		pick, err := c.pick(p)
		if err != nil {
			continue
		}
		t := sweep.Task{Problem: p, Base: pick, Variants: []kernels.Variant{pick}}
		seen := map[string]bool{rules.PlanOf(c.Judge, p, pick): true}
		add := func(v kernels.Variant) {
			if plan := rules.PlanOf(c.Judge, p, v); plan != "" && !seen[plan] && !slices.Contains(t.Variants, v) {
				seen[plan] = true
				t.Variants = append(t.Variants, v)
			}
		}
		for _, of := range []func(kernels.Problem) (kernels.Variant, error){c.Default, c.Analytic} {
			if v, err := of(p); err == nil && !slices.Contains(t.Variants, v) {
				t.Variants = append(t.Variants, v) // also where it is another's plan: its time is wanted by its name
				seen[rules.PlanOf(c.Judge, p, v)] = true
			}
		}
		for _, v := range chosen {
			add(v)
		}
		if len(lists[i]) > 0 { // and the one that is the most promising here
			add(lists[i][0].variant)
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// strangers are variants that nothing is known of: the most promising ones with one knob a step
// away, two thirds of them, and others drawn from the spaces of all families. (A search by sweep/search finds as much with as
// many configs, but in rounds of a few, and waits for the compilers in each: what is drawn at once is announced a
// batch ahead. What wins here is a rival on the next problems, so steps add up over these.)
func (c *chooser) strangers(ps []kernels.Problem, from []kernels.Variant) []kernels.Variant {
	if len(ps) == 0 {
		return nil
	}
	var steps []kernels.Variant
	at := ps[len(ps)/2]
	tried := func(w kernels.Variant) bool { return false }
	if k := c.classes[launchrule.ClassOf(at)]; k != nil {
		if i := slices.IndexFunc(k.points, func(p *Point) bool { return p.Problem == at }); i >= 0 {
			tried = func(w kernels.Variant) bool { return k.points[i].US[w] > 0 || k.points[i].Failed[w] }
		}
	}
	for _, v := range from {
		f, err := c.Judge.Registry.Lookup(v.Family)
		if err != nil {
			continue
		}
		for _, r := range f.Knobs {
			i := slices.Index(r.Values, v.Config.Get(r.Knob))
			for _, k := range []int{i - 1, i + 1} {
				if i >= 0 && k >= 0 && k < len(r.Values) {
					w := kernels.Variant{Family: v.Family, Config: v.Config.With(kernels.Setting{Knob: r.Knob, Value: r.Values[k]})}
					if c.Judge.Accepts(at, w) && !tried(w) && !slices.Contains(steps, w) {
						steps = append(steps, w)
					}
				}
			}
		}
	}
	c.rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	steps = steps[:min(len(steps), 2*c.Fan/3)]
	families := c.Judge.Registry.Serving(at)
	for tries := 0; len(steps) < c.Fan && len(families) > 0 && tries < 4*c.Fan; tries++ {
		f := families[c.rng.IntN(len(families))]
		w := kernels.Variant{Family: f.Name, Config: f.Base(at, c.Judge.Device)}
		for _, r := range f.Knobs {
			if len(r.Values) > 0 && c.rng.IntN(2) == 0 {
				w.Config = w.Config.With(kernels.Setting{Knob: r.Knob, Value: r.Values[c.rng.IntN(len(r.Values))]})
			}
		}
		if c.Judge.Accepts(at, w) && !tried(w) && !slices.Contains(steps, w) {
			steps = append(steps, w)
		}
	}
	return steps
}

// worth is how much there is to learn on a problem: what the pick is expected to lose, and how little is known around.
func (c *chooser) worth(p kernels.Problem) float64 {
	k := c.classes[launchrule.ClassOf(p)]
	if k == nil {
		return 1
	}
	pick, err := c.pick(p)
	if err != nil {
		return 0
	}
	at, mass, lost := placeOf(p), 0.0, priorRegret*priorWeight
	weight := priorWeight
	for _, q := range k.points {
		w := alike(at, q.at)
		mass += w
		if g, ok := q.regret(pick); ok {
			lost, weight = lost+w*g, weight+w
		}
	}
	return c.Weight(p) * (lost/weight + 0.15/math.Sqrt(1+4*mass))
}

// Next plans a batch: groups of problems that share columns, as what is compiled depends on
// those, where most is to be learned. A fresh batch is drawn at random.
func (c *chooser) Next(fresh bool) Batch {
	b := Batch{Fresh: fresh}
	perGroup, size := min(8, c.Batch), c.Batch
	if fresh {
		perGroup, size = 2, (c.Batch+1)/2
	}
	if !fresh && c.rng.Float64() < c.Wide {
		ps := c.surprising()
		for _, p := range ps {
			c.have[p] = true
		}
		b.Tasks = c.tasks(ps, true)
	}
	for len(b.Tasks) < size {
		type group struct {
			ps    []kernels.Problem
			worth float64
		}
		draws := 16
		if fresh {
			draws = 1
		}
		groups := make([]group, draws)
		for i := range groups {
			if len(c.Only) > 0 {
				groups[i].ps = c.only(perGroup)
				continue
			}
			of := c.Classes[c.rng.IntN(len(c.Classes))]
			n := c.Domain.Columns(c.rng)
			var listed []shapes.Shape
			if len(c.Listed) > 0 && (fresh && c.rng.IntN(10) == 0 || !fresh && c.rng.IntN(3) == 0) {
				s := c.Listed[c.rng.IntN(len(c.Listed))]
				n = s.N
				for _, x := range c.Listed {
					if x.N == n {
						listed = append(listed, x)
					}
				}
			}
			g := &groups[i]
			take := func(m int64) {
				p := problem(of, m, n)
				if !c.have[p] && !slices.Contains(g.ps, p) && c.Domain.Holds(m, n) && p.CheckFits(c.Judge.Device) == nil {
					g.ps = append(g.ps, p)
				}
			}
			for _, s := range listed {
				take(s.M)
			}
			c.rng.Shuffle(len(g.ps), func(i, j int) { g.ps[i], g.ps[j] = g.ps[j], g.ps[i] })
			g.ps = g.ps[:min(len(g.ps), perGroup/2+1)]
			for tries := 0; len(g.ps) < perGroup && tries < 4*perGroup; tries++ {
				take(c.Domain.Rows(c.rng, n))
			}
		}
		var wg sync.WaitGroup
		for i := range groups {
			if fresh {
				break
			}
			g := &groups[i]
			wg.Go(func() {
				for _, p := range g.ps {
					g.worth += c.worth(p)
				}
			})
		}
		wg.Wait()
		best := 0
		for i := range groups {
			if groups[i].worth > groups[best].worth {
				best = i
			}
		}
		for _, p := range groups[best].ps {
			c.have[p] = true
		}
		tasks := c.tasks(groups[best].ps, false)
		b.Tasks = append(b.Tasks, tasks...)
		added := len(tasks) > 0
		if !added && (len(b.Tasks) > 0 || c.empty()) {
			break
		}
	}
	return b
}

// only draws a group among the problems that there are: those of the classes and the domain, of one number of columns.
func (c *chooser) only(n int) (ps []kernels.Problem) {
	left := slices.DeleteFunc(slices.Clone(c.Only), func(p kernels.Problem) bool {
		return c.have[p] || !c.Domain.Holds(p.M, p.N) || !slices.ContainsFunc(c.Classes, func(of kernels.Problem) bool { return problem(of, p.M, p.N) == p })
	})
	if len(left) == 0 {
		return nil
	}
	slices.SortFunc(left, func(a, b kernels.Problem) int { return record.CompareProblems(a, b) })
	at := left[c.rng.IntN(len(left))]
	c.rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	for _, p := range left {
		if len(ps) < n && problem(p, at.M, at.N) == at {
			ps = append(ps, p)
		}
	}
	return ps
}

// empty says whether next to nothing is left of the domain: many draws were all known.
func (c *chooser) empty() bool {
	if len(c.Only) > 0 {
		return len(c.only(1)) == 0
	}
	for range 200 {
		of := c.Classes[c.rng.IntN(len(c.Classes))]
		n := c.Domain.Columns(c.rng)
		p := problem(of, c.Domain.Rows(c.rng, n), n)
		if !c.have[p] && c.Domain.Holds(p.M, p.N) && p.CheckFits(c.Judge.Device) == nil {
			return false
		}
	}
	return true
}

// surprising is the group of columns at which a search may find more: up to three problems that were measured
// there and whose best is further behind the stream than what is known nearby lets expect. What has been
// measured with many variants is expected to be as good as it gets. Nothing was measured: any.
func (c *chooser) surprising() []kernels.Problem {
	type key struct {
		class launchrule.Class
		n     int64
	}
	by := map[key]float64{}
	groups := map[key][]*Point{}
	for cl, k := range c.classes {
		for _, p := range k.points {
			if p.Stream == 0 {
				continue
			}
			sum, weight, done := 0.0, 0.0, 0.0
			for _, q := range k.points {
				w := alike(p.at, q.at)
				if len(q.US) > 2*c.Challengers {
					done += w
				}
				if q != p && q.Stream > 0 {
					sum, weight = sum+w*math.Log(q.BestUS/q.Stream), weight+w
				}
			}
			s := 0.08 // nothing nearby
			if weight > 0.3 {
				s = 0.03 + math.Log(p.BestUS/p.Stream) - sum/weight
			}
			x := key{cl, p.Problem.N}
			by[x] += p.Weight * s / (1 + 3*done)
			groups[x] = append(groups[x], p)
		}
	}
	var best key
	for x := range groups {
		if best.n == 0 || cmp.Or(cmp.Compare(by[best]/math.Sqrt(float64(len(groups[best]))), by[x]/math.Sqrt(float64(len(groups[x])))), cmp.Compare(x.n, best.n), cmp.Compare(x.class.String(), best.class.String())) < 0 {
			best = x
		}
	}
	var ps []kernels.Problem
	if best.n == 0 && len(c.Only) > 0 {
		return c.only(3)
	}
	if best.n == 0 {
		of, n := c.Classes[c.rng.IntN(len(c.Classes))], c.Domain.Columns(c.rng)
		for range 3 {
			if p := problem(of, c.Domain.Rows(c.rng, n), n); c.Domain.Holds(p.M, n) && p.CheckFits(c.Judge.Device) == nil && !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
		return ps
	}
	list := groups[best]
	for len(list) > 3 { // the first, the last and one between, by rows
		i := 1 + c.rng.IntN(len(list)-2)
		list = slices.Delete(slices.Clone(list), i, i+1)
	}
	for _, p := range list {
		ps = append(ps, p.Problem)
	}
	return ps
}
