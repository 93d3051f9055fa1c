package rules

import (
	"bytes"
	"encoding/xml"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
)

const recorded = "../../results/nvidia-h200"

// h200 is the rule set of the recorded sweep, fitted once for all tests. Its default is that of
// the sweep: another launch rule of today moves no figure here.
var h200 = sync.OnceValues(func() (fitted, error) {
	d, err := Collect([]string{recorded})
	if err != nil {
		return fitted{}, err
	}
	if raceEnabled { // ten times slower, and what it looks for is in any class
		n := 0
		d.Shapes = slices.DeleteFunc(d.Shapes, func(s Shape) bool {
			n++
			return s.Problem.Op != kernels.RMSNorm || s.Problem.Pass != kernels.Bwd || n%4 > 0
		})
	}
	s, e, err := Fit(d, judge(d), DefaultOptions, "v1.0.0")
	return fitted{d, s, e}, err
})

type fitted struct {
	data *Data
	set  *Set
	eval *Evaluation
}

func judge(d *Data) Judge { return Judge{Registry: families.New(), Device: d.Device} }

func fittedH200(t testing.TB) fitted {
	t.Helper()
	f, err := h200()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestH200 holds the rules of the recorded sweep to what rules are for: few, no
// worse than the default on any shape held out, and better over all.
func TestH200(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector gets too few shapes for it")
	}
	f := fittedH200(t)
	if len(f.set.Lists) != 8 || len(f.eval.Losses) > 0 {
		t.Errorf("%d classes, worse than the default held out: %v", len(f.set.Lists), f.eval.Losses)
	}
	type key struct{ class, held string }
	rules, base := map[key]Score{}, map[key]Score{}
	for _, s := range f.set.HeldOut {
		switch s.Chooser {
		case launchrule.ChooserRules:
			rules[key{s.Class, s.Held}] = s
		case ChooserDefault:
			base[key{s.Class, s.Held}] = s
		}
		if !(1 <= s.Lo && s.Lo <= s.Regret && s.Regret <= s.Hi && s.Regret <= s.Max && s.P95 <= s.Max && s.Within2 <= s.Within5) {
			t.Errorf("%+v does not fit together", s)
		}
	}
	// A class whose default is within what is asked of rules needs none.
	for _, l := range f.set.Lists {
		n, best := len(l.Rules), base[key{l.Class.String(), ""}].Regret < 1.02
		if n > DefaultOptions.MaxRules || n == 0 && !best {
			t.Errorf("%s: %d rules", l.Class, n)
		}
	}
	for k, s := range rules {
		t.Logf("%s held out %q: regret %.4f, default %.4f", k.class, k.held, s.Regret, base[k].Regret)
		// Over numbers of columns that the fit has not seen nothing is promised, and
		// layernorm is up to 0.5% worse than its default there. With a shape held out
		// rmsnorm's forward is 0.02% worse: two copies of one variant differ by more.
		if s.Regret > base[k].Regret+0.001 && k.held != launchrule.HeldN {
			t.Errorf("%s held out %q: regret %.4f, default %.4f", k.class, k.held, s.Regret, base[k].Regret)
		}
	}
	// The boxes of a class do not overlap, so that the order is only for readers.
	for _, p := range f.set.Random(1, 2000) {
		at := launchrule.At(p, f.set.Device)
		for _, l := range f.set.Lists {
			fires := 0
			for i := range l.Rules {
				if l.Class == launchrule.ClassOf(p) && l.Rules[i].Holds(&at) {
					fires++
				}
			}
			if fires > 1 {
				t.Fatalf("%d rules fire for %s", fires, p)
			}
		}
	}
}

// TestAccepted: whatever the rules answer, the registry accepts. Exported code
// cannot ask.
func TestAccepted(t *testing.T) {
	f := fittedH200(t)
	j := judge(f.data)
	fired := 0
	for _, p := range f.set.Random(1, 60000) {
		a, v := f.set.Pick(p)
		if a.Match != launchrule.MatchRule {
			continue
		}
		fired++
		if !j.Accepts(p, v) {
			fam, _ := j.Registry.Lookup(v.Family)
			t.Errorf("rule %d of %s answers %s for %s, which is refused: %v", a.Index+1, a.List.Class, v, p, fam.Refuse(p, v.Config, j.Device))
		}
	}
	if fired < 1000 && !raceEnabled {
		t.Errorf("rules fired for %d problems only", fired)
	}
	stale := families.NewIdentity(j.Registry, kernels.KindCUDA).Stale
	for _, line := range f.set.Lint(j, stale) {
		t.Error(line.Text)
	}
}

// some is the data of one class, for tests that fit again.
func some(t testing.TB, op kernels.Op, pass kernels.Pass) *Data {
	d := *fittedH200(t).data
	d.Shapes = slices.DeleteFunc(slices.Clone(d.Shapes), func(s Shape) bool { return s.Problem.Op != op || s.Problem.Pass != pass })
	return &d
}

func rulesText(t testing.TB, d *Data) string {
	t.Helper()
	var out string
	for _, tab := range tables(d, judge(d)) {
		l := tab.list(tab.all(), nil, DefaultOptions, true)
		s := &Set{Schema: launchrule.Schema, Kind: launchrule.Kind, Date: d.Date, Device: d.Device, Lists: []List{l}}
		b, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		out += string(b)
	}
	return out
}

