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
	"normbench/kernels/cuda"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
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

// Every family's entries compile for every arch that we support, at the corners of its space, and those
// of devicetest too. NVRTC needs no GPU, so CI runs this. So does each source by itself, without a
// define. Without `make test-all` it is those, one unit of each source and an eighth of the others.
func TestCompile(t *testing.T) {
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), compiler(t))
	r := devicetest.Registry(families.New())
	units, entries := map[string]cuda.Unit{}, map[string][]string{}
	add := func(p kernels.Problem, archs ...string) {
		for _, f := range r.Families {
			if f.CheckServes(p) != nil {
				continue
			}
			for _, arch := range archs {
				d := device(arch)
				configs, _ := f.Configs(p, d)
				if len(configs) == 0 {
					continue
				}
				// The first and the last differ in every knob that can.
				for _, c := range []kernels.Config{configs[0], configs[len(configs)-1]} {
					for _, l := range f.Plan(p, c, d).Launches {
						if !l.IsKernel() {
							continue
						}
						u, err := cuda.NewUnit(r, &l, arch)
						assert.NoError(t, err)
						key := fmt.Sprint(arch, u.Source.Name, u.Options.Defines)
						units[key], entries[key] = u, append(entries[key], l.Entry)
					}
				}
			}
		}
	}
	for _, p := range problems("4096x4096/bf16?") {
		add(p, "sm_80", "sm_90", "sm_100")
	}
	for _, p := range append(problems("4096x541/fp16-wbf16?+zc", "4096x541/fp16"),
		options("8192x1024")...) {
		add(p, "sm_90")
		if p.Transpose {
			add(p, "sm_80", "sm_100")
		}
	}
	for _, source := range embedded(t, ".cu") { // each has a default of every macro
		u, err := cuda.NewUnit(r, &kernels.Launch{Source: source}, "sm_90")
		assert.NoError(t, err)
		units[source] = u
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
			for _, entry := range entries[k] {
				_, ok := b.Kernels[b.Symbol(entry)]
				assert.That(t, ok, "%s has no entry %q", what, entry)
			}
			for name, k := range b.Kernels {
				// An array that is indexed at run time lies in local memory, without a word and
				// without a spill: that once cost rms_fwd/one_shot a sixth of its speed.
				assert.That(t, k.StackBytes <= 0 || k.SpillStoreBytes != 0,
					"%s: %s has %d bytes of stack and spills nothing", what, name, k.StackBytes)
				t.Logf("%s: %s: %d registers, %d bytes spilled", what, name, k.Registers,
					k.SpillStoreBytes)
			}
			return nil
		})
	}
	all.Wait() //nolint:errcheck // each has said its own
}

// TestCompileListed compiles testdata/compile.txt, a sixth each day. NVRTC 13.0 makes an illegal
// instruction of one more.
func TestCompileListed(t *testing.T) {
	c := compiler(t)
	cache, r, analytic := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c), families.New(), families.With()
	try := func(line string, compile bool) error {
		problem, variant, listed := strings.Cut(line, " ")
		p, reg := devicetest.Problem(t, problem), r
		v, err := r.Base(p, h200)
		assert.NoError(t, err)
		if listed {
			v, reg = devicetest.Variant(t, variant), analytic
		}
		f, v, plan, err := reg.Resolve(p, v, h200)
		assert.NoError(t, err, line)
		valid(t, p, h200, f, v.Config, plan)
		for _, l := range plan.Launches {
			if !l.IsKernel() || !compile {
				continue
			}
			u, err := cuda.NewUnit(r, &l, h200.Arch)
			assert.NoError(t, err)
			b, err := cache.Compile(u.Source, u.Options)
			if err != nil {
				return err
			}
			for name, k := range b.Kernels {
				assert.That(t, !p.Transpose || k.SpillStoreBytes <= 0,
					"%s: %s spills %d bytes", line, name, k.SpillStoreBytes)
			}
		}
		return nil
	}
	for i, line := range strings.Split(string(assert.File(t, "testdata/compile.txt")), "\n") {
		if line != "" && line[0] != '#' {
			assert.NoError(t, try(line, assert.Sampled(i, 6)), line)
		}
	}
	if major, minor := c.Version(); major != 13 || minor != 0 {
		t.Skipf("NVRTC %d.%d may know better than 13.0", major, minor)
	}
	assert.Error(t, try("rmsnorm/fwd/5557x11776/bf16 "+
		"rms_fwd/smem_pipe@br1.w4.v0.st1.k0.cp1.rl1.cl2.ch6", true),
		"cache policy", "what an H200 ended with an illegal instruction compiles")
}
