package devicetest

import (
	"os"

	"testing"

	"normbench/kernels/cuda"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// The test kernels compile wherever they serve, and so does nothing that the
// files of the other families do not have.
func TestKernelsCompile(t *testing.T) {
	c, err := nvrtc.Find()
	if err != nil {
		if os.Getenv("NORMBENCH_REQUIRE_NVRTC") != "" {
			t.Fatal(err)
		}
		t.Skipf("no NVRTC: %v", err)
	}
	r := Registry(families.New())
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c)
	for _, text := range []string{"rmsnorm/fwd/33x541/bf16", "rmsnorm/fwd/33x541/fp16-wfp32+bias+zc"} {
		p := Problem(t, text)
		f, err := r.Lookup(Wrong) // all are entries of one file
		if err != nil {
			t.Fatal(err)
		}
		l := f.Plan(p, f.Base(p, H200()), H200()).Launches[0]
		u, err := cuda.NewUnit(r, &l, "sm_90")
		if err != nil {
			t.Fatal(err)
		}
		b, err := cache.Compile(u.Source, u.Options)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, f := range Families() {
			entry := f.Plan(p, f.Base(p, H200()), H200()).Launches[0].Entry
			if _, ok := b.Kernels[entry]; !ok {
				t.Errorf("%s has no entry %q", l.Source, entry)
			}
		}
	}
}
