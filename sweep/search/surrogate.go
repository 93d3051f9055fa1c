package search

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A surrogate predicts the times of variants: a Gaussian process with one length scale per feature,
// fitted by the likelihood. A prior keeps a feature from mattering before something says so (Rasmussen
// and Williams 2006, chapter 5; it grows with the root of the number of features: Hvarfner, Hellsten and
// Nardi 2024). The fit also chooses whether a numeric knob counts by the order of its values, by their
// logs, or as names.
type surrogate struct {
	features []feature
	nugget   float64
	fitted   int // observations at the last fit

	obs   []int // variants that it is conditioned on
	chol  mat.Cholesky
	z     []float64 // what was observed, standardized and whitened
	mean  float64
	scale float64
}

// A feature gives each variant a number, in one of several ways.
type feature struct {
	at     []int       // of each variant, in the columns
	ways   [][]float64 // columns; nil is by name: equal or not
	way    int
	length float64
	prior  float64 // of the log of the length
}

// newSurrogate makes a surrogate for a space, with the priors' length scales.
func newSurrogate(s *Candidates, l *lattice) *surrogate {
	g := &surrogate{nugget: 1e-3}
	axes := l.axes
	if s.Axes == nil {
		axes = axes[:1] // the family; the knobs are in ownFeatures
	}
	for k, a := range axes {
		f := feature{ways: append(a.columns(), nil)}
		for _, p := range l.at {
			f.at = append(f.at, p[k])
		}
		if f.way = len(f.ways) - 2; a.Values == nil {
			f.ways, f.way, f.prior = [][]float64{nil}, 0, math.Log(2)
		}
		g.features = append(g.features, f)
	}
	if s.Axes == nil {
		g.features = append(g.features, ownFeatures(s)...)
	}
	for i := range g.features {
		f := &g.features[i]
		if f.prior == 0 {
			f.prior = math.Log(0.35 * math.Sqrt(float64(len(g.features))+1))
		}
		f.length = math.Exp(f.prior)
	}
	return g
}

// ownFeatures makes the features of this program's families: what their knobs amount to on the problem.
func ownFeatures(s *Candidates) []feature {
	fs := make([]feature, numFeatures)
	for k := range fs {
		fs[k] = feature{ways: [][]float64{nil}, prior: ownLength}
	}
	for i, v := range s.Variants {
		for k, x := range Features(s.Problem, v, s.SMs) {
			fs[k].at, fs[k].ways[0] = append(fs[k].at, i), append(fs[k].ways[0], x)
		}
	}
	return fs
}

// ownLength is the prior of the log of ownFeatures' length scales.
const ownLength = 1.1

// squaredDistance computes the squared distance of two variants in this feature, in its length scale.
func (f *feature) squaredDistance(v, w int) float64 {
	if x := f.ways[f.way]; x != nil {
		d := (x[f.at[v]] - x[f.at[w]]) / f.length
		return d * d
	}
	if f.at[v] == f.at[w] {
		return 0
	}
	return 1 / (f.length * f.length)
}

// corr computes the prior correlation of the times of two variants.
func (g *surrogate) corr(v, w int) float64 {
	sum := 0.0
	for k := range g.features {
		sum += g.features[k].squaredDistance(v, w)
	}
	return matern52(math.Sqrt(sum))
}

// learn conditions the surrogate on y, the observations of the variants vs. n counts all observations so
// far; when it has grown enough, learn also fits the length scales anew.
func (g *surrogate) learn(vs []int, y []float64, n, sweeps int) {
	if float64(n) >= evolveRefit*float64(g.fitted) {
		g.fitted = n
		m := min(len(vs), evolveFit)
		g.fit(vs[:m], y[:m], sweeps)
	}
	n = len(vs)
	g.obs = append(g.obs[:0], vs...)
	g.mean, g.scale = meanAndDeviation(y)
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i {
			k.SetSym(i, j, g.corr(vs[i], vs[j]))
		}
		k.SetSym(i, i, 1+g.nugget)
	}
	for extra := g.nugget; !g.chol.Factorize(k); extra *= 10 {
		for i := range n {
			k.SetSym(i, i, 1+g.nugget+extra)
		}
	}
	g.z = make([]float64, n)
	for i := range y {
		g.z[i] = (y[i] - g.mean) / g.scale
	}
	g.whiten(g.z)
}

