//go:build cuda

package cuda

import (
	"encoding/binary"
	"math"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/cuda/driver"
	"normbench/kernels/families/reference"
)

// A support has the kernels of support.cu.
type support struct {
	fill, rows, columns, roundTo, wide, moved, quantize, untouched, fingerprint, compare, differing, flush,
	letGo, spin driver.Function
}

// loadSupport compiles and loads support.cu.
func (d *Device) loadSupport() error {
	b, err := d.cache.Compile(nvrtc.Source{Name: "support.cu", Text: supportSource},
		nvrtc.CompileOptions{Arch: d.info.Arch})
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
		"wide": &s.wide, "quantize": &s.quantize, "untouched": &s.untouched, "fingerprint": &s.fingerprint,
		"compare": &s.compare, "differing": &s.differing, "flush": &s.flush, "letGo": &s.letGo,
		"spin": &s.spin,
	} {
		if *f, err = m.Function(name); err != nil {
			return err
		}
	}
	return nil
}

const supportThreads = 256

// launchOver launches a support kernel over n elements.
func (d *Device) launchOver(f driver.Function, n int64, args ...uint64) error {
	return d.ctx.Enqueue(d.stream, []driver.Command{d.commandOver(f, n, args...)})
}

// commandOver makes the command that launches a support kernel over n elements.
func (d *Device) commandOver(f driver.Function, n int64, args ...uint64) driver.Command {
	blocks := min(max((n+supportThreads-1)/supportThreads, 1), int64(d.info.SMs)*16)
	return supportStep(f, [3]int{int(blocks), 1, 1}, args)
}

// supportStep makes the command that launches a support kernel.
func supportStep(f driver.Function, grid [3]int, args []uint64) driver.Command {
	return driver.Command{Kind: driver.CommandLaunch, Func: f, Grid: grid,
		Block: [3]int{supportThreads, 1, 1}, Args: args}
}

// launch launches a support kernel.
func (d *Device) launch(f driver.Function, grid [3]int, args []uint64) error {
	return d.ctx.Enqueue(d.stream, []driver.Command{supportStep(f, grid, args)})
}

