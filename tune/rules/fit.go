package rules

import (
	"math"
	"slices"

	"normbench/kernels/launchrule"
)

// TieBand is how much slower, relatively, than the default an answer may be
// before it counts as worse: what two sweeps of one device differ by at most.
const TieBand = 0.02

// Options say how rules are found.
type Options struct {
	// MaxRules is the most rules of a class. An engineer should be able to read
	// them all.
	MaxRules int
	// Price is the log regret, summed over the shapes, that a rule must save: one
	// shape by that much, or ten by a tenth of it each.
	Price float64
	// ReachN and ReachM say how far, in octaves of columns and of rows per
	// SM, a shape speaks for others: the standard deviations of a
	// Gaussian weight.
	ReachN, ReachM float64
	// Share is how much the neighbours have to say where a shape was measured, and
	// Empty how much a place counts where none was, against a measured one.
	Share, Empty float64
}

// DefaultOptions predicted the shapes of the H200's grids best when those were
// left out, one at a time: the mean over the four classes moved by a tenth of
// the regret within a factor of two of each number.
var DefaultOptions = Options{MaxRules: 10, Price: 0.03, ReachN: 1.5, ReachM: 0.7, Share: 0.5, Empty: 0.3}

// A piece is a part of the plane with its answer.
type piece struct {
	x0, x1, y0, y1 int // numbers of the widths and rows in it, x1 and y1 included
	recipe         int // number, or useDefault
}

const useDefault = -1

// A fitter finds the best pieces for some of a table's shapes.
type fitter struct {
	t      *table
	use    []int   // the shapes, by number
	xs, ys []int64 // their distinct widths and rows per SM, ascending
	price  float64
	leaves []leaf     // of each tight rectangle, by index; made when first asked for
	memo   []solution // likewise, for the price at hand

	// Prefix sums over the grid. Per recipe: log time over that of the default,
	// and the shapes that bar it. And the places that count.
	sums  [][]float64
	bars  [][]int32
	count []int32
}

// A leaf is the best single answer for a rectangle, the default aside.
type leaf struct {
	done   bool
	recipe int     // useDefault where none is allowed
	loss   float64 // sum of log time over that of the default
}

// A solution is the best way to answer a rectangle.
type solution struct {
	done   bool
	cost   float64 // with the price of the rules
	rules  int
	recipe int // where it is not cut
	cut    int // last index of the first half; -1 where it is not cut
	alongX bool
}

