package kernels_test

import (
	"math"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// Load and Store move many elements with loops of their own: they must agree
// with At and Set, and leave the elements around alone.
func TestMemory(t *testing.T) {
	const n, off, count = 20, 3, 11
	for _, d := range kernels.DTypes() {
		m := kernels.NewMemory(d, n)
		assert.Must(t, m.Len() == n, "%v: %d elements, want %d", d, m.Len(), n)
		m.Poison()
		for i := range int64(n) {
			v := m.At(i)
			assert.Must(t, v != v, "%v: poisoned element %d is %g", d, i, v)
		}
		src := make([]float32, count)
		want := kernels.NewMemory(d, n)
		want.Poison()
		for i := range src {
			src[i] = float32(math.Sin(float64(i)) * math.Exp2(float64(i-5)))
			want.Set(off+int64(i), src[i])
		}
		m.Store(off, src)
		assert.Equal(t, m.Differing(want), 0, d, "Store and Set differ in", "elements")
		dst := make([]float32, count)
		m.Load(dst, off)
		for i, v := range dst {
			assert.Equal(t, v, m.At(off+int64(i)), d, "Load", "at", i, "At")
			assert.That(t, math.Abs(float64(v-src[i])) <= math.Abs(float64(src[i]))*d.Epsilon()/2,
				"%v: %g came back as %g", d, src[i], v)
		}
		// Bits are compared, not values: 0 and -0 differ, NaN equals itself.
		c := m.Clone()
		assert.Equal(t, c.Differing(m), 0, d, "a clone differs in", "elements")
		m.Set(0, 0)
		c.Set(0, float32(math.Copysign(0, -1)))
		c.Set(n-1, 1)
		assert.Equal(t, c.Differing(m), 2, d, "elements differ, want 2")
	}
}
