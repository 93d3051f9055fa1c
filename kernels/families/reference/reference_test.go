package reference_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families/reference"
)

// kinds are the ops with and without bias and zero-centered weights, where they have weights.
var kinds = []string{"l2norm/%s/%dx%d/fp32", "rmsnorm/%s/%dx%d/fp32", "rmsnorm/%s/%dx%d/fp32+bias",
	"rmsnorm/%s/%dx%d/fp32+zc", "rmsnorm/%s/%dx%d/fp32+bias+zc", "layernorm/%s/%dx%d/fp32",
	"layernorm/%s/%dx%d/fp32+bias", "layernorm/%s/%dx%d/fp32+zc", "layernorm/%s/%dx%d/fp32+bias+zc",
	"rmsnormgated/%s/%dx%d/fp32", "rmsnormgated/%s/%dx%d/fp32+gatefirst", "rmsnormgated/%s/%dx%d/fp32+bias+zc",
	"rmsnormgated/%s/%dx%d/fp32+sigmoid", "rmsnormgated/%s/%dx%d/fp32+bias+sigmoid+gatefirst",
	"layernormgated/%s/%dx%d/fp32+bias", "layernormgated/%s/%dx%d/fp32+bias+gatefirst",
	"layernormgated/%s/%dx%d/fp32+noweight+sigmoid", "layernormgated/%s/%dx%d/fp32+bias+zc+sigmoid+gatefirst"}

// each calls f with a problem of each kind and shape, and its inputs of a seed.
func each(t *testing.T, pass kernels.Pass, seed uint64, shapes [][2]int64,
	f func(p kernels.Problem, in map[string]*kernels.Memory)) {
	for _, kind := range kinds {
		for _, s := range shapes {
			p := devicetest.Problem(t, fmt.Sprintf(kind, pass, s[0], s[1]))
			f(p, reference.Inputs(p, kernels.Inputs{Seed: seed}))
		}
	}
}

// wide is a tensor in float64, none of one that is not there.
func toFloat64(m *kernels.Memory) []float64 {
	if m == nil {
		return nil
	}
	v := make([]float64, m.Len())
	for i := range v {
		v[i] = float64(m.At(int64(i)))
	}
	return v
}

// forward is the definition of the ops, row by row, on float64.
func forward(p kernels.Problem, x, z, w, b []float64) []float64 {
	y := make([]float64, len(x))
	n := int(p.N)
	gate := func(i int) float64 { // torch.nn.functional.silu or torch.sigmoid
		if p.Sigmoid {
			return 1 / (1 + math.Exp(-z[i]))
		}
		return z[i] / (1 + math.Exp(-z[i]))
	}
	if p.GateFirst {
		x = slices.Clone(x)
		for i := range x {
			x[i] *= gate(i)
		}
	}
	for i := range int(p.M) {
		row := x[i*n:][:n]
		if p.Op == l2norm {
			square := 0.0
			for _, v := range row {
				square += v * v
			}
			for j, v := range row {
				y[i*n+j] = v / max(math.Sqrt(square), 1e-12)
			}
			continue
		}
		var mean, square float64
		if p.Op == kernels.LayerNorm || p.Op == "layernormgated" {
			for _, v := range row {
				mean += v / float64(n)
			}
		}
		for _, v := range row {
			square += (v - mean) * (v - mean) / float64(n)
		}
		for j, v := range row {
			f := 1.0
			if w != nil {
				f = w[j]
			}
			if p.ZeroCentered {
				f = 1 + w[j]
			}
			y[i*n+j] = (v - mean) / math.Sqrt(square+1e-5) * f
			if b != nil {
				y[i*n+j] += b[j]
			}
			if z != nil && !p.GateFirst {
				y[i*n+j] *= gate(i*n + j)
			}
		}
	}
	return y
}

const l2norm kernels.Op = "l2norm"

