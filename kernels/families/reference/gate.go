package reference

import (
	"math"

	"normbench/kernels"
)

// The gated ops normalize as those without a gate do. What z does is in this file.
func init() { ops["rmsnormgated"], ops["layernormgated"] = rmsNorm, layerNorm }

// gateFloor is the least size of a gate in the scale of what it is a factor of: kernels in fp32 have zero
// where exp(-z) is beyond it.
const gateFloor = 0x1p-100

// A gate is act(z) of a row, with its derivative.
type gate struct {
	act, slope []float64
	before     []float64 // the row that it is multiplied with ahead of the norm
}

// newGate makes the gate of the rows of p, nil where p has none.
func newGate(p kernels.Problem) *gate {
	if !p.IsGated() {
		return nil
	}
	return &gate{make([]float64, p.N), make([]float64, p.N), make([]float64, p.N)}
}

// read reads the gate of row i. With s = 1/(1+exp(-z)) the sigmoid has the derivative s*(1-s), and z*s has
// s*(1+z*(1-s)).
func (g *gate) read(s *state, i int64) {
	for j := range g.act {
		z := float64(s.mem["z"].At(i*s.N + int64(j)))
		up, down := 1/(1+math.Exp(-z)), 1/(1+math.Exp(z))
		if g.act[j], g.slope[j] = z*up, up*(1+z*down); s.Sigmoid {
			g.act[j], g.slope[j] = up, up*down
		}
	}
}

// sizeOf returns how large a factor counts in a scale: at least gateFloor.
func sizeOf(v float64) float64 { return finite(math.Max(math.Abs(v), gateFloor)) }

// apply multiplies a row with the gate ahead of the norm.
func (g *gate) apply(x []float64) {
	copy(g.before, x)
	for j, a := range g.act {
		x[j] *= a
	}
}

// behind gives the answer for dz of row i where the gate is behind the norm, and its scale.
func (g *gate) behind(s *state, i int64, xhat []float64, of statistics) {
	squares, weights := 0.0, 0.0
	for j, h := range xhat {
		at := i*s.N + int64(j)
		dy, slope := float64(s.mem["dy"].At(at)), g.slope[j]
		s.expected["dz"][at] = dy * (h*s.wf[j] + s.bias[j]) * slope
		size := finite(dy) * sizeOf(slope)
		squares += size * size * finite(h*s.wf[j]*h*s.wf[j]+s.bias[j]*s.bias[j])
		weights += size * s.wf[j] * size * s.wf[j]
	}
	N := float64(s.N)
	s.scale["dz"][i] = math.Sqrt(squares/N) + MeanShare*finite(of.r*math.Abs(of.mean))*math.Sqrt(weights/N)
}

// ahead turns dx of row i, which is the gradient of what is normalized, into that of x where the gate is
// ahead of the norm, and answers for dz.
func (g *gate) ahead(s *state, i int64, dx []float64) {
	acts, slopes := 0.0, 0.0
	for j, x := range g.before {
		s.expected["dz"][i*s.N+int64(j)] = dx[j] * x * g.slope[j]
		dx[j] *= g.act[j]
		act, slope := sizeOf(g.act[j]), finite(x)*sizeOf(g.slope[j])
		acts, slopes = acts+act*act, slopes+slope*slope
	}
	scale, N := s.scale["dx"][i], float64(s.N)
	s.scale["dx"][i], s.scale["dz"][i] = scale*math.Sqrt(acts/N), scale*math.Sqrt(slopes/N)
}
