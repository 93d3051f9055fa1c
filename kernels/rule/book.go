package rule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"normbench/kernels"
)

// A Step says which map answers for a device, and how near it is. The zero Step is the analytic base.
type Step struct {
	Map  *Map
	Near Nearness
}

// A Nearness is what a map has in common with a device.
type Nearness int

// The steps of the ladder: the nearest map answers.
const (
	Analytic Nearness = iota // no map: the analytic base
	Older                    // a map of an older architecture that has what this one has
	SameArch                 // a map of another device of the architecture
	Own                      // the device's map
)

// Ladder finds the map for a device among some, which may be nil.
func Ladder(maps []*Map, d *kernels.DeviceInfo) (best Step) {
	for _, m := range maps {
		if m == nil {
			continue
		}
		near := Analytic
		have, want := archOf(m.Device.Arch), archOf(d.Arch)
		switch {
		case m.Device.Kind != d.Kind:
		case m.Device.ID == d.ID && m.Device.SMs == d.SMs:
			near = Own
		case m.Device.Arch == d.Arch && have > 0:
			near = SameArch
		case 0 < have && have < want && (have >= 90) == (want >= 90): // clusters and bulk copies came with sm_90
			near = Older
		}
		if near > best.Near || near == best.Near && near > Analytic && apart(m, d) < apart(best.Map, d) {
			best = Step{m, near}
		}
	}
	return best
}

// apart is how far a map's device is from d: newer architectures first, then by SMs.
func apart(m *Map, d *kernels.DeviceInfo) int {
	sms := m.Device.SMs - d.SMs
	return 1000*(archOf(d.Arch)-archOf(m.Device.Arch)) + max(sms, -sms)
}

// archOf is 90 of sm_90; 0 where there is none.
func archOf(arch string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return n
}

// String says it in words.
func (s Step) String() string {
	if s.Map == nil {
		return "the analytic base"
	}
	of := s.Map.Device
	switch s.Near {
	case SameArch:
		return fmt.Sprintf("the map of %s, by rows per SM of its %d", of.ID, of.SMs)
	case Older:
		return fmt.Sprintf("the map of %s, an older architecture (%s), as far as this one accepts it", of.ID, of.Arch)
	}
	return "the map of " + of.ID
}

// A Book is the defaults of one device: a map's cells, each with a config that is accepted at all of its problems, and behind
// them the analytic base. Programs, explain and exports ask it, so they agree.
type Book struct {
	Step
	Device   kernels.DeviceInfo
	analytic *kernels.Registry // whose bases know no map
	cells    sync.Map          // asked so far: place to *Answer
}

// A place is a cell of a raster: the map's, or a standard one without answers.
type place struct {
	raster     *Raster
	line, cell int
}

// NewBook makes the book of a step for a device. The registry's defaults and bases are the analytic ones.
func NewBook(s Step, d kernels.DeviceInfo, analytic *kernels.Registry) *Book {
	return &Book{Step: s, Device: d, analytic: analytic}
}

// Answer is what runs for a problem, and how that came about. A variant without a family stands for no answer.
func (b *Book) Answer(p kernels.Problem) Answer {
	if b.Map == nil {
		return Answer{Match: MatchBase, Variant: b.base(p)}
	}
	a := b.Map.Find(p, &b.Device)
	if a.Match == MatchCell {
		a = b.cell(a.Raster, a.Line, a.Cell)
	}
	if a.Match == MatchBase {
		r := standard(ClassOf(p), AlignOf(p.N, p.DType.Size()), b.Device.SMs)
		line, cell, _ := r.At(p.M, p.N, b.Device.SMs)
		a = b.cell(r, line, cell)
		a.Raster = nil
	}
	if f, err := b.analytic.Lookup(a.Variant.Family); err != nil || f.CheckServes(p) != nil {
		a.Variant = b.base(p)
	}
	return a
}

// standard are the standard cells of a class, without answers.
func standard(c Class, align int64, sms int) *Raster {
	type key struct {
		class Class
		align int64
		sms   int
	}
	r, ok := standards.Load(key{c, align, sms})
	if !ok {
		r, _ = standards.LoadOrStore(key{c, align, sms}, Blank(c, align, sms))
	}
	return r.(*Raster)
}

var standards sync.Map

func (b *Book) base(p kernels.Problem) kernels.Variant {
	v, _ := b.analytic.Base(p, b.Device)
	return v
}

