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

// A GroundTruth has the float64 outputs of a problem by name, and the forward's statistics "rstd" and
// "mean", also for a backward.
type GroundTruth struct {
	Values map[string][]float64
	// Scale is the root mean square of the terms that an element is made of, a sum's terms taken
	// together (the root of the sum of their squares). Where terms cancel, rounding errors have this
	// scale and not that of the result. It has one number for each row of what is computed by row,
	// so that one row does not widen what another may err, and one for all of dw and of db.
	Scale map[string][]float64
}

// MeanShare is the weight of the mean in the scale of an answer that xhat enters: x - mean cancels, and
// its error is that of the mean. For rows with a mean of 100 standard deviations, fp32 kernels
// that sum the mean in any order stay below half of what this allows.
const MeanShare = 0.25

// BiasScale is the size of b over that of the smaller w. A kernel may compute xhat as (y-b)/w from the y
// that the forward has saved: its rounding errors have the scale of b/w where xhat is small.
const BiasScale = 0.5

// ops has the definition of each op; each op's file adds its own.
var ops = map[kernels.Op]opDefinition{}

// An opDefinition says how an op is computed.
type opDefinition struct {
	// normalize writes xhat of a row of x.
	normalize func(xhat, x []float64) statistics
	// gradient writes the gradient of a row of x, of g = dy*w.
	gradient func(dx, g, xhat []float64, st statistics)
}

// A statistics holds the numbers of a row that all its elements need.
type statistics struct {
	saved []float64 // by the forward, as the op's spec names them
	// r is how much xhat moves with x, and mean what is taken off x first: the scale of an answer's terms
	// is by them.
	r, mean float64
}

// center writes (x - mean)*r to xhat.
func center(xhat, x []float64, mean, r float64) {
	for j, v := range x {
		xhat[j] = (v - mean) * r
	}
}

// ComputeGroundTruth computes p in float64 from the inputs in mem.
//
// With h = x (+ res), xhat as p's op defines it, wf = w (+1 if zero-centered, 1 without a weight) and g
// = dy*wf:
//
//	y  = xhat*wf + b,  resout = h
//	dx = the op's gradient + dres
//	dw = dw_in + sum over rows of dy*xhat,  db = db_in + sum over rows of dy
//
// With a gate a = act(z) behind the norm, y = (xhat*wf + b)*a: dz = dy*(xhat*wf + b)*act'(z), and all else
// has dy*a for dy. With a gate ahead of it h is x*a: dx is its gradient times a, and dz its gradient times
// x*act'(z).
//
// With fp8, amax is the largest |y|, then y and its transpose yt are y*scale within +-448, and scale_inv
// is 1/scale. A NaN in y makes amax NaN.
//
// The statistics of a backward are recomputed from x in float64, not taken from its fp32 inputs, so that
// a wrong saved statistic shows.
func ComputeGroundTruth(p kernels.Problem, mem map[string]*kernels.Memory) GroundTruth {
	s := &state{Problem: p, op: ops[p.Op], mem: mem, expected: map[string][]float64{}, wf: weights(p, mem)}
	for _, t := range p.Tensors() {
		if t.Role == kernels.Output && t.Name != "yt" {
			s.expected[t.Name] = make([]float64, t.Elems())
			if in := mem[t.Name+"_in"]; in != nil {
				s.expected[t.Name] = toFloat64(in)
			}
		}
	}
	for _, name := range p.Op.Spec().Saved {
		s.expected[name] = make([]float64, p.M)
	}
	s.bias = make([]float64, p.N)
	if b := mem["b"]; p.Bias && b != nil { // a backward has it where the gate is behind the norm
		s.bias = toFloat64(b)
	}
	s.scale = map[string][]float64{}
	for _, name := range []string{"y", "dx", "dz", "x"} {
		s.scale[name] = make([]float64, p.M)
	}
	var mu sync.Mutex
	var squares terms
	eachSpan(p.M, func(lo, hi int64) {
		span := s.rows(lo, hi)
		mu.Lock()
		defer mu.Unlock()
		squares.dw, squares.db = squares.dw+span.dw, squares.db+span.db
		addTo(s.expected["dw"], span.sumDW)
		addTo(s.expected["db"], span.sumDB)
	})
	cols := float64(p.N)
	s.fp8()
	scale := map[string][]float64{
		"y": s.scale["y"], "yt": s.scale["y"], "dx": s.scale["dx"], "dz": s.scale["dz"],
		"resout": s.scale["x"],
		"dw":     {math.Sqrt(squares.dw / cols)}, "db": {math.Sqrt(squares.db / cols)},
		"amax": {0}, "scale_inv": {0},
	}
	for i, name := range p.Op.Spec().Saved {
		if scale[name] = s.scale["x"]; i == 0 {
			scale[name] = make([]float64, p.M)
			for r, v := range s.expected[name] {
				scale[name][r] = finite(math.Abs(v))
			}
		}
	}
	return GroundTruth{Values: s.expected, Scale: scale}
}

