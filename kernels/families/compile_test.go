package families_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/cuda"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// h200 is the device that launch rules are tested for.
var h200 = func() kernels.DeviceInfo {
	d := devicetest.H200()
	d.Clusters = [4]int{66, 30, 15, 7} // as one chip said; others of the model differ
	return d
}()

// device is the H200 as one of another arch, for rules that ask for it.
func device(arch string) kernels.DeviceInfo {
	d := h200
	d.Arch = arch
	if arch == "sm_80" {
		d.SharedPerBlock = 163 << 10
	}
	return d
}

// compiler finds NVRTC.
func compiler(t *testing.T) *nvrtc.Compiler {
	t.Helper()
	c, err := nvrtc.Find()
	assert.Needs(t, "NVRTC", err)
	return c
}

// A unitCase has what is compiled, and the launches whose entries it must have. One that is tight may not spill.
type unitCase struct {
	cuda.Unit
	launches []kernels.Launch
	tight    bool
}

// Every family's entries compile for every arch that we support, at the corners of its space, and those
// of devicetest too; and so do those of testdata/compile.txt. Each takes the arguments of its launches. NVRTC needs no GPU, so CI runs this. So
// does each source by itself, without a define. Without `make test-all` it is those, one unit of each
// source and an eighth of the others.
func TestEveryEntryCompilesForEveryArch(t *testing.T) {
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), compiler(t))
	r, analytic := devicetest.Registry(families.New()), families.NewRegistry()
	units := map[string]unitCase{}
	add := func(plan kernels.Plan, arch string, tight bool) {
		for _, l := range plan.Launches {
			if l.IsKernel() {
				u, err := cuda.NewUnit(r, &l, arch)
				assert.NoError(t, err)
				key := fmt.Sprint(arch, u.Source.Name, u.Options.Defines)
				units[key] = unitCase{u, append(units[key].launches, l), tight || units[key].tight}
			}
		}
	}
	corners := func(p kernels.Problem, archs ...string) {
		for _, f := range r.Families {
			for _, arch := range archs {
				if d := device(arch); f.CheckServes(p) == nil {
					configs, _ := f.Configs(p, d)
					// The first and the last differ in every knob that can.
					for i := 0; i < len(configs); i += max(len(configs)-1, 1) {
						add(f.Plan(p, configs[i], d), arch, false)
					}
				}
			}
		}
	}
	for _, p := range problems("4096x4096/bf16?") {
		corners(p, "sm_80", "sm_90", "sm_100")
	}
	for _, p := range append(problems("4096x541/fp16-wbf16?+zc", "4096x541/fp16"),
		options("8192x1024")...) {
		corners(p, "sm_90")
		if p.Transpose {
			corners(p, "sm_80", "sm_100")
		}
	}
	for line := range strings.Lines(string(assert.File(t, "testdata/compile.txt"))) {
		problem, variant, listed := strings.Cut(strings.TrimSpace(line), " ")
		if problem == "" || problem[0] == '#' {
			continue
		}
		p, reg := devicetest.Problem(t, problem), r
		v, err := r.Base(p, h200)
		assert.NoError(t, err)
		if listed {
			v, reg = devicetest.Variant(t, variant), analytic
		}
		f, v, plan, err := reg.Resolve(p, v, h200)
		assert.NoError(t, err, line)
		valid(t, p, h200, f, v.Config, plan)
		add(plan, h200.Arch, p.Transpose)
	}
	for _, source := range embedded(t, ".cu") { // each has a default of every macro
		u, err := cuda.NewUnit(r, &kernels.Launch{Source: source}, "sm_90")
		assert.NoError(t, err)
		units[source] = unitCase{Unit: u}
	}
	t.Logf("%d units", len(units))

	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	seen := map[string]bool{}
	for i, k := range slices.Sorted(maps.Keys(units)) {
		u := units[k]
		if !assert.Sampled(i, 8) && seen[u.Source.Name] && len(u.Options.Defines) > 0 {
			continue
		}
		seen[u.Source.Name] = true
		all.Go(func() error {
			what := fmt.Sprint(u.Source.Name, " for ", u.Options.Arch, " with ", u.Options.Defines)
			b, err := cache.Compile(u.Source, u.Options)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return nil
			}
			for _, l := range u.launches {
				_, ok := b.Kernels[b.Symbol(l.Entry)]
				assert.That(t, ok, "%s has no entry %q", what, l.Entry)
				_, told := b.Params(l.Entry)
				err := cuda.CheckArgs(b, &l)
				assert.That(t, (told || len(l.Args) == 0) && err == nil, "%s: parameters of %s are told: %t, %v", what, l.Entry, told, err)
			}
			for name, k := range b.Kernels {
				// An array that is indexed at run time lies in local memory, without a word and
				// without a spill: that once cost rms_fwd/one_shot a sixth of its speed.
				assert.That(t, k.StackBytes <= 0 || k.SpillStoreBytes != 0 && !u.tight,
					"%s: %s has %d bytes of stack and spills %d", what, name, k.StackBytes, k.SpillStoreBytes)
				t.Logf("%s: %s: %d registers, %d bytes spilled", what, name, k.Registers,
					k.SpillStoreBytes)
			}
			return nil
		})
	}
	all.Wait() //nolint:errcheck // each has said its own
}
