package learn

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"normbench/kernels"
	"normbench/kernels/rule"
	"normbench/sweep/stats"
)

// A Filler fills maps.
type Filler struct {
	Registry *kernels.Registry
	Device   kernels.DeviceInfo
	// Prior answers where nothing was measured nearby, and its picks are expected to lose priorPick; nil is none.
	Prior *rule.Book

	accepted sync.Map           // box and variant to bool
	last     map[title]*filling // of the last Fill
}

type title struct {
	class rule.Class
	align int64
}

// A filling is a raster with what it was chosen from.
type filling struct {
	class   *class
	squares []*square
}

// A box is a range of shapes of a class at one alignment, both ends included.
type box struct {
	title
	nLo, nHi, mLo, mHi int64
}

func (f *Filler) box(r *rule.Raster, line, cell int) (b box) {
	b.title = title{r.Class, r.Align}
	b.nLo, b.nHi, b.mLo, b.mHi = r.Span(line, cell, f.Device.SMs)
	return b
}

// middle is the place in the middle of a box.
func (b box) middle() place {
	mid := func(lo, hi int64) float64 { return (math.Log2(float64(lo)) + math.Log2(float64(hi))) / 2 }
	return place{mid(b.nLo, b.nHi), mid(b.mLo, min(b.mHi, max(rule.MaxElems/b.nLo, b.mLo))), b.align}
}

// problem is one near the middle of a box.
func (b box) problem() kernels.Problem {
	at := b.middle()
	n := max(int64(math.Exp2(at.columns))*b.class.Bytes/b.align, 1)
	if b.align < 16 {
		n |= 1
	}
	return b.class.Problem(max(int64(math.Exp2(at.rows)), 1), n*b.align/b.class.Bytes)
}

// accepts is rule.Accepts, asked once.
func (f *Filler) accepts(b box, v kernels.Variant) bool {
	type question struct {
		box
		kernels.Variant
	}
	q := question{b, v}
	if ok, known := f.accepted.Load(q); known {
		return ok.(bool)
	}
	ok := rule.Accepts(f.Registry, f.Device, b.class, b.align, b.nLo, b.nHi, b.mLo, b.mHi, v)
	f.accepted.Store(q, ok)
	return ok
}

// A square is a cell that is being filled.
type square struct {
	line, cell int
	box        box
	weight     float64      // of it in a mean
	options    []guess      // the least regret first
	asked      []int8       // of each option: 1 accepted, -1 refused, 0 not asked yet
	measured   map[int]bool // variants, in the cell
	choice     int          // of options, -1 for none
}

const (
	// priorPick is the regret that is expected of a prior's pick which was not measured nearby.
	priorPick = 0.05
	// leastGain is by how much a config must be expected to be faster than the prior's to take its place: within it two fills
	// from different records choose at random.
	leastGain = 0.02
)

