package families

import (
	"testing"

	"normbench/kernels"
)

// What the Serves helpers refuse has a reason, and nothing else is refused.
func TestServes(t *testing.T) {
	p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 4, N: 8, DType: kernels.BF16, Weight: kernels.BF16}
	with := func(set func(*kernels.Problem)) kernels.Problem {
		q := p
		set(&q)
		return q
	}
	fp8 := with(func(q *kernels.Problem) { q.FP8 = true })
	residual := with(func(q *kernels.Problem) { q.Residual = true })
	bias := with(func(q *kernels.Problem) { q.Bias, q.ZeroCentered = true, true })
	for _, test := range []struct {
		serves         func(kernels.Problem) error
		fp8, res, bias bool
	}{{servesAll, true, true, true}, {servesNoFP8, false, true, true}, {servesPlain, false, false, true}} {
		for q, want := range map[kernels.Problem]bool{p: true, fp8: test.fp8, residual: test.res, bias: test.bias} {
			if err := test.serves(q); (err == nil) != want {
				t.Errorf("%s: %v, want it served: %v", q, err, want)
			}
		}
	}
	// servesTile wants both outputs, in tiles of 4x4 bytes.
	for q, want := range map[kernels.Problem]bool{
		p: false, fp8: false,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose = true, true }):                                 true,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.Residual, q.Bias = true, true, true, true }): true,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.M = true, true, 6 }):                         false,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.N = true, true, 9 }):                         false,
	} {
		if err := servesTile(q); (err == nil) != want {
			t.Errorf("%s: %v, want it served: %v", q, err, want)
		}
	}
}
