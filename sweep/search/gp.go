package search

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// A gp is a Gaussian process over the variants of a space, the candidates, with
// what was observed of them and of variants on other problems (Rasmussen and
// Williams 2006, algorithm 2.1, one observation at a time).
//
// With L the Cholesky factor of the observations' covariance, it keeps z = L⁻¹y
// and for every candidate v = L⁻¹k, which grow by an element per observation. So
// an observation costs one pass over the candidates and nothing is ever solved
// again: a search that observes 300 points for 150 candidates takes 10 ms.
type gp struct {
	h     hyper
	cand  []point
	obs   []point
	l     [][]float64 // rows of L, without the diagonal
	diag  []float64
	z     []float64
	v     [][]float64
	mean  []float64 // of each candidate, less the prior's
	vari  []float64
	prior float64
}

// hyper are the model's parameters; variances are of the warped log time.
type hyper struct {
	Level  float64 // of a problem's level
	Shared float64 // of what variants do alike on problems that are alike
	Own    float64 // of what a variant does on one problem alone
	Nugget float64 // of each variant on each problem, related to nothing
	Octave float64 // length scale of problems, in octaves of columns
	Rows   float64 // and of rows
	Op     float64 // correlation of the two ops, and of a bias with none
	Design float64 // correlation of two designs at equal knobs
}

// defaultHyper was chosen by the likelihood of the rmsnorm half of an H200's
// grids; see docs/search.md.
var defaultHyper = hyper{Level: 0.03, Shared: 0.03, Own: 0.003, Nugget: 0.0001, Octave: 1.5, Rows: 2.5, Op: 0.85, Design: 0.3}

func newGP(h hyper, prior float64, cand []point) *gp {
	g := &gp{h: h, cand: cand, prior: prior}
	g.v = make([][]float64, len(cand))
	g.mean = make([]float64, len(cand))
	g.vari = make([]float64, len(cand))
	for i := range cand {
		g.vari[i] = h.Level + h.Shared + h.Own
	}
	return g
}

// matern52 is the Matérn correlation of smoothness 5/2 at a distance, by a table that is
// 3e-7 off at most, far below any nugget: a third of a search's time was in exp.
func matern52(r float64) float64 {
	at := r * maternSteps
	if !(at < float64(len(matern)-1)) {
		return 0
	}
	i := int(at)
	return matern[i] + (at-float64(i))*(matern[i+1]-matern[i])
}

const maternSteps = 1024

// matern is the correlation up to a distance of 10, where it is 6e-8.
var matern = func() (t [10*maternSteps + 1]float64) {
	for i := range t {
		r := float64(i) / maternSteps * math.Sqrt(5)
		t[i] = (1 + r + r*r/3) * math.Exp(-r)
	}
	return t
}()

// cov is the covariance of two variants on their problems.
func (g *gp) cov(a, b *point) float64 {
	sum := 0.0
	for i := range a.x {
		d := a.x[i] - b.x[i]
		sum += d * d
	}
	config := matern52(math.Sqrt(sum))
	if a.design != b.design {
		config *= g.h.Design
	}
	if a.task == b.task {
		return g.h.Level + (g.h.Shared+g.h.Own)*config
	}
	n, m := (a.logN-b.logN)/g.h.Octave, (a.logM-b.logM)/g.h.Rows
	shape := matern52(math.Sqrt(n*n + m*m))
	if a.kind != b.kind {
		shape *= g.h.Op
	}
	return shape * (g.h.Level + g.h.Shared*config)
}

// observe adds an observation y of a point with variance noise.
func (g *gp) observe(p point, y, noise float64) {
	n := len(g.obs)
	l := make([]float64, n)
	for i := range l {
		l[i] = (g.cov(&p, &g.obs[i]) - floats.Dot(g.l[i], l[:i])) / g.diag[i]
	}
	g.append(p, l, y, noise)
}

// observeCandidate is observe of a candidate, whose row is known.
func (g *gp) observeCandidate(c int, y, noise float64) {
	l := make([]float64, len(g.obs))
	copy(l, g.v[c])
	g.append(g.cand[c], l, y, noise)
}

func (g *gp) append(p point, l []float64, y, noise float64) {
	self := g.h.Level + g.h.Shared + g.h.Own
	d := math.Sqrt(math.Max(self+noise+g.h.Nugget-floats.Dot(l, l), 1e-9))
	z := (y - g.prior - floats.Dot(l, g.z)) / d
	for c := range g.cand {
		v := (g.cov(&g.cand[c], &p) - floats.Dot(g.v[c], l)) / d
		g.v[c] = append(g.v[c], v)
		g.mean[c] += v * z
		g.vari[c] -= v * v
	}
	g.obs, g.l, g.diag, g.z = append(g.obs, p), append(g.l, l), append(g.diag, d), append(g.z, z)
}

// mark and rewind let fantasies be taken back.
type mark struct {
	n          int
	mean, vari []float64
}

func (g *gp) mark() mark {
	return mark{len(g.obs), append([]float64(nil), g.mean...), append([]float64(nil), g.vari...)}
}

func (g *gp) rewind(m mark) {
	g.obs, g.l, g.diag, g.z = g.obs[:m.n], g.l[:m.n], g.diag[:m.n], g.z[:m.n]
	for c := range g.v {
		g.v[c] = g.v[c][:m.n]
	}
	copy(g.mean, m.mean)
	copy(g.vari, m.vari)
}

// predict is the mean and the standard deviation of a candidate.
func (g *gp) predict(c int) (mean, sd float64) {
	return g.prior + g.mean[c], math.Sqrt(math.Max(g.vari[c], 0) + g.h.Nugget)
}

// improvement is the expected improvement of a candidate on best (Mockus 1978;
// Jones, Schonlau and Welch 1998).
func (g *gp) improvement(c int, best float64) float64 {
	mean, sd := g.predict(c)
	if sd <= 0 {
		return math.Max(best-mean, 0)
	}
	u := (best - mean) / sd
	return (best-mean)*distuv.UnitNormal.CDF(u) + sd*distuv.UnitNormal.Prob(u)
}

// warp bends log times so that the slow end of a space, where no fast variant
// is told from another, does not stretch the model: a variant of twice the
// stream's time is as far from one of thrice as one at the stream's from 10%
// more. unwarp is by how much a small step of it moves the log time.
func warp(log float64) float64   { return warpAt * math.Log1p(math.Max(log+0.1, 0)/warpAt) }
func unwarp(log float64) float64 { return 1 + math.Max(log+0.1, 0)/warpAt }

const warpAt = 0.3
