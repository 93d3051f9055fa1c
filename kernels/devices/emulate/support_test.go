package emulate

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/families/reference"
)

// gpuSupport runs entries of support.cu, by which the GPU makes its inputs and answers.
type gpuSupport struct {
	*testing.T
	*Emulator
	registry *kernels.Registry
	mem      map[string]*kernels.Memory
}

func (s *gpuSupport) run(entry string, ctas int, args ...kernels.Arg) {
	s.Helper()
	l := &kernels.Launch{Source: "support.cu", Entry: entry, Grid: [3]int{ctas, 1, 1}, Block: 64, Args: args}
	assert.NoError(s.T, s.Emulator.Run(s.Context(), s.registry, l, s.mem, false), entry)
}

// doubles makes a buffer of float64 zeros.
func (s *gpuSupport) doubles(name string, n int64) {
	s.mem[name] = kernels.NewMemory(kernels.FP32, 2*n)
}

func (s *gpuSupport) float64s(name string) []float64 {
	v := make([]float64, len(s.mem[name].Bytes)/8)
	_, err := binary.Decode(s.mem[name].Bytes, binary.LittleEndian, v)
	assert.NoError(s.T, err)
	return v
}

// draw fills an input as package cuda does.
func (s *gpuSupport) draw(x reference.Input, in kernels.Inputs) {
	s.mem[x.Tensor.Name] = kernels.NewMemory(x.Tensor.DType, x.Tensor.Elems())
	rows := reference.RowsOf(in, x.Tensor.Rows)
	var cycle, kinds uint64
	for k, kind := range rows.Cycle {
		cycle |= uint64(kind) << (8 * k)
	}
	args := append(kernels.Buffers(x.Tensor.Name), integers(x.Tensor.Elems(), int64(x.Tensor.DType),
		int64(in.Seed), int64(x.Stream))...)
	args = append(args, kernels.Float32("unit", reference.Unit), kernels.Float32("scale", x.Scale),
		kernels.Float32("offset", x.Offset))
	var listed []kernels.Arg
	for k := range 8 {
		row := int64(-1)
		if k < len(rows.Special) {
			row = rows.Special[k].Row
			kinds |= uint64(rows.Special[k].Kind) << (8 * k)
		}
		listed = append(listed, integers(row)...)
	}
	args = append(args, integers(x.Tensor.Cols, int64(x.Rows), int64(rows.All), rows.Shift, int64(cycle),
		int64(kinds), x.First(in))...)
	s.run("fill", 2, append(args, listed...)...)
}

func integers(list ...int64) (args []kernels.Arg) {
	for _, n := range list {
		args = append(args, kernels.Int64("n", n))
	}
	return args
}

func double(f float64) kernels.Arg { return kernels.Arg{Kind: kernels.ArgFloat64, Float: f} }

// The GPU's inputs are package reference's to the bit, and so are its answers and their scales but for the
// order of sums. A GPU is not at hand everywhere: here the emulator has the code that makes them.
func TestAnswersOfTheGPU(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	r := *families.New()
	ours := r.File
	// What is behind these entries is PTX that the emulator has not.
	text, _, _ := strings.Cut(string(assert.File(t, "../cuda/support.cu")), `extern "C" __global__ void roundTo`)
	r.File = func(name string) (string, error) {
		if name == "support.cu" {
			return text, nil
		}
		return ours(name)
	}
	for i, problem := range []string{"rmsnormgated/bwd/12x37/bf16", "layernormgated/bwd/12x37/fp16+bias+sigmoid",
		"layernormgated/bwd/12x37/fp32+bias+zc+gatefirst", "rmsnormgated/bwd/12x37/fp32+sigmoid+gatefirst",
		"rmsnormgated/fwd/12x37/bf16+bias+sigmoid", "layernormgated/fwd/12x37/fp16+gatefirst",
		"layernorm/bwd/12x37/bf16+bias+residual", "rmsnorm/fwd/12x37/fp32+bias+residual", "l2norm/bwd/12x37/fp16"} {
		p := devicetest.Problem(t, problem)
		for j, draw := range []kernels.Draw{kernels.DrawUnit, kernels.DrawMean, kernels.DrawExtreme} {
			if !assert.Sampled(i+j, 3) {
				continue
			}
			s := &gpuSupport{t, emulator(t), &r, map[string]*kernels.Memory{}}
			s.holdTo(p, kernels.Inputs{Seed: uint64(40 + i), Draw: draw, From: int64(5 * j)})
		}
	}
}

