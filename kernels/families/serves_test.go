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
	// servesBand wants both outputs, of rows by sixteens and of whole warps.
	for q, want := range map[kernels.Problem]bool{
		p: false, fp8: false,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.M, q.N = true, true, 16, 256 }):                   true,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.Residual, q.M, q.N = true, true, true, 16, 256 }): false,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.M, q.N = true, true, 24, 256 }):                   false,
		with(func(q *kernels.Problem) { q.FP8, q.Transpose, q.M, q.N = true, true, 16, 128 }):                   false,
	} {
		if err := servesBand(q); (err == nil) != want {
			t.Errorf("%s: %v, want it served: %v", q, err, want)
		}
	}
}
