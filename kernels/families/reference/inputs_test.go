package reference_test

import (
	"math"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families/reference"
)

// Of unit rows at most eight are special, and at most every second; of six rows on there are zeros, tiny
// and large ones. Fewer rows have them in draws of their own.
func TestUnitRowsHoldAFewSpecialOnes(t *testing.T) {
	for m := int64(1); m < 300; m++ {
		for seed := range uint64(5) {
			rows := reference.RowsOf(kernels.Inputs{Seed: seed * 0x1234567}, m)
			kinds, special := map[reference.RowKind]bool{}, 0
			for r := range m {
				if k := rows.Kind(r); k != reference.RowUnit {
					kinds[k] = true
					special++
				}
			}
			assert.That(t, special == len(rows.Special) && special <= 8 && int64(2*special) <= m,
				"%d of %d rows are special", special, m)
			assert.That(t, m < 6 && len(kinds) == 0 || kinds[reference.RowZero] && kinds[reference.RowTiny] &&
				kinds[reference.RowLarge] && len(kinds) == 3, "%d rows have the kinds %v", m, kinds)
		}
		p := devicetest.Problem(t, "rmsnorm/bwd/1x8/bf16")
		p.M = m
		assert.Equal(t, len(kernels.CheckDraws(p, false)), map[bool]int{true: 5, false: 2}[m < 6], m, "rows: draws")
	}
}

// A draw does to rows what it says, whatever the bits of the seed.
func TestDrawsDoToRowsWhatTheySay(t *testing.T) {
	p := devicetest.Problem(t, "layernorm/fwd/64x512/fp16+bias+residual")
	for draw, want := range map[kernels.Draw][2]float64{ // the least and the most |mean| of a row of x
		kernels.DrawMean: {36, 101}, kernels.DrawZeros: {0, 0}, kernels.DrawTiny: {0, 1e-3}, kernels.DrawLarge: {20, 300},
	} {
		for _, seed := range []uint64{1, 1 << 62, math.MaxUint64} {
			in := reference.Inputs(p, kernels.Inputs{Seed: seed, Draw: draw})
			for r := range p.M {
				mean := 0.0
				for j := range p.N {
					mean += float64(in["x"].At(r*p.N+j)) / float64(p.N)
				}
				assert.That(t, math.Abs(mean) >= want[0] && math.Abs(mean) <= want[1], "%s: row %d has the mean %g",
					draw.About(), r, mean)
			}
			assert.That(t, draw != kernels.DrawZeros || in["res"].At(5) == 0, "a residual beside a row of zeros")
		}
	}
	nan, inf := 0, 0
	in := reference.Inputs(p, kernels.Inputs{Seed: 1, Draw: kernels.DrawNonFinite})
	for i := range in["x"].Len() {
		v := float64(in["x"].At(i))
		if math.IsNaN(v) {
			nan++
		}
		if math.IsInf(v, 0) {
			inf++
		}
	}
	assert.Equal(t, [2]int{nan, inf}, [2]int{8, 8}, "NaN and infinities in 64 rows of x")
}

// answerOf checks an output that is the answer, rounded to its type, after change has altered it.
func answerOf(t *testing.T, text string, in kernels.Inputs, output string, change func(a reference.GroundTruth, p kernels.Problem,
	got *kernels.Memory)) kernels.OutputCheck {
	t.Helper()
	p := devicetest.Problem(t, text)
	a := reference.ComputeGroundTruth(p, reference.Inputs(p, in))
	for _, out := range p.Tensors() {
		if out.Name != output {
			continue
		}
		got := kernels.NewMemory(out.DType, out.Elems())
		got.Poison()
		for i, v := range a.Values[output] {
			got.Set(int64(i), float32(v))
		}
		change(a, p, got)
		return reference.Compare(out, got, a.Values[output], a.Scale[output], reference.ToleranceFor(p, out), in.Draw)
	}
	t.Fatalf("%s has no output %s", text, output)
	return kernels.OutputCheck{}
}

// A row of tiny numbers has an rstd of 316. It must not widen what a unit row's rstd may err.
func TestToleranceIsByRow(t *testing.T) {
	in := kernels.Inputs{Seed: 3, Draw: kernels.DrawExtreme}
	for _, output := range []string{"y", "rstd"} {
		c := answerOf(t, "rmsnorm/fwd/24x128/fp32", in, output, func(a reference.GroundTruth, p kernels.Problem, got *kernels.Memory) {
			for r := range p.M {
				if v := a.Values["rstd"][r]; v > 0.5 && v < 2 {
					at := r * got.Len() / p.M
					got.Set(at, got.At(at)*(1+1e-4))
				}
			}
		})
		assert.That(t, c.Bad >= 10 && c.MaxErr > 5, "%s off by 1e-4 in unit rows beside extreme ones: %+v", output, c)
	}
}

