package families_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/reference"
)

// bwdRules are configs that only published rules ask for: the grids of three
// designs leave them out, so TestHostStages does not see them. Knobs that a label
// leaves open come from the base.
var bwdRules = map[string][]string{
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

// bwdShapes are narrow and wide, odd, and with fewer rows than a tile.
var bwdShapes = [][2]int64{{19, 130}, {33, 541}, {70, 256}, {3, 1}, {1, 96}}

func bwdProblems() []kernels.Problem {
	var ps []kernels.Problem
	for i, s := range bwdShapes {
		for _, d := range kernels.DTypes() {
			for j, w := range []kernels.DType{d, kernels.FP32} {
				for k, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
					ps = append(ps, kernels.Problem{Op: op, Pass: kernels.Bwd, M: s[0], N: s[1],
						DType: d, Weight: w,
						Bias: (i/2+k)%2 == 1, ZeroCentered: (i+j)%2 == 1})
				}
			}
		}
	}
	for _, p := range options(33, 136) {
		if p.Pass == kernels.Bwd {
			ps = append(ps, p)
		}
	}
	return ps
}

// Every published rule's config answers right on every kind of problem, or is
// refused for its registers or its tile.
func TestBwdOptions(t *testing.T) {
	ran := map[string]int{}
	for _, p := range bwdProblems() {
		checkRules(t, p, 7, ran)
	}
	for _, p := range hostile() {
		if p.Pass == kernels.Bwd {
			checkRules(t, p, reference.Hostile+3, ran)
		}
	}
	for design, labels := range bwdRules {
		for _, l := range labels {
			n := ran[design+l]
			assert.That(t, n >= len(bwdProblems())/3, "%s@%s ran on %d problems only", design, l, n)
		}
	}
}

func checkRules(t *testing.T, p kernels.Problem, seed uint64, ran map[string]int) {
	t.Helper()
	r := families.New()
	dev := cpu.New(r)
	b, err := dev.Open(context.Background(), p, seed)
	assert.NoError(t, err)
	for design, labels := range bwdRules {
		for _, label := range labels {
			v := devicetest.Variant(t, kernels.FamilyName(p.Op, kernels.Bwd, design)+"@"+label)
			if _, _, _, err := r.Resolve(p, v, dev.Info()); err != nil {
				continue
			}
			ran[design+label]++
			checkRight(t, b, p, v)
		}
	}
}

// What the knobs mean for the plan. p says how many CTAs there are, whatever k says, but never more
// than tiles; the partial rows follow.
func TestBwdPlans(t *testing.T) {
	r := families.New()
	for _, test := range []struct {
		problem, variant string
		ctas             int
		scratch          kernels.DType
		first            string // argument
		rounds           string
	}{
		{"layernorm/bwd/4096x8192/bf16+bias", "ln_bwd/reg_persist@so1.pt1.p132.ro0", 132,
			kernels.BF16, "y", "dw db dw dx"},
		// 4 CTAs would have no rows
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/reg_persist@pt0.p132.ro1", 128, kernels.FP32, "x",
			""},
		{"rmsnorm/bwd/4096x8192/bf16-wfp32", "rms_bwd/reg_persist@pt1.p100", 100, kernels.FP32, "x",
			""},
		{"rmsnorm/bwd/4096x12288/bf16", "rms_bwd/two_pass@br1.bc8192.w16.k0.p0.sp0", 4096,
			kernels.FP32, "x", ""},
		{"rmsnorm/bwd/32768x1024/bf16", "rms_bwd/two_pass@br8.bc1024.w4.p264.sp1024.so1.pt1", 264,
			kernels.BF16, "y", "dw dw dx"},
		{"rmsnorm/bwd/8192x16384/bf16", "rms_bwd/two_pass@br1.bc16384.w32.p264.sp16384.so1.pt1.lb0",
			264, kernels.BF16, "y", "dw dw dx"},
		{"layernorm/bwd/8192x16384/bf16+bias",
			"ln_bwd/two_pass@br4.bc4096.w16.k0.p0.sp0.so1.pt1.lb0", 2048, kernels.BF16, "y",
			"dw db dw dx"},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/two_pass@k4.p1", 1, kernels.FP32, "x", ""},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/two_pass@k1.p0", 132, kernels.FP32, "x", ""},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/two_pass@br4.bc8192.p999999", 1024, kernels.FP32,
			"x", ""},
		{"layernorm/bwd/4096x1024/bf16+bias", "ln_bwd/reg_persist@k8.p77", 77, kernels.FP32, "x",
			""},
		{"rmsnorm/fwd/4096x1024/bf16", "rms_fwd/cta_reg@p77", 77, kernels.FP32, "x", ""},
		{"rmsnorm/fwd/4096x1024/bf16", "rms_fwd/two_pass@p77", 77, kernels.FP32, "x", ""},
	} {
		v := devicetest.Variant(t, test.variant)
		p := devicetest.Problem(t, test.problem)
		_, v, plan, err := r.Resolve(p, v, h200)
		if err != nil {
			t.Errorf("%s: %v", test.variant, err)
			continue
		}
		var rounds []string
		for _, x := range plan.Rounds {
			rounds = append(rounds, x.Output)
		}
		l := plan.Launches[0]
		assert.That(t, l.Grid[0] == test.ctas && l.Args[0].Name == test.first &&
			strings.Join(rounds, " ") == test.rounds &&
			!slices.ContainsFunc(plan.Scratch, func(s kernels.Scratch) bool {
				return s.DType != test.scratch || s.Elems != int64(test.ctas)*p.N
			}), "%s on %s:\n%s", v, p, plan)
	}
}

// What the knobs cannot mean is refused.
func TestBwdRefusals(t *testing.T) {
	r := families.New()
	for _, test := range []struct{ problem, variant, reason string }{
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/reg_persist@so2", "saved_output is 0 or 1"},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/two_pass@pt2", "partial_type is 0 or 1"},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/reg_persist@ch5", "cache hints are 1 or 4"},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/smem_pipe@cp2.ch4",
			"keeping x in the cache pays only"},
		{"rmsnorm/bwd/16384x8192/bf16", "rms_bwd/smem_pipe@cp1.cl1.ch4", "no legal instruction"},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/reg_persist@w16.lb5",
			"at most 32 CTAs and 64 warps"},
		{"rmsnorm/bwd/4096x8192/bf16", "rms_bwd/reg_persist@w16.lb4",
			"do not fit in its registers"},
		{"rmsnorm/bwd/4096x16384/bf16", "rms_bwd/two_pass@p132.pt1",
			"would be rounded with every tile"},
		{"rmsnorm/bwd/20000x262144/bf16", "rms_bwd/two_pass@br1.k0.p0", "of memory"},
		{"rmsnorm/bwd/4096x1024/bf16", "rms_bwd/two_pass@bc8192.w32", "idle"},
	} {
		v := devicetest.Variant(t, test.variant)
		_, _, _, err := r.Resolve(devicetest.Problem(t, test.problem), v, h200)
		assert.Error(t, err, test.reason, test.variant, "on", test.problem)
	}
}
