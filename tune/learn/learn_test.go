package learn

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/launchmap"
	"normbench/sweep"
	"normbench/sweep/models"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/sweep/stats"
)

func classProblem(op kernels.Op, pass kernels.Pass) kernels.Problem {
	return kernels.Problem{Op: op, Pass: pass, M: 1, N: 1, DType: kernels.BF16,
		Weight: kernels.BF16, Bias: op == kernels.LayerNorm}
}

// plain fills maps of an H200 without a prior. It is one for all tests, as it knows what was
// accepted.
var plain = fillerWith(nil)

// fillerWith is a filler of an H200 with a map as prior, or nil.
func fillerWith(m *launchmap.Map) *Filler {
	d := devicetest.H200()
	return &Filler{Registry: bare, Device: d, Prior: launchmap.NewBook(launchmap.Rung{Map: m, Near: launchmap.Own},
		d, bare)}
}

// loopOn is a loop on a simulated device, with a map of another card as prior or nil.
func loopOn(t *testing.T, s *sim, budget time.Duration, prior *launchmap.Map,
	classes ...kernels.Problem) *Loop {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of appends, and each is synced
	}
	w, _, err := record.OpenWriter(t.TempDir(), ".")
	assert.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	l := &Loop{
		Registry: registry, Devices: []kernels.Device{s}, Store: w, Records: w.Records(),
		Seed: 1, Now: s.Now, Budget: budget, Data: &Data{},
		Run: record.Run{Device: s.info, Protocol: sweep.ColdProtocol(s.info, 20)},
	}
	l.Filler = plain
	l.Domain, l.Classes = shapes.DefaultDomain, classes
	if prior != nil {
		l.Filler = fillerWith(prior)
	}
	return l
}

// regrets are those of a way to answer on problems that nothing has seen.
func regrets(s *sim, answer func(kernels.Problem) kernels.Variant, ps []kernels.Problem) (mean, p95,
	worst float64) {
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
	for i, s := range shapes.DefaultDomain.DrawShapes(n, seed) {
		ps = append(ps, withShape(classes[i%len(classes)], s.M, s.N))
	}
	return ps
}

// cellOf is the cell of a problem.
func cellOf(m *launchmap.Map, p kernels.Problem) launchmap.Answer {
	return m.Raster(launchmap.ClassOf(p), launchmap.AlignOf(p.N, p.DType.Size())).CellAt(p.M, p.N,
		m.Device.SMs)
}

// learnt runs a loop to its end and answers with its map, else as before.
func learnt(t *testing.T, l *Loop) (*launchmap.Map, func(kernels.Problem) kernels.Variant) {
	t.Helper()
	m, err := l.Learn(context.Background())
	assert.NoError(t, err)
	return m, func(p kernels.Problem) kernels.Variant {
		if a := cellOf(m, p); a.Match == launchmap.MatchCell {
			return a.Variant
		}
		return l.Prior.Answer(p).Variant
	}
}

// TestMapOfASimulatedGPUIsNearItsOptimum holds what is asked of a map for a GPU that nobody tuned for
// to a simulated one, of which the optimum is known: without any prior 4% behind it in the mean, and with another card's
// map as a prior 2%, over problems that nothing has seen. Two classes with five minutes are four
// with ten. Each change one class has a minute, for 4 and 3%.
func TestMapOfASimulatedGPUIsNearItsOptimum(t *testing.T) {
	classes := []kernels.Problem{classProblem(kernels.RMSNorm, kernels.Fwd),
		classProblem(kernels.RMSNorm, kernels.Bwd)}
	budget, count, seeds, most, mostPrior := 5*time.Minute, 80, []uint64{1, 2}, 0.04, 0.02
	if !assert.All {
		classes, budget, count, seeds, mostPrior = classes[:1], 60*time.Second, 20, seeds[1:], 0.03
	}
	ps := drawn(count, 77, classes...)
	for _, seed := range seeds {
		s := newSim(seed, 0)
		l := loopOn(t, s, budget, nil, classes...)
		map1, answer := learnt(t, l)
		mean, p95, worst := regrets(s, answer, ps)
		base := func(p kernels.Problem) kernels.Variant { return l.Prior.Answer(p).Variant }
		m, p, w := regrets(s, base, ps)
		t.Logf("simulated %d, no prior: %d problems, behind the optimum %.4f, p95 %.4f, worst "+
			"%.4f; base %.4f, %.4f, %.4f", seed, len(l.Data.Points), mean, p95, worst, m, p, w)
		assert.That(t, mean <= most && mean <= m/2, "without a prior %.4f behind the optimum", mean)
		o := newSim(seed, 0.3)
		l2 := loopOn(t, o, budget, map1, classes...)
		_, better := learnt(t, l2)
		mean, p95, worst = regrets(o, better, ps)
		m, p, w = regrets(o, answer, ps)
		if mean > mostPrior || mean > 1.2*m { // a small budget does not always gain
			t.Errorf("with a prior that is off %.4f behind the optimum", mean)
		}
		t.Logf("simulated %d, prior off: %d problems, behind the optimum %.4f, p95 %.4f, worst "+
			"%.4f; prior %.4f, %.4f, %.4f", seed, len(l2.Data.Points), mean, p95, worst, m, p, w)
	}
}

