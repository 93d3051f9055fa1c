package kernels_test

import (
	"encoding/json"
	"math"
	"testing"

	"normbench/kernels"
)

// Load and Store move many elements with loops of their own: they must agree
// with At and Set, and leave the elements around alone.
func TestMemory(t *testing.T) {
	const n, off, count = 20, 3, 11
	for _, d := range kernels.DTypes() {
		m := kernels.NewMemory(d, n)
		if m.Len() != n {
			t.Fatalf("%v: %d elements, want %d", d, m.Len(), n)
		}
		m.Poison()
		for i := range int64(n) {
			if v := m.At(i); v == v {
				t.Fatalf("%v: poisoned element %d is %g", d, i, v)
			}
		}
		src := make([]float32, count)
		want := kernels.NewMemory(d, n)
		want.Poison()
		for i := range src {
			src[i] = float32(math.Sin(float64(i)) * math.Exp2(float64(i-5)))
			want.Set(off+int64(i), src[i])
		}
		m.Store(off, src)
		if k := m.Differing(want); k != 0 {
			t.Errorf("%v: Store and Set differ in %d elements", d, k)
		}
		dst := make([]float32, count)
		m.Load(dst, off)
		for i, v := range dst {
			if v != m.At(off+int64(i)) {
				t.Errorf("%v: Load gives %g at %d, At %g", d, v, i, m.At(off+int64(i)))
			}
			if err := math.Abs(float64(v - src[i])); err > math.Abs(float64(src[i]))*d.Epsilon()/2 {
				t.Errorf("%v: %g came back as %g", d, src[i], v)
			}
		}
		// Bits are compared, not values: 0 and -0 differ, NaN equals itself.
		c := m.Clone()
		if k := c.Differing(m); k != 0 {
			t.Errorf("%v: a clone differs in %d elements", d, k)
		}
		m.Set(0, 0)
		c.Set(0, float32(math.Copysign(0, -1)))
		c.Set(n-1, 1)
		if k := c.Differing(m); k != 2 {
			t.Errorf("%v: %d elements differ, want 2", d, k)
		}
	}
}

func TestNumberJSON(t *testing.T) {
	for _, f := range []float64{0, 1, -2.5, 1e-300, 1e300, 0.1, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)} {
		// An infinity in the middle of a line of records must not spoil the line.
		data, err := json.Marshal(struct{ N kernels.Number }{kernels.Number(f)})
		if err != nil {
			t.Errorf("%g: %v", f, err)
			continue
		}
		var back struct{ N kernels.Number }
		if err := json.Unmarshal(data, &back); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		if g := float64(back.N); g != f && !(g != g && f != f) {
			t.Errorf("%g became %s and %g", f, data, g)
		}
	}
	var n kernels.Number
	for _, bad := range []string{`"x"`, `true`, `{}`, `""`} {
		if err := json.Unmarshal([]byte(bad), &n); err == nil {
			t.Errorf("%s is the number %g", bad, float64(n))
		}
	}
}

func TestCheckReason(t *testing.T) {
	c := kernels.Check{Outputs: []kernels.OutputCheck{{Name: "y", Elems: 9}, {Name: "rstd", Elems: 3, Bad: 2, First: 1, Got: kernels.Number(math.NaN()), Want: 0.5}}}
	if want := "rstd is wrong in 2 of 3 elements, first at 1: got NaN, want 0.5"; c.OK() || c.Reason() != want {
		t.Errorf("%v, %q, want %q", c.OK(), c.Reason(), want)
	}
	if c.Outputs[1].Bad = 0; !c.OK() {
		t.Errorf("right outputs are not OK: %s", c.Reason())
	}
}
