package rules

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// crossed are the problems of both ops and passes, with layernorm's bias, for some columns.
func crossed(rows int64, d kernels.DType, columns ...int64) []kernels.Problem {
	var ps []kernels.Problem
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			for _, n := range columns {
				ps = append(ps, kernels.Problem{Op: op, Pass: pass, M: rows, N: n, DType: d, Weight: d, Bias: op == kernels.LayerNorm})
			}
		}
	}
	return ps
}

// baseRef is what the registry launches by default.
func baseRef(d kernels.DeviceInfo) Ref {
	j := Judge{families.New(), d}
	return Ref{Name: "base", Pick: func(p kernels.Problem) (kernels.Variant, bool) {
		v, err := j.Registry.Base(p, d)
		return v, err == nil && j.Accepts(p, v)
	}}
}

// baseSet is of the default on an H200, made once for all tests.
var baseSet = sync.OnceValues(func() (*Set, error) {
	columns := []int64{96, 1000, 1024, 4096, 8191, 16384}
	if testing.Short() || raceEnabled {
		columns = []int64{1024}
	}
	d := devicetest.H200()
	return Launches(baseRef(d), crossed(1<<20, kernels.BF16, columns...), d, "v1.0.0", nil)
})

func baseLaunches(t testing.TB) *Set {
	t.Helper()
	s, err := baseSet()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLaunchesOfBase: the rules answer as the default does, whatever the rows.
func TestLaunchesOfBase(t *testing.T) {
	s, base := baseLaunches(t), baseRef(devicetest.H200())
	r := rand.New(rand.NewPCG(7, 8))
	for _, p := range s.UpTo {
		rules := 0
		for _, l := range s.Classes {
			for _, x := range l.Rules {
				if l.Class == ClassOf(p) && x.NMax == p.N {
					rules++
				}
			}
		}
		if rules < 1 || rules > 24 {
			t.Errorf("%s has %d rules", p, rules)
		}
		rows := p.M
		for i := range 400 {
			p.M = int64(math.Exp(r.Float64() * math.Log(float64(rows))))
			if i%2 == 0 { // as batches are
				p.M = max(p.M/64, 1) * 64
			}
			a := s.Pick(p)
			if want, _ := base.Pick(p); a.Match != MatchRule || a.Variant != want {
				t.Fatalf("%s: got %s, want %s", p, a.Variant, want)
			}
		}
	}
	if gaps := s.Gaps(); len(gaps) > 0 {
		t.Errorf("the default has no launch for rows of %v", gaps)
	}
	// Beyond what it was asked about nothing is known.
	for _, edit := range []func(p *kernels.Problem){
		func(p *kernels.Problem) { p.M = 1<<20 + 1 }, func(p *kernels.Problem) { p.N = 1025 },
		func(p *kernels.Problem) { p.DType = kernels.FP16 }, func(p *kernels.Problem) { p.Residual = true },
		func(p *kernels.Problem) { p.DType, p.Weight = kernels.FP32, kernels.FP32 },
	} {
		p := s.UpTo[0]
		edit(&p)
		if a := s.Pick(p); a.Match != MatchClass || a.Variant.Family != "" {
			t.Errorf("%s: %s, %s", p, a.Match, a.Variant)
		}
	}
	j := Judge{families.New(), s.Device}
	hash := families.NewIdentity(j.Registry, kernels.KindCUDA).Source
	for _, line := range s.Lint(j, hash) {
		if !strings.Contains(line, "no source hash of ") { // the caller's
			t.Error(line)
		}
	}
}

// TestLaunches: what is refused has no rule, the rows that are named are asked, and the
// progress is told.
func TestLaunches(t *testing.T) {
	s := launches(t)
	for text, want := range map[string]string{
		"rmsnorm/bwd/1x4096/fp16":                    "rms_bwd/few_rows@w4.cl1.dc16",
		"rmsnorm/bwd/527x4096/fp16":                  "rms_bwd/few_rows@w8.cl1.dc16",
		"rmsnorm/bwd/8192x4096/fp16":                 "rms_bwd/smem_pipe@br2.w8.st2.k1",
		"layernorm/fwd/4x4096/fp16+bias+residual":    "ln_fwd/cta_reg@br4.w8",
		"layernorm/fwd/7999x4096/fp16+bias+residual": "ln_fwd/cta_reg@br1.w8",
		"layernorm/fwd/8004x4096/fp16+bias+residual": "",
		"layernorm/fwd/4x5120/fp16+bias+residual":    "",
		"layernorm/fwd/5x5120/fp16+bias+residual":    "ln_fwd/cta_reg@br1.w8",
	} {
		p, err := kernels.ParseProblem(text)
		if err != nil {
			t.Fatal(err)
		}
		a := s.Pick(p)
		if got := a.Variant.String(); want != "" && got != want || want == "" && a.Match != MatchDefault {
			t.Errorf("%s: got %s, %s, want %s", p, a.Match, got, want)
		}
	}
	if gaps := s.Gaps(); len(gaps) != 2 || gaps[0].N != 4096 || gaps[1].N != 5120 || gaps[0].Op != kernels.LayerNorm {
		t.Errorf("rows without a rule: %v", gaps)
	}
	near := Ref{Name: "tuned:f", Changes: func(p kernels.Problem) []int64 { return []int64{p.N + 777777} }, Pick: func(p kernels.Problem) (kernels.Variant, bool) {
		if p.M == p.N+777777 {
			return kernels.Variant{Family: "here"}, true
		}
		return kernels.Variant{Family: "else"}, true
	}}
	var told []int
	s, err := Launches(near, crossed(1<<20, kernels.FP32, 1, 2), devicetest.CPU(), "v1.0.0", func(n int) { told = append(told, n) })
	if err != nil || len(told) != 8 || told[7] != 8 {
		t.Fatalf("%v, told %v", err, told)
	}
	for _, p := range s.UpTo {
		for _, off := range []int64{-1, 0, 1} {
			p.M = p.N + 777777 + off
			if a := s.Pick(p); (a.Variant.Family == "here") != (off == 0) {
				t.Errorf("%s: %s", p, a.Variant)
			}
		}
	}
}

func TestLaunchesErrors(t *testing.T) {
	d := devicetest.H200()
	fine := func(p kernels.Problem) (kernels.Variant, bool) {
		c := kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: int(p.M % 7)})
		return kernels.Variant{Family: "f", Config: c}, true
	}
	none := func(kernels.Problem) (kernels.Variant, bool) { return kernels.Variant{}, false }
	both := append(crossed(64, kernels.BF16, 1024), crossed(64, kernels.FP16, 2048)...)
	for want, tc := range map[string]struct {
		pick func(kernels.Problem) (kernels.Variant, bool)
		ps   []kernels.Problem
	}{
		"r of rmsnorm/fwd/9999x64/bf16: the answer changes too often for a few ranges, as at ": {fine, crossed(9999, kernels.BF16, 64)},
		"r launches none of these problems":                                                    {none, crossed(9999, kernels.BF16, 64)},
		"rules cannot tell rmsnorm/fwd/bf16 from rmsnorm/fwd/fp16: ":                           {none, both},
	} {
		if _, err := Launches(Ref{Name: "r", Pick: tc.pick}, tc.ps, d, "v", nil); err == nil || !strings.HasPrefix(err.Error(), want) || hint.Of(err) == "" {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func BenchmarkLaunches(b *testing.B) {
	d := devicetest.H200()
	for b.Loop() {
		if _, err := Launches(baseRef(d), crossed(1<<20, kernels.BF16, 4096)[:1], d, "v", nil); err != nil {
			b.Fatal(err)
		}
	}
}
