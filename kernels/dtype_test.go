package kernels_test

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// A format is a 16-bit type as IEEE 754 defines it, decoded with math.Ldexp: it
// shares no bit trick with the code under test.
type format struct {
	name     string
	mantissa int // stored bits
	bias     int
	widen    func(uint16) float32
	narrow   func(float32) uint16
	values   []float64 // of the non-negative finite patterns, then where infinity begins
}

func formats() []format {
	fs := []format{
		{name: "bf16", mantissa: 7, bias: 127, widen: kernels.BF16ToFloat32,
			narrow: kernels.Float32ToBF16},
		{name: "fp16", mantissa: 10, bias: 15, widen: kernels.FP16ToFloat32,
			narrow: kernels.Float32ToFP16},
	}
	for i := range fs {
		f := &fs[i]
		// One pattern past the largest finite one decodes, with the exponent
		// field taken at its word, to the next power of two: rounding sees
		// infinity there.
		for b := 0; b <= f.inf(); b++ {
			exp, man := b>>f.mantissa, b&(1<<f.mantissa-1)
			if exp == 0 {
				f.values = append(f.values, math.Ldexp(float64(man), 1-f.bias-f.mantissa))
			} else {
				f.values = append(f.values, math.Ldexp(float64(1<<f.mantissa+man),
					exp-f.bias-f.mantissa))
			}
		}
	}
	return fs
}

func (f *format) inf() int { return 0x7fff >> f.mantissa << f.mantissa }

// round finds the nearest value by search, ties to the even pattern.
func (f *format) round(v float32) uint16 {
	var sign uint16
	if math.Signbit(float64(v)) {
		sign = 0x8000
	}
	a := math.Abs(float64(v))
	hi := sort.SearchFloat64s(f.values, a)
	switch {
	case hi == len(f.values):
		return sign | uint16(f.inf())
	case f.values[hi] == a:
		return sign | uint16(hi)
	}
	down, up := a-f.values[hi-1], f.values[hi]-a // exact wherever they are close
	if down < up || down == up && (hi-1)%2 == 0 {
		hi--
	}
	return sign | uint16(hi)
}

// Rounding is where a kernel and its reference differ by one bit: every pattern there and back, every
// tie with both of its neighbours, and random numbers.
func TestRoundingToNearestEven(t *testing.T) {
	for _, f := range formats() {
		check := func(v float32) {
			t.Helper()
			got, want := f.narrow(v), f.round(v)
			nan := v != v // which may lose its payload, but not become a number
			assert.Must(t, got == want || nan && int(got&0x7fff) > f.inf(), "%s: %g (%#08x) rounds to "+
				"%#04x, want %#04x", f.name, v, math.Float32bits(v), got, want)
		}
		for b := range 1 << 16 {
			w, mag := f.widen(uint16(b)), b&0x7fff
			want := math.Inf(1)
			if mag < f.inf() {
				want = f.values[mag]
			}
			assert.Must(t, math.Signbit(float64(w)) == (b > 0x7fff) &&
				(mag > f.inf() && w != w || math.Abs(float64(w)) == want), "%s %#04x widens to %g, want %g",
				f.name, b, w, want)
			check(w)
		}
		for i := range f.values[1:] {
			// exact: one bit more than the format has
			mid := float32((f.values[i] + f.values[i+1]) / 2)
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
		for _, v := range []float32{math.MaxFloat32, math.SmallestNonzeroFloat32} {
			check(v)
			check(-v)
		}
	}
}

func TestDTypeText(t *testing.T) {
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
