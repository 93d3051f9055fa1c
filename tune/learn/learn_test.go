package learn

import (
	"context"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/sweep/stats"
	"normbench/tune/rules"
)

// bare knows no launch rules.
var bare = families.With()

// A memory is a sink that keeps nothing but keys.
type memory struct{ keys map[string]kernels.Status }

func (m *memory) AppendAll(vs ...interface{ CheckValid() error }) error {
	for _, v := range vs {
		if err := v.CheckValid(); err != nil {
			return err
		}
		if r, ok := v.(*record.Record); ok {
			m.keys[r.Key] = r.Status
		}
	}
	return nil
}

func (m *memory) Status(key string) (kernels.Status, bool) {
	s, ok := m.keys[key]
	return s, ok
}

func classProblem(op kernels.Op, pass kernels.Pass) kernels.Problem {
	return kernels.Problem{Op: op, Pass: pass, M: 1, N: 1, DType: kernels.BF16, Weight: kernels.BF16, Bias: op == kernels.LayerNorm}
}

// loopOn is a loop on a simulated device.
func loopOn(s *sim, budget time.Duration, prior func(kernels.Problem) (kernels.Variant, error), classes ...kernels.Problem) *Loop {
	analytic := func(p kernels.Problem) (kernels.Variant, error) { return bare.Base(p, s.info) }
	if prior == nil {
		prior = analytic
	}
	l := &Loop{
		Policy: Policy{Judge: launchrule.Judge{Registry: registry, Device: s.info}, Default: prior, Analytic: analytic,
			Domain: shapes.Everything, Classes: classes, Challengers: 8, Batch: 24, Wide: 0.6, Fan: 32, Memo: NewMemo()},
		Lab: &Lab{Registry: registry, Devices: []kernels.Device{s}, Sink: &memory{map[string]kernels.Status{}}, Seed: 1, Rounds: 8, Now: s.Now,
			Run: record.Run{ID: "sim", Time: s.Now(), Device: s.info, Protocol: sweep.ColdProtocol(s.info, 20)}},
		Options: DefaultOptions, Budget: budget,
	}
	return l
}

// regrets are those of a way to answer on problems that nothing has seen.
func regrets(s *sim, answer func(kernels.Problem) kernels.Variant, ps []kernels.Problem) (mean, p95, worst float64) {
	var all []float64
	sum := 0.0
	for _, p := range ps {
		r := s.seconds(p, answer(p)) / s.best(p)
		all = append(all, r-1)
		sum += math.Log(r)
	}
	slices.Sort(all)
	return math.Expm1(sum / float64(len(all))), stats.Quantile(0.95, all), all[len(all)-1]
}

func drawn(n int, seed uint64, classes ...kernels.Problem) []kernels.Problem {
	var ps []kernels.Problem
	for i, s := range shapes.Everything.Draw(n, seed) {
		ps = append(ps, problem(classes[i%len(classes)], s.M, s.N))
	}
	return ps
}

