package reference

import (
	"math"

	"normbench/kernels"
)

// An Input says how one input tensor is filled; see Value. Every device fills it with the same bits.
type Input struct {
	Tensor        kernels.Tensor
	Stream        uint64 // separates the tensors of one seed
	Scale, Offset float32
	Rows          RowRole
	Shared        bool // by all rows: it has none of its own
}

// A RowRole says which special rows a tensor takes part in.
type RowRole uint8

// The roles. They are arguments of the fill kernel of package cuda too.
const (
	RowsPlain  RowRole = iota // none: a row is like every other
	RowsX                     // x: scaled, shifted, with an infinity or a NaN
	RowsScaled                // what is added to x: scaled as x is
	RowsDY                    // dy: with an infinity
	RowsGate                  // z: zeros, scaled by less than x where that is large
)

// A RowKind says what is special about a row.
type RowKind uint8

// The kinds. They are arguments of the fill kernel of package cuda too.
const (
	RowUnit  RowKind = iota
	RowZero          // zeros: what eps is for
	RowTiny          // times 2^-12: eps counts more than the squares
	RowLarge         // times 2^9 in fp16, whose squares it cannot hold, else times 2^20
	RowMean          // plus a whole number from 37 to 100, of either sign
	RowHuge          // times 2^12 in fp16, else 2^50: a sum of their squares is just inside fp32
	RowLost          // times 2^-80: squares vanish
	RowInf           // minus infinity in one column
	RowNaN           // NaN in one column
	RowInfDY         // infinity in one column of dy
)

// specialOrder has the kinds of the special rows among unit rows.
var specialOrder = [8]RowKind{RowZero, RowTiny, RowLarge, RowTiny, RowLarge, RowZero, RowTiny, RowLarge}

// hostileOrder has the kinds of rows of the hostile draws, by (row + seed) modulo 8.
var hostileOrder = map[kernels.Draw][8]RowKind{
	kernels.DrawExtreme:   {1: RowZero, 2: RowHuge, 3: RowTiny, 7: RowLost},
	kernels.DrawNonFinite: {4: RowInf, 5: RowNaN, 6: RowInfDY},
}

// Rows say what is special about the rows of one draw.
type Rows struct {
	// All is the kind of every row, if no row is listed in Special.
	All RowKind
	// Cycle is the kinds by (row + Shift) modulo 8, if it has any.
	Cycle [8]RowKind
	Shift int64
	// Special lists single rows; the others are unit rows.
	Special []SpecialRow
}

// A SpecialRow is one row and its kind.
type SpecialRow struct {
	Row  int64
	Kind RowKind
}

// RowsOf decides which of a problem's m rows are special in a draw, and how.
func RowsOf(in kernels.Inputs, m int64) Rows {
	r := Rows{Shift: int64(in.Seed % 8)}
	switch in.Draw {
	case kernels.DrawUnit:
		n := kernels.SpecialRows(m)
		start := int64(Bits(in.Seed, rowStream, 0) >> 1)
		for k := range n { // they stand apart, and anywhere
			r.Special = append(r.Special, SpecialRow{(start%m + k*(m/n)) % m, specialOrder[k]})
		}
	case kernels.DrawMean:
		r.All = RowMean
	case kernels.DrawZeros:
		r.All = RowZero
	case kernels.DrawTiny:
		r.All = RowTiny
	case kernels.DrawLarge:
		r.All = RowLarge
	default:
		r.Cycle = hostileOrder[in.Draw]
	}
	return r
}

// Kind returns what is special about a row.
func (r *Rows) Kind(row int64) RowKind {
	for _, s := range r.Special {
		if s.Row == row {
			return s.Kind
		}
	}
	if kind := r.Cycle[(row+r.Shift)%8]; kind != RowUnit {
		return kind
	}
	return r.All
}

// Streams of random numbers beside those of the tensors.
const (
	rowStream  = 16 // where the special rows are
	meanStream = 17 // the means of RowMean
)

// inputs says how tensors are drawn, by name. x has a mean well away from zero, so that a layernorm that
// forgets it is caught; weights scatter around one (zero-centered: around zero) as trained ones do.
// fp8's scale leaves some of y beyond 448, so that a missing clamp shows. A gate's z reaches both arms of the
// sigmoid and, in large rows, numbers whose exponential is beyond fp32.
var inputs = map[string]Input{
	"x":     {Stream: 1, Scale: 1, Offset: 0.25, Rows: RowsX},
	"dy":    {Stream: 2, Scale: 1, Rows: RowsDY},
	"w":     {Stream: 3, Scale: 0.25, Offset: 1, Shared: true},
	"b":     {Stream: 4, Scale: 0.25, Shared: true},
	"scale": {Stream: 5, Scale: 8, Offset: 96, Shared: true},
	"res":   {Stream: 6, Scale: 1, Offset: -0.125, Rows: RowsScaled},
	"dres":  {Stream: 7, Scale: 1},
	"dw_in": {Stream: 8, Scale: 1, Shared: true},
	"db_in": {Stream: 9, Scale: 1, Shared: true},
	"z":     {Stream: 10, Scale: 2, Rows: RowsGate},
}

