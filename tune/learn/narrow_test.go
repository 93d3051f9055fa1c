package learn

import (
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
	"normbench/tune/rules"
)

// A box ends where the registry begins to refuse, not at the last place of a coarse lattice before it: one column of
// each kind of rows further is refused.
func TestNarrow(t *testing.T) {
	d := devicetest.H200()
	j := launchrule.Judge{Registry: families.New(), Device: d}
	p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, DType: kernels.BF16, Weight: kernels.BF16}
	v, err := kernels.ParseVariant("rms_fwd/smem_pipe@br1.w16.v16.st1.k2.p0.ro0.cp1.rl0.cl1.lb0.ch2")
	if err != nil {
		t.Fatal(err)
	}
	r := launchrule.Recipe{Family: v.Family, Config: v.Config}
	var in []kernels.Problem
	for _, n := range []int64{33001, 41377, 46915, 65001} {
		p.M, p.N = 1000, n
		in = append(in, p)
	}
	h := launchrule.Hull{NMin: 64, NMax: 1 << 16, MMin: 1, MMax: 1 << 13, ElemsMax: 1 << 40}
	b, ok := newNarrower(launchrule.ClassOf(p), j).Narrow(launchrule.Box{NOver: 32768, RowUneven: 16, MOver: launchrule.Whole(1)}, r, h, in)
	if !ok || b.RowUneven == 0 || b.NMax == 0 {
		t.Fatalf("%v, %s", ok, b)
	}
	refused := int64(0)
	for n := int64(32769); n <= 1<<16 && refused == 0; n++ {
		if p.N = n; n%8 != 0 && !rules.Offers(j, p, r) {
			refused = n
		}
	}
	if b.NMax >= refused || b.NMax < refused-8 {
		t.Errorf("%s, and %d columns are the first that are refused", b, refused)
	}
}
