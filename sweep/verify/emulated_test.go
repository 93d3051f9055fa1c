package verify

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/families/manifest"
	"normbench/sweep"
	"normbench/sweep/shapes"
)

// What is emulated is small, three problems of each op and pass to a family, with each set of types
// in turn; shapes that were asked for come first. What else is checked of a family comes after.
func TestEmulatedTasksAreSmallAndAskedFirst(t *testing.T) {
	r := families.New()
	c := &run{CheckRequest: &CheckRequest{Registry: r}}
	c.seen = c.newCoverage()
	operands := []sweep.Operand{sweep.FamilyOperand(r, "rms_fwd/cta_reg")}
	var ps []kernels.Problem
	for _, text := range []string{"rmsnorm/fwd/32x64/bf16", "rmsnorm/fwd/32x64/fp16",
		"rmsnorm/fwd/4096x8192/bf16+bias", "layernorm/fwd/32x64/bf16"} {
		p := devicetest.Problem(t, text)
		ps = append(ps, p)
	}
	tasks, none := c.emulatedTasks(operands, ps, emulatedGPU())
	var got []string
	for _, t := range tasks {
		got = append(got, t.Problem.String())
	}
	const want = "rmsnorm/fwd/32x64/bf16 rmsnorm/fwd/21x72/fp16 rmsnorm/fwd/9x541/bf16+bias"
	assert.That(t, strings.HasPrefix(strings.Join(got, " "), want+" ") && len(none) == 0,
		"%v and %v, want %s", got, none, want)
	tasks, none = c.emulatedTasks(operands, ps[3:], emulatedGPU())
	assert.That(t, len(tasks) == 0 && len(none) == 1, "of another op: %v, %v", tasks, none)
}

// Of a user's kernel many rows, wide ones and fewer than multiprocessors are emulated, whatever was asked for; where they
// are too wide, narrower ones.
func TestKernelOfAUserIsEmulatedAtManyRowsWideOnesAndFew(t *testing.T) {
	for _, x := range []struct{ folder, family, asked, want string }{
		{"cuda", "rms_block", "typed", "32x64 4x64 397x72 6x5003 2x72"},
		{"cuda", "rms_block", "a group", "32x64 397x72 6x5003 2x72"},
		{"kernels", "rms_warp", "typed", "32x64 4x64 397x72 2x72 9x541"},
	} {
		r, users, err := manifest.Load(families.New(), "../../examples/"+x.folder)
		assert.NoError(t, err)
		ask := &CheckRequest{Registry: r, Users: users}
		if x.asked == "typed" {
			ask.Typed = []shapes.Shape{{M: 32, N: 64}, {M: 4, N: 64}}
		}
		c := &run{CheckRequest: ask}
		c.seen = c.newCoverage()
		ps := []kernels.Problem{devicetest.Problem(t, "rmsnorm/fwd/32x64/bf16"),
			devicetest.Problem(t, "rmsnorm/fwd/4x64/bf16")}
		tasks, _ := c.emulatedTasks([]sweep.Operand{sweep.FamilyOperand(r, x.family)}, ps, emulatedGPU())
		var got []string
		for _, task := range tasks {
			got = append(got, fmt.Sprintf("%dx%d", task.Problem.M, task.Problem.N))
		}
		assert.That(t, strings.Join(got, " ") == x.want, "%s of %s: %v, want %s", x.family, x.asked, got, x.want)
	}
}

// A family that is checked by itself is checked in more configs, types and options than was asked for: all
// values of most knobs, the same ones each time. Typed shapes and types that were asked for stay alone.
func TestFamilyIsCheckedInSeveralConfigsTypesAndOptions(t *testing.T) {
	r := families.New()
	names := func(c *run, problem string) (variants []string, knobs map[string]map[int]bool) {
		c.seen = c.newCoverage()
		tasks, _ := c.emulatedTasks(c.operands, []kernels.Problem{devicetest.Problem(t, problem)}, emulatedGPU())
		knobs = map[string]map[int]bool{}
		for _, task := range tasks {
			assert.NoError(t, task.Problem.Validate())
			for _, v := range task.Variants {
				variants = append(variants, task.Problem.String()+" "+v.String())
				f, err := r.Lookup(v.Family)
				assert.NoError(t, err)
				assert.NoError(t, f.Refuse(task.Problem, v.Config, emulatedGPU()))
				for _, s := range v.Config.Settings() {
					if knobs[s.Knob.Key] == nil {
						knobs[s.Knob.Key] = map[int]bool{}
					}
					knobs[s.Knob.Key][s.Value] = true
				}
			}
		}
		return variants, knobs
	}
	of := func(family string, ask CheckRequest) *run {
		ask.Registry = r
		return &run{CheckRequest: &ask, operands: []sweep.Operand{sweep.FamilyOperand(r, family)}}
	}
	first, knobs := names(of("rms_bwd/smem_pipe", CheckRequest{Vary: true}), "rmsnorm/bwd/32x64/bf16")
	again, _ := names(of("rms_bwd/smem_pipe", CheckRequest{Vary: true}), "rmsnorm/bwd/32x64/bf16")
	assert.That(t, len(first) > emulatedShapes+3 && strings.Join(first, " ") == strings.Join(again, " "), "%q", first)
	for key, want := range map[string]int{"cp": 2, "cl": 3, "st": 2, "br": 3, "w": 2} {
		assert.That(t, len(knobs[key]) >= want, "knob %s has %v only", key, knobs[key])
	}
	text := strings.Join(first, " ")
	for _, want := range []string{"fp16", "fp32", "+zc", "residual", "noweight"} {
		assert.That(t, strings.Contains(text, want), "no %s in %s", want, text)
	}
	asked, _ := names(of("rms_bwd/smem_pipe", CheckRequest{}), "rmsnorm/bwd/32x64/bf16")
	assert.That(t, len(asked) > emulatedShapes && !strings.Contains(strings.Join(asked, " "), "bf16+"), "asked: %q", asked)
	typed, _ := names(of("rms_bwd/smem_pipe", CheckRequest{Typed: []shapes.Shape{{M: 32, N: 64}}}), "rmsnorm/bwd/32x64/bf16")
	assert.That(t, len(typed) == emulatedShapes, "typed: %q", typed)
}

// A family that serves nothing without an option is checked with it, unless options were asked for.
func TestFamilyIsCheckedWithTheOptionThatItNeeds(t *testing.T) {
	r := families.New()
	var notes strings.Builder
	c := &run{CheckRequest: &CheckRequest{Registry: r, Vary: true,
		Problems: []kernels.Problem{devicetest.Problem(t, "rmsnorm/fwd/16x1024/bf16")}},
		Console:  console.New(t.Context(), nil, &notes),
		operands: []sweep.Operand{sweep.FamilyOperand(r, "rms_fwd/band"), sweep.FamilyOperand(r, "rms_fwd/cta_reg")}}
	c.addServed()
	assert.That(t, len(c.Problems) == 2 && c.Problems[1].String() == "rmsnorm/fwd/16x1024/bf16+fp8t" &&
		strings.Contains(notes.String(), "rms_fwd/band serves nothing without fp8 with its transpose"), "%v, %q",
		c.Problems, notes.String())
}