// TestOrder: neither the order of the records nor that of maps changes anything.
func TestOrder(t *testing.T) {
	d := some(t, kernels.RMSNorm, kernels.Bwd)
	want := rulesText(t, d)
	r := rand.New(rand.NewPCG(3, 4))
	for range 2 {
		e := *d
		e.Shapes = slices.Clone(d.Shapes)
		r.Shuffle(len(e.Shapes), func(i, j int) { e.Shapes[i], e.Shapes[j] = e.Shapes[j], e.Shapes[i] })
		for i := range e.Shapes {
			us := map[kernels.Variant]float64{}
			for v, x := range e.Shapes[i].US {
				us[v] = x
			}
			e.Shapes[i].US = us
		}
		if got := rulesText(t, &e); got != want {
			t.Fatalf("another order, other rules:\n%s\nwant\n%s", got, want)
		}
	}
}

// TestDominated: a variant that another beats on every shape is never the
// answer, and that it was measured changes no other.
func TestDominated(t *testing.T) {
	if raceEnabled {
		t.Skip("no data of layernorm under the race detector")
	}
	d := some(t, kernels.LayerNorm, kernels.Bwd)
	want := rulesText(t, d)
	for _, like := range []kernels.Variant{d.Shapes[0].Best, d.Shapes[20].Best, d.Shapes[len(d.Shapes)-1].Best} {
		worse := kernels.Variant{Family: like.Family, Config: like.Config.With(kernels.Setting{Knob: kernels.CTAs, Value: 7})}
		e := *d
		e.Shapes = slices.Clone(d.Shapes)
		for i, s := range e.Shapes {
			us := map[kernels.Variant]float64{}
			for v, x := range s.US {
				us[v] = x
			}
			if x, ok := us[like]; ok {
				us[worse] = 1.01 * x
			}
			e.Shapes[i].US = us
		}
		if got := rulesText(t, &e); got != want {
			t.Errorf("with a slower copy of %s, other rules", like)
		}
	}
}

func TestPlot(t *testing.T) {
	f := fittedH200(t)
	var ps []kernels.Problem
	for _, s := range f.data.Shapes {
		ps = append(ps, s.Problem)
	}
	var svg, png bytes.Buffer
	if err := Plot(f.set, &svg, ps, "svg"); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(svg.Bytes(), new(struct{})); err != nil || svg.Len() < 5000 {
		t.Errorf("%d bytes of SVG: %v", svg.Len(), err)
	}
	if err := Plot(f.set, &png, nil, "png"); err != nil || !bytes.HasPrefix(png.Bytes(), []byte("\x89PNG")) {
		t.Errorf("%d bytes of PNG: %v", png.Len(), err)
	}
}

// TestAliases: a variant that was left out as an alias has the time of the variant it equals, and
// one that was not measured has none.
func TestAliases(t *testing.T) {
	d := devicetest.H200()
	j := Judge{Registry: families.New(), Device: d}
	p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Bwd, M: 64, N: 1024, DType: kernels.BF16, Weight: kernels.BF16}
	q := p
	q.M = 65536
	v := func(s string) kernels.Variant {
		v, err := kernels.ParseVariant("rms_bwd/reg_persist@" + s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// 64 rows are fewer than the CTAs of k1, so k4 launches the same.
	k1, k4, st2 := v("br1.w4.v0.st1.k1.p0.ho1.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0"), v("br1.w4.v0.st1.k4.p0.ho1.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0"), v("br1.w4.v0.st2.k1.p0.ho1.ro0.so0.pt0.rc32.rr128.rw32.er0.lb0.ch0")
	tab := newTable(launchrule.ClassOf(p), []Shape{
		{Problem: p, Base: k1, BaseUS: 10, BestUS: 10, Best: k1, US: map[kernels.Variant]float64{k1: 10}},
		{Problem: q, Base: k4, BaseUS: 120, BestUS: 100, Best: st2, US: map[kernels.Variant]float64{k4: 120, st2: 100}},
	}, j)
	at := func(v kernels.Variant, shape int) float64 {
		for i, r := range tab.recipes {
			if r.RowBytes == 0 && r.Family == v.Family && r.Config == v.Config {
				return tab.loss[i][shape]
			}
		}
		t.Fatalf("%s is no recipe", v)
		return 0
	}
	if got := at(k4, 0); got != 0 {
		t.Errorf("the alias has a regret of %g", got)
	}
	if got := at(st2, 0); got != 0 { // two stages are refused with one tile per CTA: the default's
		t.Errorf("the refused variant has a regret of %g", got)
	}
	if got := at(k1, 1); got < 1e300 {
		t.Errorf("what was not measured has a regret of %g", got)
	}
}

// TestDefaultAtRecords holds the default to the sweep of the default group: on no shape more than
// a tenth behind the best config that was measured there. No rule is of fp8 without its transpose.
func TestDefaultAtRecords(t *testing.T) {
	d, err := Collect([]string{recorded})
	if err != nil {
		t.Fatal(err)
	}
	r := families.New()
	if kept := d.Rebase(r); kept > 5 || len(d.Shapes) < 200 {
		t.Errorf("the default has no time on %d of %d shapes", kept, len(d.Shapes))
	}
	for _, s := range d.Shapes {
		base, err := r.Base(s.Problem, d.Device)
		if err != nil {
			t.Fatal(err)
		}
		most := 1.1
		if s.Problem.FP8 && !s.Problem.Transpose {
			most = 1.3
		}
		if s.Base == base && s.BaseUS > most*s.BestUS {
			t.Errorf("%s: %.2f us by %s, and %.2f by %s", s.Problem, s.BaseUS, s.Base, s.BestUS, s.Best)
		}
	}
}
