package kernels

import (
	"fmt"
	"math"
)

// DType is an element type of a tensor.
type DType uint8

// The element types, in the order of the X_TYPE macro of the CUDA sources.
const (
	FP32 DType = iota
	BF16
	FP16
	E4M3 // fp8 of 4 exponent and 3 mantissa bits, without infinities: outputs only
	I32  // counters in scratch only
)

var dtypes = [...]struct {
	name              string
	size              int64
	epsilon, smallest float64
}{
	FP32: {"fp32", 4, 0x1p-23, 0x1p-149},
	BF16: {"bf16", 2, 0x1p-7, 0x1p-133},
	FP16: {"fp16", 2, 0x1p-10, 0x1p-24},
	E4M3: {"e4m3", 1, 0x1p-3, 0x1p-9},
	I32:  {"i32", 4, 0, 0},
}

// DTypes lists every type that a problem's tensors may be asked for in.
func DTypes() []DType { return []DType{BF16, FP16, FP32} }

func (d DType) String() string { return dtypes[d].name }

// Size returns the number of bytes of one element.
func (d DType) Size() int64 { return dtypes[d].size }

// Epsilon returns the spacing of numbers at 1. Rounding to nearest errs by at most half of it, as a
// fraction of the number.
func (d DType) Epsilon() float64 { return dtypes[d].epsilon }

// Smallest returns the least number above zero, a subnormal one. Rounding a subnormal number to nearest
// errs by at most half of it.
func (d DType) Smallest() float64 { return dtypes[d].smallest }

// BF16ToFloat32 converts bf16 bits to float32, exactly.
func BF16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToBF16 rounds to nearest even, as cvt.rn.bf16.f32 does. A NaN stays a
// NaN (quiet), also where its payload lies in the bits cut off.
func Float32ToBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + (u>>16)&1) >> 16)
}

// FP16ToFloat32 converts fp16 bits to float32, exactly.
func FP16ToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	man := uint32(h & 0x3ff)
	switch {
	case exp == 0x1f: // inf, NaN
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
	}
	// Zero and subnormals: man * 2^-24, exact in float32.
	f := float32(man) * 0x1p-24
	return math.Float32frombits(sign | math.Float32bits(f))
}

// Float32ToFP16 rounds to nearest even, as cvt.rn.f16.f32 does: overflow gives
// infinity, underflow gives subnormals, a NaN stays a NaN.
func Float32ToFP16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00
	case u >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case u < 0x38800000: // below 2^-14: subnormal or zero
		// Adding 0.5 puts the fp16 subnormal's last bit at float32's last bit,
		// so the addition itself rounds to nearest even.
		r := math.Float32frombits(u) + 0.5
		return sign | uint16(math.Float32bits(r)-0x3f000000)
	}
	u += 0xc8000fff + (u>>13)&1 // exponent bias 127 -> 15, round to nearest even
	return sign | uint16(u>>13)
}

// MaxE4M3 is the largest finite e4m3 number. Conversions saturate at it.
const MaxE4M3 = 448

// E4M3ToFloat32 converts e4m3 bits to float32, exactly.
func E4M3ToFloat32(b uint8) float32 {
	exp, man := int(b>>3)&0xf, float32(b&7)
	var f float32
	switch {
	case b&0x7f == 0x7f:
		return nan32
	case exp == 0:
		f = man * 0x1p-9
	default:
		f = float32(math.Ldexp(float64(1+man/8), exp-7))
	}
	if b&0x80 != 0 {
		return -f
	}
	return f
}

// Float32ToE4M3 rounds to nearest even and saturates at 448, infinities
// included, as cvt.rn.satfinite.e4m3x2.f32 does. A NaN becomes 0x7f.
func Float32ToE4M3(f float32) uint8 {
	if f != f {
		return 0x7f
	}
	u := math.Float32bits(f)
	sign := uint8(u >> 24 & 0x80)
	u &= 0x7fffffff
	switch {
	case u >= 0x43e00000: // 448
		return sign | 0x7e
	case u < 0x3c800000: // below 2^-6: subnormal or zero, by the rounding of an addition
		r := math.Float32frombits(u) + 0x1p14
		return sign | uint8(math.Float32bits(r)-0x46800000)
	}
	u += 0xc407ffff + (u>>20)&1 // exponent bias 127 -> 7, round to nearest even
	return sign | uint8(u>>20)
}

// check refuses a type that x and w may not have.
func (d DType) check() error {
	if d > FP16 {
		return fmt.Errorf("dtype %d is not for inputs", d)
	}
	return nil
}
