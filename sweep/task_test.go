package sweep

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

func parse(t testing.TB, texts ...string) []kernels.Problem {
	t.Helper()
	var ps []kernels.Problem
	for _, text := range texts {
		p := devicetest.Problem(t, text)
		ps = append(ps, p)
	}
	return ps
}

// pool are problems of every op and pass, with one and two launches.
var pool = []string{
	"rmsnorm/bwd/300x1024/bf16",
	"rmsnorm/fwd/64x256/bf16",
	"layernorm/bwd/128x512/fp16+bias",
	"layernorm/fwd/33x541/fp32+bias",
	"rmsnorm/bwd/64x16384/bf16", // its base is two_pass
	"rmsnorm/fwd/1x1000/bf16-wfp32+zc",
}

// Whatever is asked for, the tasks are the problems in order, each with its base
// first and once, no variant twice, all of them complete and runnable, and of
// the families asked for.
func TestGrid(t *testing.T) {
	r := families.New()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, d := range []kernels.DeviceInfo{devicetest.H200(), devicetest.CPU()} {
		for range 6 {
			var ps []kernels.Problem
			for _, i := range rnd.Perm(len(pool))[:1+rnd.IntN(3)] {
				ps = append(ps, parse(t, pool[i])...)
			}
			var only []string
			if rnd.IntN(2) == 0 { // a family of each problem, so that none is in vain
				for _, p := range ps {
					fs := r.FamiliesFor(p)
					if f := fs[rnd.IntN(len(fs))].Name; !slices.Contains(only, f) {
						only = append(only, f)
					}
				}
			}
			var override []kernels.Range
			has := func(name string) bool {
				f, _ := r.Lookup(name)
				return slices.ContainsFunc(f.Knobs,
					func(k kernels.Range) bool { return k.Knob == kernels.BlockRows })
			}
			if rnd.IntN(2) == 0 && (only == nil || slices.ContainsFunc(only, has)) {
				override = append(override, kernels.Values(kernels.BlockRows, 1<<rnd.IntN(3)))
			}
			tasks, err := Grid(t.Context(), r, ps, d, only, override)
			if override != nil && err != nil && strings.Contains(err.Error(), "--knob br") {
				continue // every config with these rows is refused
			}
			assert.NoError(t, err, ps, "only", only, "override", override)
			assert.Must(t, len(tasks) == len(ps), "%d tasks of %d problems", len(tasks), len(ps))
			for i, task := range tasks {
				base, err := r.Base(ps[i], d)
				assert.That(t, err == nil && task.Problem == ps[i] && task.Base == base &&
					task.Variants[0] == base,
					"task %d is %s with base %s first %s, want %s with %s (%v)", i, task.Problem,
					task.Base, task.Variants[0], ps[i], base, err)
				seen := map[kernels.Variant]bool{}
				covered := map[string]bool{}
				for _, v := range task.Variants {
					assert.That(t, !seen[v], "%s has %s twice", task.Problem, v)
					seen[v] = true
					_, full, _, err := r.Resolve(task.Problem, v, d)
					assert.That(t, err == nil && full == v,
						"%s has %s, which is %s, %v", task.Problem, v, full, err)
					if v == base {
						continue
					}
					covered[v.Family] = true
					assert.That(t, len(only) == 0 || slices.Contains(only, v.Family),
						"%s has %s, but only %q were asked for", task.Problem, v, only)
					for _, o := range override {
						x, ok := v.Config.Lookup(o.Knob)
						assert.That(t, !ok || slices.Contains(o.Values, x),
							"%s has %s against override %v", task.Problem, v, o)
					}
				}
				if len(only) > 0 || len(override) > 0 {
					continue
				}
				refused := 0
				for _, f := range r.Candidates(task.Problem) {
					s := f.Space(task.Problem, d)
					refused += len(s.Refused)
					assert.That(t, covered[f.Name] || len(s.Configs) <= 1,
						"%s has nothing of %s", task.Problem, f.Name)
				}
				assert.Equal(t, task.Refused, refused, task.Problem, "refused")
			}
		}
	}
}
