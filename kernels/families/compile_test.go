package families_test

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// h200 is the device that launch rules are tested for.
var h200 = kernels.DeviceInfo{
	ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200", Arch: "sm_90", Units: 132,
	CacheBytes: 60 << 20, MemoryBytes: 141e9, SharedPerBlock: 232448, RegsPerUnit: 65536,
}

// Every family's entries compile for every arch that we support, at the corners
// of its space. NVRTC needs no GPU, so CI runs this.
func TestCompile(t *testing.T) {
	c, err := nvrtc.Find()
	if err != nil {
		if os.Getenv("NORMBENCH_REQUIRE_NVRTC") != "" {
			t.Fatal(err)
		}
		t.Skipf("no NVRTC: %v", err)
	}
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c)
	r := families.New()
	units := map[string]cuda.Unit{}
	add := func(p kernels.Problem, archs ...string) {
		for _, f := range r.Families {
			if f.CheckServes(p) != nil {
				continue
			}
			configs := f.Space(p, h200).Configs
			if len(configs) == 0 {
				continue
			}
			for _, i := range []int{0, 1, len(configs) / 2, len(configs) - 1} {
				plan := f.Plan(p, configs[min(i, len(configs)-1)], h200)
				for _, l := range plan.Launches {
					if l.Entry == kernels.Memcpy {
						continue
					}
					for _, arch := range archs {
						u, err := cuda.NewUnit(r, &l, arch)
						if err != nil {
							t.Fatal(err)
						}
						units[fmt.Sprint(arch, u.Source.Name, u.Options.Defines)] = u
					}
				}
			}
		}
	}
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			p := kernels.Problem{Op: op, Pass: pass, M: 4096, N: 4096, DType: kernels.BF16, Weight: kernels.BF16, Bias: op == kernels.LayerNorm}
			add(p, "sm_80", "sm_90", "sm_100")
			p.N, p.DType, p.ZeroCentered = 541, kernels.FP16, true
			add(p, "sm_90")
			p.N, p.DType, p.Weight = 384, kernels.BF16, kernels.FP32
			add(p, "sm_90")
		}
	}
	t.Logf("%d units", len(units))

	var mu sync.Mutex
	var wg sync.WaitGroup
	jobs := make(chan cuda.Unit)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for u := range jobs {
				b, err := cache.Compile(u.Source, u.Options)
				mu.Lock()
				if err != nil {
					t.Errorf("%s for %s with %v: %v", u.Source.Name, u.Options.Arch, u.Options.Defines, err)
				} else if testing.Verbose() {
					for name, k := range b.Kernels {
						t.Logf("%s %s: %d registers, %d bytes spilled; %v", u.Options.Arch, name, k.Registers, k.SpillStoreBytes, u.Options.Defines)
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, k := range slices.Sorted(maps.Keys(units)) {
		jobs <- units[k]
	}
	close(jobs)
	wg.Wait()
}