func boolArg(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func float(f float32) uint64  { return uint64(math.Float32bits(f)) }
func double(f float64) uint64 { return math.Float64bits(f) }

// drawInputs fills the random inputs of p.
func (d *Device) drawInputs(p kernels.Problem, in kernels.Inputs, mem map[string]driver.Ptr) error {
	for _, x := range reference.InputsOf(p) {
		if err := d.drawTensor(x, in, mem[x.Tensor.Name]); err != nil {
			return err
		}
	}
	return nil
}

// drawTensor fills one random input.
func (d *Device) drawTensor(x reference.Input, in kernels.Inputs, out driver.Ptr) error {
	n, rows := x.Tensor.Elems(), reference.RowsOf(in, x.Tensor.Rows)
	var cycle, kinds uint64
	for k, kind := range rows.Cycle {
		cycle |= uint64(kind) << (8 * k)
	}
	listed := [8]uint64{}
	for k := range listed {
		if listed[k] = math.MaxUint64; k < len(rows.Special) { // no row
			listed[k] = uint64(rows.Special[k].Row)
			kinds |= uint64(rows.Special[k].Kind) << (8 * k)
		}
	}
	return d.launchOver(d.support.fill, n, append([]uint64{uint64(out), uint64(n), uint64(x.Tensor.DType), in.Seed, x.Stream,
		float(reference.Unit), float(x.Scale), float(x.Offset), uint64(x.Tensor.Cols), uint64(x.Rows),
		uint64(rows.All), uint64(rows.Shift), cycle, kinds, uint64(x.First(in))}, listed[:]...)...)
}

// savedOutput computes the y that the forward of p has written, and draws its bias into b.
func (d *Device) savedOutput(p kernels.Problem, in kernels.Inputs, mem map[string]driver.Ptr) error {
	if p.Bias {
		if err := d.drawTensor(reference.BiasOf(p), in, mem["b"]); err != nil {
			return err
		}
	}
	n := p.M * p.N
	out, err := d.ctx.Alloc(8 * (n + 2*p.M))
	if err != nil {
		return err
	}
	defer d.ctx.Free(out)
	scale, err := d.newScales(p.M)
	if err != nil {
		return err
	}
	defer d.ctx.Free(scale.sums)
	want := map[string]driver.Ptr{"y": out}
	for i, name := range p.Op.Spec().Saved {
		want[name] = out + driver.Ptr(8*(n+int64(i)*p.M))
	}
	if err := d.launchRows(p, false, 0, mem, want, scale); err != nil {
		return err
	}
	return d.launchOver(d.support.roundTo, n, uint64(mem["y"]), uint64(out), uint64(n), uint64(p.DType))
}

// A scales has the scales of the terms of a problem's answers, see reference.GroundTruth: of each row of
// y or dx, of x and of dz, and the sums of squares of dw and db. They are one allocation, which sums begins.
type scales struct {
	sums, out, x, dz driver.Ptr
	dw, db           float64
}

// newScales allocates the scales for so many rows.
func (d *Device) newScales(rows int64) (s scales, err error) {
	if s.sums, err = d.ctx.Alloc(8 * (2 + 3*rows)); err != nil {
		return s, err
	}
	s.out = s.sums + 16
	s.x = s.out + driver.Ptr(8*rows)
	s.dz = s.x + driver.Ptr(8*rows)
	return s, d.ctx.Memset8(d.stream, s.sums, 0, 16)
}

// launchRows launches the support kernel that computes the answers of p row by row. res is the tensor
// that is added to x or dx, 0 for none.
func (d *Device) launchRows(p kernels.Problem, backward bool, res driver.Ptr,
	mem, want map[string]driver.Ptr, scale scales) error {
	out, bias := want["y"], 0.0
	if backward {
		out = want["dx"]
	}
	if p.Bias {
		bias = reference.BiasScale
	}
	spec := p.Op.Spec()
	args := []uint64{
		uint64(mem["x"]), uint64(mem["dy"]), uint64(mem["w"]), uint64(mem["b"]), uint64(res),
		uint64(out), uint64(want["resout"]),
		uint64(want[spec.Saved[0]]), uint64(want["mean"]), uint64(scale.out), uint64(scale.x), uint64(scale.sums),
		uint64(p.M), uint64(p.N), uint64(p.DType), uint64(p.Weight),
		boolArg(spec.Centered), uint64(spec.Statistics()), boolArg(backward), boolArg(p.ZeroCentered),
		double(spec.Eps), double(reference.MeanShare), double(bias),
		uint64(mem["z"]), uint64(want["dz"]), uint64(scale.dz), boolArg(p.Sigmoid), boolArg(p.GateFirst),
	}
	blocks := int(min(p.M, int64(d.info.SMs)*8))
	return d.launch(d.support.rows, [3]int{blocks, 1, 1}, args)
}

// computeAnswers computes the float64 answers of p into want, and their scales. want has rstd, and mean
// in layernorm, also for a backward.
func (d *Device) computeAnswers(p kernels.Problem, mem, want map[string]driver.Ptr, s *scales) error {
	bwd := p.Pass == kernels.Bwd
	res := mem["res"]
	if bwd {
		res = mem["dres"]
	}
	if err := d.launchRows(p, bwd, res, mem, want, *s); err != nil {
		return err
	}
	if p.FP8 {
		if err := d.quantizeAnswer(p, mem, want, s.out); err != nil {
			return err
		}
	}
	if bwd {
		if err := d.launchColumns(p, mem, want); err != nil {
			return err
		}
	}
	sums, err := d.float64s(s.sums, 2)
	if err != nil {
		return err
	}
	s.dw, s.db = math.Sqrt(sums[0]/float64(p.N)), math.Sqrt(sums[1]/float64(p.N))
	return nil
}

// scaleOf returns where the scale of the terms of an output's elements is: rows with a number for each
// row of cols columns (negative where rows are columns), or one number for all.
func (s *scales) scaleOf(p kernels.Problem, t kernels.Tensor, want map[string]driver.Ptr) (
	rows driver.Ptr, cols int64, one float64) {
	saved := p.Op.Spec().Saved
	switch t.Name {
	case "y", "dx":
		return s.out, p.N, 0
	case "dz":
		return s.dz, p.N, 0
	case "yt":
		return s.out, -p.M, 0
	case "resout":
		return s.x, p.N, 0
	case saved[0]: // its answers are their own scale
		return want[t.Name], 1, 0
	case saved[len(saved)-1]:
		return s.x, 1, 0
	case "dw":
		return 0, 1, s.dw
	case "db":
		return 0, 1, s.db
	}
	return 0, 1, 0
}

// launchColumns launches the support kernels that compute dw and db of a backward.
func (d *Device) launchColumns(p kernels.Problem, mem, want map[string]driver.Ptr) (err error) {
	for _, name := range []string{"dw", "db"} {
		switch {
		case want[name] == 0:
		case p.Accumulate:
			err = d.launchOver(d.support.wide, p.N, uint64(want[name]), uint64(mem[name+"_in"]),
				uint64(p.N), uint64(p.Weight))
		default:
			err = d.ctx.Memset8(d.stream, want[name], 0, 8*p.N)
		}
		if err != nil {
			return err
		}
	}
	cols := (p.N + 31) / 32
	shares := min(max(int64(d.info.SMs)*8/cols, 1), (p.M+7)/8)
	return d.launch(d.support.columns, [3]int{int(cols), int(shares), 1}, []uint64{
		uint64(mem["x"]), uint64(mem["dy"]), uint64(want[p.Op.Spec().Saved[0]]),
		uint64(want["mean"]), uint64(want["dw"]),
		uint64(want["db"]), uint64(p.M), uint64(p.N), uint64(p.DType),
		uint64(mem["z"]), boolArg(p.Sigmoid), boolArg(p.GateFirst),
	})
}

// quantizeAnswer converts the answer y to that of fp8, with the scale of its rows.
func (d *Device) quantizeAnswer(p kernels.Problem, mem, want map[string]driver.Ptr, scale driver.Ptr) error {
	if err := d.ctx.Memset8(d.stream, want["amax"], 0, 8); err != nil {
		return err
	}
	return d.launchOver(d.support.quantize, p.M*p.N, uint64(want["y"]), uint64(want["yt"]), uint64(p.M), uint64(p.N),
		uint64(mem["scale"]), uint64(want["amax"]), uint64(want["scale_inv"]), uint64(scale))
}

// float64s reads n doubles, after all work in the stream.
func (d *Device) float64s(p driver.Ptr, n int) ([]float64, error) {
	raw, v := make([]byte, 8*n), make([]float64, n)
	if err := d.ctx.CopyFromDevice(raw, p); err != nil {
		return nil, err
	}
	_, err := binary.Decode(raw, binary.LittleEndian, v)
	return v, err
}

// An outcome is what the kernel compare finds of one output: struct Outcome in support.cu.
type outcome struct {
	Bad, First  uint64
	Worst       float64
	Err2, Want2 float64
	// elements as they were poisoned, answers that are finite
	Unwritten, Finite uint64
}

const outcomeBytes = 56