// A state has what all rows of a problem need, and their results.
type state struct {
	kernels.Problem
	op       opDefinition
	mem      map[string]*kernels.Memory
	expected map[string][]float64
	wf, bias []float64
	scale    map[string][]float64 // by row, of y, dx, dz and x
}

// A terms holds sums over some rows: of dw and db, and of the squares of their terms.
type terms struct {
	dw, db       float64
	sumDW, sumDB []float64
}

// rows computes the answers of rows lo to hi.
func (s *state) rows(lo, hi int64) terms {
	N := s.N
	x, xhat, g := make([]float64, N), make([]float64, N), make([]float64, N)
	t := terms{sumDW: make([]float64, N), sumDB: make([]float64, N)}
	gate := newGate(s.Problem)
	for i := lo; i < hi; i++ {
		s.input(x, i)
		if gate != nil {
			gate.read(s, i)
			if s.GateFirst {
				gate.apply(x)
			}
		}
		s.scale["x"][i] = rms(x)
		st := s.op.normalize(xhat, x)
		for k, name := range s.Op.Spec().Saved {
			s.expected[name][i] = st.saved[k]
		}
		if s.Pass == kernels.Fwd {
			y, squares, weights := s.expected["y"][i*N:][:N], 0.0, 0.0
			for j, h := range xhat {
				y[j] = h*s.wf[j] + s.bias[j]
				by := 1.0
				if gate != nil && !s.GateFirst {
					y[j] *= gate.act[j]
					by = sizeOf(gate.act[j])
				}
				squares += finite(h*s.wf[j]*h*s.wf[j]+s.bias[j]*s.bias[j]) * by * by
				weights += s.wf[j] * s.wf[j] * by * by
			}
			s.scale["y"][i] = math.Sqrt(squares/float64(N)) +
				MeanShare*finite(st.r*math.Abs(st.mean))*math.Sqrt(weights/float64(N))
			continue
		}
		s.backward(i, x, xhat, g, st, gate, &t)
	}
	return t
}

// input loads row i of what is normalized: x, or x + res, which it also stores as resout.
func (s *state) input(x []float64, i int64) {
	for j := range x {
		at := i*s.N + int64(j)
		x[j] = float64(s.mem["x"].At(at))
		if s.Pass == kernels.Fwd && s.Residual {
			x[j] += float64(s.mem["res"].At(at))
			s.expected["resout"][at] = x[j]
		}
	}
}

// backward computes dx of row i, and dz where there is a gate, and adds the row's part of dw and db to t.
func (s *state) backward(i int64, x, xhat, g []float64, st statistics, gate *gate, t *terms) {
	r, mean := st.r, st.mean
	squares, c1, c2, bias := 0.0, 0.0, 0.0, 0.0
	if s.Bias {
		bias = BiasScale
	}
	for j, h := range xhat {
		dy := float64(s.mem["dy"].At(i*s.N + int64(j)))
		size := dy
		if gate != nil && !s.GateFirst {
			dy, size = dy*gate.act[j], dy*sizeOf(gate.act[j])
		}
		t.sumDW[j] += dy * h
		t.sumDB[j] += dy
		g[j] = dy * s.wf[j]
		t.dw += finite(size * size * (r*r*(x[j]*x[j]+mean*mean) + bias*bias)) // xhat is a difference
		t.db += finite(size * size)
		squares += finite(size * s.wf[j] * size * s.wf[j])
		c1, c2 = c1+g[j]*h, c2+g[j]
	}
	// The mean's error moves xhat by r*mean, which enters dx times the means of g*xhat and g.
	N := float64(s.N)
	s.scale["dx"][i] = finite(r * (math.Sqrt(squares/N) + MeanShare*r*math.Abs(mean)*(math.Abs(c1)+math.Abs(c2))/N))
	dx := s.expected["dx"][i*s.N:][:s.N]
	s.op.gradient(dx, g, xhat, st)
	switch {
	case gate == nil:
	case s.GateFirst:
		gate.ahead(s, i, dx)
	default:
		gate.behind(s, i, xhat, st)
	}
	if s.Residual {
		for j := range dx {
			dx[j] += float64(s.mem["dres"].At(i*s.N + int64(j)))
		}
	}
}

