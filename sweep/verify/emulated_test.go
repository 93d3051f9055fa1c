package verify

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
)

// What is emulated is small, three problems of each op and pass to a family, with each set of types
// in turn; shapes that were asked for come first.
func TestEmulatedTasksAreSmallAndAskedFirst(t *testing.T) {
	r := families.New()
	c := &run{CheckRequest: &CheckRequest{Registry: r}}
	c.seen = c.newCoverage(nil)
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
	assert.That(t, strings.Join(got, " ") == want && len(none) == 0,
		"%v and %v, want %s", got, none, want)
	tasks, none = c.emulatedTasks(operands, ps[3:], emulatedGPU())
	assert.That(t, len(tasks) == 0 && len(none) == 1, "of another op: %v, %v", tasks, none)
}