// Problems of columns that the map was not filled from, where the records have its answer's time,
// lose little in the mean: what is known nearby is worth more than the base. That the same points
// make the same map, and that all of it is accepted, the tests of the map that is checked in show.
func TestHeldOutColumnsLoseLittle(t *testing.T) {
	d, err := Collect("", []string{"../../results/nvidia-h200/learn"})
	assert.NoError(t, err)
	var in, out []*Point
	for _, p := range d.Points {
		switch {
		// two classes are enough
		case (p.Problem.Op == kernels.RMSNorm) != (p.Problem.Pass == kernels.Fwd):
		case p.Problem.N*2654435761>>7%5 == 0:
			out = append(out, p)
		default:
			in = append(in, p)
		}
	}
	own := *plain
	own.Widths, _ = models.Default().Widths()
	m := own.Fill(in)
	type sum struct{ regret, n float64 }
	var ours, base sum
	add := func(to *sum, p *Point, v kernels.Variant) {
		if p.US[v] > 0 {
			to.regret, to.n = to.regret+math.Log(p.US[v]/p.BestUS), to.n+1
		}
	}
	for _, p := range out {
		v, _ := bare.Base(p.Problem, d.Device)
		add(&base, p, v)
		if a := cellOf(m, p.Problem); a.Match == launchmap.MatchCell {
			add(&ours, p, a.Variant)
		}
	}
	mean, plainly := ours.regret/ours.n, base.regret/base.n
	t.Logf("%.4f of %.0f, base %.4f of %.0f", mean, ours.n, plainly, base.n)
	assert.That(t, ours.n >= 100 && mean <= 0.03 && mean <= plainly/2,
		"held out %.4f of %.0f problems, the base %.4f of %.0f", mean, ours.n, plainly, base.n)
	assert.NoError(t, m.CheckValid())
	// Classes borrow nothing: of a class without a record there is no raster.
	for _, text := range []string{"rmsnorm/fwd/256x1024/bf16+fp8",
		"layernorm/bwd/256x1024/fp32+bias", "rmsnorm/bwd/256x1024/bf16+residual",
		"rmsnorm/bwd/256x1024/bf16+acc"} {
		assert.That(t, cellOf(m, devicetest.Problem(t, text)).Match != launchmap.MatchCell,
			"%s has a cell", text)
	}
	changed, of, gain := own.CountChanges(m, m)
	assert.That(t, changed <= 0 && of >= 3000 && gain == 0,
		"%d of %d cells of a map are not its own, for a gain of %g", changed, of, gain)
}