// whiten multiplies each row, which has a number for each observation, by the inverse Cholesky factor of
// the observations' correlations, so that its numbers are uncorrelated. It changes rows in place.
func (g *surrogate) whiten(rows []float64) {
	n := len(g.obs)
	upper := g.chol.RawU().(mat.RawTriangular).RawTriangular()
	blas64.Trsm(blas.Right, blas.NoTrans, 1, upper,
		blas64.General{Rows: len(rows) / n, Cols: n, Stride: n, Data: rows})
}

// meanAndDeviation computes the mean and the standard deviation, which is at least 1e-6.
func meanAndDeviation(y []float64) (mean, sd float64) {
	for _, v := range y {
		mean += v
	}
	mean /= float64(len(y))
	for _, v := range y {
		sd += (v - mean) * (v - mean)
	}
	return mean, max(math.Sqrt(sd/float64(len(y))), 1e-6)
}

// A prediction is the surrogate's mean and standard deviation of a variant, in the unit of the
// observations.
type prediction struct {
	variant  int
	mean, sd float64
	solve    []float64 // its correlations with the observations, whitened
}

// predict predicts each variant from the observations.
func (g *surrogate) predict(vs []int) []prediction {
	n := len(g.obs)
	rows := make([]float64, 0, len(vs)*n)
	for _, v := range vs {
		for _, w := range g.obs {
			rows = append(rows, g.corr(v, w))
		}
	}
	g.whiten(rows)
	out := make([]prediction, len(vs))
	for i, v := range vs {
		solve := rows[i*n : (i+1)*n : (i+1)*n]
		out[i] = prediction{variant: v, solve: solve, mean: g.mean + g.scale*floats.Dot(solve, g.z),
			sd: g.scale * math.Sqrt(max(1-floats.Dot(solve, solve), 1e-9))}
	}
	return out
}

// assume updates all predictions as if variant chosen had been observed with its predicted mean: the
// others become more certain, so that the next choice of a round lies elsewhere.
func (g *surrogate) assume(chosen prediction, predictions []prediction) {
	d := math.Sqrt(max(1+g.nugget-floats.Dot(chosen.solve, chosen.solve), 1e-9))
	for i := range predictions {
		q := &predictions[i]
		v := (g.corr(q.variant, chosen.variant) - floats.Dot(q.solve, chosen.solve)) / d
		q.sd = math.Sqrt(max(q.sd*q.sd-g.scale*g.scale*v*v, 1e-12))
		q.solve = append(q.solve, v)
	}
}

// improvement computes the expected improvement of the prediction on best.
func (q *prediction) improvement(best float64) float64 {
	u := (best - q.mean) / q.sd
	return (best-q.mean)*distuv.UnitNormal.CDF(u) + q.sd*distuv.UnitNormal.Prob(u)
}

// fit improves length scales, ways and nugget by coordinate steps that raise the likelihood of y with
// the priors.
func (g *surrogate) fit(vs []int, y []float64, sweeps int) {
	n := len(vs)
	t := &gpFit{surrogate: g, vs: vs, y: mat.NewVecDense(n, nil), k: mat.NewSymDense(n, nil),
		sum: make([]float64, n*(n-1)/2), try: make([]float64, n*(n-1)/2)}
	mean, sd := meanAndDeviation(y)
	for i, v := range y {
		t.y.SetVec(i, (v-mean)/sd)
	}
	for k := range g.features {
		t.parts = append(t.parts, g.features[k].distances(vs))
		floats.Add(t.sum, t.parts[k])
	}
	t.best = t.likelihood(t.sum, g.nugget)
	for range sweeps {
		before := t.best
		for i := range g.features {
			t.fitFeature(i)
		}
		t.fitNugget()
		if t.best < before+0.5 {
			break
		}
	}
}