func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	assert.Must(t, len(got) == len(want), "%s: %d elements, want %d", what, len(got), len(want))
	for i, w := range want {
		assert.Must(t, math.Abs(got[i]-w) <= tol*(1+math.Abs(w)),
			"%s[%d] = %.15g, want %.15g", what, i, got[i], w)
	}
}

func TestForwardFollowsItsFormula(t *testing.T) {
	each(t, kernels.Fwd, 3, [][2]int64{{1, 1}, {1, 5}, {7, 1}, {5, 33}},
		func(p kernels.Problem, in map[string]*kernels.Memory) {
			near(t, p.String()+" y", reference.ComputeGroundTruth(p, in).Values["y"],
				forward(p, toFloat64(in["x"]), toFloat64(in["z"]), toFloat64(in["w"]), toFloat64(in["b"])), 1e-13)
		})
}

// The gradients against central differences of the loss sum(dy*y), of which dx, dz,
// dw and db are the derivatives. Differences of 1e-5 in float64 err by about
// 1e-10.
func TestBackwardIsTheGradient(t *testing.T) {
	each(t, kernels.Bwd, 5, [][2]int64{{1, 1}, {3, 1}, {1, 6}, {4, 7}},
		func(p kernels.Problem, in map[string]*kernels.Memory) {
			x, w, dy, b := toFloat64(in["x"]), toFloat64(in["w"]), toFloat64(in["dy"]), make([]float64, p.N)
			z := toFloat64(in["z"])
			if in["b"] != nil {
				b = toFloat64(in["b"])
			}
			loss := func() (sum float64) {
				for i, y := range forward(p, x, z, w, b) {
					sum += dy[i] * y
				}
				return sum
			}
			ans := reference.ComputeGroundTruth(p, in).Values
			for name, v := range map[string][]float64{"dx": x, "dz": z, "dw": w, "db": b} {
				var gradient []float64
				for i, at := range v {
					const h = 1e-5
					v[i] = at + h
					up := loss()
					v[i] = at - h
					gradient = append(gradient, (up-loss())/(2*h))
					v[i] = at
				}
				got, ok := ans[name]
				assert.Equal(t, ok, name == "dx" || name == "dz" && p.IsGated() || name == "dw" && p.HasWeight() || name == "db" && p.Bias,
					p, name, "is there")
				if ok {
					near(t, p.String()+" "+name, got, gradient, 1e-8)
				}
			}
		})
}

// fill makes inputs of given values.
func fill(p kernels.Problem, values map[string]func(i int64) float32) map[string]*kernels.Memory {
	in := map[string]*kernels.Memory{}
	for _, t := range p.Tensors() {
		if f := values[t.Name]; f != nil {
			in[t.Name] = kernels.NewMemory(t.DType, t.Elems())
			for i := range t.Elems() {
				in[t.Name].Set(i, f(i))
			}
		}
	}
	return in
}

func constant(v float32) func(int64) float32 { return func(int64) float32 { return v } }

// How many cores share the work must not show beyond the last bits of a sum.
func TestCoresDoNotShowInTheAnswers(t *testing.T) {
	p := devicetest.Problem(t, "layernorm/bwd/37x29/fp32+bias")
	one := reference.ComputeGroundTruth(p, reference.Inputs(p, kernels.Inputs{Seed: 11})).Values
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(7))
	in := reference.Inputs(p, kernels.Inputs{Seed: 11})
	for name, want := range one {
		near(t, name, reference.ComputeGroundTruth(p, in).Values[name], want, 1e-14)
	}
	for name, m := range reference.Inputs(p, kernels.Inputs{Seed: 11}) {
		assert.Equal(t, m.Differing(in[name]), 0, name, "of the same seed differs in", "elements")
	}
}

