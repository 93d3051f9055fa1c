package learn

import (
	"cmp"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/rule"
)

// A place is where a problem is on the map: octaves, so that distances are.
type place struct {
	columns, rows float64
	align         int64
}

func placeOf(p kernels.Problem) place {
	return place{math.Log2(float64(p.N)), math.Log2(float64(p.M)), rule.AlignOf(p.N, p.DType.Size())}
}

// The model: how far a measurement counts for other places, and what is expected of a config without one.
const (
	reachColumns = 0.5  // octaves at which its weight falls to 0.6
	reachRows    = 1.0  //
	otherAligned = 0.05 // weight where rows start at multiples of different numbers of bytes
	priorRegret  = 0.25 // log time over the best of a config that nobody measured,
	priorWeight  = 0.5  // which counts as much as so many measurements
	oneRow       = 0.03 // weight between one row and more: a row alone is a case of its own in many designs
	failedRegret = 1.0  // of a config that failed
	passes       = 3    // over how far the best at each point may be behind
	mostPoints   = 80   // nearest ones that count for a place
)

// alike is the weight of a measurement at one place for another, 1 at the same: a Gaussian kernel.
func alike(a, b place) float64 {
	n, m := (a.columns-b.columns)/reachColumns, (a.rows-b.rows)/reachRows
	k := math.Exp(-(n*n + m*m) / 2)
	if a.align != b.align {
		k *= otherAligned
	}
	if (a.rows == 0) != (b.rows == 0) {
		k *= oneRow
	}
	return k
}

// A guess is what is expected of a variant at a place.
type guess struct {
	variant int     // its number in the class
	regret  float64 // log of its time over the best
	weight  float64 // of the measurements behind it
}

// A timing is the log regret of a variant at a point.
type timing struct {
	variant int
	regret  float64
}

// A class is the points of one class of problems.
type class struct {
	rule.Class
	points   []*Point
	at       []place
	timings  [][]timing // of each point, in the order of variants
	variants []kernels.Variant
	number   map[kernels.Variant]int
}

// numberOf is the number of a variant, which one gets that was not measured.
func (c *class) numberOf(v kernels.Variant) int {
	n, ok := c.number[v]
	if !ok {
		n = len(c.variants)
		c.number[v], c.variants = n, append(c.variants, v)
	}
	return n
}

// classes sorts points by their classes.
func classesOf(points []*Point) []*class {
	by := map[rule.Class]*class{}
	var list []*class
	for _, p := range points {
		cl := rule.ClassOf(p.Problem)
		c := by[cl]
		if c == nil {
			c = &class{Class: cl, number: map[kernels.Variant]int{}}
			by[cl], list = c, append(list, c)
		}
		c.points, c.at = append(c.points, p), append(c.at, placeOf(p.Problem))
		for v := range p.US {
			c.number[v] = 0
		}
		for v := range p.Failed {
			c.number[v] = 0
		}
	}
	for _, c := range list {
		for v := range c.number {
			c.variants = append(c.variants, v)
		}
		slices.SortFunc(c.variants, compareVariants)
		for i, v := range c.variants {
			c.number[v] = i
		}
		for _, p := range c.points {
			var ts []timing
			for v, us := range p.US {
				ts = append(ts, timing{c.number[v], math.Log(us / p.BestUS)})
			}
			for v := range p.Failed {
				if p.US[v] == 0 {
					ts = append(ts, timing{c.number[v], failedRegret})
				}
			}
			slices.SortFunc(ts, func(a, b timing) int { return cmp.Compare(a.variant, b.variant) })
			c.timings = append(c.timings, ts)
		}
	}
	slices.SortFunc(list, func(a, b *class) int { return a.Compare(b.Class) })
	return list
}

// A neighbour is a point with its weight for a place.
type neighbour struct {
	point  int
	weight float64
}

// near lists the points that count for a place, the nearest first.
func (c *class) near(at place) (list []neighbour) {
	for i := range c.points {
		if w := alike(at, c.at[i]); w > 1e-4 {
			list = append(list, neighbour{i, w})
		}
	}
	slices.SortFunc(list, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.point, b.point))
	})
	return list[:min(len(list), mostPoints)]
}

// rank is what is expected of each variant that was measured near a place, the least regret first: its mean
// over neighbours, by their weights (Nadaraya and Watson, 1964). The best that was measured at a
// neighbour may be a bad one: by how much tell its variants, from what they lose elsewhere.
func (c *class) rank(near []neighbour) []guess {
	sums := make(map[int]int, 64) // place in guesses
	var list []guess
	for _, n := range near {
		for _, t := range c.timings[n.point] {
			if _, ok := sums[t.variant]; !ok {
				sums[t.variant] = len(list)
				list = append(list, guess{variant: t.variant})
			}
		}
	}
	behind := make([]float64, len(near)) // of the best at each neighbour
	for pass := range passes {
		for i := range list {
			list[i].regret, list[i].weight = priorRegret*priorWeight, priorWeight
		}
		for i, n := range near {
			for _, t := range c.timings[n.point] {
				g := &list[sums[t.variant]]
				g.regret, g.weight = g.regret+n.weight*(t.regret+behind[i]), g.weight+n.weight
			}
		}
		for i := range list {
			list[i].regret /= list[i].weight
		}
		if pass == passes-1 {
			break
		}
		for i, n := range near {
			sum, weight := 0.0, 0.5 // shrunk
			for _, t := range c.timings[n.point] {
				if g := &list[sums[t.variant]]; t.regret < 0.15 {
					w := g.weight - priorWeight - n.weight // of the others
					others := (g.regret*g.weight - priorRegret*priorWeight - n.weight*(t.regret+behind[i]))
					if w > 0.05 {
						sum, weight = sum+others-w*t.regret, weight+w
					}
				}
			}
			behind[i] = max(sum/weight, 0)
		}
	}
	for i := range list {
		list[i].weight -= priorWeight
	}
	slices.SortFunc(list, func(a, b guess) int {
		return cmp.Or(cmp.Compare(a.regret, b.regret), cmp.Compare(a.variant, b.variant))
	})
	return list
}
