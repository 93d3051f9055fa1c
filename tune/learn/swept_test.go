package learn

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/tune/rules"
)

// swept is what a sweep of the default group measured on an H200, with today's default behind what is learned from it.
func swept(t *testing.T) (*Policy, *rules.Data) {
	t.Helper()
	d, err := rules.Collect([]string{"../../results/nvidia-h200"})
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{Judge: launchrule.Judge{Registry: registry, Device: d.Device}, Prior: families.Step(d.Device).Set, Memo: NewMemo()}
	with := families.With(p.Prior)
	p.Default = func(q kernels.Problem) (kernels.Variant, error) { return with.Base(q, d.Device) }
	p.Analytic = func(q kernels.Problem) (kernels.Variant, error) { return bare.Base(q, d.Device) }
	return p, d
}

// TestSwept: the rules of a sweep's records are few, and no class is worse than its default. No family refuses
// what they answer, as exported code cannot ask. The order of the records changes nothing.
func TestSwept(t *testing.T) {
	p, d := swept(t)
	rng := rand.New(rand.NewPCG(3, 4))
	set := func() (*Result, string) {
		d := *d
		d.Shapes = slices.Clone(d.Shapes)
		rng.Shuffle(len(d.Shapes), func(i, j int) { d.Shapes[i], d.Shapes[j] = d.Shapes[j], d.Shapes[i] })
		for i := range d.Shapes {
			d.Shapes[i].US = maps.Clone(d.Shapes[i].US)
		}
		points, kept := p.Points(&d, true)
		if len(points) < 200 || kept > 5 {
			t.Errorf("%d problems, %d without a time of the default", len(points), kept)
		}
		r := Fit(points, p.Judge, DefaultOptions, p.Memo, true)
		if err := p.Finish(r, "v1", d.Tool, d.Protocol, points, func(f string) string { return d.Sources[f] }); err != nil {
			t.Fatal(err)
		}
		text, err := r.Set.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return r, string(text)
	}
	r, text := set()
	if _, again := set(); again != text {
		t.Error("another order of the records, other rules")
	}
	if r.Learned != 8 {
		t.Errorf("%d classes", r.Learned)
	}
	for _, l := range r.Set.Lists[:r.Learned] {
		if len(l.Rules) > DefaultOptions.MaxRules {
			t.Errorf("%s: %d rules", l.Class, len(l.Rules))
		}
	}
	for i, s := range r.Scores {
		if !(1 <= s.Lo && s.Lo <= s.Regret && s.Regret <= s.Hi && s.Regret <= s.Max && s.P95 <= s.Max && s.Within2 <= s.Within5) {
			t.Errorf("%+v does not fit together", s)
		}
		if s.Chooser == launchrule.ChooserRules {
			if base := r.Scores[i+1]; base.Chooser != ChooserDefault || s.Regret > base.Regret+1e-4 {
				t.Errorf("%s held out %q: regret %.4f, %s %.4f", s.Class, s.Held, s.Regret, base.Chooser, base.Regret)
			}
		}
	}
	for _, s := range r.Presets {
		if s.Shapes > 0 && (s.Regret < 1 || s.Rules < 1 || s.Default < 1 || s.Shapes+s.Unmeasured > s.Of) {
			t.Errorf("%+v", s)
		}
	}
	own := *r.Set
	own.Lists = own.Lists[:r.Learned]
	fired := 0
	for _, q := range own.Random(1, 60000) {
		if a, v := own.Pick(q); a.Rule() != nil {
			if fired++; !p.Judge.Accepts(q, v) {
				t.Errorf("rule %d of %s answers %s for %s, which is refused", a.Index+1, a.List.Class, v, q)
			}
		}
	}
	t.Logf("rules fired for %d problems", fired)
}

// TestDefaultAtRecords holds the default to the sweep of the default group: on no shape more than
// a tenth behind the best config that was measured there. No rule is of fp8 without its transpose.
func TestDefaultAtRecords(t *testing.T) {
	p, d := swept(t)
	points, _ := p.Points(d, true)
	for _, q := range points {
		most := 1.1
		if q.Problem.FP8 && !q.Problem.Transpose {
			most = 1.3
		}
		if us := q.US[q.Default]; us > most*q.BestUS {
			t.Errorf("%s: %.2f us by %s, and %.2f by %s", q.Problem, us, q.Default, q.BestUS, q.Best)
		}
	}
}

// Where today's default has no time, a sweep's base is the default; learn's is not, as it measured the default of its time.
func TestPoints(t *testing.T) {
	old := kernels.Variant{Family: "rms_bwd/two_pass"}
	p, _ := swept(t)
	q, err := kernels.ParseProblem("rmsnorm/bwd/4096x8192/bf16")
	if err != nil {
		t.Fatal(err)
	}
	today, err := p.Default(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		us    map[kernels.Variant]float64
		asked kernels.Variant
		want  kernels.Variant
		kept  int
	}{
		{map[kernels.Variant]float64{old: 9, today: 5}, kernels.Variant{}, today, 0},
		{map[kernels.Variant]float64{old: 9}, kernels.Variant{}, old, 1},
		{map[kernels.Variant]float64{old: 9}, old, kernels.Variant{}, 0},
	} {
		points, kept := p.Points(&rules.Data{Shapes: []rules.Shape{{Problem: q, Base: old, BaseUS: 9, US: test.us, Asked: test.asked}}}, true)
		var got kernels.Variant
		if len(points) > 0 {
			got = points[0].Default
		}
		if got != test.want || kept != test.kept {
			t.Errorf("%v: %s, %d kept", test, got, kept)
		}
	}
}
