package families_test

import (
	"context"
	"path"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/reference"
)

// eachOpPass calls f with every op and pass.
func eachOpPass(f func(op kernels.Op, pass kernels.Pass)) {
	for _, s := range kernels.Ops() {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			f(s.Op, pass)
		}
	}
}

// corners are the shapes and options where indexing goes wrong: one row, one
// column, odd and prime columns, more tiles than CTAs and fewer; then every
// type and every option.
func corners() []kernels.Problem {
	var ps []kernels.Problem
	for _, s := range [][2]int64{{1, 1}, {1, 8192}, {3, 1}, {5, 7}, {33, 541}, {64, 256}, {130, 96},
		{17, 4100}} {
		eachOpPass(func(op kernels.Op, pass kernels.Pass) {
			ps = append(ps, kernels.Problem{Op: op, Pass: pass, M: s[0], N: s[1],
				DType: kernels.BF16, Weight: kernels.BF16, Bias: op.Spec().Bias})
		})
	}
	for _, d := range kernels.DTypes() {
		for _, w := range []kernels.DType{d, kernels.FP32} {
			eachOpPass(func(op kernels.Op, pass kernels.Pass) {
				p := kernels.Problem{Op: op, Pass: pass, M: 19, N: 130, DType: d, Weight: w,
					ZeroCentered: true, Bias: w == kernels.FP32}
				if !p.HasWeight() {
					p = kernels.Problem{Op: op, Pass: pass, M: 19, N: 130, DType: d, Weight: d}
				}
				ps = append(ps, p)
			})
		}
	}
	ps = append(ps, options(33, 136)...)
	return append(ps, transposed()...)
}

// transposed are problems of fp8 with its transpose, in tiles of 4x4 bytes: a band that is
// not full, several strips, vectors of 8 bytes, and every option.
func transposed() []kernels.Problem {
	var ps []kernels.Problem
	for _, s := range [][2]int64{{4, 4}, {36, 136}, {132, 516}, {48, 256}} {
		for _, p := range options(s[0], s[1]) {
			if p.Pass == kernels.Fwd {
				if p.FP8, p.Transpose = true, true; p.Validate() == nil {
					ps = append(ps, p)
				}
			}
		}
	}
	return append(ps, kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 68, N: 260,
		DType: kernels.FP32, Weight: kernels.BF16, FP8: true, Transpose: true})
}

// options are the problems of one shape with each option that a pass has.
func options(m, n int64) []kernels.Problem {
	var ps []kernels.Problem
	eachOpPass(func(op kernels.Op, pass kernels.Pass) {
		p := kernels.Problem{Op: op, Pass: pass, M: m, N: n, DType: kernels.BF16,
			Weight: kernels.BF16}
		for _, set := range []func(p *kernels.Problem){
			func(p *kernels.Problem) { p.NoWeight = true },
			func(p *kernels.Problem) { p.Residual = true },
			func(p *kernels.Problem) { p.Residual, p.Bias, p.ZeroCentered = true, true, true },
			func(p *kernels.Problem) { p.FP8 = true },
			func(p *kernels.Problem) { p.FP8, p.Transpose, p.Bias = true, true, true },
			func(p *kernels.Problem) { p.Accumulate, p.Bias = true, true },
		} {
			q := p
			if set(&q); q.Validate() == nil {
				ps = append(ps, q)
			}
		}
	})
	return ps
}

// hostile are the problems whose inputs come from a hostile seed: at least one
// row of each ordeal.
func hostile() []kernels.Problem {
	var ps []kernels.Problem
	for _, d := range kernels.DTypes() {
		eachOpPass(func(op kernels.Op, pass kernels.Pass) {
			ps = append(ps, kernels.Problem{Op: op, Pass: pass, M: 24, N: 136, DType: d, Weight: d,
				Bias: op.Spec().Bias})
		})
	}
	fp8 := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 16, N: 136,
		DType: kernels.BF16, Weight: kernels.BF16, FP8: true}
	both := fp8
	both.Transpose = true
	return append(ps, fp8, both)
}

