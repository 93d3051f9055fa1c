package learn

import (
	"math"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/kernels/presets"
	"normbench/tune/rules"
)

// picked are the variants that a preset has for a problem on the H200.
func picked(t *testing.T, j launchrule.Judge, name string, p kernels.Problem) []kernels.Variant {
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
	j := launchrule.Judge{Registry: families.New(), Device: devicetest.H200()}
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
	if alias == liger[0] || rules.PlanOf(j, small, alias) != rules.PlanOf(j, small, liger[0]) {
		t.Fatalf("%s is no other name of %s", alias, liger[0])
	}
	te := picked(t, j, "te-593", wide)
	if len(te) < 2 {
		t.Fatalf("te-593 has %v", te)
	}
	best := kernels.Variant{Family: "rms_fwd/cta_reg", Config: base(small).Config.With(kernels.Setting{Knob: kernels.Warps, Value: 32})}
	one := func(p kernels.Problem, us map[kernels.Variant]float64) rules.Shape {
		us[base(p)] = 12
		us[best] = 8
		return rules.Shape{Problem: p, Base: base(p), US: us}
	}
	some, all := map[kernels.Variant]float64{}, map[kernels.Variant]float64{}
	for i, v := range te {
		all[v] = float64(20 + i)
		if i > 0 {
			some[v] = all[v]
		}
	}
	scores := func(shapes ...rules.Shape) map[string]PresetScore {
		p := Policy{Judge: j, Default: func(q kernels.Problem) (kernels.Variant, error) { return j.Registry.Base(q, j.Device) }, Memo: NewMemo()}
		p.Analytic = p.Default
		points, _ := p.Points(&rules.Data{Device: j.Device, Shapes: shapes}, true)
		byName := map[string]PresetScore{}
		for _, s := range Fit(points, j, DefaultOptions, p.Memo, true).Presets {
			byName[s.Chooser] = s
		}
		return byName
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-3 }

	asBase := one(large, map[kernels.Variant]float64{})
	asBase.Base = picked(t, j, "inductor", large)[0]
	asBase.US = map[kernels.Variant]float64{asBase.Base: 12, best: 8}
	got := scores(one(small, map[kernels.Variant]float64{alias: 10}), one(wide, some), asBase)
	if l := got["liger"]; l.Shapes != 1 || l.Of != 3 || l.Unmeasured != 2 || !near(l.Regret, 10./8) || !near(l.Default, 12./8) || l.Worst != small.String() || l.Rules == 0 {
		t.Errorf("liger: %+v", l)
	}
	if s := got["te-593"]; s.Shapes != 0 || s.Unmeasured == 0 || s.Regret != 0 {
		t.Errorf("te-593 without a time of one of its candidates: %+v", s)
	}
	if _, ok := got["apex-fast"]; ok {
		t.Error("apex-fast does no rmsnorm")
	}
	// On the large one a preset launches what the base is.
	if p := got[ChooserPresets]; p.Shapes != 2 || !near(p.Regret, math.Sqrt(10./8*12/8)) {
		t.Errorf("presets together: %+v", p)
	}

	// All candidates timed, or those without a time tried and failed.
	for name, s := range map[string]rules.Shape{"all": one(wide, all), "one failed": func() rules.Shape {
		s := one(wide, some)
		s.Failed = map[kernels.Variant]bool{te[0]: true}
		return s
	}()} {
		want := 20.
		if name != "all" {
			want = 21
		}
		got := scores(one(small, map[kernels.Variant]float64{alias: 10}), s)
		if te := got["te-593"]; te.Shapes != 1 || !near(te.Regret, want/8) {
			t.Errorf("%s: %+v", name, te)
		}
		if p := got[ChooserPresets]; p.Shapes != 2 || !near(p.Regret, math.Sqrt(10./8*want/8)) {
			t.Errorf("%s: together %+v", name, p)
		}
	}
}
