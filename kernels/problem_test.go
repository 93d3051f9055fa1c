package kernels_test

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// Every option of every op and pass is read back, and refused where the op or the pass has it not.
func TestOptionsAreReadBackOrRefused(t *testing.T) {
	for _, s := range kernels.Ops() {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			for _, o := range kernels.Options() {
				p := kernels.Problem{Op: s.Op, Pass: pass, M: 3, N: 5, DType: kernels.BF16,
					Weight: kernels.BF16}
				o.Set(&p)
				takes := slices.Contains(s.Options, o.Name) && (o.Pass == "" || o.Pass == pass)
				back, err := kernels.ParseProblem(p.String())
				assert.That(t, takes == (err == nil) && (!takes || back == p) &&
					strings.HasSuffix(p.String(), "+"+o.Name),
					"%s is read back as %s, %v; taken: %v", p, back, err, takes)
			}
		}
	}
}

// Bytes against the roofline formulas written out, with b the size of x, y, dy
// and dx and c that of w, dw, b and db:
//
//	rmsnorm fwd:  M*N*2b + N*c + 4M          rmsnorm bwd:  M*N*3b + 2*N*c + 4M
//	layernorm: 4M more for the mean; bias: N*c more in either pass
//	gated: z in either pass and dz in bwd, M*N*b each; b too in bwd with the gate behind the norm
//
// Footprint adds the outputs a second time, a float64 for each of their elements, and one for each
// of what the stream writes.
func TestBytesOfAProblemFollowItsFormula(t *testing.T) {
	const M, N = 96, 1000
	for _, test := range []struct {
		p                string
		bytes, footprint int64
	}{
		{"rmsnorm/fwd/96x1000/bf16", M*N*(2+2) + N*2 + 4*M, M*N*(2+8+8) + M*(4+8)},
		{"rmsnorm/fwd/96x1000/fp32-wbf16", M*N*(4+4) + N*2 + 4*M, M*N*(4+8+8) + M*(4+8)},
		{"rmsnorm/fwd/96x1000/bf16-wfp32+bias", M*N*(2+2) + N*4 + N*4 + 4*M, M*N*(2+8+8) + M*(4+8)},
		{"layernorm/fwd/96x1000/fp16+bias", M*N*(2+2) + N*2 + N*2 + 4*M + 4*M, M*N*(2+8+8) +
			2*M*(4+8)},
		{"rmsnorm/bwd/96x1000/bf16", M*N*(2+2+2) + N*(2+2) + 4*M, M*N*(2+8+8) + N*(2+8)},
		{"rmsnorm/bwd/96x1000/bf16+zc", M*N*(2+2+2) + N*(2+2) + 4*M, M*N*(2+8+8) + N*(2+8)},
		{"l2norm/fwd/96x1000/bf16+residual", M*N*(2+2+2+2) + 4*M, M*N*2*(2+8+8) + M*(4+8)},
		{"l2norm/bwd/96x1000/bf16", M*N*(2+2+2) + 4*M, M * N * (2 + 8 + 8)},
		{"rmsnormgated/fwd/96x1000/bf16", M*N*(2+2+2) + N*2 + 4*M, M*N*(2+8+8) + M*(4+8)},
		{"rmsnormgated/bwd/96x1000/bf16", M*N*5*2 + N*(2+2) + 4*M, 2*M*N*(2+8+8) + N*(2+8)},
		{"layernormgated/bwd/96x1000/bf16+bias", M*N*5*2 + 4*N*2 + 8*M, 2*M*N*(2+8+8) + 2*N*(2+8)},
		{"layernormgated/bwd/96x1000/bf16+bias+gatefirst", M*N*5*2 + 3*N*2 + 8*M, 2*M*N*(2+8+8) +
			2*N*(2+8)}, // the bias is no part of what dz is made of
		{"layernorm/bwd/96x1000/fp32+bias", M*N*(4+4+4) + N*(4+4) + N*4 + 4*M + 4*M, M*N*(4+8+8) +
			2*N*(4+8)},
		{"layernorm/bwd/96x1000/fp16-wfp32", M*N*(2+2+2) + N*(4+4) + 4*M + 4*M, M*N*(2+8+8) +
			N*(4+8)},
	} {
		p := devicetest.Problem(t, test.p)
		assert.Equal(t, p.Bytes(), test.bytes, p, "moves", "bytes")
		assert.Equal(t, p.Footprint()-p.Bytes(), test.footprint,
			p, "needs", "bytes beside its tensors")
	}
}

func FuzzParseProblem(f *testing.F) {
	for _, s := range []string{"rmsnorm/fwd/4096x8192/bf16", "layernorm/bwd/1x1/fp16-wfp32+bias+zc",
		"rmsnorm/fwd/007x1/bf16-wbf16", "rmsnorm/fwd/2147483648x2147483648/fp32", "a/b/1x1/c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := kernels.ParseProblem(s)
		if err != nil {
			return
		}
		assert.NoError(t, p.Validate(), "parsed", s)
		back, err := kernels.ParseProblem(p.String())
		assert.That(t, err == nil && back == p,
			"%q parsed as %v, which reads back as %v (%v)", s, p, back, err)
		b := p.Bytes()
		assert.That(t, b >= p.M*p.N && p.Footprint() > b,
			"%v: %d bytes, footprint %d: overflow", p, b, p.Footprint())
	})
}
