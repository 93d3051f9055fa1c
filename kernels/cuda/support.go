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
	fill, rows, columns, roundTo, wide, moved, quantize, squares, compare, differing, digest, flush,
	letGo, spin driver.Function
}

func (d *Device) loadSupport() error {
	b, err := d.cache.Compile(nvrtc.Source{Name: "support.cu", Text: supportSource},
		nvrtc.Options{Arch: d.info.Arch})
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
		"wide": &s.wide, "quantize": &s.quantize, "digest": &s.digest, "squares": &s.squares,
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

// each launches a support entry over n elements.
func (d *Device) each(f driver.Function, n int64, args ...uint64) error {
	return d.ctx.Enqueue(d.stream, []driver.Step{d.over(f, n, args...)})
}

// over is the launch of a support entry over n elements.
func (d *Device) over(f driver.Function, n int64, args ...uint64) driver.Step {
	blocks := min(max((n+supportThreads-1)/supportThreads, 1), int64(d.info.SMs)*16)
	return supportStep(f, [3]int{int(blocks), 1, 1}, args)
}

func supportStep(f driver.Function, grid [3]int, args []uint64) driver.Step {
	return driver.Step{Kind: driver.StepLaunch, Func: f, Grid: grid,
		Block: [3]int{supportThreads, 1, 1}, Args: args}
}

// launch launches a support entry.
func (d *Device) launch(f driver.Function, grid [3]int, args []uint64) error {
	return d.ctx.Enqueue(d.stream, []driver.Step{supportStep(f, grid, args)})
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
		if err := d.draw(w, seed, mem[w.Tensor.Name]); err != nil {
			return err
		}
	}
	return nil
}

// draw fills one tensor.
func (d *Device) draw(w reference.Draw, seed uint64, out driver.Ptr) error {
	n, hostility := w.Tensor.Elems(), reference.Tame
	if seed&reference.Hostile != 0 {
		hostility = w.Hostile
	}
	return d.each(d.support.fill, n, uint64(out), uint64(n), uint64(w.Tensor.DType), seed, w.Stream,
		float(reference.Unit), float(w.Scale), float(w.Offset), uint64(w.Tensor.Cols), uint64(hostility))
}

// savedOutput fills y with what the forward of p has written, and b with its
// bias.
func (d *Device) savedOutput(p kernels.Problem, seed uint64, mem map[string]driver.Ptr) error {
	if p.Bias {
		if err := d.draw(reference.BiasDraw(p), seed, mem["b"]); err != nil {
			return err
		}
	}
	n := p.M * p.N
	out, err := d.ctx.Alloc(8 * (n + 2*p.M))
	if err != nil {
		return err
	}
	defer d.ctx.Free(out)
	scale, err := d.ctx.Alloc(8 * scaleSlots)
	if err != nil {
		return err
	}
	defer d.ctx.Free(scale)
	want := map[string]driver.Ptr{"y": out}
	for i, name := range p.Op.Spec().Saved {
		want[name] = out + driver.Ptr(8*(n+int64(i)*p.M))
	}
	if err := d.rows(p, false, 0, mem, want, scale); err != nil {
		return err
	}
	return d.each(d.support.roundTo, n, uint64(mem["y"]), uint64(out), uint64(n), uint64(p.DType))
}

// scaleSlots are the places of the sums of squares: those of the entry rows,
// then that of resout.
const (
	scaleSlots  = 6
	resoutScale = 5
)

// rows launches the entry of that name over the rows of p. res is the tensor
// that is added to x or dx, 0 for none.
func (d *Device) rows(p kernels.Problem, backward bool, res driver.Ptr,
	mem, want map[string]driver.Ptr, scale driver.Ptr) error {
	out := want["y"]
	if backward {
		out = want["dx"]
	}
	spec := p.Op.Spec()
	args := []uint64{
		uint64(mem["x"]), uint64(mem["dy"]), uint64(mem["w"]), uint64(mem["b"]), uint64(res),
		uint64(out), uint64(want["resout"]),
		uint64(want[spec.Saved[0]]), uint64(want["mean"]), uint64(scale), uint64(p.M), uint64(p.N),
		uint64(p.DType), uint64(p.Weight),
		boolArg(spec.Centered), boolArg(spec.Unit), boolArg(backward), boolArg(p.ZeroCentered),
		double(spec.Eps),
	}
	blocks := int(min(p.M, int64(d.info.SMs)*8))
	return d.launch(d.support.rows, [3]int{blocks, 1, 1}, args)
}

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
	bwd := p.Pass == kernels.Bwd
	out, res := "y", mem["res"]
	if bwd {
		out, res = "dx", mem["dres"]
	}
	all := uint64(p.M * p.N)
	if err := d.rows(p, bwd, res, mem, want, scale); err != nil {
		return nil, err
	}
	if p.FP8 {
		if err := d.quantized(p, mem, want, scale+8); err != nil {
			return nil, err
		}
	}
	if p.Residual && !bwd {
		if err := d.each(d.support.squares, int64(all), uint64(want["resout"]), all,
			uint64(scale)+8*resoutScale); err != nil {
			return nil, err
		}
	}
	if bwd {
		if err := d.columns(p, mem, want); err != nil {
			return nil, err
		}
	}
	sums, err := d.float64s(scale, scaleSlots)
	if err != nil {
		return nil, err
	}
	elems, cols := float64(p.M*p.N), float64(p.N)
	return map[string]float64{
		"mean":   math.Sqrt(sums[0] / elems),
		out:      math.Sqrt(sums[1] / elems),
		"yt":     math.Sqrt(sums[1] / elems),
		"resout": math.Sqrt(sums[resoutScale] / elems),
		"dw":     math.Sqrt(sums[2] / cols),
		"db":     math.Sqrt(sums[3] / cols),

		p.Op.Spec().Saved[0]: math.Sqrt(sums[4] / float64(p.M)),
	}, nil
}

// columns computes dw and db of a backward.
func (d *Device) columns(p kernels.Problem, mem, want map[string]driver.Ptr) (err error) {
	for _, name := range []string{"dw", "db"} {
		switch {
		case want[name] == 0:
		case p.Accumulate:
			err = d.each(d.support.wide, p.N, uint64(want[name]), uint64(mem[name+"_in"]),
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
	})
}

// quantized turns the answer y into that of fp8, and takes its scale again.
func (d *Device) quantized(p kernels.Problem, mem, want map[string]driver.Ptr, scale driver.Ptr) error {
	n := p.M * p.N
	if err := d.ctx.Memset8(d.stream, want["amax"], 0, 8); err != nil {
		return err
	}
	if err := d.each(d.support.quantize, n, uint64(want["y"]), uint64(want["yt"]), uint64(p.M),
		uint64(p.N), uint64(mem["scale"]),
		uint64(want["amax"]), uint64(want["scale_inv"])); err != nil {
		return err
	}
	if err := d.ctx.Memset8(d.stream, scale, 0, 8); err != nil {
		return err
	}
	return d.each(d.support.squares, n, uint64(want["y"]), uint64(n), uint64(scale))
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

// outcome is what compare finds: support.cu's struct Outcome.
type outcome struct {
	Bad, First  uint64
	Worst       float64
	Err2, Want2 float64
}

const outcomeBytes = 40
