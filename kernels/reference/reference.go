// Package reference holds what every kernel is checked against: seeded inputs,
// float64 answers, and the comparison with its tolerances. It shares no code
// with the kernels: it only knows the definitions of the ops.
package reference

import (
	"math"
	"runtime"
	"sync"

	"normbench/kernels"
)

// An Answer is the float64 outputs of a problem by name, plus the forward's
// statistics "rstd" and "mean" also for a backward.
type Answer struct {
	Values map[string][]float64
	// Scale is the root mean square, per output, of the terms that an element
	// is made of, a sum's terms taken together (the root of the sum of their
	// squares). Where terms cancel, rounding errors have this scale and not
	// that of the result.
	Scale map[string]float64
}

// Answers computes p from the inputs in mem.
//
// With xhat = (x - mean)*rstd, wf = w (+1 if zero-centered) and g = dy*wf:
//
//	y  = xhat*wf + b
//	dx = rstd*(g - xhat*mean(g*xhat) - mean(g))   (layernorm)
//	dx = rstd*(g - xhat*mean(g*xhat))             (rmsnorm, mean = 0)
//	dw = sum over rows of dy*xhat,  db = sum over rows of dy
//
// The statistics of a backward are recomputed from x in float64, not taken
// from its fp32 inputs, so that a wrong saved statistic shows.
func Answers(p kernels.Problem, mem map[string]*kernels.Memory) Answer {
	M, N := p.M, p.N
	ans := map[string][]float64{"rstd": make([]float64, M)}
	if p.Op == kernels.LayerNorm {
		ans["mean"] = make([]float64, M)
	}
	wf := make([]float64, N)
	for j := range wf {
		wf[j] = float64(mem["w"].At(int64(j)))
		if p.ZeroCentered {
			wf[j]++
		}
	}
	var bias []float64
	if p.Pass == kernels.Fwd {
		ans["y"] = make([]float64, M*N)
		bias = make([]float64, N)
		if p.Bias {
			for j := range bias {
				bias[j] = float64(mem["b"].At(int64(j)))
			}
		}
	} else {
		ans["dx"], ans["dw"] = make([]float64, M*N), make([]float64, N)
		if p.Bias {
			ans["db"] = make([]float64, N)
		}
	}

	var mu sync.Mutex
	var x2, dx2, dw2, db2 float64 // sums of the squares of terms
	eachSpan(M, func(lo, hi int64) {
		x, xhat, g := make([]float64, N), make([]float64, N), make([]float64, N)
		dw, db := make([]float64, N), make([]float64, N)
		var sx2, sdx2, sdw2, sdb2 float64
		for i := lo; i < hi; i++ {
			for j := range x {
				x[j] = float64(mem["x"].At(i*N + int64(j)))
				sx2 += finite(x[j] * x[j])
			}
			mean := 0.0
			if p.Op == kernels.LayerNorm {
				for _, v := range x {
					mean += v
				}
				mean /= float64(N)
				ans["mean"][i] = mean
			}
			variance := 0.0
			for j, v := range x {
				xhat[j] = v - mean
				variance += xhat[j] * xhat[j]
			}
			rstd := 1 / math.Sqrt(variance/float64(N)+kernels.Eps)
			ans["rstd"][i] = rstd
			for j := range xhat {
				xhat[j] *= rstd
			}
			if p.Pass == kernels.Fwd {
				y := ans["y"][i*N:][:N]
				for j, h := range xhat {
					y[j] = h*wf[j] + bias[j]
				}
				continue
			}
			var c1, c2 float64
			for j, h := range xhat {
				dy := float64(mem["dy"].At(i*N + int64(j)))
				dw[j] += dy * h
				db[j] += dy
				g[j] = dy * wf[j]
				c1 += g[j] * h
				c2 += g[j]
				sdw2 += finite(dy * h * dy * h)
				sdb2 += finite(dy * dy)
				sdx2 += finite(rstd * g[j] * rstd * g[j])
			}
			c1 /= float64(N)
			c2 /= float64(N)
			if p.Op == kernels.RMSNorm {
				c2 = 0
			}
			dx := ans["dx"][i*N:][:N]
			for j, h := range xhat {
				dx[j] = rstd * (g[j] - h*c1 - c2)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		x2, dx2, dw2, db2 = x2+sx2, dx2+sdx2, dw2+sdw2, db2+sdb2
		if p.Pass == kernels.Bwd {
			for j := range dw {
				ans["dw"][j] += dw[j]
				if p.Bias {
					ans["db"][j] += db[j]
				}
			}
		}
	})
	all, cols := float64(M*N), float64(N)
	return Answer{Values: ans, Scale: map[string]float64{
		"y":    rms(ans["y"]),
		"rstd": rms(ans["rstd"]),
		"mean": math.Sqrt(x2 / all),
		"dx":   math.Sqrt(dx2 / all),
		"dw":   math.Sqrt(dw2 / cols),
		"db":   math.Sqrt(db2 / cols),
	}}
}

// finite leaves infinities and NaN out of a scale: they are met exactly or not
// at all.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// rms is the root mean square of the finite elements of v.
func rms(v []float64) float64 {
	var sum float64
	for _, f := range v {
		sum += finite(f * f)
	}
	return math.Sqrt(sum / float64(max(len(v), 1)))
}

// eachSpan splits [0, n) over the cores.
func eachSpan(n int64, f func(lo, hi int64)) {
	workers := min(int64(runtime.GOMAXPROCS(0)), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(n*w/workers, n*(w+1)/workers) })
	}
	wg.Wait()
}

// StreamAnswers is the output of a stream family: y = x or dx = x + dy.
func StreamAnswers(p kernels.Problem, mem map[string]*kernels.Memory) Answer {
	out := make([]float64, p.M*p.N)
	for i := range out {
		out[i] = float64(mem["x"].At(int64(i)))
		if p.Pass == kernels.Bwd {
			out[i] += float64(mem["dy"].At(int64(i)))
		}
	}
	name := "y"
	if p.Pass == kernels.Bwd {
		name = "dx"
	}
	return Answer{Values: map[string][]float64{name: out}, Scale: map[string]float64{name: rms(out)}}
}