// newFitter lays the shapes in use out on a grid of row widths and rows per
// SM, and gives each recipe a gain over the default at every place:
// what was measured there, mixed with what the neighbours say. On the H200's
// grids, fits to the measured times alone had a mean regret of 5.7 % on shapes
// held out, and of 5.1 % with the neighbours (both before trust.go).
//
// Barred shapes, in use or not, stay with the default.
func newFitter(t *table, use, barred []int, o Options) *fitter {
	f := &fitter{t: t, use: use}
	for _, k := range slices.Concat(use, barred) {
		f.xs = append(f.xs, t.shapes[k].width)
		f.ys = append(f.ys, t.shapes[k].rows)
	}
	slices.Sort(f.xs)
	slices.Sort(f.ys)
	f.xs, f.ys = slices.Compact(f.xs), slices.Compact(f.ys)
	w := len(f.ys) + 1
	size := (len(f.xs) + 1) * w
	place := func(k int) int {
		x, _ := slices.BinarySearch(f.xs, t.shapes[k].width)
		y, _ := slices.BinarySearch(f.ys, t.shapes[k].rows)
		return (x+1)*w + y + 1
	}
	f.count = make([]int32, size)
	own := make([]int, len(use))
	weight := make([]float64, size)
	for i, k := range use {
		own[i] = place(k)
		weight[own[i]]++
	}
	closed := make([]int32, size)
	for _, k := range barred {
		closed[place(k)]++
	}
	mix := make([][]part, size) // of each shape's gain, per place
	for x, width := range f.xs {
		for y, rows := range f.ys {
			c := (x+1)*w + y + 1
			ks := make([]float64, len(use))
			sum := 0.0
			for i, k := range use {
				dn := math.Log2(float64(width)/float64(t.shapes[k].width)) / o.ReachN
				dm := math.Log2(float64(rows)/float64(t.shapes[k].rows)) / o.ReachM
				ks[i] = math.Exp(-(dn*dn + dm*dm) / 2)
				sum += ks[i]
			}
			share, amount := o.Share, weight[c]
			if weight[c] == 0 {
				share, amount = 1, o.Empty*min(1, 4*sum)
			}
			if amount < 1e-4 && closed[c] == 0 {
				continue // too far from everything to have a say
			}
			f.count[c] = 1
			for i, x := range ks {
				x *= share * amount / max(sum, 1e-300)
				if own[i] == c {
					x += 1 - share
				}
				if x > 1e-6 { // most are too far to matter, and this is the inner loop
					mix[c] = append(mix[c], part{i, x})
				}
			}
		}
	}
	integrate(f, f.count)
	band := math.Log1p(TieBand)
	// Four recipes at a time: the sums of one are additions that wait for each other, and those
	// were a fifth of the time of `tune`.
	const together = 4
	gains := make([][together]float64, len(use))
	for first := 0; first < len(t.recipes); first += together {
		block := min(together, len(t.recipes)-first)
		var sums [together][]float64
		for j := range sums {
			sums[j] = make([]float64, size)
		}
		for j := range block {
			r := first + j
			bar := slices.Clone(closed)
			for i, k := range use {
				g := t.loss[r][k] - t.shapes[k].base
				// A recipe that loses to the default by more than the band somewhere is
				// not for a box that holds this shape, whatever it gains elsewhere.
				if g > band {
					bar[own[i]]++
				}
				gains[i][j] = min(g, 0.5) // beyond that it is out of the question anyway
				if math.IsInf(g, 1) {
					gains[i][j] = 0.2 // what is not known is taken for slow
				}
			}
			integrate(f, bar)
			f.bars = append(f.bars, bar)
		}
		for at, ks := range mix {
			var a, b, c, d float64
			for _, p := range ks {
				g := &gains[p.shape]
				a, b, c, d = a+p.weight*g[0], b+p.weight*g[1], c+p.weight*g[2], d+p.weight*g[3]
			}
			sums[0][at], sums[1][at], sums[2][at], sums[3][at] = a, b, c, d
		}
		for _, sum := range sums[:block] {
			integrate(f, sum)
			f.sums = append(f.sums, sum)
		}
	}
	f.leaves = make([]leaf, len(f.xs)*len(f.xs)*len(f.ys)*len(f.ys))
	f.memo = make([]solution, len(f.leaves))
	return f
}

// A part is a shape's share in what is said of a place.
type part struct {
	shape  int
	weight float64
}

// integrate turns the grid's values into prefix sums.
func integrate[T int32 | float64](f *fitter, g []T) {
	w := len(f.ys) + 1
	for x := 1; x <= len(f.xs); x++ {
		var row T
		for y := 1; y < w; y++ {
			row += g[x*w+y]
			g[x*w+y] = g[(x-1)*w+y] + row
		}
	}
}

// within is the sum over a rectangle, bounds included.
func within[T int32 | float64](f *fitter, sums []T, x0, x1, y0, y1 int) T {
	w := len(f.ys) + 1
	return sums[(x1+1)*w+y1+1] - sums[x0*w+y1+1] - sums[(x1+1)*w+y0] + sums[x0*w+y0]
}

// tolerance is the difference of sums that rounding makes. Ties go to fewer
// rules and the first recipe by name.
const tolerance = 1e-9

// leaf is the best recipe for all of a rectangle.
func (f *fitter) leaf(id, x0, x1, y0, y1 int) leaf {
	l := &f.leaves[id]
	if l.done {
		return *l
	}
	*l = leaf{true, useDefault, math.Inf(1)}
	for r := range f.sums {
		if within(f, f.bars[r], x0, x1, y0, y1) > 0 {
			continue
		}
		if c := within(f, f.sums[r], x0, x1, y0, y1); c < l.loss-tolerance {
			l.recipe, l.loss = r, c
		}
	}
	return *l
}

// tighten shrinks a rectangle to the shapes in it, of which it has some.
func (f *fitter) tighten(x0, x1, y0, y1 int) (int, int, int, int) {
	for within(f, f.count, x0, x0, y0, y1) == 0 {
		x0++
	}
	for within(f, f.count, x1, x1, y0, y1) == 0 {
		x1--
	}
	for within(f, f.count, x0, x1, y0, y0) == 0 {
		y0++
	}
	for within(f, f.count, x0, x1, y1, y1) == 0 {
		y1--
	}
	return x0, x1, y0, y1
}

