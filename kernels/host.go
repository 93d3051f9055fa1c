package kernels

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A HostStage is one kernel in Go: it does the work of CTA pid of the launch. CTAs of one launch run in
// any order and side by side; launches run one after the other.
type HostStage func(h *HostRun, pid int)

// A HostRun gives a host stage its launch and the memory. Each goroutine has its own.
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

// Row returns scratch slot i as n floats, with whatever the goroutine's last CTA left there. It stands
// for a CTA's registers.
func (h *HostRun) Row(i int, n int64) []float32 {
	for len(h.scratch) <= i {
		h.scratch = append(h.scratch, nil)
	}
	if int64(cap(h.scratch[i])) < n {
		h.scratch[i] = make([]float32, n)
	}
	return h.scratch[i][:n]
}

// A Memory is a buffer of one element type in host memory.
type Memory struct {
	DType DType
	Bytes []byte // the elements as they lie in memory, the host's order of bytes
}

// NewMemory allocates n elements.
func NewMemory(d DType, n int64) *Memory { return &Memory{d, make([]byte, n*d.Size())} }

// Elements returns a memory's elements as a slice of T, which must be how the type is stored: uint16 for
// the 16-bit types, float32 for fp32, uint8 for e4m3, int32 for i32.
func Elements[T uint8 | uint16 | uint32 | int32 | float32](m *Memory) []T {
	first := (*T)(unsafe.Pointer(unsafe.SliceData(m.Bytes)))
	return unsafe.Slice(first, len(m.Bytes)/int(unsafe.Sizeof(*first)))
}

// Len returns the number of elements.
func (m *Memory) Len() int64 { return int64(len(m.Bytes)) / m.DType.Size() }

// MaxFloat sets element i of an fp32 memory to |v| if that is larger, atomically. NaN is larger than
// anything.
func (m *Memory) MaxFloat(i int64, v float32) {
	p := &Elements[uint32](m)[i]
	for {
		old := atomic.LoadUint32(p)
		if atomic.CompareAndSwapUint32(p, old, max(old, math.Float32bits(v)&^(1<<31))) {
			return
		}
	}
}

// At returns element i as a float32.
func (m *Memory) At(i int64) float32 {
	switch m.DType {
	case BF16:
		return BF16ToFloat32(Elements[uint16](m)[i])
	case FP16:
		return FP16ToFloat32(Elements[uint16](m)[i])
	case E4M3:
		return E4M3ToFloat32(m.Bytes[i])
	}
	return Elements[float32](m)[i]
}

// Set rounds v to the memory's type and stores it as element i.
func (m *Memory) Set(i int64, v float32) {
	switch m.DType {
	case BF16:
		Elements[uint16](m)[i] = Float32ToBF16(v)
	case FP16:
		Elements[uint16](m)[i] = Float32ToFP16(v)
	case E4M3:
		m.Bytes[i] = Float32ToE4M3(v)
	default:
		Elements[float32](m)[i] = v
	}
}

// Load converts len(dst) elements, from offset off on, to float32.
func (m *Memory) Load(dst []float32, off int64) {
	switch m.DType {
	case BF16:
		src := Elements[uint16](m)[off:][:len(dst)]
		for i, b := range src {
			dst[i] = BF16ToFloat32(b)
		}
	case FP16:
		src := Elements[uint16](m)[off:][:len(dst)]
		for i, b := range src {
			dst[i] = FP16ToFloat32(b)
		}
	case E4M3:
		for i, b := range m.Bytes[off:][:len(dst)] {
			dst[i] = E4M3ToFloat32(b)
		}
	default:
		copy(dst, Elements[float32](m)[off:][:len(dst)])
	}
}

// Store rounds src to the memory's type and stores it from offset off.
func (m *Memory) Store(off int64, src []float32) {
	switch m.DType {
	case BF16:
		dst := Elements[uint16](m)[off:][:len(src)]
		for i, v := range src {
			dst[i] = Float32ToBF16(v)
		}
	case FP16:
		dst := Elements[uint16](m)[off:][:len(src)]
		for i, v := range src {
			dst[i] = Float32ToFP16(v)
		}
	case E4M3:
		dst := m.Bytes[off:][:len(src)]
		for i, v := range src {
			dst[i] = Float32ToE4M3(v)
		}
	default:
		copy(Elements[float32](m)[off:][:len(src)], src)
	}
}

// Poison sets all bits, so that an element that a kernel does not write is a NaN that no kernel
// computes; see Unwritten.
func (m *Memory) Poison() {
	for n := copy(m.Bytes, []byte{0xff}); 0 < n && n < len(m.Bytes); n *= 2 {
		copy(m.Bytes[n:], m.Bytes[:n])
	}
}

// PoisonScratch fills what a kernel may read before it writes to it: numbers with NaN, whole numbers with -1. The NaN is
// another one than Poison's. A CPU hands the bits of a NaN on, and what is made of scratch has been written.
func (m *Memory) PoisonScratch() {
	m.Poison()
	if m.DType == I32 {
		return
	}
	for i := 0; i+1 < len(m.Bytes); i += 2 {
		m.Bytes[i] = 0xfe
	}
}

// Unwritten says whether element i still is as Poison left it. No arithmetic of a GPU or of a CPU makes
// a NaN with all bits set: theirs are 7fff... or ffc0... .
func (m *Memory) Unwritten(i int64) bool { return m.bits(i) == 1<<(8*m.DType.Size())-1 }

// Clone copies the memory.
func (m *Memory) Clone() *Memory { return &Memory{m.DType, slices.Clone(m.Bytes)} }

// bits returns the bits of element i.
func (m *Memory) bits(i int64) uint32 {
	switch m.DType.Size() {
	case 4:
		return Elements[uint32](m)[i]
	case 2:
		return uint32(Elements[uint16](m)[i])
	}
	return uint32(m.Bytes[i])
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

// Digest hashes the place and bits of every element and adds the hashes up, so that the order does not
// matter.
func (m *Memory) Digest() (h uint64) {
	for i := range m.Len() {
		h += digest(uint64(i), uint64(m.bits(i)))
	}
	return h
}

// HashRows hashes the first rows of a memory, whose rows have so many columns, each as if it stood alone.
// The hashes are whole in a JSON number.
func (m *Memory) HashRows(cols, rows int64) []uint64 {
	size := cols * m.DType.Size()
	hashes := make([]uint64, min(rows, m.Len()/cols))
	for r := range hashes {
		row := Memory{m.DType, m.Bytes[int64(r)*size:][:size]}
		hashes[r] = row.Digest() >> 11
	}
	return hashes
}

// digest mixes a place and its bits (the finalizer of splitmix64).
func digest(i, bits uint64) uint64 {
	z := i<<32 ^ i>>32 ^ bits ^ 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
