package learn

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/kernels/launchmap"
)

// A mapPlace is the place of a problem on the map, in octaves of columns and rows, so that places have
// distances.
type mapPlace struct {
	columns, rows float64
	n             int64 // the columns; 0 of several
	step          int   // see stepOf
	align         int64
	twin          bool // of the other op: see twins
}

// stepOf numbers the step of a number of columns: it counts the powers of two, and three quarters of
// them, below n. A thread holds a part of a row whose size is one of these, so what is fast changes
// abruptly beyond them.
func stepOf(n int64) int {
	k := 2 * bits.Len64(uint64(n-1))
	if n <= 3<<(k/2)/4 {
		k--
	}
	return k
}

// placeOf computes the place of a problem.
func placeOf(p kernels.Problem) mapPlace {
	return mapPlace{columns: math.Log2(float64(p.N)), rows: math.Log2(float64(p.M)), n: p.N,
		step: stepOf(p.N), align: launchmap.AlignOf(p.N, p.DType.Size())}
}

// The model: how far a measurement counts for other places, and what is expected of a config
// without one.
const (
	reachColumns = 0.5  // octaves at which its weight falls to 0.6
	reachRows    = 0.7  //
	otherWidth   = 0.4  // weight of other columns, however near
	otherStep    = 0.4  // weight between two steps of columns
	otherAligned = 0.05 // weight where rows start at multiples of different numbers of bytes
	otherOp      = 0.5  // weight of a measurement of the other op
	oneRow       = 0.03 // weight between one row and more: a row alone is a case of its own in many designs
	priorRegret  = 0.25 // log time over the best of a config that nobody measured,
	priorWeight  = 0.25 // which counts as much as so many measurements
	failedRegret = 1.0  // of a config that failed
	mostPoints   = 80   // nearest ones that count for a place
	// searchedWeight is what a problem that was searched in full weighs more at its own place. It
	// falls off with the cube of alike, so that far off the problem weighs as any other. With it the
	// H200's map, live, lost 0.9% less at peers, whose shapes a sweep had searched.
	searchedWeight = 30
)

// similarity computes how much a measurement at place b counts at place a, 1 at the same: a Gaussian
// kernel.
func similarity(a, b mapPlace) float64 {
	n, m := (a.columns-b.columns)/reachColumns, (a.rows-b.rows)/reachRows
	if n*n+m*m > 20 { // most points are that far off, and do not count
		return 0
	}
	k := math.Exp(-(n*n + m*m) / 2)
	if a.n != 0 && a.n != b.n {
		k *= otherWidth
	}
	if a.step != b.step {
		k *= otherStep
	}
	if a.align != b.align {
		k *= otherAligned
	}
	if a.twin != b.twin {
		k *= otherOp
	}
	if (a.rows == 0) != (b.rows == 0) {
		k *= oneRow
	}
	return k
}

// An expectedRegret is the regret that is expected of a variant at a place.
type expectedRegret struct {
	variant kernels.Variant
	regret  float64 // log of its time over the best
	weight  float64 // of the measurements behind it
}

// blend averages a measured regret with the one that was expected before, which weighs as much as
// priorWeight measurements.
func (g expectedRegret) blend(before float64) expectedRegret {
	g.regret = (g.regret*g.weight + before*priorWeight) / (g.weight + priorWeight)
	return g
}

// A variantRegret is the measured log regret of a variant at a point.
type variantRegret struct {
	variant int // its number in the class
	regret  float64
}

// twins are ops with the same designs. A measurement of one counts for the other, too: on an H100 it
// takes a tenth to a quarter off the regret at columns that nobody measured.
var twins = map[kernels.Op]kernels.Op{
	kernels.RMSNorm: kernels.LayerNorm, kernels.LayerNorm: kernels.RMSNorm,
}

// twinOf returns v in the family of the same design for the other op; false where v's family is a
// user's.
func twinOf(v kernels.Variant, c launchmap.Class) (kernels.Variant, bool) {
	design, ok := strings.CutPrefix(v.Family, kernels.FamilyName(c.Op, c.Pass, ""))
	v.Family = kernels.FamilyName(twins[c.Op], c.Pass, design)
	return v, ok
}