// One problem decides nothing for its neighbours: a config that was the best by 3% on a problem,
// and lost 10% on five around, is not their cell's. If the problem was searched in full, it has its
// own cell and no other. A prior's config keeps its cell against one that is 1% faster, and not
// against one that is 5% faster.
func TestOneProblemDecidesNothing(t *testing.T) {
	s := newSim(1, 0)
	at := withShape(classProblem(kernels.RMSNorm, kernels.Fwd), 4096, 1024)
	base, _ := bare.Base(at, s.info)
	f, _ := bare.Lookup("rms_fwd/one_shot")
	other := kernels.Variant{Family: f.Name, Config: f.Base(at,
		s.info).With(kernels.Setting{Knob: kernels.Warps, Value: 2})}
	assert.Must(t, other != base, "%v", base)
	searched := int64(0)
	fill := func(prior *launchmap.Map, us ...float64) *launchmap.Map {
		var points []*Point
		for i, m := range []int64{3000, 3500, 4096, 4800, 5400, 6000} {
			p := &Point{Problem: withShape(at, m, 1024), US: map[kernels.Variant]float64{base: 100,
				other: us[i%len(us)]}}
			p.BestUS = min(us[i%len(us)], 100)
			if m == searched {
				p.finals = map[kernels.Variant]bool{base: true, other: true}
			}
			points = append(points, p)
		}
		if prior == nil {
			return plain.Fill(points)
		}
		return fillerWith(prior).Fill(points)
	}
	for _, searched = range []int64{0, 4096} {
		m := fill(nil, 110, 110, 97, 110, 110, 110)
		for _, rows := range []int64{1500, 4096, 6000} {
			want := base
			if rows == searched {
				want = other
			}
			assert.Equal(t, cellOf(m, withShape(at, rows, 1024)).Variant, want, rows, "rows, searched", searched)
		}
	}
	searched = 0
	prior := fill(nil, 110)
	for us, want := range map[float64]kernels.Variant{99: base, 95: other} {
		assert.Equal(t, cellOf(fill(prior, us), at).Variant, want,
			"against", us, "us the prior's config of 100 us")
		assert.Equal(t, cellOf(fill(nil, us), at).Variant, other,
			"without a prior", us, "us lose to 100")
	}
}

// A small budget is held, has progress lines and one run. A loop that goes on has the points that
// it had, and where the budget is spent it fills the same map.
func TestSmallBudgetIsHeld(t *testing.T) {
	s := newSim(1, 0)
	class := classProblem(kernels.RMSNorm, kernels.Bwd)
	domain := shapes.Domain{MMin: 1 << 12, MMax: 1 << 14, NMin: 256, NMax: 1024, Elems: 1 << 22}
	l := loopOn(t, s, 20*time.Second, nil, class)
	l.Domain = domain
	var seen []int
	checkpoints := 0
	l.Progress = func(_ time.Duration, problems int) { seen = append(seen, problems) }
	l.Checkpoint = func(*launchmap.Map) error { checkpoints++; return nil }
	begun := s.Now()
	m, err := l.Learn(context.Background())
	assert.NoError(t, err)
	// a simulated device has no deadline: a batch more
	if took := s.Now().Sub(begun); took > 30*time.Second {
		t.Errorf("%s of a budget of 20 s", took)
	}
	assert.That(t, len(seen) >= 3 && seen[0] <= 8 && checkpoints >= 2,
		"%d checkpoints, %v", checkpoints, seen)
	d, err := Collect("", []string{l.Records.Path})
	assert.NoError(t, err)
	assert.That(t, len(d.Runs) == 1 && len(d.Points) == len(l.Data.Points),
		"%d runs, %d of %d problems", len(d.Runs), len(d.Points), len(l.Data.Points))
	again := loopOn(t, s, 20*time.Second, nil, class)
	again.Domain = domain
	again.Spent, again.Data, again.Records = 20*time.Second, d, l.Records
	m2, err := again.Learn(context.Background())
	assert.NoError(t, err)
	assert.That(t, reflect.DeepEqual(m2, m) && len(d.Points) == len(l.Data.Points),
		"another map, %d of %d problems", len(d.Points), len(l.Data.Points))
	// A judgement draws problems that were not measured, each shape once, and finds what a planted
	// bad map loses.
	j, err := Audit(context.Background(), l, m, 6, func(string) {})
	assert.NoError(t, err)
	sum := j.Summary
	assert.That(t, sum.Cells == 6 && sum.Shapes == 6 && sum.Mean >= 0.99 && sum.Mean <= 1.2 &&
		sum.Lo <= sum.Mean && sum.Hi >= sum.Mean, "%+v", sum)
	for _, x := range j.Duels {
		assert.That(t,
			!slices.ContainsFunc(d.Points, func(p *Point) bool { return p.Problem == x.Problem }),
			"%s was measured", x.Problem)
	}
	for _, p := range d.Points { // the slowest is said to be the fastest
		for v, us := range p.US {
			p.US[v] = 1 / us
		}
		p.BestUS = slices.Min(slices.Collect(maps.Values(p.US)))
	}
	worse, err := Audit(context.Background(), l, plain.Fill(d.Points), 6, func(string) {})
	assert.That(t, err == nil && worse.Summary.Mean > sum.Mean+0.05,
		"a bad map loses %.3f, a good one %.3f (%v)", worse.Summary.Mean, sum.Mean, err)
}

