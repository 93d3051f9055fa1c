package learn

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/rule"
)

// A Filler fills maps.
type Filler struct {
	Registry *kernels.Registry
	Device   kernels.DeviceInfo
	// Weight is how much a shape counts, beside the area of its cell; nil is evenly.
	Weight func(m, n int64) float64
	// Prior answers where nothing was measured nearby, and its picks are expected to lose priorPick; nil is none.
	Prior *rule.Book

	mu       sync.Mutex
	accepted map[asked]bool
}

type asked struct {
	class              rule.Class
	align              int64
	nLo, nHi, mLo, mHi int64
	variant            kernels.Variant
}

// accepts is rule.Accepts, asked once.
func (f *Filler) accepts(r *rule.Raster, line, cell int, v kernels.Variant) bool {
	nLo, nHi, mLo, mHi := r.Span(line, cell, f.Device.SMs)
	return f.acceptsIn(asked{r.Class, r.Align, nLo, nHi, mLo, mHi, v})
}

func (f *Filler) acceptsIn(key asked) bool {
	f.mu.Lock()
	ok, known := f.accepted[key]
	f.mu.Unlock()
	if !known {
		ok = rule.Accepts(f.Registry, f.Device, key.class, key.align, key.nLo, key.nHi, key.mLo, key.mHi, key.variant)
		f.mu.Lock()
		if f.accepted == nil {
			f.accepted = map[asked]bool{}
		}
		f.accepted[key] = ok
		f.mu.Unlock()
	}
	return ok
}

// A square is a cell that is being filled.
type square struct {
	line, cell int
	at         place   // of its middle
	weight     float64 // of it in a mean
	options    []guess // the least regret first
	asked      []bool  // options that the families were asked for,
	accepted   []bool  // and what they said
	measured   map[int]bool
	choice     int // of options
}

// priorPick is the regret that is expected of a prior's pick which was not measured nearby.
const priorPick = 0.05

// mostOptions are the configs that a cell keeps while the legend is made.
const mostOptions = 400

// Fill makes a map from points: each cell runs the config with the least regret that is expected there and that
// its family accepts in all of the cell. It does not depend on the order of points.
func (f *Filler) Fill(points []*Point) *rule.Map {
	m := &rule.Map{Device: f.Device}
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, c := range classesOf(points) {
		for _, align := range rule.Aligns(c.Bytes) {
			wg.Go(func() {
				room <- struct{}{}
				r := f.raster(c, align)
				<-room
				mu.Lock()
				m.Rasters = append(m.Rasters, *r)
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	slices.SortFunc(m.Rasters, func(a, b rule.Raster) int {
		if c := a.Class.Compare(b.Class); c != 0 {
			return c
		}
		return int(b.Align - a.Align)
	})
	return m
}

// raster fills the cells of a class at one alignment.
func (f *Filler) raster(c *class, align int64) *rule.Raster {
	r := rule.Blank(c.Class, align, f.Device.SMs)
	squares := f.squares(c, r)
	for range 3 {
		if !f.split(c, r, squares) {
			break
		}
		squares = f.squares(c, r)
	}
	f.choose(r, c, squares)
	return r
}

// squares ranks what may run in each cell.
func (f *Filler) squares(c *class, r *rule.Raster) (squares []*square) {
	for line := range r.Lines {
		for cell := range r.Rows {
			if s := f.square(c, r, line, cell); s != nil {
				squares = append(squares, s)
			}
		}
	}
	return squares
}

// square ranks what may run in a cell; nil where there are no problems in it.
func (f *Filler) square(c *class, r *rule.Raster, line, cell int) *square {
	nLo, nHi, mLo, mHi := r.Span(line, cell, f.Device.SMs)
	if nHi < nLo || mHi < mLo {
		return nil
	}
	s := &square{line: line, cell: cell, at: middle(nLo, nHi, mLo, mHi, r.Align), measured: map[int]bool{}}
	s.weight = widthsIn(nLo, nHi) * math.Log2(float64(min(mHi, rule.MaxElems/nLo)+1)/float64(mLo))
	if f.Weight != nil {
		s.weight += f.Weight(mLo, nLo)
	}
	near := c.near(s.at)
	for _, n := range near {
		p := c.points[n.point].Problem
		if p.N >= nLo && p.N <= nHi && p.M >= mLo && p.M <= mHi && c.at[n.point].align == r.Align {
			for _, t := range c.timings[n.point] {
				s.measured[t.variant] = true
			}
		}
	}
	for _, g := range c.rank(near) {
		if len(s.options) < mostOptions && g.regret < failedRegret/2 && g.weight > 0.01 {
			s.options = append(s.options, g)
		}
	}
	if f.Prior != nil {
		n := max(int64(math.Exp2(s.at.columns))*c.Bytes/r.Align, 1)
		if r.Align < 16 {
			n |= 1
		}
		p := c.Problem(max(int64(math.Exp2(s.at.rows)), 1), n*r.Align/c.Bytes)
		v := f.Prior.Answer(p).Variant
		k := c.numberOf(v)
		if !slices.ContainsFunc(s.options, func(g guess) bool { return g.variant == k }) {
			at, _ := slices.BinarySearchFunc(s.options, priorPick, func(g guess, x float64) int { return cmp.Compare(g.regret, x) })
			s.options = slices.Insert(s.options, at, guess{variant: k, regret: priorPick})
		}
	}
	s.asked, s.accepted = make([]bool, len(s.options)), make([]bool, len(s.options))
	return s
}

// middle is the place in the middle of a range of shapes.
func middle(nLo, nHi, mLo, mHi, align int64) place {
	mid := func(lo, hi int64) float64 { return (math.Log2(float64(lo)) + math.Log2(float64(hi))) / 2 }
	return place{mid(nLo, nHi), mid(mLo, min(mHi, max(rule.MaxElems/nLo, mLo))), align}
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
			if !s.asked[i] {
				s.asked[i], s.accepted[i] = true, f.accepts(r, s.line, s.cell, c.variant(g.variant))
			}
			if s.accepted[i] {
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
	cells := make([][]byte, len(r.Lines))
	evidence := make([][]byte, len(r.Lines))
	for i := range cells {
		cells[i] = []byte(strings.Repeat(string(rule.Nothing), len(r.Rows)))
		evidence[i] = slices.Clone(cells[i])
	}
	for _, s := range squares {
		if s.choice < 0 {
			continue
		}
		g := s.options[s.choice]
		if letter, ok := r.Letter(c.variant(g.variant)); ok {
			cells[s.line][s.cell] = letter
			evidence[s.line][s.cell] = rule.Neighbour
			switch {
			case s.measured[g.variant]:
				evidence[s.line][s.cell] = rule.Measured
			case g.weight == 0:
				evidence[s.line][s.cell] = rule.Borrowed
			}
		}
	}
	for i := range cells {
		r.Lines[i].Cells, r.Lines[i].Evidence = string(cells[i]), string(evidence[i])
	}
	sum, weight := 0.0, 0.0
	for i, p := range c.points {
		if c.at[i].align != r.Align {
			continue
		}
		r.Problems++
		line, cell, ok := r.At(p.Problem.M, p.Problem.N, f.Device.SMs)
		if !ok {
			continue
		}
		if v, ok := r.Pick(line, cell); ok && p.US[v] > 0 {
			sum, weight = sum+math.Log(p.US[v]/p.BestUS), weight+1
		}
	}
	if weight > 0 {
		r.Regret = math.Exp(sum / weight)
	}
}
