package rules

import (
	"math"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/kernels/presets"
)

// picked are the variants that a preset has for a problem on the H200.
func picked(t *testing.T, j Judge, name string, p kernels.Problem) []kernels.Variant {
	t.Helper()
	s, err := presets.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	vs, err := s.Variants(j.Registry, p, j.Device)
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

// TestPresets: a published rule has the time of what it picks, under any name
// with the same plan; what was not measured is counted and nothing else.
func TestPresets(t *testing.T) {
	j := Judge{Registry: families.New(), Device: devicetest.H200()}
	parse := func(s string) kernels.Problem {
		p, err := kernels.ParseProblem(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	small, wide, large := parse("rmsnorm/fwd/4096x1024/bf16"), parse("rmsnorm/fwd/4096x4096/bf16"), parse("rmsnorm/fwd/4096x8192/bf16")
	base := func(p kernels.Problem) kernels.Variant {
		v, err := j.Registry.Base(p, j.Device)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	liger := picked(t, j, "liger", small)
	if len(liger) != 1 {
		t.Fatalf("liger has %v", liger)
	}
	// The same launch under another name: 16 bytes by default instead of by number.
	alias := kernels.Variant{Family: liger[0].Family, Config: liger[0].Config.With(kernels.Setting{Knob: kernels.VectorBytes, Value: 0})}
	if alias == liger[0] || planOf(j, small, alias) != planOf(j, small, liger[0]) {
		t.Fatalf("%s is no other name of %s", alias, liger[0])
	}
	te := picked(t, j, "te-593", wide)
	if len(te) < 2 {
		t.Fatalf("te-593 has %v", te)
	}
	best := kernels.Variant{Family: "rms_fwd/cta_reg", Config: base(small).Config.With(kernels.Setting{Knob: kernels.Warps, Value: 32})}
	one := func(p kernels.Problem, us map[kernels.Variant]float64) Shape {
		us[base(p)] = 12
		us[best] = 8
		return Shape{Problem: p, Base: base(p), BaseUS: 12, BestUS: 8, Best: best, US: us}
	}
	some, all := map[kernels.Variant]float64{}, map[kernels.Variant]float64{}
	for i, v := range te {
		all[v] = float64(20 + i)
		if i > 0 {
			some[v] = all[v]
		}
	}
	scores := func(shapes ...Shape) (map[string]PresetScore, []Score) {
		tab := newTable(launchrule.ClassOf(small), shapes, j)
		var e Evaluation
		e.add(tab, tab.list(tab.all(), nil, DefaultOptions, true), nil, DefaultOptions)
		byName := map[string]PresetScore{}
		for _, s := range e.Presets {
			byName[s.Chooser] = s
		}
		return byName, e.Scores
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-3 }

	asBase := one(large, map[kernels.Variant]float64{})
	asBase.Base = picked(t, j, "inductor", large)[0]
	asBase.US = map[kernels.Variant]float64{asBase.Base: 12, best: 8}
	got, together := scores(one(small, map[kernels.Variant]float64{alias: 10}), one(wide, some), asBase)
	if l := got["liger"]; l.Shapes != 1 || l.Of != 3 || l.Unmeasured != 2 || !near(l.Regret, 10./8) || !near(l.Default, 12./8) || l.Worst != small.String() || l.Rules == 0 {
		t.Errorf("liger: %+v", l)
	}
	if s := got["te-593"]; s.Shapes != 0 || s.Unmeasured == 0 || s.Regret != 0 {
		t.Errorf("te-593 without a time of one of its candidates: %+v", s)
	}
	if _, ok := got["apex-fast"]; ok {
		t.Error("apex-fast does no rmsnorm")
	}
	i := slices.IndexFunc(together, func(s Score) bool { return s.Chooser == ChooserPresets && s.Held == launchrule.HeldShape })
	// On the large one a preset launches what the base is.
	if i < 0 || together[i].Shapes != 2 || !near(together[i].Regret, math.Sqrt(10./8*12/8)) {
		t.Errorf("presets together: %+v", together)
	}

	// All candidates timed, or those without a time tried and failed.
	for name, s := range map[string]Shape{"all": one(wide, all), "one failed": func() Shape {
		s := one(wide, some)
		s.Failed = map[kernels.Variant]bool{te[0]: true}
		return s
	}()} {
		want := 20.
		if name != "all" {
			want = 21
		}
		got, _ := scores(one(small, map[kernels.Variant]float64{alias: 10}), s)
		if te := got["te-593"]; te.Shapes != 1 || !near(te.Regret, want/8) {
			t.Errorf("%s: %+v", name, te)
		}
		if p := got[ChooserPresets]; p.Shapes != 2 || !near(p.Regret, math.Sqrt(10./8*want/8)) {
			t.Errorf("%s: together %+v", name, p)
		}
	}
}

// TestPresetsH200: the recorded sweep has a quarter of Liger's picks in rmsnorm's
// forward, and no preset beats the best known.
func TestPresetsH200(t *testing.T) {
	f := fittedH200(t)
	for _, s := range f.eval.Presets {
		if s.Shapes == 0 {
			continue
		}
		if s.Regret < 1 || s.Rules < 1 || s.Default < 1 || s.Shapes+s.Unmeasured > s.Of {
			t.Errorf("%+v", s)
		}
		if s.Class == "rmsnorm/fwd/2-byte" && s.Chooser == "liger" && s.Shapes < 12 && !raceEnabled {
			t.Errorf("%+v", s)
		}
	}
}