// Of a problem that was searched in full the best time is one of the finals, whatever a search saw
// on its way.
func TestBestTimeIsOneOfTheFinals(t *testing.T) {
	for phases, want := range map[[3]string]float64{
		{record.PhaseSearch, record.PhaseSearch, record.PhaseSearch}: 1,
		{record.PhaseSearch, record.PhaseFinal, record.PhaseSearch}:  2,
	} {
		p := &Point{US: map[kernels.Variant]float64{}}
		for i, phase := range phases {
			p.add(&record.Outcome{Status: kernels.StatusOK, Summary: stats.Summary{Median: 3 - float64(i)},
				Variant: kernels.Variant{Family: string(rune('a' + i))},
				Run:     &record.Run{Protocol: record.Protocol{Phase: phase}}}, "")
		}
		assert.Equal(t, p.bestTime(), want, phases)
	}
}

// Of a run with other classes beside only their part counts.
func TestOnlyOwnClassesAreSpent(t *testing.T) {
	asked, other := classProblem(kernels.RMSNorm, kernels.Fwd), classProblem(kernels.RMSNorm,
		kernels.Bwd)
	var es record.Outcomes
	for _, x := range []struct{ from, to, asked, all int }{{0, 60, 10, 30}, {100, 120, 0, 4},
		{200, 210, 1, 1}} {
		run := &record.Run{Time: time.Unix(int64(x.from), 0),
			Protocol: record.Protocol{Search: Search}}
		for i := range x.all {
			e := &record.Outcome{Run: run, Problem: other, Time: time.Unix(int64(x.to), 0)}
			if i < x.asked {
				e.Problem = asked
			}
			es = append(es, e)
		}
	}
	assert.Equal(t, (&Coverage{Classes: []kernels.Problem{asked}}).timeSpent(es), 30*time.Second)
}

// No design is absent for long: where a neighbourhood has times of three families, every other group
// has each other one as well. What lost a bit or a lot has its turn more rarely.
func TestNoDesignIsAbsentForLong(t *testing.T) {
	s := newSim(1, 0)
	class := classProblem(kernels.RMSNorm, kernels.Bwd)
	l := loopOn(t, s, time.Minute, nil, class)
	base := func(p kernels.Problem, family string) kernels.Variant {
		f, err := bare.Lookup(family)
		assert.NoError(t, err)
		return kernels.Variant{Family: family, Config: f.Base(p, s.info)}
	}
	var points []*Point
	point := func(m, n int64, us map[string]float64) {
		p := &Point{Problem: withShape(class, m, n), US: map[kernels.Variant]float64{},
			BestUS: math.Inf(1)}
		for family, x := range us {
			p.US[base(p.Problem, family)] = x
			p.BestUS = min(p.BestUS, x)
		}
		points = append(points, p)
	}
	for _, n := range []int64{515, 525, 531, 551, 561} { // 2 bytes
		for m := int64(64); m <= 1<<18; m *= 2 {
			point(m, n, map[string]float64{"rms_bwd/mix_order": 100, "rms_bwd/coop": 110,
				"rms_bwd/split": 250})
			point(m, 8*n, map[string]float64{"rms_bwd/mix_order": 130, "rms_bwd/smem_pipe": 100})
		}
	}
	groups, with := 8, map[string]int{}
	for seed := range uint64(groups) {
		c := l.chooser(points, rand.New(rand.NewPCG(seed, 9)))
		var ps []kernels.Problem
		for m := int64(1024); m <= 1<<17; m *= 2 {
			ps = append(ps, withShape(class, m, 539))
		}
		has := map[string]bool{}
		for _, task := range c.planTasks(ps) {
			for _, v := range task.Variants {
				has[v.Family] = true
			}
		}
		for family := range has {
			with[family]++
		}
	}
	at := withShape(class, 20480, 539)
	for _, f := range bare.Candidates(at) {
		want := groups / 2
		if f.Name == "rms_bwd/split" || f.Name == "rms_bwd/coop" || f.Refuse(at, f.Base(at, s.info), s.info) != nil {
			want = 0
		}
		assert.That(t, with[f.Name] >= want && (f.Name != "rms_bwd/split" || with[f.Name] <= groups/2),
			"%d of %d groups have %s", with[f.Name], groups, f.Name)
	}
}
