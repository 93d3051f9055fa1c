package launchmap

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Rung says which map answers for a device, and how near it is. The zero Rung is the analytic
// base.
type Rung struct {
	Map    *Map
	Near   Nearness
	Behind []Rung // answer for the classes that Map lacks, the nearest first
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

// Ladder finds the maps for a device among some, which may be nil.
func Ladder(maps []*Map, d *kernels.DeviceInfo) (best Rung) {
	var steps []Rung
	for _, m := range maps {
		if m == nil {
			continue
		}
		near := Analytic
		have, want := m.Device.ArchNumber(), d.ArchNumber()
		switch {
		case m.Device.Kind != d.Kind:
		case m.Device.ID == d.ID && m.Device.SMs == d.SMs:
			near = Own
		case m.Device.Arch == d.Arch && have > 0:
			near = SameArch
		case 0 < have && have < want && (have >= 90) == (want >= 90): // clusters and bulk copies came with sm_90
			near = Older
		}
		if near > Analytic {
			steps = append(steps, Rung{Map: m, Near: near})
		}
	}
	if len(steps) == 0 {
		return Rung{}
	}
	slices.SortStableFunc(steps, func(a, b Rung) int {
		return cmp.Or(int(b.Near-a.Near), deviceDistance(a.Map, d)-deviceDistance(b.Map, d))
	})
	best, best.Behind = steps[0], steps[1:]
	return best
}

// ForClass finds the step that answers for a class: the nearest whose map has it, else s itself.
func (s Rung) ForClass(c Class) Rung {
	for _, step := range append([]Rung{s}, s.Behind...) {
		if step.Map.Has(func(o Class) bool { return o == c }) {
			step.Behind = nil
			return step
		}
	}
	s.Behind = nil
	return s
}

// RungOf finds the rung of the ladder by which the map of a file answers for a device.
func RungOf(path string, m *Map, d *kernels.DeviceInfo) (Rung, error) {
	s := Ladder([]*Map{m}, d)
	if s.Map == nil {
		return s, hint.Errorf("use a map of the device, of its architecture or of an older one of its kind; "+
			"`normbench list devices` says which the program has",
			"%s is of %s (%s), which is no step of the ladder of %s (%s)",
			path, m.Device.ID, m.Device.Arch, d.ID, d.Arch)
	}
	return s, nil
}

// deviceDistance says how far a map's device is from d: newer architectures first, then by SMs.
func deviceDistance(m *Map, d *kernels.DeviceInfo) int {
	sms := m.Device.SMs - d.SMs
	return 1000*(d.ArchNumber()-m.Device.ArchNumber()) + max(sms, -sms)
}

// analyticBase is the name of what answers where no map does.
const analyticBase = "the analytic base"

// String says it in words.
func (s Rung) String() string {
	if s.Map == nil {
		return analyticBase
	}
	of, text := s.Map.Device, ""
	switch s.Near {
	case SameArch:
		text = fmt.Sprintf(", by rows per SM of its %d", of.SMs)
	case Older:
		text = fmt.Sprintf(", an older architecture (%s), as far as this one accepts it", of.Arch)
	}
	text = "the map of " + of.ID + text
	for _, b := range s.Behind {
		text += ", else that of " + b.Map.Device.ID
	}
	return text
}

// A Book is the defaults of one device: a map's cells, each with a config that is accepted at all
// of its problems, and behind them the analytic base. Programs, explain and exports ask it, so they
// agree.
type Book struct {
	Rung
	Device   kernels.DeviceInfo
	analytic *kernels.Registry // whose bases know no map
	sheets   map[sheetKey]*sheet
}

// A sheetKey is a class and an alignment, without strings: a lookup takes most of its time there.
type sheetKey struct {
	op           *kernels.OpSpec
	bwd          bool
	with         OptionSet
	bytes, align uint8
}

func keyOf(c Class, align int64) sheetKey {
	return sheetKey{c.Op.Spec(), c.Pass == kernels.Bwd, c.With, uint8(c.Bytes), uint8(align)}
}

// A sheet is a raster on a book's device: the map's, or one of standard cells without answers.
type sheet struct {
	Raster
	answers []atomic.Pointer[cachedAnswer] // of the cells that were asked for, line by line
}

// cachedAnswer is the answer of a cell with its family, nil where nothing is accepted.
type cachedAnswer struct {
	Answer
	family *kernels.Family
}

// NewBook makes the book of a step for a device. The registry's defaults and bases are the analytic
// ones.
func NewBook(s Rung, d kernels.DeviceInfo, analytic *kernels.Registry) *Book {
	b := &Book{Rung: s, Device: d, analytic: analytic, sheets: map[sheetKey]*sheet{}}
	if s.Map == nil {
		return b
	}
	blank := Blank(Class{}, 0, d.SMs)
	for _, c := range classes() {
		m := s.ForClass(c).Map
		for _, align := range Aligns(c.Bytes) {
			r := *blank
			if of := m.Raster(c, align); of != nil {
				r = *of
			}
			r.Class, r.Align, r.Rows = c, align, r.Rows.rowBounds(d.SMs)
			b.sheets[keyOf(c, align)] = &sheet{r, make([]atomic.Pointer[cachedAnswer], len(r.Lines)*len(r.Rows))}
		}
	}
	return b
}

// Answer is what runs for a problem, and how that came about. A variant without a family stands for
// no answer.
func (b *Book) Answer(p kernels.Problem) Answer {
	switch {
	case b.Map == nil:
		return Answer{Match: MatchBase, Variant: b.base(p)}
	case !CoversShape(p.M, p.N):
		return Answer{Match: MatchOutside, Variant: b.base(p)}
	}
	s := b.sheets[keyOf(ClassOf(p), AlignOf(p.N, p.DType.Size()))]
	line, cell := s.At(p.M, p.N, b.Device.SMs)
	known := b.cell(s, line, cell)
	a := known.Answer
	if known.family == nil || known.family.Serves(p) != nil {
		a.Variant = b.base(p)
	}
	return a
}

func (b *Book) base(p kernels.Problem) kernels.Variant {
	v, _ := b.analytic.Base(p, b.Device)
	return v
}

// cell is the answer of a cell: its config, or the nearest of its raster that is accepted, or one
// of the analytic bases'.
func (b *Book) cell(s *sheet, line, cell int) *cachedAnswer {
	at := &s.answers[line*len(s.Rows)+cell]
	if k := at.Load(); k != nil {
		return k
	}
	box := s.Box(line, cell, b.Device.SMs)
	accepted := func(v kernels.Variant) bool { return box.Accepts(b.analytic, b.Device, v) }
	k := &cachedAnswer{Answer: Answer{Match: MatchCell, Raster: &s.Raster, Line: line, Cell: cell}}
	own, ok := s.Pick(line, cell)
	if ok {
		k.Variant, ok = s.NearestConfig(line, cell, 13, accepted)
	}
	switch {
	case !ok:
		k.Answer = Answer{Match: MatchBase, Variant: b.firstAccepted(box, accepted)}
	case k.Variant != own:
		k.Match = MatchMoved
	}
	if k.family, _ = b.analytic.Lookup(k.Variant.Family); ok {
		k.Variant.Config = withZeroKnobs(k.family, k.Variant.Config)
	}
	at.Store(k)
	return k
}

// NearestConfig finds the nearest config of a raster, by the distance of its nearest cell, that accepted takes.
// It asks about most.
func (r *Raster) NearestConfig(line, cell, most int, accepted func(kernels.Variant) bool) (v kernels.Variant, ok bool) {
	var apart [len(Letters)]int // of each letter, 0 where no cell has it
	for i := range r.Lines {
		for j := range r.Rows {
			d := (i-line)*(i-line) + (j-cell)*(j-cell) + 1
			if k := letterOf(r.Lines[i].Cells[j]); k >= 0 && (apart[k] == 0 || d < apart[k]) {
				apart[k] = d
			}
		}
	}
	var letters []int
	for k := range r.Legend {
		if apart[k] > 0 {
			letters = append(letters, k)
		}
	}
	slices.SortStableFunc(letters, func(a, b int) int { return apart[a] - apart[b] })
	for _, k := range letters[:min(len(letters), most)] {
		if accepted(r.Legend[k]) {
			return r.Legend[k], true
		}
	}
	return v, false
}

// firstAccepted finds a config for a cell without a measured one: the first that is accepted of the
// analytic base's picks at some of the cell's problems, then of the bases of all families.
func (b *Book) firstAccepted(box Box, accepted func(kernels.Variant) bool) (found kernels.Variant) {
	var ps []kernels.Problem
	for _, n := range spread(box.columns()) {
		for _, m := range spread(box.rows(n)) {
			if p := box.Class.Problem(m, n); ClassOf(p) == box.Class {
				ps = append(ps, p)
			}
		}
	}
	asked := map[kernels.Variant]bool{{}: true}
	try := func(v kernels.Variant) bool {
		if asked[v] {
			return false
		}
		asked[v], found = true, v
		return accepted(v)
	}
	for _, p := range ps {
		if try(b.base(p)) {
			return found
		}
	}
	for _, p := range ps {
		for _, f := range b.analytic.Candidates(p) {
			if f.Bits != kernels.NotBitwise && !f.Stream &&
				try(kernels.Variant{Family: f.Name, Config: f.Base(p, b.Device)}) {
				return found
			}
		}
	}
	return kernels.Variant{}
}

// spread is the middle, the last and the first of a list.
func spread(list []int64) []int64 {
	if len(list) == 0 {
		return nil
	}
	return []int64{list[len(list)/2], list[len(list)-1], list[0]}
}

// Base is the config of a family without one of its own: of the nearest cell of that family that
// the problem can run, else the family's analytic base. The nearest alignments come first.
func (b *Book) Base(f *kernels.Family, p kernels.Problem) kernels.Config {
	if f.Hidden || !CoversShape(p.M, p.N) || f.CheckServes(p) != nil { // no cell has a hidden family
		return f.Base(p, b.Device)
	}
	accepted := func(v kernels.Variant) bool {
		own, err := familyOf(b.analytic, v)
		return err == nil && own.Name == f.Name && f.Refuse(p, v.Config, b.Device) == nil
	}
	own := AlignOf(p.N, p.DType.Size())
	for apart := int64(1); apart <= 8; apart *= 2 {
		for _, align := range []int64{own * apart, own / apart} {
			if s := b.sheets[keyOf(ClassOf(p), align)]; s != nil {
				line, cell := s.At(p.M, p.N, b.Device.SMs)
				if v, ok := s.NearestConfig(line, cell, len(Letters), accepted); ok {
					return withZeroKnobs(f, v.Config)
				}
			}
		}
	}
	return f.Base(p, b.Device)
}