// Fill makes a map from points: each cell runs the config with the least regret that is expected there and that
// its family accepts in all of the cell. It does not depend on the order of points.
func (f *Filler) Fill(points []*Point) *rule.Map {
	m := &rule.Map{Device: f.Device}
	f.last = map[title]*filling{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range classesOf(points) {
		wg.Go(func() {
			for _, align := range rule.Aligns(c.Bytes) {
				r := rule.Blank(c.Class, align, f.Device.SMs)
				squares := f.squares(c, r)
				if f.split(c, r, squares) {
					squares = f.squares(c, r)
				}
				f.choose(r, c, squares)
				mu.Lock()
				m.Rasters = append(m.Rasters, *r)
				f.last[title{c.Class, align}] = &filling{c, squares}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	m.Sort()
	return m
}

// squares ranks what may run in each cell that has problems.
func (f *Filler) squares(c *class, r *rule.Raster) (squares []*square) {
	for line := range r.Lines {
		for cell := range r.Rows {
			b := f.box(r, line, cell)
			if b.nHi < b.nLo || b.mHi < b.mLo {
				continue
			}
			s := &square{line: line, cell: cell, box: b, measured: map[int]bool{}}
			s.weight = widthsIn(b.nLo, b.nHi) * math.Log2(float64(min(b.mHi, rule.MaxElems/b.nLo)+1)/float64(b.mLo))
			near := c.near(b.middle())
			for _, n := range near {
				p := c.points[n.point].Problem
				if p.N < b.nLo || p.N > b.nHi || p.M < b.mLo || p.M > b.mHi || c.at[n.point].align != r.Align {
					continue
				}
				for _, t := range c.timings[n.point] {
					s.measured[t.variant] = true
				}
			}
			for _, g := range c.rank(near) {
				if g.regret < failedRegret/2 && g.weight > 0.01 {
					s.options = append(s.options, g)
				}
			}
			if f.Prior != nil {
				f.addPrior(c, s)
			}
			s.asked = make([]int8, len(s.options))
			squares = append(squares, s)
		}
	}
	return squares
}

// addPrior has the prior's pick among the options of a cell. It keeps the cell where nothing else is expected to gain leastGain.
func (f *Filler) addPrior(c *class, s *square) {
	g := guess{variant: c.numberOf(f.Prior.Answer(s.box.problem()).Variant), regret: priorPick}
	if i := slices.IndexFunc(s.options, func(o guess) bool { return o.variant == g.variant }); i >= 0 {
		g = s.options[i]
		g.regret -= leastGain
		s.options = slices.Delete(s.options, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(s.options, g.regret, func(o guess, x float64) int { return cmp.Compare(o.regret, x) })
	s.options = slices.Insert(s.options, at, g)
}

// leastPrice is the expected regret that a config saves in the mean of its raster to have a letter.
const leastPrice = 3e-5

// choose gives each cell its best option. While there are more configs than letters, or one that is hardly worth its
// letter, the config goes whose cells lose the least by their next one.
func (f *Filler) choose(r *rule.Raster, c *class, squares []*square) {
	out := map[int]bool{}
	pick := func(s *square, without int) int {
		for i, g := range s.options {
			if out[g.variant] || g.variant == without {
				continue
			}
			if s.asked[i] == 0 {
				if s.asked[i] = -1; f.accepts(s.box, c.variants[g.variant]) {
					s.asked[i] = 1
				}
			}
			if s.asked[i] > 0 {
				return i
			}
		}
		return -1
	}
	for {
		price, total := map[int]float64{}, 0.0
		for _, s := range squares {
			if s.choice = pick(s, -1); s.choice < 0 {
				continue
			}
			g := s.options[s.choice]
			loss := 0.3
			if next := pick(s, g.variant); next >= 0 {
				loss = s.options[next].regret - g.regret
			}
			price[g.variant] += s.weight * loss
			total += s.weight
		}
		cheapest := -1
		for v, x := range price {
			if cheapest < 0 || x < price[cheapest] || x == price[cheapest] && v < cheapest {
				cheapest = v
			}
		}
		if cheapest < 0 || len(price) <= len(rule.Letters) && price[cheapest] > leastPrice*total {
			break
		}
		out[cheapest] = true
	}
	for _, s := range squares {
		if s.choice < 0 {
			continue
		}
		g, evidence := s.options[s.choice], byte(rule.Neighbour)
		switch {
		case s.measured[g.variant]:
			evidence = rule.Measured
		case g.weight == 0:
			evidence = rule.Borrowed
		}
		r.Set(s.line, s.cell, c.variants[g.variant], evidence)
	}
	sum, weight := 0.0, 0.0
	for i, p := range c.points {
		if c.at[i].align != r.Align {
			continue
		}
		r.Problems++
		if v := r.CellAt(p.Problem.M, p.Problem.N, f.Device.SMs).Variant; p.US[v] > 0 {
			sum, weight = sum+math.Log(p.US[v]/p.BestUS), weight+1
		}
	}
	if weight > 0 {
		r.Regret = math.Round(1e4*math.Expm1(sum/weight)) / 100
	}
}

// Better says whether one config is faster than another beyond doubt in a cell, by problems nearby that have times of
// both: the lower bound of its gain is above 0 at 95%. Fill has had the problems.
func (f *Filler) Better(class rule.Class, align, nLo, nHi, mLo, mHi int64, old, next kernels.Variant) bool {
	x := f.last[title{class, align}]
	if x == nil {
		return false
	}
	var gains []float64
	for _, n := range x.class.near(box{title{class, align}, nLo, nHi, mLo, mHi}.middle()) {
		if p := x.class.points[n.point]; n.weight > 0.1 && p.US[old] > 0 && p.US[next] > 0 {
			gains = append(gains, math.Log(p.US[old]/p.US[next]))
		}
	}
	_, lo, _ := stats.HodgesLehmann(gains, 0.95)
	return lo > 0
}

// Change counts the cells of the map that Fill made last whose config is not the one of an older map, of how many, and says
// how much less regret is expected by that in the mean of all, in percent.
func (f *Filler) Change(old *rule.Map) (changed, of int, gain float64) {
	weight := 0.0
	for key, x := range f.last {
		r := old.Raster(key.class, key.align)
		for _, s := range x.squares {
			if s.choice < 0 {
				continue
			}
			of, weight = of+1, weight+s.weight
			var was kernels.Variant
			if r != nil {
				was = r.CellAt(s.box.mLo, s.box.nLo, f.Device.SMs).Variant
			}
			g := s.options[s.choice]
			if x.class.variants[g.variant] == was {
				continue
			}
			changed++
			for _, o := range s.options {
				if x.class.variants[o.variant] == was {
					gain += s.weight * (o.regret - g.regret)
				}
			}
		}
	}
	return changed, of, 100 * gain / max(weight, 1e-9)
}