func addTo(to, from []float64) {
	for j := range to {
		to[j] += from[j]
	}
}

func sum(v []float64) (s float64) {
	for _, f := range v {
		s += f
	}
	return s
}

func dot(a, b []float64) (s float64) {
	for j, f := range a {
		s += f * b[j]
	}
	return s
}

// weights returns wf, the factor of each column.
func weights(p kernels.Problem, mem map[string]*kernels.Memory) []float64 {
	wf := make([]float64, p.N)
	for j := range wf {
		if wf[j] = 1; p.HasWeight() {
			wf[j] = float64(mem["w"].At(int64(j)))
		}
		if p.ZeroCentered {
			wf[j]++
		}
	}
	return wf
}

// toFloat64 converts a memory to float64.
func toFloat64(m *kernels.Memory) []float64 {
	v := make([]float64, m.Len())
	for j := range v {
		v[j] = float64(m.At(int64(j)))
	}
	return v
}

// fp8 replaces y by what is stored of it: scaled, clamped and transposed.
func (s *state) fp8() {
	if !s.FP8 {
		return
	}
	scale, amax := float64(s.mem["scale"].At(0)), 0.0
	y := s.expected["y"]
	for i, v := range y {
		// math.Max prefers an infinity to a NaN; kernels compare the bits.
		if math.IsNaN(amax) || math.IsNaN(v) {
			amax = math.NaN()
		} else {
			amax = math.Max(amax, math.Abs(v))
		}
		y[i] = math.Max(-kernels.MaxE4M3, math.Min(kernels.MaxE4M3, v*scale))
	}
	for r := range s.scale["y"] {
		s.scale["y"][r] *= scale
	}
	s.expected["amax"][0], s.expected["scale_inv"][0] = amax, 1/scale
	if s.Transpose {
		yt := make([]float64, len(y))
		for i := range s.M {
			for j := range s.N {
				yt[j*s.M+i] = y[i*s.N+j]
			}
		}
		s.expected["yt"] = yt
	}
}

// SavedOutput computes the y that the forward of p, a backward, has saved, rounded to its type; b may be
// nil.
func SavedOutput(p kernels.Problem, mem map[string]*kernels.Memory,
	b *kernels.Memory) *kernels.Memory {
	p.Pass, p.Residual, p.Accumulate, p.NoDW = kernels.Fwd, false, false, false
	y := kernels.NewMemory(p.DType, p.M*p.N)
	in := map[string]*kernels.Memory{"x": mem["x"], "w": mem["w"], "b": b}
	for i, v := range ComputeGroundTruth(p, in).Values["y"] {
		y.Set(int64(i), float32(v))
	}
	return y
}

// finite returns v, 0 if it is infinite or NaN: a scale leaves those out, as they must be met exactly.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// rms computes the root mean square of the finite elements of v.
func rms(v []float64) float64 {
	var sum float64
	for _, f := range v {
		sum += finite(f * f)
	}
	return math.Sqrt(sum / float64(max(len(v), 1)))
}

// eachSpan splits [0, n) into one span per core, and calls f with all at once.
func eachSpan(n int64, f func(lo, hi int64)) {
	workers := min(int64(runtime.GOMAXPROCS(0)), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { f(n*w/workers, n*(w+1)/workers) })
	}
	wg.Wait()
}

// ComputeStreamTruth computes the outputs of a stream family: every (M,N) output is the sum of all (M,N)
// inputs, and yt is that sum too, not transposed.
func ComputeStreamTruth(p kernels.Problem, mem map[string]*kernels.Memory) GroundTruth {
	all := p.M * p.N
	sum, scale := make([]float64, all), make([]float64, p.M)
	for _, t := range p.Full(kernels.Input) {
		for i := range sum {
			v := float64(mem[t.Name].At(int64(i)))
			sum[i] += v
			scale[int64(i)/p.N] += finite(v * v)
		}
	}
	for r := range scale {
		scale[r] = math.Sqrt(scale[r] / float64(p.N))
	}
	truth := GroundTruth{Values: map[string][]float64{}, Scale: map[string][]float64{}}
	for _, t := range p.Full(kernels.Output) {
		out := sum
		if t.DType == kernels.E4M3 {
			out = make([]float64, all)
			for i, v := range sum {
				out[i] = math.Max(-kernels.MaxE4M3, math.Min(kernels.MaxE4M3, v))
			}
		}
		truth.Values[t.Name], truth.Scale[t.Name] = out, scale
	}
	return truth
}