// The bits that every device draws, with splitmix64's own published sequence
// for seed 0 as the anchor: another generator would make the records of two
// devices, or of two versions, answer different questions. Whole draws package peers has.
func TestEveryDeviceDrawsTheSameBits(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
		0xf88bb8a8724c81ec} {
		assert.Equal(t, reference.Bits(0, 0, int64(i)+1), want, "number", i+1, "of splitmix64")
	}
	if want := 1 / math.Sqrt(4*(0x1p32-1)/12); math.Abs(float64(reference.Unit)-
		want) > want*0x1p-24 {
		t.Errorf("unit %.10g, want %.10g", reference.Unit, want)
	}
}

func tensor(d kernels.DType, n int64) kernels.Tensor {
	return kernels.Tensor{Name: "y", Role: kernels.Output, DType: d, Rows: n, Cols: 1}
}

// What an output is against the answers that it should have, by a tolerance of 2^-8 of it and
// 2^-10: testdata/compare.txt, with what is bad of it and where first.
func TestCompareFindsWhatIsBeyondTheTolerance(t *testing.T) {
	assert.Lines(t, "testdata/compare.txt", func(input string) string {
		name, text, _ := strings.Cut(input, " ")
		d, err := kernels.ParseDType(name)
		assert.NoError(t, err)
		got, want, _ := strings.Cut(text, " for ")
		values := assert.Numbers(t, got)
		m := kernels.NewMemory(d, int64(len(values)))
		for i, v := range values {
			m.Set(int64(i), float32(v))
		}
		c := reference.Compare(tensor(d, m.Len()), m, assert.Numbers(t, want), []float64{0},
			reference.Tolerance{Rel: 0x1p-8, Abs: 0x1p-10}, kernels.DrawNonFinite)
		// MaxErr tells the same story, and both numbers fit into JSON.
		assert.That(t, c.Elems == m.Len() && c.Name == "y" && (c.MaxErr > 1) == (c.Bad > 0) &&
			!math.IsInf(c.MaxErr, 0) && !math.IsNaN(c.RelL2) && !math.IsInf(c.RelL2, 0),
			"%s: %+v", input, c)
		if c.Bad == 0 {
			return "right"
		}
		return fmt.Sprintf("%d bad, first at %d", c.Bad, c.First)
	})
	m := kernels.NewMemory(kernels.FP32, 2)
	m.Set(0, 3)
	m.Set(1, 4.5)
	c := reference.Compare(tensor(kernels.FP32, 2), m, []float64{3, 4}, []float64{0},
		reference.Tolerance{Rel: 1}, kernels.DrawUnit)
	assert.That(t, math.Abs(c.RelL2-0.1) <= 1e-15 && c.MaxErr == 0.125,
		"relative norm %g, max err %g; want 0.1 and 0.125", c.RelL2, c.MaxErr)
}