// dw sums over rows: one NaN row makes all of it NaN. Then it is compared for that alone, and never
// written is never right; on finite rows its values count.
func TestNaNDoesNotHideWhatSumsRows(t *testing.T) {
	const text = "rmsnorm/bwd/24x128/bf16"
	never := func(_ reference.GroundTruth, _ kernels.Problem, got *kernels.Memory) { got.Poison() }
	negated := func(_ reference.GroundTruth, _ kernels.Problem, got *kernels.Memory) {
		for i := range got.Len() {
			got.Set(i, -got.At(i))
		}
	}
	right := func(reference.GroundTruth, kernels.Problem, *kernels.Memory) {}
	for _, draw := range kernels.CheckDraws(devicetest.Problem(t, text), true) {
		in := kernels.Inputs{Seed: 1, Draw: draw}
		c := answerOf(t, text, in, "dw", right)
		assert.That(t, c.Bad == 0 && !c.Void, "%s: the right dw: %+v", draw.About(), c)
		c = answerOf(t, text, in, "dw", never)
		assert.That(t, c.Bad == 128 && c.Unwritten == 128, "%s: dw is never written: %+v", draw.About(), c)
		if draw != kernels.DrawNonFinite {
			c = answerOf(t, text, in, "dw", negated)
			assert.That(t, c.Bad > 100, "%s: dw is negated: %+v", draw.About(), c)
		}
	}
}

// A comparison on finite inputs whose answers are mostly not finite says so.
func TestVoidComparisonSaysSo(t *testing.T) {
	out := kernels.Tensor{Name: "y", Role: kernels.Output, DType: kernels.FP32, Rows: 1, Cols: 4}
	got := kernels.NewMemory(kernels.FP32, 4)
	for i := range got.Len() {
		got.Set(i, float32(math.NaN()))
	}
	nan := math.NaN()
	for draw, want := range map[kernels.Draw]bool{kernels.DrawUnit: true, kernels.DrawNonFinite: false} {
		c := reference.Compare(out, got, []float64{nan, nan, nan, nan}, []float64{0}, reference.Tolerance{}, draw)
		assert.Equal(t, c.Void, want, draw.About())
		check := kernels.Check{Outputs: []kernels.OutputCheck{c}}
		assert.Equal(t, check.OK(), !want, draw.About(), check.Reason())
	}
}

// On rows with a mean of many standard deviations fp32 that subtracts the mean first is right, and the
// mean of squares less the square of the mean is not.
func TestRowsWithAMeanFindOnePassVariance(t *testing.T) {
	for onePass, want := range map[bool]bool{false: true, true: false} {
		for _, text := range []string{"layernorm/fwd/24x72/fp32", "layernorm/fwd/24x541/fp32", "layernorm/fwd/24x2000/fp32"} {
			in := kernels.Inputs{Seed: 11, Draw: kernels.DrawMean}
			p := devicetest.Problem(t, text)
			x := reference.Inputs(p, in)["x"]
			for _, output := range []string{"y", "rstd"} {
				c := answerOf(t, text, in, output, func(_ reference.GroundTruth, _ kernels.Problem, got *kernels.Memory) {
					for r := range p.M {
						mean, rstd := statistics32(x, r*p.N, p.N, onePass)
						if output == "rstd" {
							got.Set(r, rstd)
							continue
						}
						w := reference.Inputs(p, in)["w"]
						for j := range p.N {
							got.Set(r*p.N+j, (x.At(r*p.N+j)-mean)*rstd*w.At(j))
						}
					}
				})
				assert.Equal(t, c.Bad == 0, want, text, output, "one pass:", onePass, "error over tolerance:", c.MaxErr)
			}
		}
	}
}

// statistics32 sums a row in 32 lanes, as a warp does, in fp32.
func statistics32(x *kernels.Memory, from, n int64, onePass bool) (mean, rstd float32) {
	lanes := func(f func(v float32) float32) float32 {
		var part [32]float32
		for j := range n {
			part[j%32] += f(x.At(from + j))
		}
		for half := 16; half > 0; half /= 2 {
			for i := range half {
				part[i] += part[i+half]
			}
		}
		return part[0] / float32(n)
	}
	mean = lanes(func(v float32) float32 { return v })
	var variance float32
	if onePass {
		variance = lanes(func(v float32) float32 { return v * v }) - mean*mean
	} else {
		variance = lanes(func(v float32) float32 { return (v - mean) * (v - mean) })
	}
	return mean, float32(1 / math.Sqrt(float64(variance)+kernels.Eps))
}