// solve finds the best way to answer a rectangle: one answer for all of it, or
// the best of its cuts in two. The rectangles of measured shapes are some
// thousand, so the optimum over all nested cuts takes milliseconds.
func (f *fitter) solve(x0, x1, y0, y1 int) solution {
	n := within(f, f.count, x0, x1, y0, y1)
	if n == 0 {
		return solution{recipe: useDefault, cut: -1}
	}
	x0, x1, y0, y1 = f.tighten(x0, x1, y0, y1)
	id := ((x0*len(f.xs)+x1)*len(f.ys)+y0)*len(f.ys) + y1
	if s := f.memo[id]; s.done {
		return s
	}
	best := solution{done: true, recipe: useDefault, cut: -1}
	if l := f.leaf(id, x0, x1, y0, y1); l.loss+f.price < best.cost-tolerance {
		best.cost, best.rules, best.recipe = l.loss+f.price, 1, l.recipe
	}
	try := func(a, b solution, cut int, alongX bool) {
		c, rules := a.cost+b.cost, a.rules+b.rules
		if c < best.cost-tolerance || c < best.cost+tolerance && rules < best.rules {
			best = solution{done: true, cost: c, rules: rules, cut: cut, alongX: alongX}
		}
	}
	// Cuts behind an empty row or column divide the shapes as the one before does.
	for x := x0; x < x1; x++ {
		if within(f, f.count, x, x, y0, y1) > 0 {
			try(f.solve(x0, x, y0, y1), f.solve(x+1, x1, y0, y1), x, true)
		}
	}
	for y := y0; y < y1; y++ {
		if within(f, f.count, x0, x1, y, y) > 0 {
			try(f.solve(x0, x1, y0, y), f.solve(x0, x1, y+1, y1), y, false)
		}
	}
	f.memo[id] = best
	return best
}

// pieces are the leaves of the best cuts, in the order of the cuts.
func (f *fitter) pieces() []piece {
	var out []piece
	var walk func(x0, x1, y0, y1 int)
	walk = func(x0, x1, y0, y1 int) {
		s := f.solve(x0, x1, y0, y1)
		switch {
		case s.cut < 0:
			out = append(out, piece{x0, x1, y0, y1, s.recipe})
		case s.alongX:
			walk(x0, s.cut, y0, y1)
			walk(s.cut+1, x1, y0, y1)
		default:
			walk(x0, x1, y0, s.cut)
			walk(x0, x1, s.cut+1, y1)
		}
	}
	if len(f.use) > 0 {
		walk(0, len(f.xs)-1, 0, len(f.ys)-1)
	}
	return out
}

// fit raises the price until the rules are few enough.
func fit(t *table, use, barred []int, o Options) *fitter {
	f := newFitter(t, use, barred, o)
	for f.price = o.Price; len(use) > 0; f.price *= 1.25 {
		clear(f.memo)
		if f.solve(0, len(f.xs)-1, 0, len(f.ys)-1).rules <= o.MaxRules {
			break
		}
	}
	return f
}

// box is the bounds of a piece. Widths are powers of two, so a row between two
// is handled as the wider, whose threads it needs. Between two numbers of rows
// the border is in the middle, geometrically.
func (f *fitter) box(p piece) Box {
	var b Box
	if p.x0 > 0 {
		b.NOver = f.xs[p.x0-1]
	}
	if p.x1 < len(f.xs)-1 {
		b.NMax = f.xs[p.x1]
	}
	if p.y0 > 0 {
		b.MOver = launchrule.Whole(between(f.ys[p.y0-1], f.ys[p.y0]))
	}
	if p.y1 < len(f.ys)-1 {
		b.MMax = launchrule.Whole(between(f.ys[p.y1], f.ys[p.y1+1]))
	}
	return b
}

// between is the border between a and b rows per SM: the geometric
// middle, as a round number where there is one.
func between(a, b int64) int64 {
	mid := int64(math.Ceil(math.Sqrt(float64(a)*float64(b)))) - 1
	for unit := int64(1) << 30; unit > 1; unit /= 2 {
		if r := mid / unit * unit; a <= r && 8*(mid-r) <= mid {
			return r
		}
	}
	return max(mid, a)
}
