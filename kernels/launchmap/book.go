package launchmap

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A Rung says which map answers for a device, and how near that map's device is. The zero Rung is the
// analytic base: no map.
type Rung struct {
	Map    *Map
	Near   Nearness
	Behind []Rung // answer for the classes that Map lacks, the nearest first
}

// A Nearness says what a map's device has in common with a device.
type Nearness int

// The steps of the ladder: the nearest map answers.
const (
	// The rungs in ascending order: the nearest map answers.
	Analytic Nearness = iota // no map: the analytic base
	Older                    // a map of an older architecture that has what this one has
	SameArch                 // a map of another device of the architecture
	Own                      // the device's map
)

// Ladder finds, among maps (some may be nil), those that can answer for a device. It returns the nearest
// one's rung, with the others behind it.
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

// ForClass finds the rung that answers for a class: the nearest whose map has the class, else s itself.
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

// RungOf finds the rung at which the map of a file answers for a device; path is for the error.
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

// deviceDistance computes how far a map's device is from d: first by architecture, newer ones nearer,
// then by SMs.
func deviceDistance(m *Map, d *kernels.DeviceInfo) int {
	sms := m.Device.SMs - d.SMs
	return 1000*(d.ArchNumber()-m.Device.ArchNumber()) + max(sms, -sms)
}

// analyticBase names the base in messages where no map answers.
const analyticBase = "the analytic base"

// String describes the rung in words.
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

// A Book answers with the base of each problem on one device: a cell of a map where the map has one that
// is accepted at all of the cell's problems, else the analytic base. Programs, explain and exports ask
// it, so they agree.
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

func newSheetKey(c Class, align int64) sheetKey {
	return sheetKey{c.Op.Spec(), c.Pass == kernels.Bwd, c.With, uint8(c.Bytes), uint8(align)}
}

// A sheet is a raster on a book's device: the map's, or a blank one.
type sheet struct {
	Raster
	answers []atomic.Pointer[cachedAnswer] // of the cells that were asked for, line by line
}

// A cachedAnswer is the answer of a cell with its family, nil where nothing is accepted.
type cachedAnswer struct {
	Answer
	family *kernels.Family
	other  func() kernels.Variant // answers for problems of the cell that the family does not serve
}

// NewBook makes the book of a rung for a device. The defaults and bases of analytic must know no map.
func NewBook(s Rung, d kernels.DeviceInfo, analytic *kernels.Registry) *Book {
	b := &Book{Rung: s, Device: d, analytic: analytic, sheets: map[sheetKey]*sheet{}}
	if s.Map == nil {
		return b
	}
	for _, c := range classes() {
		m := s.ForClass(c).Map
		for _, align := range Aligns(c.Bytes) {
			r := *cmp.Or(m.Raster(c, align), Blank(c, align, d.SMs))
			r.Rows = r.Rows.rowBounds(d.SMs)
			b.sheets[newSheetKey(c, align)] = &sheet{r, make([]atomic.Pointer[cachedAnswer], len(r.Lines)*len(r.Rows))}
		}
	}
	return b
}

// Answer returns the variant that runs a problem, and how it was found. A variant without a family means
// that there is none.
func (b *Book) Answer(p kernels.Problem) Answer {
	switch {
	case b.Map == nil:
		return Answer{Match: MatchBase, Variant: b.base(p)}
	case !CoversShape(p.M, p.N):
		return Answer{Match: MatchOutside, Variant: b.base(p)}
	}
	s := b.sheets[newSheetKey(ClassOf(p), AlignOf(p.N, p.DType.Size()))]
	line, cell := s.At(p.M, p.N, b.Device.SMs)
	known := b.cell(s, line, cell)
	a := known.Answer
	switch {
	case known.family == nil || b.analytic.BaseOf != "" && known.family.Serves(p) != nil:
		a.Variant = b.base(p)
	case known.family.Serves(p) != nil:
		a.Match, a.Variant = MatchBase, known.other()
	}
	return a
}

// base returns the analytic base.
func (b *Book) base(p kernels.Problem) kernels.Variant {
	v := b.analytic.Default(p, b.Device)
	if v.Family == "" {
		return v
	}
	if _, err := b.analytic.Lookup(v.Family); err != nil {
		return kernels.Variant{}
	}
	return v
}

// cell returns the answer of a cell: its config, the nearest config of its raster that is accepted in
// the whole cell, or an accepted one of the analytic base. It keeps what it has found.
func (b *Book) cell(s *sheet, line, cell int) *cachedAnswer {
	at := &s.answers[line*len(s.Rows)+cell]
	if k := at.Load(); k != nil {
		return k
	}
	k := &cachedAnswer{Answer: Answer{Match: MatchCell, Raster: &s.Raster, Line: line, Cell: cell}}
	box := s.Box(line, cell, b.Device.SMs)
	if box.BatchInvariant { // one answer for the whole line, also where its own is refused
		cell, box.MLo, box.MHi = 0, 1, MaxM
	}
	accepted := func(v kernels.Variant) bool { return box.Accepts(b.analytic, b.Device, v) }
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
	if k.Variant.Family != "" {
		k.family, _ = b.analytic.Lookup(k.Variant.Family)
	}
	if ok {
		k.Variant.Config = withZeroKnobs(k.family, k.Variant.Config)
	}
	k.other = sync.OnceValue(func() kernels.Variant {
		return b.firstAccepted(box, func(v kernels.Variant) bool { return accepted(v) && box.isServed(b.analytic, v) })
	})
	at.Store(k)
	return k
}

// NearestConfig finds the config that accepted takes, by the distance of the config's nearest cell. It
// asks about at most most configs.
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

// firstAccepted finds a config for a cell without a measured one: the first accepted among the analytic
// base's answers at some of the cell's problems, then among the bases of all families.
func (b *Book) firstAccepted(box Box, accepted func(kernels.Variant) bool) (found kernels.Variant) {
	var ps []kernels.Problem
	for _, n := range middleAndEnds(box.sampleColumns()) {
		for _, m := range middleAndEnds(box.sampleRows(n)) {
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

// middleAndEnds returns the middle, the last and the first of a sorted list.
func middleAndEnds(list []int64) []int64 {
	if len(list) == 0 {
		return nil
	}
	return []int64{list[len(list)/2], list[len(list)-1], list[0]}
}

// Base returns the config that a family runs p with: that of the nearest cell of the family which p can
// run, else the family's analytic base. Rasters of near alignments come first.
func (b *Book) Base(f *kernels.Family, p kernels.Problem) kernels.Config {
	if f.Hidden || !CoversShape(p.M, p.N) || !f.CanServe(p) { // no cell has a hidden family
		return f.Base(p, b.Device)
	}
	accepted := func(v kernels.Variant) bool {
		own, err := findFamily(b.analytic, v)
		return err == nil && own.Name == f.Name && f.Refuse(p, v.Config, b.Device) == nil
	}
	own := AlignOf(p.N, p.DType.Size())
	for apart := int64(1); apart <= 8; apart *= 2 {
		for _, align := range []int64{own * apart, own / apart} {
			if s := b.sheets[newSheetKey(ClassOf(p), align)]; s != nil {
				line, cell := s.At(p.M, p.N, b.Device.SMs)
				if v, ok := s.NearestConfig(line, cell, len(Letters), accepted); ok {
					return withZeroKnobs(f, v.Config)
				}
			}
		}
	}
	return f.Base(p, b.Device)
}
