package sweep

import (
	"errors"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
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
func TestGridHasEachVariantOnceBaseFirst(t *testing.T) {
	r, ps := registry, parse(t, pool[:3]...)
	var only []string // a family of each problem, so that none is in vain
	for _, p := range ps {
		fs := r.FamiliesFor(p)
		only = append(only, fs[len(fs)-1].Name)
	}
	for _, d := range []kernels.DeviceInfo{devicetest.H200(), devicetest.CPU()} {
		for _, ask := range []struct {
			only     []string
			override []kernels.Range
		}{{}, {only: only}, {override: []kernels.Range{kernels.Values(kernels.BlockRows, 1, 2)}}} {
			tasks, err := Grid(t.Context(), r, ps, d, ask.only, ask.override)
			assert.NoError(t, err, ask)
			assert.Must(t, len(tasks) == len(ps), "%d tasks of %d problems", len(tasks), len(ps))
			for i, task := range tasks {
				base, err := r.Base(ps[i], d)
				assert.That(t, err == nil && task.Problem == ps[i] && task.Base == base &&
					task.Variants[0] == base,
					"task %d is %s with base %s first %s, want %s with %s (%v)", i, task.Problem,
					task.Base, task.Variants[0], ps[i], base, err)
				seen, covered := map[kernels.Variant]bool{}, map[string]bool{}
				for _, v := range task.Variants {
					_, full, _, err := r.Resolve(task.Problem, v, d)
					assert.That(t, err == nil && full == v && !seen[v], "%s has %s, which is %s, %v",
						task.Problem, v, full, err)
					seen[v] = true
					if v == base {
						continue
					}
					covered[v.Family] = true
					rows, ok := v.Config.Lookup(kernels.BlockRows)
					assert.That(t, (ask.only == nil || slices.Contains(only, v.Family)) &&
						(ask.override == nil || !ok || rows <= 2), "%s has %s, for %v", task.Problem, v, ask)
				}
				if ask.only != nil || ask.override != nil {
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

// A family against itself: its own default is the base of the problems that it serves. Those that it refuses
// its default for are named, and a family that has none for any is refused by its own reason.
func TestOwnDefaultIsTheBaseOfAFamilyAgainstItself(t *testing.T) {
	info := devicetest.CPU()
	ps := parse(t, "rmsnorm/fwd/8x64/bf16", "rmsnorm/fwd/16x64/bf16", "rmsnorm/fwd/8x96/bf16", "rmsnorm/bwd/8x64/bf16")
	config := func(w int) kernels.Config {
		return kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: w})
	}
	mine := &kernels.Family{Name: "mine", Op: kernels.RMSNorm, Pass: kernels.Fwd,
		Knobs: []kernels.Range{kernels.Values(kernels.Warps, 4, 8)},
		Serves: func(p kernels.Problem) error {
			if p.M != 8 {
				return errors.New("eight rows")
			}
			return nil
		},
		Base: func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return config(8) },
		Refuse: func(p kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) error {
			if p.N == 96 && c == config(8) || p.N == 128 {
				return errors.New("too wide")
			}
			return nil
		},
		Plan: func(_ kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) kernels.Plan {
			return kernels.Plan{Launches: []kernels.Launch{{Block: c.Get(kernels.Warps)}}}
		}}
	r := families.New()
	r.Families = append(r.Families, mine)
	tasks, refused, err := AgainstItself(t.Context(), r, ps, info, "mine", nil)
	assert.NoError(t, err)
	assert.Must(t, len(tasks) == 1 && len(refused) == 1, "%v, %v", tasks, refused)
	task := tasks[0]
	own := kernels.Variant{Family: "mine", Config: config(8)}
	assert.That(t, task.Problem == ps[0] && task.BaseOf == "mine" && task.Base == own && len(task.Variants) == 1 &&
		!task.Rivals(kernels.Variant{Family: "rms_fwd/cta_reg"}), "%+v", task)
	assert.Refused(t, refused[0], "mine refuses its own default w8 for rmsnorm/fwd/8x96/bf16: too wide")
	_, _, err = AgainstItself(t.Context(), r, ps[2:3], info, "mine", nil)
	assert.Refused(t, err, "mine refuses its own default w8 for rmsnorm/fwd/8x96/bf16: too wide")
	_, _, err = AgainstItself(t.Context(), r, ps[3:], info, "mine", nil)
	assert.Refused(t, err, "family mine serves none of the problems asked for")
	_, _, err = AgainstItself(t.Context(), r, parse(t, "rmsnorm/fwd/8x128/bf16"), info, "mine", nil)
	assert.Refused(t, err, "every config of family mine is refused, at first as too wide")
}
