package families_test

import (
	"context"
	"path"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/cpu"
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

// Every config of every family answers right, and twice with the same bits
// unless the family says that it does not. Half of the problems each day.
func TestHostStages(t *testing.T) {
	for i, p := range corners() {
		if sampled(i, 2) {
			checkAll(t, p, 7)
		}
	}
}

// Zeros, huge and tiny rows, infinities and NaN come out as the reference has
// them.
func TestHostile(t *testing.T) {
	for _, p := range hostile() {
		checkAll(t, p, reference.Hostile+3)
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

func checkAll(t *testing.T, p kernels.Problem, seed uint64) {
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
		if p.M != 33 && p.M != 36 && slices.ContainsFunc(f.Files,
			func(name string) bool { return path.Ext(name) == ".yaml" }) {
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
		assert.That(t, f.Bits != kernels.Bitwise || len(digests) <= 1,
			"%s on %s: %d different results of %d configs, but it says it is bitwise", f.Name, p,
			len(digests), len(s.Configs))
	}
	if served == 0 {
		t.Logf("no family serves %s", p)
	}
}
