package kernels

import (
	"math"
	"slices"
)

// A HostStage is the host form of one kernel entry: it does what program pid of
// the launch does, in Go. Programs of one launch run in any order and side by
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
// last program left there. It stands for a program's registers.
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
// types, F32 for fp32.
type Memory struct {
	DType DType
	Bits  []uint16
	F32   []float32
}

// NewMemory allocates n elements.
func NewMemory(d DType, n int64) *Memory {
	if d == FP32 {
		return &Memory{DType: d, F32: make([]float32, n)}
	}
	return &Memory{DType: d, Bits: make([]uint16, n)}
}

// Len is the number of elements.
func (m *Memory) Len() int64 { return int64(len(m.Bits) + len(m.F32)) }

// At returns element i, widened.
func (m *Memory) At(i int64) float32 {
	switch m.DType {
	case BF16:
		return BF16ToFloat32(m.Bits[i])
	case FP16:
		return FP16ToFloat32(m.Bits[i])
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
}

// Clone copies the memory.
func (m *Memory) Clone() *Memory {
	return &Memory{m.DType, slices.Clone(m.Bits), slices.Clone(m.F32)}
}

// Differing counts the elements whose bits differ between m and o.
func (m *Memory) Differing(o *Memory) int64 {
	var n int64
	for i, b := range m.Bits {
		if b != o.Bits[i] {
			n++
		}
	}
	for i, f := range m.F32 {
		if math.Float32bits(f) != math.Float32bits(o.F32[i]) {
			n++
		}
	}
	return n
}
