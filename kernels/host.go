package kernels

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A HostStage is the host form of one kernel entry: it does what CTA pid of
// the launch does, in Go. CTAs of one launch run in any order and side by
// side; launches run one after the other.
type HostStage func(h *HostRun, pid int)

// A HostRun is what a host stage sees of its launch. Each goroutine has its
// own.
type HostRun struct {
	Problem Problem
	Launch  *Launch
	Mem     map[string]*Memory
	scratch [][]float32
}

// Arg returns the integer argument of that name.
func (h *HostRun) Arg(name string) int64 {
	for i := range h.Launch.Args {
		if a := &h.Launch.Args[i]; a.Kind == ArgInt64 && a.Name == name {
			return a.Int
		}
	}
	return 0
}

// Row returns scratch slot i as n floats, which hold whatever the goroutine's
// last CTA left there. It stands for a CTA's registers.
func (h *HostRun) Row(i int, n int64) []float32 {
	for len(h.scratch) <= i {
		h.scratch = append(h.scratch, nil)
	}
	if int64(cap(h.scratch[i])) < n {
		h.scratch[i] = make([]float32, n)
	}
	return h.scratch[i][:n]
}

// A Memory is a buffer of one element type in host memory: Bits for the 16-bit
// types, F32 for fp32, F8 for e4m3, I32 for i32.
type Memory struct {
	DType DType
	Bits  []uint16
	F32   []float32
	F8    []uint8
	I32   []int32
}

// NewMemory allocates n elements.
func NewMemory(d DType, n int64) *Memory {
	m := &Memory{DType: d}
	switch d {
	case FP32:
		m.F32 = make([]float32, n)
	case E4M3:
		m.F8 = make([]uint8, n)
	case I32:
		m.I32 = make([]int32, n)
	default:
		m.Bits = make([]uint16, n)
	}
	return m
}

// Len is the number of elements.
func (m *Memory) Len() int64 { return int64(len(m.Bits) + len(m.F32) + len(m.F8) + len(m.I32)) }

// Zero clears the first bytes of the memory, a whole number of elements.
func (m *Memory) Zero(bytes int64) {
	n := bytes / m.DType.Size()
	clear(m.F32[:min(n, int64(len(m.F32)))])
	clear(m.F8[:min(n, int64(len(m.F8)))])
	clear(m.I32[:min(n, int64(len(m.I32)))])
	clear(m.Bits[:min(n, int64(len(m.Bits)))])
}

// MaxFloat makes element i of an fp32 memory the larger of it and |v|, one
// CTA at a time. NaN is larger than anything.
func (m *Memory) MaxFloat(i int64, v float32) {
	p := (*uint32)(unsafe.Pointer(&m.F32[i]))
	for {
		old := atomic.LoadUint32(p)
		if atomic.CompareAndSwapUint32(p, old, max(old, math.Float32bits(v)&^(1<<31))) {
			return
		}
	}
}

// At returns element i, widened.
func (m *Memory) At(i int64) float32 {
	switch m.DType {
	case BF16:
		return BF16ToFloat32(m.Bits[i])
	case FP16:
		return FP16ToFloat32(m.Bits[i])
	case E4M3:
		return E4M3ToFloat32(m.F8[i])
	}
	return m.F32[i]
}

// Set rounds v to the memory's type and stores it as element i.
func (m *Memory) Set(i int64, v float32) {
	switch m.DType {
	case BF16:
		m.Bits[i] = Float32ToBF16(v)
	case FP16:
		m.Bits[i] = Float32ToFP16(v)
	case E4M3:
		m.F8[i] = Float32ToE4M3(v)
	default:
		m.F32[i] = v
	}
}

// Load widens len(dst) elements from offset off.
func (m *Memory) Load(dst []float32, off int64) {
	switch m.DType {
	case BF16:
		src := m.Bits[off:][:len(dst)]
		for i, b := range src {
			dst[i] = BF16ToFloat32(b)
		}
	case FP16:
		src := m.Bits[off:][:len(dst)]
		for i, b := range src {
			dst[i] = FP16ToFloat32(b)
		}
	case E4M3:
		for i, b := range m.F8[off:][:len(dst)] {
			dst[i] = E4M3ToFloat32(b)
		}
	default:
		copy(dst, m.F32[off:][:len(dst)])
	}
}

// Store rounds src to the memory's type and stores it from offset off.
func (m *Memory) Store(off int64, src []float32) {
	switch m.DType {
	case BF16:
		dst := m.Bits[off:][:len(src)]
		for i, v := range src {
			dst[i] = Float32ToBF16(v)
		}
	case FP16:
		dst := m.Bits[off:][:len(src)]
		for i, v := range src {
			dst[i] = Float32ToFP16(v)
		}
	case E4M3:
		dst := m.F8[off:][:len(src)]
		for i, v := range src {
			dst[i] = Float32ToE4M3(v)
		}
	default:
		copy(m.F32[off:][:len(src)], src)
	}
}

// Poison fills the memory with NaN, so that an element that a kernel does not
// write cannot pass for a right answer.
func (m *Memory) Poison() {
	for i := range m.Bits {
		m.Bits[i] = 0xffff
	}
	for i := range m.F32 {
		m.F32[i] = nan32
	}
	for i := range m.F8 {
		m.F8[i] = 0xff
	}
	for i := range m.I32 {
		m.I32[i] = -1
	}
}

// Clone copies the memory.
func (m *Memory) Clone() *Memory {
	return &Memory{m.DType, slices.Clone(m.Bits), slices.Clone(m.F32), slices.Clone(m.F8),
		slices.Clone(m.I32)}
}

// bits are those of element i of a tensor.
func (m *Memory) bits(i int64) uint32 {
	switch m.DType {
	case FP32:
		return math.Float32bits(m.F32[i])
	case E4M3:
		return uint32(m.F8[i])
	}
	return uint32(m.Bits[i])
}

// Differing counts the elements whose bits differ between m and o.
func (m *Memory) Differing(o *Memory) (n int64) {
	for i := range m.Len() {
		if m.bits(i) != o.bits(i) {
			n++
		}
	}
	return n
}

// Digest sums a hash of the place and bits of every element, in no order.
func (m *Memory) Digest() (h uint64) {
	for i := range m.Len() {
		h += digest(uint64(i), uint64(m.bits(i)))
	}
	return h
}

// digest mixes a place and its bits (the finalizer of splitmix64).
func digest(i, bits uint64) uint64 {
	z := i<<32 ^ i>>32 ^ bits ^ 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
