package learn

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"

	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep/stats"
)

// A Filler fills maps from points.
type Filler struct {
	Registry *kernels.Registry
	Device   kernels.DeviceInfo
	Widths   []int64 // that have a line of cells each
	// Prior answers where nothing was measured nearby: a map, whose picks are expected to lose
	// priorPick, or none but the analytic base.
	Prior *launchmap.Book
	// BatchInvariant gives a range of columns one config, whatever the rows.
	BatchInvariant bool

	classes map[launchmap.Class]*classPoints // of the last Fill
}

const (
	// priorPick is the regret that is expected of a prior's pick which was not measured nearby.
	priorPick = 0.05
	// leastGain is by how much a config must be expected to be faster than the prior's to take its
	// place: within it two fills from different records choose at random.
	leastGain = 0.02
	// leastPrice is the expected regret that a config saves in the mean of a raster, at least, to have
	// a letter. A map that is pasted must be small.
	leastPrice = 1e-5
	// A cell takes the config of the cell beside it up to this expected regret: mostTie at widths with a
	// line of their own, mostTieBetween at columns between them.
	mostTie, mostTieBetween = 0.003, 0.01
	// noOption is what the lack of an accepted config costs: there is the analytic base.
	noOption = 0.3
)

// centreOf finds the place in the centre of a box.
func centreOf(b launchmap.Box) mapPlace {
	mid := func(lo, hi int64) float64 { return (math.Log2(float64(lo)) + math.Log2(float64(hi))) / 2 }
	rows := mid(b.MLo, min(b.MHi, max(launchmap.MaxElems/b.NLo, b.MLo)))
	n := b.Width()
	if n > 0 {
		b.NLo, b.NHi = n, n
	}
	columns := mid(b.NLo, b.NHi)
	return mapPlace{columns: columns, rows: rows, n: n, step: stepOf(int64(math.Round(math.Exp2(columns)))), align: b.Align}
}

// centralProblem makes a problem near the centre of a box, with the box's alignment.
func centralProblem(b launchmap.Box) kernels.Problem {
	at := centreOf(b)
	n := max(int64(math.Round(math.Exp2(at.columns)))*b.Class.Bytes/b.Align, 1)
	if b.Align < 16 {
		n |= 1
	}
	return b.Class.Problem(max(int64(math.Exp2(at.rows)), 1), n*b.Align/b.Class.Bytes)
}

// An openCell is a cell of a raster that is being filled.
type openCell struct {
	line, cell int
	box        launchmap.Box
	options    []expectedRegret // the least regret first
	accepted   int              // so many of the first are known to be accepted in all of the box
	parts      []*openCell      // of one that stands for a whole line: see joinLines
}

// Fill makes a map from points. Each cell gets the config with the least expected regret among those
// that its family accepts everywhere in the cell.
func (f *Filler) Fill(points []*Point) *launchmap.Map {
	m := &launchmap.Map{Device: f.Device}
	f.classes = groupByClass(points)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range f.classes {
		for _, align := range launchmap.Aligns(c.Bytes) {
			if !c.Has(align) {
				continue
			}
			wg.Go(func() {
				r := f.raster(c, align)
				mu.Lock()
				defer mu.Unlock()
				m.Rasters = append(m.Rasters, *r)
			})
		}
	}
	wg.Wait()
	m.Sort()
	return m
}

// raster fills the cells of a class at an alignment. Columns that a sweep searched in full have a line of
// their own too.
func (f *Filler) raster(c *classPoints, align int64) *launchmap.Raster {
	widths := slices.Clone(f.Widths)
	for _, p := range c.points {
		if p.finals != nil {
			widths = append(widths, p.Problem.N)
		}
	}
	r := launchmap.Blank(c.Class, align, f.Device.SMs, widths...)
	var cells []*openCell
	for line := range r.Lines {
		for cell := range r.Rows {
			if b := r.Box(line, cell, f.Device.SMs); !b.Empty() {
				cells = append(cells, &openCell{line: line, cell: cell, box: b, options: f.options(c, b)})
			}
		}
	}
	if f.BatchInvariant {
		cells = f.joinLines(cells)
	}
	f.chooseConfigs(r, cells)
	if f.BatchInvariant {
		r.BatchInvariant = f.costOf(cells)
	}
	f.noteEvidence(r, c)
	return r
}

// findAccepted returns the i-th option of a cell that is accepted everywhere in it and is not out. It
// deletes from the cell's options those that it finds refused or out, so that none is tried twice.
func (f *Filler) findAccepted(s *openCell, i int, out map[kernels.Variant]bool) (g expectedRegret, ok bool) {
	for i < len(s.options) {
		known := i < s.accepted
		if g = s.options[i]; !out[g.variant] && (known || s.box.Accepts(f.Registry, f.Device, g.variant)) {
			s.accepted = max(s.accepted, i+1)
			return g, true
		}
		s.options = slices.Delete(s.options, i, i+1)
		if known {
			s.accepted--
		}
	}
	return g, false
}

// options lists the configs that may run in a cell, the least expected regret first. The prior's answer
// keeps the cell unless another is expected to gain leastGain.
func (f *Filler) options(c *classPoints, b launchmap.Box) (list []expectedRegret) {
	for _, g := range c.rank(c.neighboursNear(centreOf(b))) {
		if g.regret < failedRegret/2 && g.weight > 0.01 {
			list = append(list, g)
		}
	}
	if f.Prior.Map == nil {
		return list
	}
	prior := expectedRegret{f.Prior.Answer(centralProblem(b)).Variant, priorPick, 0}
	if i := slices.IndexFunc(list, func(g expectedRegret) bool { return g.variant == prior.variant }); i >= 0 {
		prior = list[i]
		prior.regret -= leastGain
		list = slices.Delete(list, i, i+1)
	}
	at := 0
	for at < len(list) && list[at].regret < prior.regret {
		at++
	}
	return slices.Insert(list, at, prior)
}

