package launchmap

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"normbench/kernels"
)

// A Map has the measured answers of one device, and where they come from.
type Map struct {
	Device   kernels.DeviceInfo `json:"-"`                  // of the table that it is in
	Tool     string             `json:"tool,omitempty"`     // version of normbench that measured it
	Created  time.Time          `json:"created,omitzero"`   // of the last record
	Protocol json.RawMessage    `json:"protocol,omitempty"` // a record.Protocol
	Runs     []RunSummary       `json:"runs,omitempty"`     // that measured it
	Sources  map[string]string  `json:"sources,omitempty"`  // hash of each family's sources that was measured
	Rasters  []Raster           `json:"rasters"`            // in the order of Class.Compare, then the widest alignment first
}

// A RunSummary says which command measured, with which version, on which card.
type RunSummary struct {
	ID            string    `json:"run"`
	Time          time.Time `json:"time"`
	Tool          string    `json:"tool"`
	Command       []string  `json:"command"`
	UUID          string    `json:"uuid,omitempty"`
	DriverVersion string    `json:"driver_version,omitempty"`
	FloorUS       float64   `json:"floor_us,omitempty"` // an empty launch, microseconds; 0 where not known
}

// A Raster has the configs of a class at one alignment of rows: a letter for each cell of columns and
// rows.
type Raster struct {
	Class    Class   `json:"class"`
	Align    int64   `json:"align"`                    // bytes that rows start at a multiple of, see AlignOf
	Problems int     `json:"problems,omitempty"`       // that were measured
	Regret   float64 `json:"regret_percent,omitempty"` // geometric mean over them of time over the best known; only of answers with a time
	// BatchInvariant is set where each line has one config, whatever the rows: how many times as long it is expected
	// to take as a raster that has one for each cell.
	BatchInvariant float64 `json:"batch_invariant,omitempty"`
	Rows           Bounds  `json:"rows"`   // ascending: of each letter of a line
	Legend         Legend  `json:"legend"` // of the letters in order, whole configs
	Lines          []Band  `json:"lines"`  // ascending
}

// A Band is a line of a raster: the cells of the columns from From up to the next band's.
type Band struct {
	From     int64
	Cells    string // letters; Nothing for a cell without an answer
	Evidence string // as long: see the evidence constants
}

// Letters name the configs of a legend, which has at most as many.
const Letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// Nothing is the letter of a cell without an answer.
const Nothing = '.'

// The evidence of a cell's config, a letter each.
const (
	Measured  = 'm' // it was measured in the cell
	Neighbour = 'n' // it was measured in cells nearby
	Borrowed  = 'b' // it is of another class or device, or the analytic base's
	ByHand    = 'h' // somebody wrote it
)

// letterOf returns the index of a letter in Letters, -1 if it is none.
func letterOf(c byte) int { return strings.IndexByte(Letters, c) }

// An AnswerKind says how an answer was found.
type AnswerKind string

// The matches.
const (
	MatchCell AnswerKind = "cell" // a cell of the map
	// the cell's config is refused on this device: that of the nearest cell which is not
	MatchMoved   AnswerKind = "moved"
	MatchBase    AnswerKind = "base"    // the map has no such cell: the analytic base's pick for it
	MatchOutside AnswerKind = "outside" // no map is for such problems: the analytic base
)

// An Answer is a variant with the cell that it comes from.
type Answer struct {
	Match      AnswerKind
	Raster     *Raster // nil without a cell
	Line, Cell int     // of it
	Variant    kernels.Variant
}

// Evidence returns the letter that says what the answer rests on, 0 without a cell.
func (a *Answer) Evidence() byte {
	if a.Raster == nil || a.Cell >= len(a.Raster.Lines[a.Line].Evidence) {
		return 0
	}
	return a.Raster.Lines[a.Line].Evidence[a.Cell]
}

// A Box is a range of shapes of a class at one alignment of rows, both ends included. It is empty where
// a last number is before its first.
type Box struct {
	Class              Class
	Align              int64
	NLo, NHi, MLo, MHi int64
	// BatchInvariant is set where one config answers all rows of a line: rows must keep their bits in any batch.
	BatchInvariant bool
}

// Empty says whether no shape is in the box.
func (b *Box) Empty() bool { return b.NHi < b.NLo || b.MHi < b.MLo }

// Raster finds the raster of a class at an alignment, nil if there is none. A nil map has none.
func (m *Map) Raster(c Class, align int64) *Raster {
	if m == nil {
		return nil
	}
	for i := range m.Rasters {
		if r := &m.Rasters[i]; r.Class == c && r.Align == align {
			return r
		}
	}
	return nil
}

