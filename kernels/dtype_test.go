package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// A format is a 16-bit type as IEEE 754 defines it: it shares no bit trick with the code under test.
type format struct {
	name           string
	mantissa, bias int // stored bits
	widen          func(uint16) float32
	narrow         func(float32) uint16
}

// value is what the bits of a number without its sign stand for, those of infinity and NaN too, as if
// they were numbers.
func (f format) value(bits int) float64 {
	exp, man := bits>>f.mantissa, bits&(1<<f.mantissa-1)
	if exp == 0 {
		return math.Ldexp(float64(man), 1-f.bias-f.mantissa)
	}
	return math.Ldexp(float64(1<<f.mantissa+man), exp-f.bias-f.mantissa)
}

// round is the nearest value, ties to the even one; from infinity's on it is infinity.
func (f format) round(v, infinity float64) float64 {
	_, exp := math.Frexp(v)
	step := math.Ldexp(1, max(exp-1, 1-f.bias)-f.mantissa)
	if r := math.RoundToEven(v/step) * step; math.Abs(r) < infinity {
		return r
	}
	return math.Copysign(math.Inf(1), v)
}

// Rounding is where a kernel and its reference differ by one bit: every pattern there and back, every
// tie with both of its neighbours, and random numbers.
func TestRoundingToNearestEven(t *testing.T) {
	for _, f := range []format{
		{"bf16", 7, 127, kernels.BF16ToFloat32, kernels.Float32ToBF16},
		{"fp16", 10, 15, kernels.FP16ToFloat32, kernels.Float32ToFP16},
	} {
		inf := 0x7fff >> f.mantissa << f.mantissa
		same := func(a float32, b float64) bool {
			return a != a && b != b || float64(a) == b && math.Signbit(float64(a)) == math.Signbit(b)
		}
		check := func(v float32) {
			t.Helper()
			got, want := f.widen(f.narrow(v)), float64(v) // a NaN may lose its payload
			if v == v {
				want = f.round(want, f.value(inf))
			}
			assert.Must(t, same(got, want), "%s: %g (%#08x) rounds to %g, want %g", f.name, v,
				math.Float32bits(v), got, want)
		}
		for b := range 1 << 16 {
			w, want := f.widen(uint16(b)), f.value(b&0x7fff)
			switch mag := b & 0x7fff; {
			case mag == inf:
				want = math.Inf(1)
			case mag > inf:
				want = math.NaN()
			}
			if b > 0x7fff {
				want = -want
			}
			assert.Must(t, same(w, want), "%s %#04x widens to %g, want %g", f.name, b, w, want)
			check(w)
		}
		for i := range inf {
			// exact: one bit more than the format has
			mid := float32((f.value(i) + f.value(i+1)) / 2)
			for _, v := range []float32{mid, math.Nextafter32(mid, 0), math.Nextafter32(mid,
				float32(math.Inf(1)))} {
				check(v)
				check(-v)
			}
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 200_000 {
			check(math.Float32frombits(rng.Uint32()))
		}
		for bit := range 23 { // of a payload, which may be only in the bits cut off
			check(math.Float32frombits(0x7f800000 | 1<<bit))
			check(math.Float32frombits(0xff800000 | 1<<bit))
		}
		check(math.MaxFloat32)
		check(-math.SmallestNonzeroFloat32)
	}
}

func TestDTypesAreReadAsWritten(t *testing.T) {
	for _, d := range kernels.DTypes() {
		var back kernels.DType
		text, err := d.MarshalText()
		assert.That(t, err == nil && back.UnmarshalText(text) == nil && back == d,
			"%v: %q reads back as %v (%v)", d, text, back, err)
		// Epsilon is the spacing of one: the next value differs from one, and
		// half of it does not.
		m := kernels.NewMemory(d, 2)
		m.Set(0, float32(1+d.Epsilon()))
		m.Set(1, float32(1+d.Epsilon()/2))
		assert.That(t, float64(m.At(0)) == 1+d.Epsilon() && m.At(1) == 1,
			"%v: epsilon %g is not the spacing of 1", d, d.Epsilon())
		least := d.Smallest()
		m.Set(0, float32(least))
		m.Set(1, float32(least*0.49))
		assert.That(t, float64(m.At(0)) == least && m.At(1) == 0, "%v: %g is not the least", d, least)
	}
}
