//go:build cuda

package cuda

import (
	"context"
	"math"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cuda/driver"
	"normbench/kernels/families"
	"normbench/kernels/families/reference"
)

// openDevice opens GPU 0, or skips the test where there is none.
func openDevice(t *testing.T) *Device {
	t.Helper()
	d, err := Open(families.New(), 0, 0)
	assert.Needs(t, "CUDA", err)
	t.Cleanup(func() { d.Close() })
	return d
}

// The inputs that the GPU draws are package reference's to the bit in every draw, and the answers and
// scales that it computes agree with package reference's as far as two orders of float64 sums can.
func TestAnswersMatchReference(t *testing.T) {
	d := openDevice(t)
	for _, op := range kernels.Ops() {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			for _, dt := range kernels.DTypes() {
				for _, m := range []int64{67, 2} {
					p := kernels.Problem{Op: op.Op, Pass: pass, M: m, N: 541, DType: dt, Weight: dt}
					if op.Weight {
						p.Weight, p.Bias, p.ZeroCentered = kernels.FP32, op.Bias, dt == kernels.FP16
					}
					for _, draw := range kernels.CheckDraws(p, true) {
						matchReference(t, d, p, kernels.Inputs{Seed: 42, Draw: draw})
					}
					matchReference(t, d, p, kernels.Inputs{Seed: 42, Draw: kernels.DrawPlain, From: 3})
				}
			}
		}
	}
}

// near says whether two numbers are the same, or as near as sums of terms of a scale can be.
func near(got, want, scale float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) ||
		math.Abs(got-want) <= 1e-12*(math.Abs(want)+scale)
}

func matchReference(t *testing.T, d *Device, p kernels.Problem, in kernels.Inputs) {
	opened, err := d.Open(context.Background(), p, in)
	assert.NoError(t, err)
	defer opened.Close()
	b := opened.(*bench)
	mem := reference.Inputs(p, in)
	for name, want := range mem {
		got := kernels.NewMemory(want.DType, want.Len())
		assert.NoError(t, d.call(func() error { return d.ctx.CopyFromDevice(got.Bytes, b.mem[name]) }))
		for i := range want.Len() { // the bits of a NaN are the device's
			g, w := got.At(i), want.At(i)
			assert.Must(t, math.Float32bits(g) == math.Float32bits(w) || g != g && w != w,
				"%s, %s: %s[%d] is %v, the host draws %v", p, in, name, i, g, w)
		}
	}
	read := func(from driver.Ptr, n int) (v []float64) {
		assert.NoError(t, d.call(func() (err error) {
			v, err = d.float64s(from, n)
			return err
		}))
		return v
	}
	answer := reference.ComputeGroundTruth(p, mem)
	for name, want := range answer.Values {
		assert.Must(t, b.want[name] != 0, "%s: no answer for %s on the GPU", p, name)
		for i, got := range read(b.want[name], len(want)) {
			// A row of extreme numbers sums up to more than the scale of its other elements.
			scale := answer.Scale[name][i*len(answer.Scale[name])/len(want)]
			assert.Must(t, near(got, want[i], scale), "%s, %s: %s[%d] is %v, want %v", p, in, name, i, got, want[i])
		}
	}
	for _, out := range p.Tensors() {
		if out.Role != kernels.Output {
			continue
		}
		assert.Equal(t, b.tol[out.Name], reference.ToleranceFor(p, out), "tolerance of", out.Name)
		want := answer.Scale[out.Name]
		from, _, one := b.scale.scaleOf(p, out, b.want)
		got := []float64{one}
		if from != 0 {
			got = read(from, len(want))
		}
		for i, w := range want {
			assert.Must(t, near(got[i], w, w) || math.IsNaN(got[i]) && w == 0,
				"%s, %s: the scale of %s is %v in row %d, want %v", p, in, out.Name, got[i], i, w)
		}
	}
}
