package study

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// A maker times a config, by its knobs' indices and values, +Inf for an invalid one.
type maker func(at []int, x []float64) float64

// synthetic makes a space of the product of the knobs' values, less what keep leaves out.
func synthetic(names []string, values [][]float64, keep func([]float64) bool, of maker) *Free {
	f := &Free{Kernel: "synthetic"}
	for k, vs := range values {
		knob := FreeKnob{Name: fmt.Sprint("k", k)}
		for _, v := range vs {
			knob.Labels = append(knob.Labels, fmt.Sprint(v))
		}
		if names == nil || names[k] == "" {
			knob.Values = vs
		}
		f.Knobs = append(f.Knobs, knob)
	}
	at := make([]int, len(values))
	for {
		x := make([]float64, len(at))
		for k, i := range at {
			x[k] = values[k][i]
		}
		if keep == nil || keep(x) {
			f.Configs = append(f.Configs, FreeConfig{At: append([]int(nil), at...), Time: of(at, x)})
		}
		k := len(at) - 1
		for ; k >= 0; k-- {
			if at[k]++; at[k] < len(values[k]) {
				break
			}
			at[k] = 0
		}
		if k < 0 {
			return f
		}
	}
}

func powers(from, n int) []float64 {
	var vs []float64
	for i := range n {
		vs = append(vs, float64(from<<i))
	}
	return vs
}

func steps(from, by, n int) []float64 {
	var vs []float64
	for i := range n {
		vs = append(vs, float64(from+i*by))
	}
	return vs
}

// rough is a lognormal factor of a config that is the same each time.
func rough(seed uint64, at []int, sd float64) float64 {
	h := seed
	for _, v := range at {
		h = h*1099511628211 + uint64(v) + 7
	}
	return math.Exp(sd * rand.New(rand.NewPCG(h, seed)).NormFloat64())
}

// synthetics are spaces that are hard in ways that differ.
func synthetics() map[string]*Free {
	sq := func(x float64) float64 { return x * x }
	block := [][]float64{steps(16, 16, 16), powers(1, 6), steps(1, 1, 5), steps(1, 1, 5), {0, 1}, {0, 1}}
	return map[string]*Free{
		"corner": synthetic(nil, [][]float64{powers(1, 8), powers(1, 8), steps(1, 1, 8), steps(1, 1, 6)}, nil, func(at []int, x []float64) float64 {
			return 1 + 0.2*float64(7-at[0]) + 0.15*float64(at[1]) + 0.1*float64(7-at[2]) + 0.1*float64(at[3])
		}),
		"plateau": synthetic(nil, [][]float64{steps(0, 1, 12), steps(0, 1, 12), steps(0, 1, 6), steps(0, 1, 4)}, nil, func(at []int, x []float64) float64 {
			d := math.Sqrt(sq(x[0]-8) + sq(x[1]-3) + sq(x[2]-4) + sq(x[3]-1))
			return 1 + math.Min(math.Floor(d/2), 3)*0.5 + 0.01*math.Min(d, 2)
		}),
		"invalid": synthetic(nil, block, nil, func(at []int, x []float64) float64 {
			if threads := x[0] * x[1]; threads > 1024 || threads < 64 || x[0]*x[2]*x[1]*x[3] > 4096 {
				return math.Inf(1)
			}
			return rough(1, at, 0.03) * (1 + 0.3*sq(math.Log2(x[0]*x[1]/256)) + 0.5*sq(math.Log2(x[2]*x[3]/6)) + 0.2*x[4])
		}),
		// Half are invalid, by the product of most knobs, and the fastest lie at that border.
		"border": synthetic(nil, [][]float64{powers(8, 6), powers(1, 6), steps(1, 1, 8), powers(1, 4), {0, 1, 2}}, nil, func(at []int, x []float64) float64 {
			use := x[0] * x[1] * x[2] * (1 + x[4]) * (1 + 0.3*x[3])
			if use > 9000 || x[4] == 2 && x[3] < 2 {
				return math.Inf(1)
			}
			return rough(6, at, 0.02) * (1 + 3e3/use) * (1 + 0.1*math.Abs(math.Log2(x[0]/x[1]))) * (1 - 0.1*x[4])
		}),
		"trap": synthetic([]string{"n", "n", "", "", ""}, [][]float64{steps(0, 1, 6), steps(0, 1, 4), steps(0, 1, 8), powers(1, 6), steps(0, 1, 4)}, nil, func(at []int, x []float64) float64 {
			base := []float64{1.2, 1.6, 1.3, 1.9, 1.4, 1.7}[at[0]] * []float64{1.1, 1.2, 1, 1.3}[at[1]]
			if at[0] == 3 && at[1] == 1 { // a good one among names whose others are bad
				return 1 * (1 + 0.05*sq(x[2]-5) + 0.1*sq(float64(at[3])-4) + 0.05*x[4])
			}
			return base * (1 + 0.02*sq(x[2]-1) + 0.03*sq(float64(at[3])-1) + 0.01*x[4])
		}),
		"product": synthetic(nil, [][]float64{powers(1, 9), powers(1, 9), powers(1, 5), powers(1, 4), {0, 1}}, nil, func(at []int, x []float64) float64 {
			return rough(2, at, 0.02) * (1 + 0.3*math.Abs(math.Log2(x[0]*x[1]/256)) + 0.3*math.Abs(math.Log2(x[0]/x[2]/8)) + 0.2*math.Abs(math.Log2(x[3]*x[2]/8)) + 0.3*x[4])
		}),
		"rugged": synthetic(nil, block, nil, func(at []int, x []float64) float64 {
			return rough(3, at, 0.15) * (1 + 0.2*sq(math.Log2(x[0]*x[1]/256)) + 0.2*math.Abs(x[2]-3) + 0.15*math.Abs(x[3]-2) + 0.2*x[4] + 0.1*math.Mod(x[0]/16, 2))
		}),
	}
}
