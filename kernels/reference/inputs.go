package reference

import (
	"math"

	"normbench/kernels"
)

// A Draw says how one input tensor is filled from a seed. Every device fills
// it with the same bits; see Value.
type Draw struct {
	Tensor        kernels.Tensor
	Stream        uint64 // separates the tensors of one seed
	Scale, Offset float32
	// Hostile is which rows of a hostile seed are extraordinary: see Ordeal.
	Hostile Hostility
}

// A Hostility says what a hostile seed does to a tensor.
type Hostility uint8

// The hostilities. They are the fill kernel's too.
const (
	Tame  Hostility = iota // nothing
	HostX                  // rows of zeros, huge and tiny ones, infinities and NaN
	HostD                  // a row with an infinity
)

// Hostile marks a seed whose inputs try what a kernel does at the ends of the
// number range. Devices need not know it: it is a bit of the seed.
const Hostile = 1 << 62

// The ordeals of a row, by (row + seed) modulo ordeals; the others are ordinary.
const (
	ordeals  = 8
	zeroRow  = 1
	hugeRow  = 2
	tinyRow  = 3
	infRow   = 4
	nanRow   = 5
	infDYRow = 6
	lostRow  = 7 // so tiny that its squares vanish
)

// Draws lists the random inputs of p. x has a mean well away from zero, so
// that a layernorm that forgets it is caught; weights scatter around one
// (zero-centered: around zero) as trained ones do. fp8's scale leaves some of y
// beyond 448, so that a missing clamp shows. The saved statistics are not
// drawn: they are the float64 answers, rounded to fp32.
func Draws(p kernels.Problem) []Draw {
	var ds []Draw
	for _, t := range p.Tensors() {
		if t.Role != kernels.Input {
			continue
		}
		if d, ok := draw(p, t); ok {
			ds = append(ds, d)
		}
	}
	return ds
}

// BiasDraw is the bias of the forward that p is the backward of.
func BiasDraw(p kernels.Problem) Draw {
	d, _ := draw(p, kernels.Tensor{Name: "b", DType: p.Weight, Rows: 1, Cols: p.N})
	return d
}

// draws are those of the inputs by name.
var draws = map[string]Draw{
	"x":     {Stream: 1, Scale: 1, Offset: 0.25, Hostile: HostX},
	"dy":    {Stream: 2, Scale: 1, Hostile: HostD},
	"w":     {Stream: 3, Scale: 0.25, Offset: 1},
	"b":     {Stream: 4, Scale: 0.25},
	"scale": {Stream: 5, Scale: 8, Offset: 96},
	"res":   {Stream: 6, Scale: 1, Offset: -0.125},
	"dres":  {Stream: 7, Scale: 1},
	"dw_in": {Stream: 8, Scale: 1},
	"db_in": {Stream: 9, Scale: 1},
}

func draw(p kernels.Problem, t kernels.Tensor) (d Draw, ok bool) {
	d, ok = draws[t.Name]
	if d.Tensor = t; t.Name == "w" && p.ZeroCentered {
		d.Offset = 0
	}
	return d, ok
}

// Value is element i of a tensor, before it is rounded to the tensor's type: a
// sum of four uniform 16-bit numbers (Irwin-Hall, close to a normal one, with
// tails that end at 3.5), scaled to unit variance. Sums of small integers and
// two rounded float32 operations give the same bits on every device.
//
// The 64 random bits are splitmix64 (Steele, Lea and Flood 2014) of a counter.
func (d Draw) Value(seed uint64, i int64) float32 {
	z := Bits(seed, d.Stream, i)
	sum := int32(z&0xffff) + int32(z>>16&0xffff) + int32(z>>32&0xffff) + int32(z>>48) - 131070
	v := float32(sum) * Unit
	// The conversion keeps Go from fusing the product into the sum.
	v = float32(v*d.Scale) + d.Offset
	if seed&Hostile == 0 || d.Hostile == Tame {
		return v
	}
	return d.ordeal(seed, i, v)
}

// ordeal is what a hostile seed makes of an element. Factors are powers of two,
// so that all devices agree on the bits. Huge rows stop where the sum of their
// squares would leave fp32, or themselves fp16.
func (d Draw) ordeal(seed uint64, i int64, v float32) float32 {
	row, col := i/d.Tensor.Cols, i%d.Tensor.Cols
	kind := (uint64(row) + seed%ordeals) % ordeals
	one := row * 7919 % d.Tensor.Cols // the column of a row's one infinity or NaN
	inf := float32(math.Inf(1))
	if d.Hostile == HostD {
		if kind == infDYRow && col == one {
			return inf
		}
		return v
	}
	switch {
	case kind == zeroRow:
		return 0
	case kind == hugeRow && d.Tensor.DType == kernels.FP16:
		return v * 0x1p12
	case kind == hugeRow:
		return v * 0x1p50
	case kind == tinyRow:
		return v * 0x1p-12
	case kind == infRow && col == one:
		return -inf
	case kind == nanRow && col == one:
		return float32(math.NaN())
	case kind == lostRow:
		return v * 0x1p-80
	}
	return v
}

// Unit scales a sum of four uniform 16-bit numbers to unit variance:
// 1/sqrt(4 * 65536²/12).
const Unit = float32(1 / 37837.227)

// Bits is 64 random bits for element i of a stream.
func Bits(seed, stream uint64, i int64) uint64 {
	z := mix(seed+stream*0x9e3779b97f4a7c15) + uint64(i)*0x9e3779b97f4a7c15
	return mix(z)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Inputs draws every random input of p.
func Inputs(p kernels.Problem, seed uint64) map[string]*kernels.Memory {
	mem := map[string]*kernels.Memory{}
	for _, d := range Draws(p) {
		mem[d.Tensor.Name] = d.Fill(seed)
	}
	return mem
}

// Fill draws the whole tensor.
func (d Draw) Fill(seed uint64) *kernels.Memory {
	m := kernels.NewMemory(d.Tensor.DType, d.Tensor.Elems())
	eachSpan(m.Len(), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			m.Set(i, d.Value(seed, i))
		}
	})
	return m
}