// A tolerance is worth what it lets through and what it does not: honest fp32
// arithmetic, rounded once, passes; mistakes that kernels have really had do
// not.
func TestTolerancePassesFP32AndNoMistake(t *testing.T) {
	p := devicetest.Problem(t, "layernorm/bwd/512x64/bf16+bias")
	in := reference.Inputs(p, kernels.Inputs{Seed: 21})
	ans := reference.ComputeGroundTruth(p, in)
	tensors := map[string]kernels.Tensor{}
	for _, t := range p.Tensors() {
		tensors[t.Name] = t
	}
	x, dy := toFloat64(in["x"]), toFloat64(in["dy"])
	n := int(p.N)
	xhat := func(i int) float64 {
		return (x[i] - ans.Values["mean"][i/n]) * ans.Values["rstd"][i/n]
	}
	column := func(add func(sum float32, v float64) float32, rows int) func(j int) float64 {
		return func(j int) float64 {
			var sum float32
			for i := range rows {
				sum = add(sum, dy[i*n+j]*xhat(i*n+j))
			}
			return float64(sum)
		}
	}
	fp32 := func(sum float32, v float64) float32 { return sum + float32(v) }
	bf16 := func(sum float32, v float64) float32 {
		return kernels.BF16ToFloat32(kernels.Float32ToBF16(sum + float32(v)))
	}
	for _, test := range []struct {
		name, tensor string
		value        func(i int) float64
		ok           bool
	}{
		{"the answer rounded once", "dx", func(i int) float64 { return ans.Values["dx"][i] }, true},
		{"fp32 noise before rounding", "dx", func(i int) float64 {
			return ans.Values["dx"][i] * (1 + 0x1p-21*math.Sin(float64(i)))
		}, true},
		{"dw summed in fp32", "dw", column(fp32, 512), true},
		{"dw summed in bf16", "dw", column(bf16, 512), false},
		{"dw without the last row", "dw", column(fp32, 511), false},
		{"dx without mean(g)", "dx", func(i int) float64 {
			var c2 float64
			for j := range n {
				c2 += dy[i/n*n+j] * float64(in["w"].At(int64(j))) / float64(n)
			}
			return ans.Values["dx"][i] + ans.Values["rstd"][i/n]*c2
		}, false},
		{"dx one unit in the last place off", "dx", func(i int) float64 {
			return ans.Values["dx"][i] * (1 + 0x1p-7)
		}, false},
		{"another answer", "db", func(int) float64 { return 0 }, false},
	} {
		ten := tensors[test.tensor]
		m := kernels.NewMemory(ten.DType, ten.Elems())
		for i := range ten.Elems() {
			m.Set(i, float32(test.value(int(i))))
		}
		tol := reference.ToleranceFor(p, ten)
		c := reference.Compare(ten, m, ans.Values[ten.Name], ans.Scale[ten.Name], tol, kernels.DrawUnit)
		assert.Equal(t, (c.Bad == 0), test.ok,
			test.name, c.Bad, c.Elems, "bad, max err", c.MaxErr, "of the tolerance", tol)
	}
}

// Scale is the size of the terms: a sum of M unit terms has sqrt(M).
func TestScaleIsTheSizeOfTheTerms(t *testing.T) {
	p := devicetest.Problem(t, "rmsnorm/bwd/400x50/fp32+bias")
	rng := rand.New(rand.NewPCG(1, 1))
	sign := func(int64) float32 { return float32(rng.IntN(2)*2 - 1) }
	a := reference.ComputeGroundTruth(p, fill(p, map[string]func(int64) float32{"x": sign, "dy": sign,
		"w": constant(1)}))
	for name, want := range map[string]float64{"dw": 20 * math.Sqrt(1+0.5*0.5), "db": 20, "dx": 1} {
		got := a.Scale[name][0]
		assert.That(t, math.Abs(got-want) <= 1e-4*want,
			"scale of %s is %g, want %g", name, got, want)
	}
	// In layernorm x and the mean cancel: rows of ones have no xhat, but its rounding
	// has the scale of both, rstd = 1/sqrt(eps) times their size.
	ln := devicetest.Problem(t, "layernorm/bwd/400x50/fp32+bias")
	a = reference.ComputeGroundTruth(ln, fill(ln, map[string]func(int64) float32{"x": constant(1), "dy": sign,
		"w": constant(1)}))
	assert.Equal(t, a.Scale["mean"][0], 1, "scale of the mean", "1")
	got, want := a.Scale["dw"][0], 20*math.Sqrt(2/kernels.Eps)
	assert.That(t, math.Abs(got-want) <= 1e-3*want,
		"scale of dw with constant rows is %g, want %g", got, want)
	// Infinities in the input must not make every tolerance infinite.
	in := reference.Inputs(p, kernels.Inputs{Seed: 1})
	in["x"].Set(0, float32(math.Inf(1)))
	in["dy"].Set(1, float32(math.NaN()))
	for name, scale := range reference.ComputeGroundTruth(p, in).Scale {
		for row, s := range scale {
			assert.That(t, !math.IsInf(s, 0) && !math.IsNaN(s), "scale of %s is %g in row %d", name, s, row)
		}
	}
}