// own are the designs with host stages of their own.
var own = []string{"plain", "stream", "copy", "cta_reg", "two_pass", "reg_persist"}

// published are configs that only published rules ask for, by design: the grids leave them out.
// Knobs that a label leaves open come from the base.
var published = map[string][]string{
	"reg_persist": {
		"ho0", "ro1", "so1", "pt1", "ch3.lb1",
		"br1.w16.st1.p3.ho1.ro1",     // Liger
		"br2.k1.so1.pt1.ro1.ho0.lb0", // all of them
	},
	"two_pass": {
		"ro1", "so1", "pt1", "ch3",
		"br1.k0.sp0",                     // TransformerEngine before PR 593: (M,N) partial sums
		"br1.p3.sp0.ro1.so1",             // and since: three CTAs that add in memory
		"br4.bc256.w1.k0.sp0.so1.pt1",    // Fast-LLM's two passes
		"br8.bc256.w1.p3.sp4096.so1.pt1", // and its single one
	},
}

// Every config of every family answers right, and twice with the same bits
// unless the family says that it does not. A third of the problems each day.
func TestHostStages(t *testing.T) {
	ran := map[string]int{}
	for i, p := range corners() {
		if assert.Sampled(i, 3) {
			checkAll(t, p, 7, ran)
		}
	}
	for design, labels := range published {
		for _, l := range labels {
			n := ran["rms_bwd/"+design+l] + ran["ln_bwd/"+design+l]
			assert.That(t, n >= 4, "%s@%s ran on %d problems only", design, l, n)
		}
	}
}

// Zeros, huge and tiny rows, infinities and NaN come out as the reference has
// them.
func TestHostile(t *testing.T) {
	for _, p := range hostile() {
		checkAll(t, p, reference.Hostile+3, map[string]int{})
	}
}

// checkRight is the digest of what a variant answers on p, which has to be right, twice.
func checkRight(t *testing.T, b kernels.Bench, p kernels.Problem, v kernels.Variant) uint64 {
	t.Helper()
	got, err := b.Check(context.Background(), v, 2)
	assert.NoError(t, err, v, "on", p)
	assert.That(t, got.OK() && !got.Breaks(),
		"%s on %s: %s; %d elements differ between runs", v, p, got.Reason(), got.Differing)
	return got.Digest
}

// checkAll checks every config, and counts the published ones that ran.
func checkAll(t *testing.T, p kernels.Problem, seed uint64, ran map[string]int) {
	t.Helper()
	r := families.New()
	dev := cpu.New(r)
	b, err := dev.Open(context.Background(), p, seed)
	assert.NoError(t, err)
	served := 0
	for _, f := range r.Families {
		if f.CheckServes(p) != nil || f.Hidden && !f.Stream { // the ruler's families write nothing
			continue
		}
		if p.M != 33 && p.M != 36 && !slices.Contains(own, path.Base(f.Name)) {
			continue // host stages of another family stand in: two shapes show that they do
		}
		s := f.Space(p, dev.Info())
		if len(s.Configs) > 0 && !f.Hidden {
			served++
		}
		digests := map[uint64]bool{}
		for _, c := range s.Configs {
			digests[checkRight(t, b, p, kernels.Variant{Family: f.Name, Config: c})] = true
		}
		for _, label := range published[path.Base(f.Name)] {
			v := devicetest.Variant(t, f.Name+"@"+label)
			if _, _, _, err := r.Resolve(p, v, dev.Info()); err == nil && p.Pass == kernels.Bwd {
				ran[f.Name+label]++
				checkRight(t, b, p, v)
			}
		}
		assert.That(t, f.Bits != kernels.Bitwise || len(digests) <= 1,
			"%s on %s: %d different results of %d configs, but it says it is bitwise", f.Name, p,
			len(digests), len(s.Configs))
	}
	if served == 0 {
		t.Logf("no family serves %s", p)
	}
}
