package study

import (
	"math"
	"math/rand/v2"

	"normbench/sweep/search"
)

// synthetic makes a space of the product of the knobs' values. The first names knobs have no
// numbers, only names. of is a config's time by its values, +Inf for an invalid one.
func synthetic(names int, values [][]float64, of func(x []float64) float64) *Free {
	f := &Free{Kernel: "synthetic"}
	total := 1
	for k, vs := range values {
		a := search.ForeignKnob{Size: len(vs)}
		if k >= names {
			a.Values = vs
		}
		f.Axes = append(f.Axes, a)
		total *= len(vs)
	}
	for i := range total {
		at, x := make([]int, len(values)), make([]float64, len(values))
		for k := len(values) - 1; k >= 0; k-- {
			at[k] = i % len(values[k])
			i /= len(values[k])
			x[k] = values[k][at[k]]
		}
		f.At, f.Times = append(f.At, at), append(f.Times, of(x))
	}
	return f
}

// rough is a lognormal factor of a config that is the same each time.
func rough(seed uint64, x []float64, sd float64) float64 {
	h := seed
	for _, v := range x {
		h = h*1099511628211 + uint64(v) + 7
	}
	return math.Exp(sd * rand.New(rand.NewPCG(h, seed)).NormFloat64())
}

// synthetics are spaces that are hard in ways that differ.
func synthetics() map[string]*Free {
	sq := func(x float64) float64 { return x * x }
	return map[string]*Free{
		// Half are invalid, by the product of most knobs, and the fastest lie at that border.
		"border": synthetic(0, [][]float64{{8, 16, 32, 64, 128, 256}, {1, 2, 4, 8, 16, 32},
			{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 4, 8}, {0, 1, 2}}, func(x []float64) float64 {
			use := x[0] * x[1] * x[2] * (1 + x[4]) * (1 + 0.3*x[3])
			if use > 9000 || x[4] == 2 && x[3] < 2 {
				return math.Inf(1)
			}
			shape := 1 + 0.1*math.Abs(math.Log2(x[0]/x[1]))
			return rough(6, x, 0.02) * (1 + 3e3/use) * shape * (1 - 0.1*x[4])
		}),
		// A good one among names whose others are bad.
		"trap": synthetic(2, [][]float64{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7},
			{1, 2, 4, 8, 16, 32}, {0, 1, 2, 3}}, func(x []float64) float64 {
			base := []float64{1.2, 1.6, 1.3, 1.9, 1.4, 1.7}[int(x[0])] * []float64{1.1, 1.2, 1,
				1.3}[int(x[1])]
			if x[0] == 3 && x[1] == 1 {
				return 1 + 0.05*sq(x[2]-5) + 0.1*sq(math.Log2(x[3])-4) + 0.05*x[4]
			}
			return base * (1 + 0.02*sq(x[2]-1) + 0.03*sq(math.Log2(x[3])-1) + 0.01*x[4])
		}),
	}
}
