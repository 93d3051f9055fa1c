//go:build cuda

package cuda

import (
	"context"
	"math"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/reference"
)

// openDevice opens GPU 0, or skips the test where there is none.
func openDevice(t *testing.T) *Device {
	t.Helper()
	d, err := Open(families.New(), 0, 0)
	assert.Needs(t, "CUDA", err)
	t.Cleanup(func() { d.Close() })
	return d
}

// The inputs that the GPU draws are package reference's to the bit, and the
// answers that it computes agree with package reference's as far as two orders
// of float64 sums can.
func TestAnswersMatchReference(t *testing.T) {
	d := openDevice(t)
	for _, op := range kernels.Ops() {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			for _, dt := range kernels.DTypes() {
				p := kernels.Problem{Op: op.Op, Pass: pass, M: 67, N: 541, DType: dt, Weight: dt}
				if op.Weight {
					p.Weight, p.Bias, p.ZeroCentered = kernels.FP32, op.Bias, dt == kernels.FP16
				}
				opened, err := d.Open(context.Background(), p, 42)
				assert.NoError(t, err)
				b := opened.(*bench)
				mem := reference.Inputs(p, 42)
				for name, want := range mem {
					got := kernels.NewMemory(want.DType, want.Len())
					assert.NoError(t,
						d.call(func() error { return d.ctx.CopyFromDevice(got.Bytes, b.mem[name]) }))
					assert.Equal(t, got.Differing(want), 0, p, name, "differ from the host's")
				}
				answer := reference.Answers(p, mem)
				for name, want := range answer.Values {
					assert.Must(t, b.want[name] != 0, "%s: no answer for %s on the GPU", p, name)
					var got []float64
					err := d.call(func() (err error) {
						got, err = d.float64s(b.want[name], len(want))
						return err
					})
					assert.NoError(t, err)
					for i, w := range want {
						assert.Must(t, math.Abs(got[i]-w) <= 1e-12*(math.Abs(w)+answer.Scale[name]),
							"%s: %s[%d] is %v, want %v", p, name, i, got[i], w)
					}
				}
				for _, out := range p.Tensors() {
					if out.Role == kernels.Output {
						want := reference.ToleranceFor(p, out, answer.Scale[out.Name])
						got := b.tol[out.Name]
						assert.That(t, math.Abs(got.Abs-want.Abs) <= 1e-9*want.Abs &&
							got.Rel == want.Rel, "%s: the tolerance of %s is %v, want %v", p,
							out.Name, got, want)
					}
				}
				b.Close()
			}
		}
	}
}
