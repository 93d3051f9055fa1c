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
// With h = x (+ res), xhat = (h - mean)*rstd, wf = w (+1 if zero-centered, 1
// without a weight) and g = dy*wf:
//
//	y  = xhat*wf + b,  resout = h
//	dx = rstd*(g - xhat*mean(g*xhat) - mean(g)) + dres   (layernorm)
//	dx = rstd*(g - xhat*mean(g*xhat)) + dres             (rmsnorm, mean = 0)
//	dw = dw_in + sum over rows of dy*xhat,  db = db_in + sum over rows of dy
//
// With fp8, amax is the largest |y|, then y and its transpose yt are y*scale
// within +-448, and scale_inv is 1/scale. A NaN in y makes amax NaN.
//
// The statistics of a backward are recomputed from x in float64, not taken
// from its fp32 inputs, so that a wrong saved statistic shows.
func Answers(p kernels.Problem, mem map[string]*kernels.Memory) Answer {
	M, N := p.M, p.N
	ans := map[string][]float64{"rstd": make([]float64, M)}
	if p.Op == kernels.LayerNorm {
		ans["mean"] = make([]float64, M)
	}
	wf := weights(p, mem)
	var bias []float64
	if p.Pass == kernels.Fwd {
		ans["y"] = make([]float64, M*N)
		bias = make([]float64, N)
		if p.Bias {
			bias = wide(mem["b"])
		}
		if p.Residual {
			ans["resout"] = make([]float64, M*N)
		}
	} else {
		ans["dx"] = make([]float64, M*N)
		if !p.NoWeight {
			ans["dw"] = make([]float64, N)
		}
		if p.Bias {
			ans["db"] = make([]float64, N)
		}
		if p.Accumulate {
			copy(ans["dw"], wide(mem["dw_in"]))
			if p.Bias {
				copy(ans["db"], wide(mem["db_in"]))
			}
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
				if p.Pass == kernels.Fwd && p.Residual {
					x[j] += float64(mem["res"].At(i*N + int64(j)))
					ans["resout"][i*N+int64(j)] = x[j]
				}
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
				sdw2 += finite(dy * dy * rstd * rstd * (x[j]*x[j] + mean*mean)) // xhat is a difference
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
				if p.Residual {
					dx[j] += float64(mem["dres"].At(i*N + int64(j)))
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		x2, dx2, dw2, db2 = x2+sx2, dx2+sdx2, dw2+sdw2, db2+sdb2
		if p.Pass == kernels.Bwd {
			for j := range dw {
				if !p.NoWeight {
					ans["dw"][j] += dw[j]
				}
				if p.Bias {
					ans["db"][j] += db[j]
				}
			}
		}
	})
	all, cols := float64(M*N), float64(N)
	fp8(p, mem, ans)
	return Answer{Values: ans, Scale: map[string]float64{
		"y":      rms(ans["y"]),
		"yt":     rms(ans["y"]),
		"resout": rms(ans["resout"]),
		"rstd":   rms(ans["rstd"]),
		"mean":   math.Sqrt(x2 / all),
		"dx":     math.Sqrt(dx2 / all),
		"dw":     math.Sqrt(dw2 / cols),
		"db":     math.Sqrt(db2 / cols),
	}}
}

// weights is wf: the factors of the columns.
func weights(p kernels.Problem, mem map[string]*kernels.Memory) []float64 {
	wf := make([]float64, p.N)
	for j := range wf {
		if wf[j] = 1; !p.NoWeight {
			wf[j] = float64(mem["w"].At(int64(j)))
		}
		if p.ZeroCentered {
			wf[j]++
		}
	}
	return wf
}

// wide is a memory in float64.
func wide(m *kernels.Memory) []float64 {
	v := make([]float64, m.Len())
	for j := range v {
		v[j] = float64(m.At(int64(j)))
	}
	return v
}

// fp8 turns the answer y into what is stored of it: scaled, clamped, transposed.
func fp8(p kernels.Problem, mem map[string]*kernels.Memory, ans map[string][]float64) {
	if !p.FP8 {
		return
	}
	scale, amax := float64(mem["scale"].At(0)), 0.0
	y := ans["y"]
	for i, v := range y {
		// math.Max prefers an infinity to a NaN; kernels compare the bits.
		if math.IsNaN(amax) || math.IsNaN(v) {
			amax = math.NaN()
		} else {
			amax = math.Max(amax, math.Abs(v))
		}
		y[i] = math.Max(-kernels.MaxE4M3, math.Min(kernels.MaxE4M3, v*scale))
	}
	ans["amax"], ans["scale_inv"] = []float64{amax}, []float64{1 / scale}
	if p.Transpose {
		yt := make([]float64, len(y))
		for i := range p.M {
			for j := range p.N {
				yt[j*p.M+i] = y[i*p.N+j]
			}
		}
		ans["yt"] = yt
	}
}

// SavedOutput is the y that the forward of p, a backward, has saved, rounded to
// its type; b may be nil.
func SavedOutput(p kernels.Problem, mem map[string]*kernels.Memory, b *kernels.Memory) *kernels.Memory {
	fwd := kernels.Problem{Op: p.Op, Pass: kernels.Fwd, M: p.M, N: p.N, DType: p.DType, Weight: p.Weight,
		Bias: p.Bias, ZeroCentered: p.ZeroCentered, NoWeight: p.NoWeight}
	y := kernels.NewMemory(p.DType, p.M*p.N)
	for i, v := range Answers(fwd, map[string]*kernels.Memory{"x": mem["x"], "w": mem["w"], "b": b}).Values["y"] {
		y.Set(int64(i), float32(v))
	}
	return y
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

// StreamAnswers is the output of a stream family: every (M,N) output is the sum
// of all (M,N) inputs, and yt is that sum too, not transposed.
func StreamAnswers(p kernels.Problem, mem map[string]*kernels.Memory) Answer {
	all := p.M * p.N
	sum := make([]float64, all)
	for _, t := range p.Full(kernels.Input) {
		for i := range sum {
			sum[i] += float64(mem[t.Name].At(int64(i)))
		}
	}
	ans := Answer{Values: map[string][]float64{}, Scale: map[string]float64{}}
	for _, t := range p.Full(kernels.Output) {
		out := sum
		if t.DType == kernels.E4M3 {
			out = make([]float64, all)
			for i, v := range sum {
				out[i] = math.Max(-kernels.MaxE4M3, math.Min(kernels.MaxE4M3, v))
			}
		}
		ans.Values[t.Name], ans.Scale[t.Name] = out, rms(out)
	}
	return ans
}
