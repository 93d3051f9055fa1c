package families_test

import (
	"fmt"
	"testing"

	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/cuda"
	"normbench/kernels/families"
	"normbench/kernels/nvrtc"
)

// tiles are TransformerEngine's six (PR 593), of which the grids cross two.
var tiles = []string{"tr32.tc64.tw4", "tr64.tc64.tw4", "tr64.tc128.tw4", "tr128.tc64.tw4", "tr128.tc128.tw8", "tr64.tc64.tw8"}

// fp8Forwards are the families that transpose.
var fp8Forwards = []string{"rms_fwd/cta_reg", "rms_fwd/two_pass"}

// Every tile transposes what is smaller than it, equal to it, and a bit larger;
// so does k1 by itself.
func TestTransposeTiles(t *testing.T) {
	r := families.New()
	for _, shape := range []string{"1x40", "40x1", "31x17", "64x64", "65x130", "129x257"} {
		p := problem(t, "rmsnorm/fwd/"+shape+"/bf16+fp8t")
		dev := cpu.New(r)
		b, err := dev.Open(t.Context(), p, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range fp8Forwards {
			for _, label := range append([]string{"tp0"}, tiles...) {
				v, err := kernels.ParseVariant(family + "@" + label)
				if err != nil {
					t.Fatal(err)
				}
				got, err := b.Check(t.Context(), v, 1)
				if err != nil || !got.OK() {
					t.Errorf("%s on %s: %v %s", v, p, err, got.Reason())
				}
			}
		}
		b.Close()
	}
}

// The transpose compiles for rows of any alignment on either side.
func TestTransposeCompiles(t *testing.T) {
	c, err := nvrtc.Find()
	if err != nil {
		t.Skipf("no NVRTC: %v", err) // TestCompile says whether that is fine
	}
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), c)
	r, d := families.New(), device("sm_90")
	for i, shape := range []string{"31x17", "31x64", "64x17", "36x20", "40x24", "64x64"} {
		v, err := kernels.ParseVariant(fp8Forwards[1] + "@" + tiles[i])
		if err != nil {
			t.Fatal(err)
		}
		_, _, plan, err := r.Resolve(problem(t, fmt.Sprintf("rmsnorm/fwd/%s/bf16+fp8t", shape)), v, d)
		if err != nil {
			t.Fatal(err)
		}
		u, err := cuda.NewUnit(r, &plan.Launches[len(plan.Launches)-1], d.Arch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cache.Compile(u.Source, u.Options); err != nil {
			t.Errorf("%s on %s: %v", v, shape, err)
		}
	}
}