// learnt runs a loop to its end and answers with what it learned, else as before.
func learnt(t *testing.T, l *Loop) (*Result, func(kernels.Problem) kernels.Variant) {
	t.Helper()
	l.Progress = func(s Status) { t.Logf("%+v", s) }
	res, err := l.Learn(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range res.Scores {
		if s.Chooser == launchrule.ChooserRules {
			t.Logf("%+v", s)
		}
	}
	return res, func(p kernels.Problem) kernels.Variant {
		if v, ok := res.Pick(p); ok {
			return v
		}
		v, _ := l.Default(p)
		return v
	}
}

// TestSimulated holds what is asked of rules for a GPU that nobody tuned for to a simulated one, of which the optimum
// is known: without any prior 4% behind it in the mean, and with another card's rules as a prior 2%, over problems that
// nothing has seen. Two classes with ten minutes are four with twenty.
func TestSimulated(t *testing.T) {
	classes := []kernels.Problem{classProblem(kernels.RMSNorm, kernels.Fwd), classProblem(kernels.RMSNorm, kernels.Bwd)}
	// LEARN_BUDGET=10m takes minutes. Half of it, on one device, is held to less.
	budget, seeds, most, mostPrior := 5*time.Minute, []uint64{2}, 0.06, 0.035
	if b, err := time.ParseDuration(os.Getenv("LEARN_BUDGET")); err == nil {
		budget, seeds, most, mostPrior = b, []uint64{1, 2}, 0.04, 0.02
	}
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	ps := drawn(80, 77, classes...)
	for _, seed := range seeds {
		s := newSim(seed, 0)
		l := loopOn(s, budget, nil, classes...)
		res, answer := learnt(t, l)
		mean, p95, worst := regrets(s, answer, ps)
		base := func(p kernels.Problem) kernels.Variant { v, _ := l.Default(p); return v }
		m, p, w := regrets(s, base, ps)
		t.Logf("simulated %d, no prior: %d problems, behind the optimum %.4f, p95 %.4f, worst %.4f; base %.4f, %.4f, %.4f", seed, l.Problems(), mean, p95, worst, m, p, w)
		if mean > most || mean > m/2 {
			t.Errorf("without a prior %.4f behind the optimum", mean)
		}
		if name := os.Getenv("LEARN_PLOT"); name != "" {
			f, _ := os.Create(name)
			res.Plot(f, "png")
			f.Close()
		}
		o := newSim(seed, 0.3)
		l2 := loopOn(o, budget, func(p kernels.Problem) (kernels.Variant, error) { return answer(p), nil }, classes...)
		l2.Wide, l2.Fan = 0.3, 24
		_, better := learnt(t, l2)
		mean, p95, worst = regrets(o, better, ps)
		m, p, w = regrets(o, answer, ps)
		if mean > mostPrior || mean > m {
			t.Errorf("with a prior that is off %.4f behind the optimum", mean)
		}
		t.Logf("simulated %d, prior off: %d problems, behind the optimum %.4f, p95 %.4f, worst %.4f; prior %.4f, %.4f, %.4f", seed, l2.Problems(), mean, p95, worst, m, p, w)
	}
}

func TestLandscape(t *testing.T) {
	s := newSim(1, 0)
	for _, p := range drawn(10, 5, classProblem(kernels.RMSNorm, kernels.Fwd), classProblem(kernels.RMSNorm, kernels.Bwd)) {
		var all []float64
		best := s.best(p)
		for _, f := range registry.Serving(p) {
			configs, _ := f.Configs(p, s.info)
			for _, c := range configs {
				all = append(all, s.seconds(p, kernels.Variant{Family: f.Name, Config: c})/best-1)
			}
		}
		slices.Sort(all)
		n := len(all)
		t.Logf("%s %d: 1%% %.3f 5%% %.3f 10%% %.3f 25%% %.3f 50%% %.3f", p, n, all[n/100], all[n/20], all[n/10], all[n/4], all[n/2])
	}
}

// TestFile: what is written is what the loop answers with, by the lookup of the program: learned rules, those of
// the prior behind them, and the analytic base. And a loop that is stopped and goes on has the points that it had.
func TestFile(t *testing.T) {
	class := classProblem(kernels.RMSNorm, kernels.Bwd)
	s := newSim(1, 0)
	l := loopOn(s, 45*time.Second, nil, class)
	prior := families.Step(s.info).Set
	with := families.With(prior)
	l.Prior, l.Default = prior, func(p kernels.Problem) (kernels.Variant, error) { return with.Base(p, s.info) }
	dir := t.TempDir()
	w, _, err := record.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l.Sink = w
	checkpoints := 0
	l.Checkpoint = func(r *Result, points []*Point, last bool) error {
		checkpoints++
		return l.Finish(r, "v1", "abc", l.Run.Protocol, points, func(string) string { return "0123" })
	}
	res, _ := learnt(t, l)
	if err := res.Set.CheckValid(); err != nil || checkpoints < 2 || res.Learned != 1 || len(res.Set.Lists[0].Rules) == 0 {
		t.Fatalf("%v, %d checkpoints, %d lists learned", err, checkpoints, res.Learned)
	}
	text, err := res.Set.JSON()
	if err != nil {
		t.Fatal(err)
	}
	set, err := launchrule.Parse("rules.json", text)
	if err != nil {
		t.Fatal(err)
	}
	program := families.With(set)
	ruled := 0
	learned := *res.Set
	learned.Lists = learned.Lists[:1]
	for _, p := range drawn(400, 5, class, classProblem(kernels.LayerNorm, kernels.Fwd)) {
		got, err := program.Base(p, s.info)
		want, _ := l.Default(p)
		if a, v := learned.Pick(p); a.Rule() != nil {
			ruled, want = ruled+1, v
		}
		if err != nil || got != want {
			t.Errorf("%s: the file says %s, the loop %s (%v)", p, got, want, err)
		}
	}
	if ruled < 20 {
		t.Errorf("%d problems have a learned rule", ruled)
	}
	// Every rule has its evidence, and gains by it.
	for _, r := range res.Set.Lists[0].Rules {
		if e := r.Evidence; e.Problems == 0 || e.Records < e.Problems || e.OverNext < 1 || e.OverBase == 0 || e.Commit != "abc" || e.Regret < 1 {
			t.Errorf("%s: %+v", r.Box, e)
		}
	}
	// The records say what the loop knew.
	d, err := rules.Collect([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	points, _ := l.Points(d, false)
	again := Fit(points, l.Judge, l.Options, l.Memo, true)
	if err := l.Finish(again, "v1", "abc", l.Run.Protocol, points, func(string) string { return "0123" }); err != nil {
		t.Fatal(err)
	}
	if text2, err := again.Set.JSON(); err != nil || string(text2) != string(text) {
		t.Errorf("the fit to the records differs (%v):\n%s\n%s", err, text[:min(len(text), 3000)], text2[:min(len(text2), 3000)])
	}
	// Without a problem whose rows begin between 4 and 16 bytes, no rule speaks for such rows.
	among := func(p kernels.Problem) bool { return p.N%2 == 0 && p.N%8 != 0 }
	odd := slices.DeleteFunc(slices.Clone(points), func(q *Point) bool { return among(q.Problem) })
	if len(odd) == len(points) {
		t.Error("no such rows were drawn")
	}
	blind := Fit(odd, l.Judge, l.Options, l.Memo, false)
	for _, p := range drawn(2000, 6, class) {
		if a, v := blind.Set.Pick(p); among(p) && a.Rule() != nil {
			t.Fatalf("%s: %s", p, v)
		}
	}
}

// recorded are the points of what learn measured on an H200 for a class, with the prior that it had.
func recorded(t *testing.T, class launchrule.Class) (*Policy, []*Point) {
	t.Helper()
	dir := "../../results/nvidia-h200/"
	d, err := rules.Collect([]string{dir + "learn"})
	if err != nil {
		t.Fatal(err)
	}
	zones, err := launchrule.Read(dir + "zones.json")
	if err != nil {
		t.Fatal(err)
	}
	of := func(sets ...*launchrule.Set) func(kernels.Problem) (kernels.Variant, error) {
		r := families.With(sets...)
		return func(p kernels.Problem) (kernels.Variant, error) { return r.Base(p, d.Device) }
	}
	p := &Policy{Judge: launchrule.Judge{Registry: registry, Device: d.Device}, Prior: zones, Default: of(zones), Analytic: of(), Memo: NewMemo()}
	d.Shapes = slices.DeleteFunc(d.Shapes, func(s rules.Shape) bool { return launchrule.ClassOf(s.Problem) != class })
	points, _ := p.Points(d, false)
	return p, points
}

// What narrowing takes from a box is the next candidate's: no measured problem stays at half the speed of the best,
// where the default leaves a dozen there. And a shape's weight is what a fit and a mean go by.
func TestRecorded(t *testing.T) {
	p, points := recorded(t, launchrule.ClassOf(classProblem(kernels.RMSNorm, kernels.Fwd)))
	far := func(fit *Result) (n int) {
		for i := range fit.classes[0].points {
			if g, _ := fit.classes[0].answer(&fit.fits[0], i); g > math.Log(2) {
				n++
			}
		}
		return n
	}
	fit := Fit(points, p.Judge, DefaultOptions, p.Memo, false)
	none := *fit
	none.fits = make([]fitted, 1)
	if ours, default_ := far(fit), far(&none); ours > 0 || default_ < 10 {
		t.Errorf("%d problems are at half the best speed, %d by the default", ours, default_)
	}
	// The problems on which the default wins, a hundred times as heavy, leave no rule that loses there.
	sum := func(fit *Result) (lost, all float64) {
		total := 0.0
		for i, q := range fit.classes[0].points {
			g, _ := fit.classes[0].answer(&fit.fits[0], i)
			base, _ := q.regret(q.Default)
			all, total = all+q.Weight*g, total+q.Weight
			if base < 1e-9 {
				lost += g
			}
		}
		return lost, all / total
	}
	before, _ := sum(fit)
	for _, q := range points {
		if base, _ := q.regret(q.Default); base < 1e-9 {
			q.Weight = 100
		}
	}
	heavy := Fit(points, p.Judge, DefaultOptions, p.Memo, false)
	after, mean := sum(heavy)
	if after >= 0.7*before {
		t.Errorf("what heavy problems lose comes to %.3f, and %.3f with weights of 1", after, before)
	}
	all := make([]int, len(points))
	loss := make([]float64, len(points))
	for i := range points {
		all[i] = i
		loss[i], _ = heavy.classes[0].answer(&heavy.fits[0], i)
	}
	if s := heavy.classes[0].score("", "", loss, all); math.Abs(s.Regret-math.Exp(mean)) > 1e-4 {
		t.Errorf("the mean is %.4f, and by weight %.4f", s.Regret, math.Exp(mean))
	}
}

// A small budget has progress lines and a fresh draw, and the lines of two runs.
func TestSmallBudget(t *testing.T) {
	s := newSim(1, 0)
	l := loopOn(s, 40*time.Second, nil, classProblem(kernels.RMSNorm, kernels.Bwd))
	runs := map[string]int{}
	l.Sink = countRuns{&memory{map[string]kernels.Status{}}, runs}
	var seen []Status
	l.Progress = func(s Status) { seen = append(seen, s) }
	if _, err := l.Learn(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if len(seen) < 4 || seen[0].Problems > 4 || seen[1].Fresh == 0 && seen[2].Fresh == 0 {
		t.Errorf("%+v", seen)
	}
	if len(runs) != 2 {
		t.Errorf("lines by run: %v", runs)
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%d lines of run %s", n, id)
		}
	}
	// One problem speaks for itself alone.
	one := slices.Clone(l.all()[:1])
	q := *one[0]
	q.US = map[kernels.Variant]float64{q.Default: 10}
	for v := range one[0].US {
		if v != q.Default {
			q.US[v] = 5
		}
	}
	l.complete(&q)
	fit := Fit([]*Point{&q}, l.Judge, l.Options, l.Memo, false)
	want := launchrule.Box{NOver: q.Problem.N - 1, NMax: q.Problem.N, RowsOver: q.Problem.M - 1, RowsMax: q.Problem.M}
	if r := fit.Set.Lists[0].Rules; len(r) != 1 || r[0].Box != want {
		t.Errorf("%s has the rules %+v", q.Problem, r)
	}
}

// countRuns counts the lines of each run.
type countRuns struct {
	*memory
	runs map[string]int
}

func (c countRuns) AppendAll(vs ...interface{ CheckValid() error }) error {
	for _, v := range vs {
		if r, ok := v.(*record.Run); ok {
			c.runs[r.ID]++
		}
	}
	return c.memory.AppendAll(vs...)
}