// holdTo compares inputs and answers of p with package reference's.
func (s *gpuSupport) holdTo(p kernels.Problem, in kernels.Inputs) {
	s.Helper()
	backward, spec := p.Pass == kernels.Bwd, p.Op.Spec()
	drawn := reference.Inputs(p, in)
	for _, x := range reference.InputsOf(p) {
		s.draw(x, in)
		assert.That(s.T, bytes.Equal(s.mem[x.Tensor.Name].Bytes, drawn[x.Tensor.Name].Bytes), "%s, %s: %s has other bits",
			p, in, x.Tensor.Name)
	}
	want := reference.ComputeGroundTruth(p, drawn)
	buffer := func(name string) kernels.Arg { // or null
		if s.mem[name] == nil {
			name = ""
		}
		return kernels.Arg{Kind: kernels.ArgBuffer, Name: name}
	}
	for name, v := range want.Values {
		s.doubles("want "+name, int64(len(v)))
	}
	for name, n := range map[string]int64{"scale": p.M, "scale x": p.M, "scale dz": p.M, "sums": 2} {
		s.doubles(name, n)
	}
	res, out, bias := "res", "y", 0.0
	if backward {
		res, out = "dres", "dx"
	}
	if p.Bias {
		bias = reference.BiasScale
	}
	var args []kernels.Arg
	for _, name := range []string{"x", "dy", "w", "b", res, "want " + out, "want resout", "want " + spec.Saved[0],
		"want mean", "scale", "scale x", "sums"} {
		args = append(args, buffer(name))
	}
	args = append(args, integers(p.M, p.N, int64(p.DType), int64(p.Weight), kernels.Flag(spec.Centered),
		int64(spec.Statistics()), kernels.Flag(backward), kernels.Flag(p.ZeroCentered))...)
	args = append(args, double(spec.Eps), double(reference.MeanShare), double(bias), buffer("z"), buffer("want dz"),
		buffer("scale dz"))
	gate := integers(kernels.Flag(p.Sigmoid), kernels.Flag(p.GateFirst))
	s.run("rows", 3, append(args, gate...)...)
	if backward {
		args = []kernels.Arg{buffer("x"), buffer("dy"), buffer("want " + spec.Saved[0]), buffer("want mean"),
			buffer("want dw"), buffer("want db")}
		args = append(append(args, integers(p.M, p.N, int64(p.DType))...), buffer("z"))
		s.run("columns", int(kernels.CeilDiv(p.N, 32)), append(args, gate...)...)
	}
	for name, v := range want.Values {
		s.near(p, in, name, s.float64s("want "+name), v, want.Scale[name])
	}
	for name, of := range map[string]string{"scale": out, "scale x": "mean", "scale dz": "dz"} {
		if scale := want.Scale[of]; want.Values[of] != nil {
			s.near(p, in, name, s.float64s(name), scale, scale)
		}
	}
	for i, name := range []string{"dw", "db"} {
		if want.Values[name] != nil {
			got := []float64{math.Sqrt(s.float64s("sums")[i] / float64(p.N))}
			s.near(p, in, "scale "+name, got, want.Scale[name], want.Scale[name])
		}
	}
}

// near allows for rounding of float64 at the scale of an element's row.
func (s *gpuSupport) near(p kernels.Problem, in kernels.Inputs, name string, got, want, scale []float64) {
	s.Helper()
	for i, w := range want {
		tol := 1e-11 * (math.Abs(w) + scale[i*len(scale)/len(want)])
		assert.Must(s.T, math.Abs(got[i]-w) <= tol, "%s, %s: %s[%d] = %.15g, want %.15g", p, in, name, i, got[i], w)
	}
}