// InputsOf lists the tensors of p that are drawn. The saved statistics are not: they are the float64
// answers, rounded to fp32.
func InputsOf(p kernels.Problem) (list []Input) {
	for _, t := range p.Tensors() {
		if t.Role != kernels.Input {
			continue
		}
		if x, ok := input(p, t); ok {
			list = append(list, x)
		}
	}
	return list
}

// BiasOf returns the bias of the forward that p is the backward of.
func BiasOf(p kernels.Problem) Input {
	x, _ := input(p, kernels.Tensor{Name: "b", DType: p.Weight, Rows: 1, Cols: p.N})
	return x
}

// input looks up how a tensor of p is drawn; false if it is not.
func input(p kernels.Problem, t kernels.Tensor) (x Input, ok bool) {
	x, ok = inputs[t.Name]
	if x.Tensor = t; t.Name == "w" && p.ZeroCentered {
		x.Offset = 0
	}
	return x, ok
}

// Value computes element i of a tensor's draw, before it is rounded to the tensor's type: a sum of four uniform
// 16-bit numbers (Irwin-Hall, close to a normal one, with tails that end at 3.5), scaled to unit
// variance. Sums of small integers and two rounded float32 operations give the same bits on every
// device.
//
// The 64 random bits are splitmix64 (Steele, Lea and Flood 2014) of a counter. rows are RowsOf in.
func (x Input) Value(in kernels.Inputs, rows *Rows, i int64) float32 {
	z := Bits(in.Seed, x.Stream, i)
	sum := int32(z&0xffff) + int32(z>>16&0xffff) + int32(z>>32&0xffff) + int32(z>>48) - 131070
	v := float32(sum) * Unit
	// The conversion keeps Go from fusing the product into the sum.
	v = float32(v*x.Scale) + x.Offset
	if x.Rows == RowsPlain {
		return v
	}
	row := i / x.Tensor.Cols
	return x.changeElement(in.Seed, rows.Kind(row), row, i%x.Tensor.Cols, v)
}

// changeElement changes an element of a special row. Factors are powers of two and means whole numbers,
// so that all devices agree on the bits.
func (x Input) changeElement(seed uint64, kind RowKind, row, col int64, v float32) float32 {
	hit := col == row*7919%x.Tensor.Cols // the column of a row's one infinity or NaN
	switch x.Rows {
	case RowsDY:
		if kind == RowInfDY && hit {
			return float32(math.Inf(1))
		}
		return v
	case RowsGate:
		switch kind {
		case RowZero:
			return 0
		case RowTiny:
			return v * 0x1p-12
		case RowLarge:
			return v * 64
		}
		return v
	case RowsX:
		switch {
		case kind == RowMean:
			return v + meanOf(seed, row)
		case kind == RowInf && hit:
			return float32(math.Inf(-1))
		case kind == RowNaN && hit:
			return float32(math.NaN())
		}
	}
	if kind == RowZero {
		return 0 // not minus zero
	}
	return v * rowScale(kind, x.Tensor.DType)
}

// rowScale returns the factor of the rows of a kind.
func rowScale(kind RowKind, d kernels.DType) float32 {
	fp16 := d == kernels.FP16
	switch {
	case kind == RowTiny:
		return 0x1p-12
	case kind == RowLarge && fp16:
		return 0x1p9
	case kind == RowLarge:
		return 0x1p20
	case kind == RowHuge && fp16:
		return 0x1p12
	case kind == RowHuge:
		return 0x1p50
	case kind == RowLost:
		return 0x1p-80
	}
	return 1
}

// largestMean is the largest mean of a row of RowMean.
const largestMean = 100

// meanOf draws the mean of a row of RowMean, which is added to that of all x.
func meanOf(seed uint64, row int64) float32 {
	z := Bits(seed, meanStream, row)
	m := float32(largestMean - 63 + z&63)
	if z&64 != 0 {
		return -m
	}
	return m
}

// Unit scales a sum of four uniform 16-bit numbers to unit variance:
// 1/sqrt(4 * 65536²/12).
const Unit = float32(1 / 37837.227)

// Bits draws 64 random bits for element i of a stream of random numbers.
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
func Inputs(p kernels.Problem, in kernels.Inputs) map[string]*kernels.Memory {
	mem := map[string]*kernels.Memory{}
	for _, x := range InputsOf(p) {
		mem[x.Tensor.Name] = x.Fill(in)
	}
	return mem
}

// Fill draws the whole tensor.
func (x Input) Fill(in kernels.Inputs) *kernels.Memory {
	m := kernels.NewMemory(x.Tensor.DType, x.Tensor.Elems())
	rows, first := RowsOf(in, x.Tensor.Rows), x.First(in)
	eachSpan(m.Len(), func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			m.Set(i, x.Value(in, &rows, first+i))
		}
	})
	return m
}

// First returns the element of the draw that is the tensor's first: see kernels.Inputs.From.
func (x Input) First(in kernels.Inputs) int64 {
	if x.Shared {
		return 0
	}
	return in.From * x.Tensor.Cols
}