// A gpFit is the state of one fit of a surrogate.
type gpFit struct {
	*surrogate
	vs     []int
	y      *mat.VecDense // standardized
	parts  [][]float64   // squared distances by feature
	sum    []float64     // of the parts
	try    []float64
	best   float64 // likelihood
	k      *mat.SymDense
	factor mat.Cholesky
	sol    mat.VecDense
}

// distances computes the squared distance of each pair of variants in this feature.
func (f *feature) distances(vs []int) []float64 {
	d := make([]float64, 0, len(vs)*(len(vs)-1)/2)
	for i := range vs {
		for j := range i {
			d = append(d, f.squaredDistance(vs[i], vs[j]))
		}
	}
	return d
}

// likelihood computes the log likelihood for summed squared distances and a nugget, with the best
// variance put in.
func (t *gpFit) likelihood(sum []float64, nugget float64) float64 {
	p, n := 0, len(t.vs)
	for i := range n {
		for j := range i {
			t.k.SetSym(i, j, matern52(math.Sqrt(max(sum[p], 0))))
			p++
		}
		t.k.SetSym(i, i, 1+nugget)
	}
	if !t.factor.Factorize(t.k) || t.factor.SolveVecTo(&t.sol, t.y) != nil {
		return math.Inf(-1)
	}
	return -0.5*float64(n)*math.Log(mat.Dot(&t.sol, t.y)/float64(n)) - 0.5*t.factor.LogDet()
}

// logPrior computes the log of the prior of a feature's length.
func (f *feature) logPrior() float64 {
	u := (math.Log(f.length) - f.prior) / 1.2
	return -0.5 * u * u
}

// fitFeature tries a shorter and a longer length scale, and the other ways, and keeps the best.
func (t *gpFit) fitFeature(i int) {
	f := &t.features[i]
	was := *f
	keep, gain, d := was, 1e-3, []float64(nil)
	test := func(x feature) {
		p := x.distances(t.vs)
		for j := range t.try {
			t.try[j] = t.sum[j] - t.parts[i][j] + p[j]
		}
		if got := t.likelihood(t.try, t.nugget) - t.best + x.logPrior() - was.logPrior(); got > gain {
			keep, gain, d = x, got, p
		}
	}
	for _, by := range []float64{0.4, 2.5} {
		x := was
		if x.length *= by; x.length > 0.02 && x.length < 50 {
			test(x)
		}
	}
	for way := range f.ways {
		if x := was; way != was.way {
			x.way = way
			test(x)
		}
	}
	if d == nil {
		return
	}
	*f = keep
	floats.Sub(t.sum, t.parts[i])
	floats.Add(t.sum, d)
	t.parts[i] = d
	t.best = t.likelihood(t.sum, t.nugget)
}

// fitNugget tries a smaller and a larger nugget, and keeps a better one.
func (t *gpFit) fitNugget() {
	was := t.nugget
	prior := func(x float64) float64 { u := math.Log(x/1e-3) / 3; return -0.5 * u * u }
	for _, by := range []float64{0.2, 5} {
		x := was * by
		if x < 1e-5 || x > 1 {
			continue
		}
		if got := t.likelihood(t.sum, x); got+prior(x) > t.best+prior(was) {
			t.best, t.nugget = got, x
			return
		}
	}
}

// matern52 computes the Matérn correlation of smoothness 5/2 at a distance.
func matern52(r float64) float64 {
	r *= math.Sqrt(5)
	return (1 + r + r*r/3) * math.Exp(-r)
}

// warp compresses the log of a time over the fastest beyond warpAt. The slow end of a space, where no
// fast variant is told from another, then does not stretch the surrogate.
func warp(log float64) float64 { return warpAt * math.Log1p(log/warpAt) }

const warpAt = 0.3