// cell is the answer of a cell of the map's, with MatchBase where no config of its raster is accepted, or of a standard raster.
func (b *Book) cell(r *Raster, line, cell int) Answer {
	at := place{r, line, cell}
	if a, ok := b.cells.Load(at); ok {
		return a.(Answer)
	}
	nLo, nHi, mLo, mHi := r.Span(line, cell, b.Device.SMs)
	accepted := func(v kernels.Variant) bool {
		return Accepts(b.analytic, b.Device, r.Class, r.Align, nLo, nHi, mLo, mHi, v)
	}
	a := Answer{Match: MatchBase, Raster: r, Line: line, Cell: cell}
	if len(r.Legend) == 0 {
		a.Variant = b.tabulated(r.Class, r.Align, nLo, nHi, mLo, mHi, accepted)
	} else if v, ok := r.Pick(line, cell); ok && accepted(v) {
		a.Match, a.Variant = MatchCell, Whole(b.analytic, v)
	} else if v, ok := r.Near(line, cell, 12, accepted); ok {
		a.Match, a.Variant = MatchMoved, Whole(b.analytic, v)
	}
	b.cells.Store(at, a)
	return a
}

// Near is the nearest other config of a raster, by the distance of its nearest cell, that accepted takes; it asks about most.
func (r *Raster) Near(line, cell, most int, accepted func(kernels.Variant) bool) (kernels.Variant, bool) {
	type config struct{ letter, apart int }
	configs := make([]config, len(r.Legend))
	for k := range configs {
		configs[k] = config{k, math.MaxInt}
	}
	for i := range r.Lines {
		for j := range r.Rows {
			if k := letterOf(r.Lines[i].Cells[j]); k >= 0 && k < len(configs) {
				configs[k].apart = min(configs[k].apart, (i-line)*(i-line)+(j-cell)*(j-cell))
			}
		}
	}
	slices.SortStableFunc(configs, func(a, b config) int { return cmp.Compare(a.apart, b.apart) })
	own := letterOf(r.Lines[line].Cells[cell])
	for _, c := range configs[:min(len(configs), most)] {
		if c.letter != own && c.apart < math.MaxInt && accepted(r.Legend[c.letter]) {
			return r.Legend[c.letter], true
		}
	}
	return kernels.Variant{}, false
}

// tabulated is one config for a cell without a measured one: the first that is accepted of the analytic base's picks at some of the
// cell's problems, then of the bases of all families.
func (b *Book) tabulated(c Class, align, nLo, nHi, mLo, mHi int64, accepted func(kernels.Variant) bool) kernels.Variant {
	ns := columnsIn(nLo, nHi, align, c)
	if len(ns) == 0 || mHi < mLo {
		return kernels.Variant{}
	}
	var ps []kernels.Problem
	for _, n := range []int64{ns[len(ns)/2], ns[len(ns)-1], ns[0]} {
		ms := rowsIn(mLo, min(mHi, MaxElems/n), c)
		for _, i := range []int{len(ms) / 2, len(ms) - 1, 0} {
			if len(ms) == 0 {
				continue
			}
			if p := c.Problem(ms[i], n); ClassOf(p) == c {
				ps = append(ps, p)
			}
		}
	}
	var asked []kernels.Variant
	try := func(v kernels.Variant) bool {
		if v.Family == "" || slices.Contains(asked, v) {
			return false
		}
		asked = append(asked, v)
		return accepted(v)
	}
	for _, p := range ps {
		if v := b.base(p); try(v) {
			return v
		}
	}
	for _, p := range ps {
		for _, f := range b.analytic.Candidates(p) {
			if v := (kernels.Variant{Family: f.Name, Config: f.Base(p, b.Device)}); f.Bits != kernels.NotBitwise && !f.Stream && try(v) {
				return v
			}
		}
	}
	return kernels.Variant{}
}

// Base is the config of a family without one of its own: of the nearest cell of that family that the problem can run, else the
// family's analytic base.
func (b *Book) Base(f *kernels.Family, p kernels.Problem) kernels.Config {
	if Inside(p.M, p.N) && f.CheckServes(p) == nil {
		c, own := ClassOf(p), AlignOf(p.N, p.DType.Size())
		aligns := Aligns(c.Bytes)
		slices.SortStableFunc(aligns, func(x, y int64) int { return cmp.Compare(max(x, own)/min(x, own), max(y, own)/min(y, own)) })
		for _, align := range aligns {
			r := b.Map.Raster(c, align)
			if r == nil {
				continue
			}
			line, cell, ok := r.At(p.M, p.N, b.Device.SMs)
			if !ok {
				continue
			}
			accepted := func(v kernels.Variant) bool {
				return v.Family == f.Name && strange(f, v.Config) == nil && f.Refuse(p, v.Config, b.Device) == nil
			}
			if v, ok := r.Pick(line, cell); ok && accepted(v) {
				return Whole(b.analytic, v).Config
			}
			if v, ok := r.Near(line, cell, len(Letters), accepted); ok {
				return Whole(b.analytic, v).Config
			}
		}
	}
	return f.Base(p, b.Device)
}