// Has says whether the map has a raster of a class for which such holds. A nil map has none.
func (m *Map) Has(such func(Class) bool) bool {
	return m != nil && slices.ContainsFunc(m.Rasters, func(r Raster) bool { return such(r.Class) })
}

// CellAt finds the answer for a shape of the raster's class, zero where there is none. A nil raster has
// none.
func (r *Raster) CellAt(m, n int64, sms int) (a Answer) {
	if r == nil {
		return a
	}
	line, cell := r.At(m, n, sms)
	if v, ok := r.Pick(line, cell); ok {
		return Answer{MatchCell, r, line, cell, v}
	}
	return a
}

// At finds the line and the cell of a shape.
func (r *Raster) At(m, n int64, sms int) (line, cell int) {
	for line+1 < len(r.Lines) && r.Lines[line+1].From <= n {
		line++
	}
	for cell+1 < len(r.Rows) && r.Rows[cell].Last(sms) < m {
		cell++
	}
	return line, cell
}

// Pick returns the config of a cell; ok is false where it has none.
func (r *Raster) Pick(line, cell int) (v kernels.Variant, ok bool) {
	if i := letterOf(r.Lines[line].Cells[cell]); i >= 0 && i < len(r.Legend) {
		return r.Legend[i], true
	}
	return v, false
}

// Box computes the shapes of a cell on a device with so many SMs. It is empty where no problem of maps
// is in it: beyond MaxElems, or between bounds that are in another order on another device.
func (r *Raster) Box(line, cell, sms int) Box {
	b := Box{r.Class, r.Align, r.Lines[line].From, MaxN, 1, min(r.Rows[cell].Last(sms), MaxM), r.BatchInvariant > 0}
	if line+1 < len(r.Lines) {
		b.NHi = r.Lines[line+1].From - 1
	}
	for _, before := range r.Rows[:cell] {
		b.MLo = max(b.MLo, before.Last(sms)+1)
	}
	if b.MLo*b.NLo > MaxElems {
		b.MHi = b.MLo - 1
	}
	return b
}

// Cells goes through the cells with an answer that have problems on a device with so many SMs.
func (r *Raster) Cells(sms int) iter.Seq2[Box, Answer] {
	return func(yield func(Box, Answer) bool) {
		for line := range r.Lines {
			for cell := range r.Rows {
				v, ok := r.Pick(line, cell)
				if b := r.Box(line, cell, sms); ok && !b.Empty() &&
					!yield(b, Answer{MatchCell, r, line, cell, v}) {
					return
				}
			}
		}
	}
}

// Count counts the cells with this evidence.
func (r *Raster) Count(evidence byte) (n int) {
	for _, l := range r.Lines {
		n += strings.Count(l.Evidence, string(evidence))
	}
	return n
}

// AddLetter returns the letter of a variant, and adds it to the legend if it is new. It returns false if
// the legend is full.
func (r *Raster) AddLetter(v kernels.Variant) (byte, bool) {
	i := slices.Index(r.Legend, v)
	if i < 0 {
		if len(r.Legend) == len(Letters) {
			return 0, false
		}
		i = len(r.Legend)
		r.Legend = append(r.Legend, v)
	}
	return Letters[i], true
}

// Set sets the config of a cell and what it rests on; it does nothing if the legend is full.
func (r *Raster) Set(line, cell int, v kernels.Variant, evidence byte) {
	letter, ok := r.AddLetter(v)
	if !ok {
		return
	}
	l := &r.Lines[line]
	l.Cells = l.Cells[:cell] + string(letter) + l.Cells[cell+1:]
	l.Evidence = l.Evidence[:cell] + string(evidence) + l.Evidence[cell+1:]
}

// Clear removes the answers of all cells, and their evidence. A line is a band of columns, with a cell for each
// band of rows.
func (r *Raster) Clear() {
	empty := strings.Repeat(string(Nothing), len(r.Rows))
	for i := range r.Lines {
		r.Lines[i].Cells, r.Lines[i].Evidence = empty, empty
	}
}

// Blank makes a raster of the standard cells without answers. Those of the widths whose rows start at such
// multiples have a line each.
func Blank(c Class, align int64, sms int, widths ...int64) *Raster {
	r := &Raster{Class: c, Align: align, Rows: Rows(sms)}
	unit, _ := (&Box{Class: c, Align: align}).units()
	widths = slices.DeleteFunc(slices.Clone(widths), func(n int64) bool { return AlignOf(n, c.Bytes) != align })
	for _, from := range Columns(unit, widths...) {
		r.Lines = append(r.Lines, Band{From: from})
	}
	r.Clear()
	return r
}