// A classPoints has the points of one class of problems, and those of its twin.
type classPoints struct {
	launchmap.Class
	points   []*Point
	at       []mapPlace
	timings  [][]variantRegret // of each point
	variants []kernels.Variant
	numbers  map[kernels.Variant]int // of variants
}

// add adds a point at a place with the times of its variants, as log regrets.
func (c *classPoints) add(p *Point, us map[kernels.Variant]float64, at mapPlace) {
	var ts []variantRegret
	for v, us := range us {
		n, ok := c.numbers[v]
		if !ok {
			n = len(c.variants)
			c.numbers[v], c.variants = n, append(c.variants, v)
		}
		ts = append(ts, variantRegret{n, min(max(math.Log(us/p.BestUS), 0), failedRegret)})
	}
	c.points, c.at, c.timings = append(c.points, p), append(c.at, at), append(c.timings, ts)
}

// groupByClass makes the classPoints of each class; each gets the points of its twin, too.
func groupByClass(points []*Point) map[launchmap.Class]*classPoints {
	by := map[launchmap.Class]*classPoints{}
	for _, p := range points {
		of := launchmap.ClassOf(p.Problem)
		if by[of] == nil {
			by[of] = &classPoints{Class: of, numbers: map[kernels.Variant]int{}}
		}
		by[of].add(p, p.US, placeOf(p.Problem))
	}
	for _, p := range points {
		of, at := launchmap.ClassOf(p.Problem), placeOf(p.Problem)
		other := of
		other.Op, at.twin = twins[of.Op], true
		if by[other] == nil {
			continue
		}
		us := map[kernels.Variant]float64{}
		for v, t := range p.US {
			if w, ok := twinOf(v, of); ok {
				us[w] = t
			}
		}
		by[other].add(p, us, at)
	}
	return by
}

// A neighbour is a point with its weight at a place.
type neighbour struct {
	point  int
	weight float64
}

// neighboursNear lists the points that count at a place, the heaviest first. A nil class has none.
func (c *classPoints) neighboursNear(at mapPlace) []neighbour {
	return c.neighbours(at, mostPoints, similarity)
}

// neighboursFar lists points at up to twice the distance, and counts all alignments and both ops alike.
func (c *classPoints) neighboursFar(at mapPlace) []neighbour {
	return c.neighbours(at, 2*mostPoints, func(a, b mapPlace) float64 {
		return similarity(mapPlace{columns: a.columns / 2, rows: a.rows / 2},
			mapPlace{columns: b.columns / 2, rows: b.rows / 2})
	})
}

// neighbours lists the points that count at a place, at most so many, weighed by alike.
func (c *classPoints) neighbours(at mapPlace, most int, alike func(a, b mapPlace) float64) (list []neighbour) {
	if c == nil {
		return nil
	}
	for i := range c.points {
		w := alike(at, c.at[i])
		if c.points[i].finals != nil {
			w += searchedWeight * w * w * w
		}
		if w > 1e-4 {
			list = append(list, neighbour{i, w})
		}
	}
	slices.SortFunc(list, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.point, b.point))
	})
	return list[:min(len(list), most)]
}

// rank computes the expected regret of each variant that was measured near a place: the weighted mean of
// its regrets at the neighbours (Nadaraya and Watson, 1964). The least regret comes first.
func (c *classPoints) rank(near []neighbour) (list []expectedRegret) {
	if len(near) == 0 {
		return nil
	}
	sums := make([]expectedRegret, len(c.variants))
	for _, n := range near {
		for _, t := range c.timings[n.point] {
			g := &sums[t.variant]
			g.regret, g.weight = g.regret+n.weight*t.regret, g.weight+n.weight
		}
	}
	for i, g := range sums {
		if g.weight > 0 {
			g.regret = (g.regret + priorRegret*priorWeight) / (g.weight + priorWeight)
			g.variant = c.variants[i]
			list = append(list, g)
		}
	}
	sortRegrets(list)
	return list
}

// sortRegrets orders configs, the least expected regret first.
func sortRegrets(list []expectedRegret) {
	slices.SortFunc(list, func(a, b expectedRegret) int {
		return cmp.Or(cmp.Compare(a.regret, b.regret), compareVariants(a.variant, b.variant))
	})
}
