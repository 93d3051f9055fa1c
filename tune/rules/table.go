package rules

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/launchrule"
)

// offers says whether a recipe can run on rows of n elements, of m rows in all:
// the registry accepts it, and the knobs that follow the row have values that
// the family's grid crosses. Beyond those nothing was ever measured.
func offers(j Judge, p kernels.Problem, r Recipe) bool {
	v := r.At(p.N, p.DType.Size())
	if !j.Accepts(p, v) {
		return false
	}
	if r.RowBytes == 0 {
		return true
	}
	f, _ := j.Registry.Lookup(r.Family)
	for _, name := range slices.Concat(r.Grow, r.Shrink) {
		k, _ := kernels.ParseKnob(name)
		if !slices.ContainsFunc(f.Knobs, func(x kernels.Range) bool {
			return x.Knob == k && slices.Contains(x.Values, v.Config.Get(k))
		}) {
			return false
		}
	}
	return true
}

// plan is what a variant launches, "" where it is refused or not known.
func planOf(j Judge, p kernels.Problem, v kernels.Variant) string {
	if !j.Accepts(p, v) {
		return ""
	}
	f, _ := j.Registry.Lookup(v.Family)
	return f.Plan(p, v.Config, j.Device).String()
}

// A shape is a measured problem as Fit sees it.
type shape struct {
	problem kernels.Problem
	m, n    int64
	width   int64   // n, rounded up to a power of two
	rows    int64   // per SM
	base    float64 // log regret of the default
	at      launchrule.Place
}

// A table is a class's measurements: the log regret of each candidate on each
// shape.
type table struct {
	class   Class
	sms     int
	judge   Judge
	shapes  []shape // by n, then m
	recipes []Recipe
	// loss is log(time / best known), per recipe and shape. What is refused has
	// the default's, as a rule that would be refused does not fire; what is not
	// known is +Inf.
	loss [][]float64

	us     []map[kernels.Variant]float64 // per shape, as measured
	failed []map[kernels.Variant]bool    // per shape, what has no right answer
	bestUS []float64
	ranked [][]kernels.Variant // per shape, the fastest first; those within a quarter of it

	narrower *Narrower
}

// tables sorts the data into classes.
func tables(d *Data, j Judge) []*table {
	byClass := map[Class][]Shape{}
	for _, s := range d.Shapes {
		c := launchrule.ClassOf(s.Problem)
		byClass[c] = append(byClass[c], s)
	}
	var ts []*table
	for c, shapes := range byClass {
		ts = append(ts, newTable(c, shapes, j))
	}
	slices.SortFunc(ts, func(a, b *table) int { return a.class.Compare(b.class) })
	return ts
}

func newTable(c Class, all []Shape, j Judge) *table {
	t := &table{class: c, sms: max(j.Device.SMs, 1), judge: j, narrower: NewNarrower(c, j)}
	// Problems of a class that differ in what the class leaves out (fp16 beside
	// bf16, zero-centered weights) have the same m and n; each counts.
	slices.SortStableFunc(all, func(a, b Shape) int {
		return cmp.Or(cmp.Compare(a.Problem.N, b.Problem.N), cmp.Compare(a.Problem.M, b.Problem.M))
	})
	for _, s := range all {
		t.shapes = append(t.shapes, shape{s.Problem, s.Problem.M, s.Problem.N, ceilPow2(s.Problem.N), launchrule.RowsPerSM(s.Problem.M, t.sms), math.Log(s.BaseUS / s.BestUS), launchrule.At(s.Problem, j.Device)})
	}
	for _, s := range all {
		t.us, t.bestUS, t.failed = append(t.us, s.US), append(t.bestUS, s.BestUS), append(t.failed, s.Failed)
		t.ranked = append(t.ranked, ranked(s))
	}
	t.thin()
	t.propose(all)
	t.prune()
	t.aliases(all)
	return t
}

// ranked are the variants near the best of a shape, the fastest first.
func ranked(s Shape) []kernels.Variant {
	var vs []kernels.Variant
	for v, us := range s.US {
		if us <= 1.25*s.BestUS {
			vs = append(vs, v)
		}
	}
	slices.SortFunc(vs, func(a, b kernels.Variant) int {
		return cmp.Or(cmp.Compare(s.US[a], s.US[b]), compareVariants(a, b))
	})
	return vs
}

// maxRows bounds the distinct rows per SM, and with them the
// rectangles that Fit weighs.
const maxRows = 24

// thin rounds the rows per SM up to fewer digits where there are
// many different ones: the borders between them then stand on round numbers.
func (t *table) thin() {
	for drop := int64(1); ; drop *= 2 {
		distinct := map[int64]bool{}
		for _, s := range t.shapes {
			distinct[s.rows] = true
		}
		if len(distinct) <= maxRows {
			return
		}
		for i := range t.shapes {
			s := &t.shapes[i]
			unit := max(ceilPow2(s.rows+1)/2*drop/64, 1)
			s.rows = (s.rows + unit - 1) / unit * unit
		}
	}
}

