package kernels

import "math/bits"

// Flag returns 1 for true, 0 for false.
func Flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// CeilDiv returns a/b rounded up.
func CeilDiv(a, b int64) int64 { return (a + b - 1) / b }

// CeilPow2 rounds n >= 1 up to a power of two.
func CeilPow2(n int64) int64 { return 1 << bits.Len64(uint64(n-1)) }

// IsPow2 says whether n is a power of two.
func IsPow2(n int) bool { return n > 0 && n&(n-1) == 0 }
