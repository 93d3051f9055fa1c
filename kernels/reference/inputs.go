package reference

import "normbench/kernels"

// A Draw says how one input tensor is filled from a seed. Every device fills
// it with the same bits; see Value.
type Draw struct {
	Tensor        kernels.Tensor
	Stream        uint64 // separates the tensors of one seed
	Scale, Offset float32
}

// Draws lists the random inputs of p. x has a mean well away from zero, so
// that a layernorm that forgets it is caught; weights scatter around one
// (zero-centered: around zero) as trained ones do. The saved statistics are
// not drawn: they are the float64 answers, rounded to fp32.
func Draws(p kernels.Problem) []Draw {
	var ds []Draw
	for _, t := range p.Tensors() {
		if t.Role != kernels.Input {
			continue
		}
		switch t.Name {
		case "x":
			ds = append(ds, Draw{t, 1, 1, 0.25})
		case "dy":
			ds = append(ds, Draw{t, 2, 1, 0})
		case "w":
			d := Draw{t, 3, 0.25, 1}
			if p.ZeroCentered {
				d.Offset = 0
			}
			ds = append(ds, d)
		case "b":
			ds = append(ds, Draw{t, 4, 0.25, 0})
		}
	}
	return ds
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
	return float32(v*d.Scale) + d.Offset
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
		m := kernels.NewMemory(d.Tensor.DType, d.Tensor.Elems())
		eachSpan(m.Len(), func(lo, hi int64) {
			for i := lo; i < hi; i++ {
				m.Set(i, d.Value(seed, i))
			}
		})
		mem[d.Tensor.Name] = m
	}
	return mem
}
