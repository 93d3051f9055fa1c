package families_test

import (
	"context"
	"fmt"
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

// What the knobs mean for the plan, or why they cannot: testdata/knobs.txt. p says how many CTAs
// there are, whatever k says, but never more than tiles; the partial rows follow.
func TestKnobs(t *testing.T) {
	r := families.New()
	assert.Lines(t, "testdata/knobs.txt", func(input string) string {
		problem, variant, _ := strings.Cut(input, " ")
		p := devicetest.Problem(t, problem)
		_, _, plan, err := r.Resolve(p, devicetest.Variant(t, variant), h200)
		if err != nil {
			return assert.Refusal(t, err)
		}
		text := ""
		for _, l := range plan.Launches {
			text += fmt.Sprintf("%s of %d from %s, ", l.Stage, l.Grid[0], l.Args[0].Name)
		}
		for _, s := range plan.Scratch {
			size := fmt.Sprint(s.Elems)
			if s.Elems%p.N == 0 {
				size = fmt.Sprint(s.Elems/p.N, " * N")
			}
			text += fmt.Sprintf("%s %s[%s], ", s.Name, s.DType, size)
		}
		for _, x := range plan.Rounds {
			text += "rounds " + x.Output + ", "
		}
		return strings.TrimSuffix(text, ", ")
	})
}