// chooseConfigs gives each cell its best option. While there are more configs than letters, or a config
// that is hardly worth its letter, it drops the config whose cells lose the least by their next option.
func (f *Filler) chooseConfigs(r *launchmap.Raster, cells []*openCell) {
	out := map[kernels.Variant]bool{}
	for {
		price := map[kernels.Variant]float64{}
		for _, s := range cells {
			if g, ok := f.findAccepted(s, 0, out); ok {
				loss := noOption
				if next, ok := f.findAccepted(s, 1, out); ok {
					loss = next.regret - g.regret
				}
				price[g.variant] += loss
			}
		}
		var cheapest kernels.Variant
		for v, x := range price {
			least, ok := price[cheapest]
			if !ok || x < least || x == least && compareVariants(v, cheapest) < 0 {
				cheapest = v
			}
		}
		if len(price) <= len(launchmap.Letters) && price[cheapest] >= leastPrice*float64(len(cells)) ||
			len(price) == 0 {
			break
		}
		out[cheapest] = true
	}
	for _, s := range cells {
		if len(s.options) > 0 {
			g := f.findNear(r, s, out)
			evidence := byte(launchmap.Neighbour)
			if g.weight == 0 {
				evidence = launchmap.Borrowed
			}
			s.options[0] = g
			r.Set(s.line, s.cell, g.variant, evidence)
			for _, part := range s.parts {
				r.Set(s.line, part.cell, g.variant, evidence)
			}
		}
	}
}

// findNear returns the option that the cell of fewer columns has, or of fewer rows, if it is expected to lose
// little; else the best. So ranges are long, and a map that is pasted is small.
func (f *Filler) findNear(r *launchmap.Raster, s *openCell, out map[kernels.Variant]bool) expectedRegret {
	best, most := s.options[0], s.options[0].regret+mostTie
	if s.box.Width() == 0 && s.box.Align == 16 {
		most = best.regret + mostTieBetween
	}
	for _, at := range [][2]int{{s.line - 1, s.cell}, {s.line, s.cell - 1}} {
		if min(at[0], at[1]) < 0 {
			continue
		}
		v, ok := r.Pick(at[0], at[1])
		i := slices.IndexFunc(s.options, func(g expectedRegret) bool { return g.variant == v && g.regret <= most })
		if ok && i >= 0 && !out[v] && s.box.Accepts(f.Registry, f.Device, v) {
			return s.options[i]
		}
	}
	return best
}

// answersAt goes through the points whose problems are in a raster, each with the answer of its cell.
func answersAt(r *launchmap.Raster, points []*Point, sms int) iter.Seq2[*Point, launchmap.Answer] {
	return func(yield func(*Point, launchmap.Answer) bool) {
		for _, p := range points {
			q := p.Problem
			if launchmap.ClassOf(q) == r.Class && launchmap.AlignOf(q.N, q.DType.Size()) == r.Align &&
				!yield(p, r.CellAt(q.M, q.N, sms)) {
				return
			}
		}
	}
}

// noteEvidence marks the cells of a raster in which their config was measured, and computes the raster's
// mean regret.
func (f *Filler) noteEvidence(r *launchmap.Raster, c *classPoints) {
	sum, n := 0.0, 0.0
	for p, a := range answersAt(r, c.points, f.Device.SMs) {
		if r.Problems++; p.US[a.Variant] > 0 {
			r.Set(a.Line, a.Cell, a.Variant, launchmap.Measured)
		}
		if p.OK(a.Variant) {
			sum, n = sum+math.Log(p.US[a.Variant]/p.BestUS), n+1
		}
	}
	if n > 0 {
		r.Regret = math.Round(1e4*math.Expm1(sum/n)) / 100
	}
}

// IsFaster says whether next is faster than old in a box beyond doubt, by the problems nearby that have
// times of both: the lower bound of its gain is above 0 at 95%. Call Fill with the points first.
func (f *Filler) IsFaster(b launchmap.Box, old, next kernels.Variant) bool {
	var gains []float64
	c := f.classes[b.Class]
	for _, n := range c.neighboursNear(centreOf(b)) {
		if p := c.points[n.point]; n.weight > 0.1 && p.OK(old) && p.OK(next) {
			gains = append(gains, math.Log(p.US[old]/p.US[next]))
		}
	}
	_, lo, _ := stats.HodgesLehmann(gains, 0.95)
	return lo > 0
}

// CountChanges compares a map with an older one. of counts the cells for which the old map has a config,
// changed those of them with another one now. gain is the regret that the changes are expected to save,
// in percent, on average over these cells. Call Fill with the points first.
func (f *Filler) CountChanges(old, m *launchmap.Map) (changed, of int, gain float64) {
	for i := range m.Rasters {
		r := &m.Rasters[i]
		for b, a := range r.Cells(f.Device.SMs) {
			was := old.Raster(r.Class, r.Align).CellAt(b.MLo, b.NLo, f.Device.SMs).Variant
			if was.Family == "" {
				continue
			}
			if of++; was == a.Variant {
				continue
			}
			changed++
			regret := map[kernels.Variant]float64{}
			c := f.classes[r.Class]
			for _, g := range c.rank(c.neighboursNear(centreOf(b))) {
				regret[g.variant] = g.regret
			}
			if _, ok := regret[was]; ok {
				gain += cmp.Or(regret[was], priorPick) - cmp.Or(regret[a.Variant], priorPick)
			}
		}
	}
	return changed, of, 100 * gain / max(float64(of), 1)
}
