package reference

import (
	"math"

	"normbench/kernels"
)

// A Tolerance bounds |got-want| of an element by Abs + Terms*scale + Rel*|want|, where scale is that of
// the terms of the element's row (GroundTruth.Scale).
type Tolerance struct{ Rel, Terms, Abs float64 }

// ToleranceFor computes the tolerance of an output.
//
// Rel is one rounding to the output's type (half its epsilon) plus the noise of fp32 arithmetic. Terms
// is that noise at the scale of the terms, for elements that are small because large terms cancel. Abs
// is half a step of the type's subnormal numbers, in which fp16 has all below 6e-5. amax is of any row, so
// it errs as y does of rows with the largest mean. The noise grows with
// the square root of the number of terms that an element sums, as a random walk of rounding errors does:
// N for what is computed per row, M for dw and db (quack's tests use the same law, atol 5e-6*sqrt(M)).
func ToleranceFor(p kernels.Problem, t kernels.Tensor) Tolerance {
	terms := p.N
	if t.Name == "dw" || t.Name == "db" {
		terms = p.M
	}
	noise := 0x1p-24 * (16 + math.Sqrt(float64(terms)))
	tol := Tolerance{Rel: 1.02*t.DType.Epsilon()/2 + noise, Terms: 4 * noise, Abs: t.DType.Smallest() / 2}
	if t.Name == "amax" {
		tol.Abs += tol.Terms * MeanShare * largestMean
	}
	return tol
}

// Loosen widens the tolerance for what a plan rounds before the output's last rounding. An element of
// one term errs by half an epsilon more. Terms that err by half an epsilon each, independently, sum up
// to an error of half an epsilon of their scale (over root three) in the mean; eight times that leaves
// five deviations and the largest of many columns.
func (tol Tolerance) Loosen(rounds []kernels.Rounding, output string) Tolerance {
	for _, r := range rounds {
		if r.Output == output {
			tol.Rel += 1.02 * r.DType.Epsilon() / 2
			tol.Terms += 4 * r.DType.Epsilon() / 2
			tol.Abs += r.DType.Smallest() / 2
		}
	}
	return tol
}

// Limit returns the magnitude from which a type rounds to infinity.
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

// SumsRows says whether an output is a sum or a maximum over rows. One NaN in the inputs makes much
// of it NaN, or all.
func SumsRows(output string) bool { return output == "dw" || output == "db" || output == "amax" }

// Compare checks got against want, element by element, on inputs of a draw. An element is bad where the
// difference exceeds the tolerance, where only one of the two is NaN, where an infinity (or a number
// that overflows t's type) is not met by the same infinity, and where all its bits are set, as poison
// leaves it. With non-finite inputs, outputs that sum over rows are only compared for being NaN: the
// finite draws check their values.
func Compare(t kernels.Tensor, got *kernels.Memory, want, scale []float64, tol Tolerance,
	draw kernels.Draw) kernels.OutputCheck {
	c := kernels.OutputCheck{Name: t.Name, Elems: t.Elems()}
	limit, finite := Limit(t.DType), int64(0)
	onlyNaN := draw == kernels.DrawNonFinite && SumsRows(t.Name)
	row := rowOf(t, len(scale))
	var err2, want2 float64
	for i, w := range want {
		g := float64(got.At(int64(i)))
		if math.Abs(w) >= limit {
			w = math.Copysign(math.Inf(1), w)
		}
		known := !math.IsNaN(w) && !math.IsInf(w, 0)
		if known {
			finite++
		}
		unwritten := got.Unwritten(int64(i))
		same := g == w || math.IsNaN(g) && math.IsNaN(w) || onlyNaN && math.IsNaN(g) == math.IsNaN(w)
		if same && !unwritten {
			if known {
				want2 += w * w
			}
			continue
		}
		diff := math.Abs(g - w)
		ratio := diff / (tol.Abs + tol.Terms*scale[row(int64(i))] + tol.Rel*math.Abs(w))
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
		if unwritten {
			c.Unwritten++
		}
		c.MaxErr = max(c.MaxErr, ratio)
	}
	c.Void = ProvesNothing(draw, finite, c.Elems)
	c.MaxErr = min(c.MaxErr, math.MaxFloat32) // infinity has no JSON form
	if want2 > 0 {
		c.RelL2 = math.Sqrt(err2 / want2)
		if math.IsInf(c.RelL2, 0) || math.IsNaN(c.RelL2) {
			c.RelL2 = math.MaxFloat32
		}
	}
	return c
}

// ProvesNothing says whether a comparison proves nothing: the inputs are finite, and yet less than half
// of the wanted elements are.
func ProvesNothing(draw kernels.Draw, finite, elems int64) bool {
	return draw != kernels.DrawNonFinite && 2*finite < elems
}

// rowOf returns the function that finds the place of an element of t in a scale of n numbers.
func rowOf(t kernels.Tensor, n int) func(i int64) int64 {
	switch {
	case n == 1:
		return func(int64) int64 { return 0 }
	case t.Name == "yt": // rows are its columns
		return func(i int64) int64 { return i % int64(n) }
	}
	cols := t.Elems() / int64(n)
	return func(i int64) int64 { return i / cols }
}
