package devicetest

import (
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/cuda"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// The test kernels compile wherever they serve, and so does nothing that the
// files of the other families do not have.
func TestKernelsCompile(t *testing.T) {
	c, err := nvrtc.Find()
	assert.Needs(t, "NVRTC", err)
	r := Registry(families.New())
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c)
	for _, text := range []string{"rmsnorm/fwd/33x541/bf16",
		"rmsnorm/fwd/33x541/fp16-wfp32+bias+zc"} {
		p := Problem(t, text)
		f, err := r.Lookup(Wrong) // all are entries of one file
		assert.NoError(t, err)
		l := f.Plan(p, f.Base(p, H200()), H200()).Launches[0]
		u, err := cuda.NewUnit(r, &l, "sm_90")
		assert.NoError(t, err)
		b, err := cache.Compile(u.Source, u.Options)
		assert.NoError(t, err, text)
		for _, f := range Families() {
			entry := f.Plan(p, f.Base(p, H200()), H200()).Launches[0].Entry
			_, ok := b.Kernels[entry]
			assert.That(t, ok, "%s has no entry %q", l.Source, entry)
		}
	}
}
