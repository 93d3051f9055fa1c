package verify

import (
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
)

// faulty is a registry in which rms_fwd/faulty is a right forward that change alters afterwards, in the
// CTA of row 0.
func faulty(t *testing.T, change func(h *kernels.HostRun)) *kernels.Registry {
	t.Helper()
	r := families.New()
	plain, err := r.Lookup("rms_fwd/plain")
	assert.NoError(t, err)
	f := *plain
	f.Name, f.Bits = "rms_fwd/faulty", kernels.Bitwise
	f.Host = map[string]kernels.HostStage{"forward": func(h *kernels.HostRun, pid int) {
		plain.Host["forward"](h, pid)
		if pid == 0 {
			change(h)
		}
	}}
	r.Families = append(r.Families, &f)
	return r
}

func checkTask(t *testing.T, r *kernels.Registry, text string, hostile bool) *Verdicts {
	t.Helper()
	p := devicetest.Problem(t, text)
	c := &Checker{Registry: r, Device: cpu.New(r), Code: Host, Seed: 5, Hostile: hostile, Repeats: 2,
		Refs: func(kernels.Problem, kernels.Variant) string { return "" }, Now: func(kernels.Problem, string) {},
		Done: func(int) {}}
	f, err := r.Lookup("rms_fwd/faulty")
	assert.NoError(t, err)
	v := kernels.Variant{Family: f.Name, Config: f.Base(p, c.Device.Info())}
	found, err := c.Check(t.Context(), sweep.Task{Problem: p, Variants: []kernels.Variant{v}})
	assert.NoError(t, err)
	assert.Must(t, len(found) == 1, "%d verdicts", len(found))
	return found[0]
}

// scaleOfX is the largest element of the row of x that a CTA of row 0 sees.
func scaleOfX(h *kernels.HostRun) (most float32) {
	for j := range h.Problem.N {
		most = max(most, h.Mem["x"].At(j), -h.Mem["x"].At(j))
	}
	return most
}

// A fault that only some inputs show is found on those, and the reason says on which.
func TestEveryDrawIsChecked(t *testing.T) {
	spoil := func(when func(x float32) bool) *kernels.Registry {
		return faulty(t, func(h *kernels.HostRun) {
			if when(scaleOfX(h)) {
				h.Mem["y"].Set(0, 7)
			}
		})
	}
	for _, test := range []struct {
		name, problem, want string
		hostile             bool
		when                func(x float32) bool
	}{
		{"nothing", "rmsnorm/fwd/2x64/bf16", "", true, func(float32) bool { return false }},
		{"unit rows", "rmsnorm/fwd/2x64/bf16", "y is wrong in 1", false, func(x float32) bool { return x > 1 && x < 20 }},
		{"a mean", "rmsnorm/fwd/64x64/bf16", "on rows with a mean: y is wrong in 1", false, func(x float32) bool { return x > 20 && x < 200 }},
		{"zeros", "rmsnorm/fwd/2x64/bf16", "on rows of zeros: y is wrong in 1", false, func(x float32) bool { return x == 0 }},
		{"tiny", "rmsnorm/fwd/2x64/bf16", "on tiny rows: y is wrong in 1", false, func(x float32) bool { return x > 0 && x < 1e-2 }},
		{"large", "rmsnorm/fwd/1x64/fp16", "on large rows: y is wrong in 1", false, func(x float32) bool { return x > 500 }},
	} {
		k := checkTask(t, spoil(test.when), test.problem, test.hostile)
		reasons := strings.Join(k.Reasons, "")
		_, reason, _ := strings.Cut(reasons, ": ")
		assert.That(t, k.Configs == 1 && (k.Failed == 1) == (test.want != "") && strings.HasPrefix(reason, test.want) &&
			(test.want != "" || reasons == ""), "%s: %d of %d failed: %q, want %q", test.name, k.Failed, k.Configs,
			reasons, test.want)
	}
}

// A kernel that overwrites an input is named with it, though its outputs are right and their bits too.
func TestChangedInputFails(t *testing.T) {
	k := checkTask(t, faulty(t, func(h *kernels.HostRun) {
		if h.Mem["x"].At(3) > 0 { // once: what it has read before is what is compared
			h.Mem["x"].Set(3, -h.Mem["x"].At(3))
		}
	}), "rmsnorm/fwd/1x64/fp32", false)
	assert.That(t, k.Failed == 1 && strings.Contains(k.Reasons[0], "it has changed its input x") && k.Runs >= 1,
		"%d failed: %q", k.Failed, k.Reasons)
}

// The bits of several runs are compared on the first draw, and as many runs are reported as happened.
func TestBitsOfRunsAreCompared(t *testing.T) {
	run := 0
	k := checkTask(t, faulty(t, func(h *kernels.HostRun) {
		run++
		rstd := kernels.Elements[uint32](h.Mem["rstd"])
		rstd[0] ^= uint32(run & 1)
	}), "rmsnorm/fwd/64x64/bf16", false)
	assert.That(t, k.Failed == 1 && k.Differing == 1 && k.Runs == 2 && strings.Contains(k.Reasons[0], "change from run to run"),
		"%d failed, %d differ in %d runs: %q", k.Failed, k.Differing, k.Runs, k.Reasons)
}
