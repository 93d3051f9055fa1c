package families_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// problems are those of all ops and passes, of rows, columns, types and options as text: ? is a bias in
// ops that have one by default. What is no problem is left out.
func problems(kinds ...string) (ps []kernels.Problem) {
	for _, kind := range kinds {
		for _, op := range kernels.Ops() {
			text := strings.ReplaceAll(kind, "?", map[bool]string{true: "+bias"}[op.Bias])
			for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
				if p, err := kernels.ParseProblem(fmt.Sprint(op.Op, "/", pass, "/", text)); err == nil {
					ps = append(ps, p)
				}
			}
		}
	}
	return ps
}

// corners are the shapes and options where indexing goes wrong: one row, one
// column, odd and prime columns, more tiles than CTAs and fewer; then every
// type and every option.
func corners() []kernels.Problem {
	ps := problems("1x1/bf16?", "1x8192/bf16?", "3x1/bf16?", "5x7/bf16?", "33x541/bf16?", "64x256/bf16?",
		"130x96/bf16?", "17x4100/bf16?", "19x130/bf16+zc", "19x130/bf16-wfp32+bias+zc", "19x130/fp16+zc",
		"19x130/fp16-wfp32+bias+zc", "19x130/fp32+bias+zc", "19x130/fp32")
	return slices.Concat(ps, options("33x136"), transposed())
}

// transposed are problems of fp8 with its transpose, in tiles of 4x4 bytes: a band that is
// not full, several strips, vectors of 8 bytes, and every option.
func transposed() []kernels.Problem {
	ps := problems("68x260/fp32-wbf16+fp8t")
	for _, shape := range []string{"4x4", "36x136", "132x516", "48x256"} {
		for _, with := range []string{"", "+bias", "+noweight", "+residual", "+bias+zc+residual"} {
			ps = append(ps, problems(shape+"/bf16"+with+"+fp8t")...)
		}
	}
	return ps
}

// options are the problems of one shape with each option that a pass has.
func options(shape string) []kernels.Problem {
	shape += "/bf16"
	return problems(shape+"+noweight", shape+"+residual", shape+"+bias+zc+residual", shape+"+fp8",
		shape+"+bias+fp8t", shape+"+bias+acc", shape+"+sigmoid", shape+"+bias+gatefirst",
		shape+"+bias+zc+nodw+sigmoid+gatefirst", shape+"+noweight+gatefirst", shape+"+bias+acc+gatefirst")
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
func TestHostStagesAnswerRight(t *testing.T) {
	ran := map[string]int{}
	for i, p := range corners() {
		if assert.Sampled(i, 3) {
			checkAll(t, p, kernels.Inputs{Seed: 7}, ran)
		}
	}
	for design, labels := range published {
		for _, l := range labels {
			n := ran["rms_bwd/"+design+l] + ran["ln_bwd/"+design+l]
			assert.That(t, n >= 4, "%s@%s ran on %d problems only", design, l, n)
		}
	}
}

// Zeros, huge and tiny rows, rows with a mean, infinities and NaN come out as the reference has them.
func TestHostStagesAnswerRightOnEveryDraw(t *testing.T) {
	for _, p := range problems("24x136/bf16?", "24x136/fp16?", "24x136/fp32?", "16x136/bf16+fp8",
		"16x136/bf16+fp8t", "2x136/bf16?", "1x541/fp16?", "24x136/fp32+bias+gatefirst", "24x136/fp16+gatefirst",
		"24x136/fp16+sigmoid", "1x1/fp32+bias+gatefirst", "1x1/fp32+sigmoid", "1x3/fp32") {
		for _, draw := range kernels.CheckDraws(p, true)[1:] {
			checkAll(t, p, kernels.Inputs{Seed: 3, Draw: draw}, map[string]int{})
		}
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
func checkAll(t *testing.T, p kernels.Problem, in kernels.Inputs, ran map[string]int) {
	t.Helper()
	r := families.New()
	dev := cpu.New(r)
	b, err := dev.Open(context.Background(), p, in)
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
