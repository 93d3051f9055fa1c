package reference

import (
	"math"

	"normbench/kernels"
)

// A Tolerance bounds |got-want| by Abs + Rel*|want|.
type Tolerance struct{ Rel, Abs float64 }

// ToleranceFor is what an output may err, given the scale of its terms
// (Answer.Scale).
//
// Rel is one rounding to the output's type (half its epsilon) plus the noise of
// fp32 arithmetic; Abs is that noise at the scale of the terms, for elements
// that are small because large terms cancel, and half a step of the type's
// subnormal numbers, in which fp16 has all below 6e-5. The noise grows with the square
// root of the number of terms that an element sums, as a random walk of
// rounding errors does: N for what is computed per row, M for dw and db
// (quack's tests use the same law, atol 5e-6*sqrt(M)).
func ToleranceFor(p kernels.Problem, t kernels.Tensor, scale float64) Tolerance {
	terms := p.N
	if t.Name == "dw" || t.Name == "db" {
		terms = p.M
	}
	noise := 0x1p-24 * (16 + math.Sqrt(float64(terms)))
	return Tolerance{Rel: 1.02*t.DType.Epsilon()/2 + noise, Abs: 4*noise*scale + t.DType.Smallest()/2}
}

// Loosen allows for what a plan rounds on the way to an output: terms that err
// by half an epsilon each, independently, sum up to an error of half an epsilon
// of their scale (over root three) in the mean; eight times that leaves five
// deviations and the largest of many columns.
func (tol Tolerance) Loosen(rounds []kernels.Rounding, output string, scale float64) Tolerance {
	for _, r := range rounds {
		if r.Output == output {
			tol.Abs += 4*r.DType.Epsilon()/2*scale + r.DType.Smallest()/2
		}
	}
	return tol
}

// Limit is the magnitude from which a type rounds to infinity.
func Limit(d kernels.DType) float64 {
	switch d {
	case kernels.FP16:
		return 65520
	case kernels.BF16:
		return 0x1.ffp127
	case kernels.E4M3:
		return math.Inf(1) // it saturates
	}
	return 0x1.ffffffp127
}

// Compare checks got against want, element by element. An element is bad where
// the difference exceeds the tolerance, where one of the two is NaN, or where an
// infinity (or what overflows t's type) is not met by the same infinity.
func Compare(t kernels.Tensor, got *kernels.Memory, want []float64, tol Tolerance) kernels.OutputCheck {
	c := kernels.OutputCheck{Name: t.Name, Elems: t.Elems()}
	limit := Limit(t.DType)
	var err2, want2 float64
	for i, w := range want {
		g := float64(got.At(int64(i)))
		if math.Abs(w) >= limit {
			w = math.Copysign(math.Inf(1), w)
		}
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			if !math.IsNaN(w) && !math.IsInf(w, 0) {
				want2 += w * w
			}
			continue
		}
		diff := math.Abs(g - w)
		ratio := diff / (tol.Abs + tol.Rel*math.Abs(w))
		if math.IsNaN(ratio) {
			ratio = math.Inf(1)
		} else {
			err2 += diff * diff
			want2 += w * w
		}
		if ratio > 1 {
			if c.Bad == 0 {
				c.First, c.Got, c.Want = int64(i), kernels.Number(g), kernels.Number(w)
			}
			c.Bad++
		}
		c.MaxErr = max(c.MaxErr, ratio)
	}
	c.MaxErr = min(c.MaxErr, math.MaxFloat32) // infinity has no JSON form
	if want2 > 0 {
		c.RelL2 = math.Sqrt(err2 / want2)
		if math.IsInf(c.RelL2, 0) || math.IsNaN(c.RelL2) {
			c.RelL2 = math.MaxFloat32
		}
	}
	return c
}
