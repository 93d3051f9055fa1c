package families_test

import (
	"cmp"
	"fmt"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// TestLargeDefaultsCompile compiles what the default launches where x is larger than two L2, at
// widths that are no power of two: the cache policy that it has there once made illegal
// instructions of asynchronous copies (nvrtc.checkCopies).
func TestLargeDefaultsCompile(t *testing.T) {
	c := compiler(t)
	cache, r := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c), families.New()
	compile := func(p kernels.Problem, v kernels.Variant) error {
		_, _, plan, err := r.Resolve(p, v, h200)
		assert.NoError(t, err)
		for _, u := range unitsOf(t, r, plan, h200.Arch) {
			if _, err := cache.Compile(u.Source, u.Options); err != nil {
				return err
			}
		}
		return nil
	}
	for i, n := range []int64{200, 264, 640, 768, 1160, 2560, 3072, 5120, 6144, 9216, 10922, 11776,
		14336, 20480, 28672, 45568, 49152} {
		if !sampled(i, 6) {
			continue
		}
		for _, class := range []string{"rmsnorm/fwd/%dx%d/bf16", "layernorm/fwd/%dx%d/bf16+bias"} {
			p := devicetest.Problem(t, fmt.Sprintf(class, 66<<20/n+1, n))
			v, err := r.Base(p, h200)
			assert.NoError(t, err)
			assert.NoError(t, compile(p, v), p, v)
		}
	}
	// The map once had a config here that NVRTC 13.0 compiles at other columns.
	p := devicetest.Problem(t, "layernorm/fwd/39239x5120/bf16+bias")
	if v, err := r.Base(p, h200); err != nil || compile(p, v) != nil {
		t.Errorf("%s %v: %v", p, v, cmp.Or(err, compile(p, v)))
	}
	if major, minor := c.Version(); major != 13 || minor != 0 {
		t.Skipf("NVRTC %d.%d may know better than 13.0", major, minor)
	}
	p = devicetest.Problem(t, "rmsnorm/fwd/5557x11776/bf16")
	v := devicetest.Variant(t, "rms_fwd/smem_pipe@br1.w4.v0.st1.k0.cp1.rl1.cl2.ch6")
	assert.Error(t, compile(p, v), "cache policy",
		"what an H200 ended with an illegal instruction compiles")
}