// propose makes recipes of what was measured, and looks up their times.
func (t *table) propose(all []Shape) {
	type at struct {
		v   kernels.Variant
		row int64
	}
	seen := map[at]bool{}
	var rows []int64 // distinct widths, one n for each
	var ns []int64
	for _, s := range t.shapes {
		if row := ceilPow2(s.n * t.class.Bytes); !slices.Contains(rows, row) {
			rows, ns = append(rows, row), append(ns, s.n)
		}
	}
	for k, s := range all {
		row := ceilPow2(t.shapes[k].n * t.class.Bytes)
		for v, us := range s.US {
			// A variant far behind the default here is no reason for a recipe.
			if !seen[at{v, row}] && us <= s.BaseUS*1.1 {
				seen[at{v, row}] = true
				t.recipes = append(t.recipes, recipesOf(v, t.shapes[k].n, t.class.Bytes)...)
			}
		}
	}
	slices.SortFunc(t.recipes, compareRecipes)
	// Recipes that run the same at every width are one.
	type text = string
	same := map[text]bool{}
	kept := t.recipes[:0]
	for _, r := range t.recipes {
		id := ""
		for _, n := range ns {
			id += r.At(n, t.class.Bytes).String() + " "
		}
		if !same[id] {
			same[id] = true
			kept = append(kept, r)
		}
	}
	t.recipes = kept
	for _, r := range t.recipes {
		loss := make([]float64, len(all))
		var v kernels.Variant
		for k, s := range all {
			if k == 0 || t.shapes[k].width != t.shapes[k-1].width { // it depends on no more
				v = r.At(s.Problem.N, t.class.Bytes)
			}
			loss[k] = math.Inf(1)
			if us, ok := s.US[v]; ok {
				loss[k] = math.Log(us / s.BestUS)
			}
		}
		t.loss = append(t.loss, loss)
	}
}

// maxCandidates bounds the recipes that Fit weighs. The H200's grids have some
// 600 variants and 2000 recipes per class; those that are best or near it
// somewhere are far fewer.
const maxCandidates = 96

// prune keeps the recipes that matter: greedily, those that lower the sum of log
// regrets most where each shape is answered by the best kept so far or the
// default; then those that gain most over the default.
func (t *table) prune() {
	if len(t.recipes) <= maxCandidates {
		return
	}
	have := make([]float64, len(t.shapes))
	for k, s := range t.shapes {
		have[k] = s.base
	}
	var keep []int
	taken := make([]bool, len(t.recipes))
	take := func(i int) {
		taken[i] = true
		keep = append(keep, i)
		for k := range have {
			have[k] = min(have[k], t.loss[i][k])
		}
	}
	for len(keep) < maxCandidates/2 {
		best, gain := -1, 1e-9
		for i := range t.recipes {
			if taken[i] {
				continue
			}
			g := 0.0
			for k, h := range have {
				g += max(0, h-t.loss[i][k])
			}
			if g > gain+1e-12 {
				best, gain = i, g
			}
		}
		if best < 0 {
			break
		}
		take(best)
	}
	type score struct {
		i    int
		gain float64
	}
	var rest []score
	for i := range t.recipes {
		if taken[i] {
			continue
		}
		s := score{i, 0}
		for k, sh := range t.shapes {
			s.gain += max(0, sh.base-t.loss[i][k])
		}
		rest = append(rest, s)
	}
	slices.SortStableFunc(rest, func(a, b score) int { return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.i, b.i)) })
	for _, s := range rest {
		if len(keep) == maxCandidates || s.gain == 0 {
			break
		}
		// A variant that another beats everywhere takes no place. So adding one to the records
		// changes no answer.
		if !slices.ContainsFunc(keep, func(w int) bool { return t.dominates(w, s.i) }) {
			take(s.i)
		}
	}
	slices.Sort(keep)
	for at, i := range keep {
		t.recipes[at], t.loss[at] = t.recipes[i], t.loss[i]
	}
	t.recipes, t.loss = t.recipes[:len(keep)], t.loss[:len(keep)]
}

// dominates says whether w is at least as fast as v wherever v has a time.
func (t *table) dominates(w, v int) bool {
	for k := range t.shapes {
		if t.loss[w][k] > t.loss[v][k] {
			return false
		}
	}
	return true
}

// aliases settles what a missing time means: refused, the time of the measured
// variant with the same plan, or not known.
func (t *table) aliases(all []Shape) {
	for k, s := range all {
		plans := plansOf{}
		for i, r := range t.recipes {
			if !math.IsInf(t.loss[i][k], 1) {
				continue
			}
			if !offers(t.judge, s.Problem, r) {
				t.loss[i][k] = t.shapes[k].base
				continue
			}
			plan := planOf(t.judge, s.Problem, r.At(s.Problem.N, t.class.Bytes))
			if us, ok := t.byPlan(k, r.Family, plans)[plan]; ok {
				t.loss[i][k] = math.Log(us / s.BestUS)
			}
		}
	}
}
