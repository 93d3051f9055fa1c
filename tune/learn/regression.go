package learn

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"normbench/kernels"
	"normbench/sweep/search"
)

// A regression predicts the regret of all configs of a design around a place, measured or not. The
// compressed log regret is a sum over knobs' values and over features, each times a coefficient with a
// normal prior (Bayesian linear regression: Bishop 2006, section 3.3).
type regression struct {
	precision mat.Cholesky // of the coefficients, given what was measured
	mean      mat.VecDense
}

// Spreads of what its parts add, before anything was measured, and of a measurement.
const (
	levelSpread   = 0.40 // of all configs of a design
	knobSpread    = 0.12 // of a knob's value
	featureSpread = 0.02 // of a feature, a unit from its middle; of its square a third
	timingSpread  = 0.06
	compressAt    = 0.30 // see compressRegret
)

// compressRegret compresses large regrets, so that the slow end of a space, which nobody chooses, does
// not outweigh the fast one in the fit.
func compressRegret(regret float64) float64 { return compressAt * math.Log1p(regret/compressAt) }

// row computes the numbers of a config by which a regression's coefficients are multiplied.
func row(f *kernels.Family, p kernels.Problem, c kernels.Config, sms int) []float64 {
	x := append(make([]float64, 0, 128), levelSpread)
	for _, r := range f.Knobs {
		for _, v := range r.Values {
			if v == c.Get(r.Knob) {
				x = append(x, knobSpread)
			} else {
				x = append(x, 0)
			}
		}
	}
	for _, y := range search.Features(p, kernels.Variant{Family: f.Name, Config: c}, sms) {
		x = append(x, featureSpread*y, featureSpread*y*y/3)
	}
	return x
}

// An observation is a measured log regret with its weight.
type observation struct {
	row            []float64
	regret, weight float64
}

// fit fits a regression of n coefficients to observations.
func fit(n int, seen []observation) *regression {
	a, b := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		a.SetSym(i, i, 1)
	}
	for _, o := range seen {
		x := mat.NewVecDense(n, o.row)
		w := o.weight / (timingSpread * timingSpread)
		a.SymRankOne(a, w, x)
		b.AddScaledVec(b, w*(compressRegret(o.regret)-compressRegret(priorRegret)), x)
	}
	m := &regression{}
	m.precision.Factorize(a)
	m.precision.SolveVecTo(&m.mean, b)
	return m
}

// sample draws coefficients from those that the observations leave likely.
func (m *regression) sample(rng *rand.Rand) []float64 {
	x := make([]float64, m.mean.Len())
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	upper := m.precision.RawU().(mat.RawTriangular).RawTriangular()
	blas64.Trsv(blas.NoTrans, upper, blas64.Vector{N: len(x), Inc: 1, Data: x})
	floats.Add(x, m.mean.RawVector().Data)
	return x
}

// predict computes the log regret of a config from drawn coefficients.
func predict(coefficients, row []float64) float64 {
	bent := compressRegret(priorRegret) + floats.Dot(coefficients, row)
	return compressAt * math.Expm1(bent/compressAt)
}
