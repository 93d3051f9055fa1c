//go:build cuda

package cuda

import (
	"encoding/binary"
	"math"

	"normbench/kernels"
	"normbench/kernels/cuda/driver"
	"normbench/kernels/nvrtc"
	"normbench/kernels/reference"
)

// support holds the entries of support.cu.
type support struct {
	fill, rows, columns, roundTo, moved, squares, compare, differing, flush, spin driver.Function
}

func (d *Device) loadSupport() error {
	b, err := d.compile.cache.Compile(nvrtc.Source{Name: "support.cu", Text: supportSource}, nvrtc.Options{Arch: d.info.Arch})
	if err != nil {
		return err
	}
	m, err := d.ctx.LoadModule(b.Cubin)
	if err != nil {
		return err
	}
	s := &d.support
	for name, f := range map[string]*driver.Function{
		"fill": &s.fill, "rows": &s.rows, "columns": &s.columns, "roundTo": &s.roundTo, "moved": &s.moved,
		"squares": &s.squares, "compare": &s.compare, "differing": &s.differing, "flush": &s.flush, "spin": &s.spin,
	} {
		if *f, err = m.Function(name); err != nil {
			return err
		}
	}
	return nil
}

const supportThreads = 256

// each launches a support entry over n elements.
func (d *Device) each(f driver.Function, n int64, args ...uint64) error {
	blocks := min(max((n+supportThreads-1)/supportThreads, 1), int64(d.info.Units)*16)
	return f.Launch(d.stream, [3]int{int(blocks), 1, 1}, [3]int{supportThreads, 1, 1}, 0, args)
}

func boolArg(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func float(f float32) uint64  { return uint64(math.Float32bits(f)) }
func double(f float64) uint64 { return math.Float64bits(f) }

// inputs fills the random inputs of p.
func (d *Device) inputs(p kernels.Problem, seed uint64, mem map[string]driver.Ptr) error {
	for _, w := range reference.Draws(p) {
		n := w.Tensor.Elems()
		err := d.each(d.support.fill, n, uint64(mem[w.Tensor.Name]), uint64(n), uint64(w.Tensor.DType), seed, w.Stream,
			float(reference.Unit), float(w.Scale), float(w.Offset))
		if err != nil {
			return err
		}
	}
	return nil
}

// scaleSlots are the places of the sums of squares in rows' scale argument.
const scaleSlots = 5

// answers computes the float64 answers of p into want and returns their
// scales. want holds rstd, and mean in layernorm, also for a backward.
func (d *Device) answers(p kernels.Problem, mem, want map[string]driver.Ptr) (map[string]float64, error) {
	scale, err := d.ctx.Alloc(8 * scaleSlots)
	if err != nil {
		return nil, err
	}
	defer d.ctx.Free(scale)
	if err := d.ctx.Memset8(d.stream, scale, 0, 8*scaleSlots); err != nil {
		return nil, err
	}
	out := "y"
	if p.Pass == kernels.Bwd {
		out = "dx"
	}
	M, N := uint64(p.M), uint64(p.N)
	layernorm := p.Op == kernels.LayerNorm
	args := []uint64{
		uint64(mem["x"]), uint64(mem["dy"]), uint64(mem["w"]), uint64(mem["b"]), uint64(want[out]), uint64(want["rstd"]),
		uint64(want["mean"]), uint64(scale), M, N, uint64(p.DType), uint64(p.Weight), boolArg(layernorm),
		boolArg(p.Pass == kernels.Bwd), boolArg(p.ZeroCentered), double(kernels.Eps),
	}
	blocks := int(min(p.M, int64(d.info.Units)*8))
	if err := d.support.rows.Launch(d.stream, [3]int{blocks, 1, 1}, [3]int{supportThreads, 1, 1}, 0, args); err != nil {
		return nil, err
	}
	if p.Pass == kernels.Bwd {
		for _, name := range []string{"dw", "db"} {
			if want[name] != 0 {
				if err := d.ctx.Memset8(d.stream, want[name], 0, 8*p.N); err != nil {
					return nil, err
				}
			}
		}
		cols := (p.N + 31) / 32
		shares := min(max(int64(d.info.Units)*8/cols, 1), (p.M+7)/8)
		args := []uint64{
			uint64(mem["x"]), uint64(mem["dy"]), uint64(want["rstd"]), uint64(want["mean"]), uint64(want["dw"]),
			uint64(want["db"]), M, N, uint64(p.DType),
		}
		if err := d.support.columns.Launch(d.stream, [3]int{int(cols), int(shares), 1}, [3]int{supportThreads, 1, 1}, 0, args); err != nil {
			return nil, err
		}
	}
	sums, err := d.float64s(scale, scaleSlots)
	if err != nil {
		return nil, err
	}
	all, cols := float64(p.M*p.N), float64(p.N)
	return map[string]float64{
		"mean": math.Sqrt(sums[0] / all),
		out:    math.Sqrt(sums[1] / all),
		"dw":   math.Sqrt(sums[2] / cols),
		"db":   math.Sqrt(sums[3] / cols),
		"rstd": math.Sqrt(sums[4] / float64(p.M)),
	}, nil
}

// float64s reads n doubles, after all work in the stream.
func (d *Device) float64s(p driver.Ptr, n int) ([]float64, error) {
	raw := make([]byte, 8*n)
	if err := d.ctx.CopyFromDevice(raw, p); err != nil {
		return nil, err
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return v, nil
}

// outcome is what compare finds: support.cu's struct Outcome.
type outcome struct {
	bad, first, worst uint64
	err2, want2       float64
}

const outcomeBytes = 40

func (o *outcome) decode(b []byte) {
	o.bad = binary.LittleEndian.Uint64(b)
	o.first = binary.LittleEndian.Uint64(b[8:])
	o.worst = binary.LittleEndian.Uint64(b[16:])
	o.err2 = math.Float64frombits(binary.LittleEndian.Uint64(b[24:]))
	o.want2 = math.Float64frombits(binary.LittleEndian.Uint64(b[32:]))
}
