package rules

import (
	"cmp"
	"fmt"
	"strings"

	"normbench/kernels"
)

// A Class is what one list of rules is for. Weights of another type than x and
// zero-centered weights launch alike, so they share a class.
type Class struct {
	Op    kernels.Op   `json:"op"`
	Pass  kernels.Pass `json:"pass"`
	Bias  bool         `json:"bias"`
	Bytes int64        `json:"dtype_bytes"` // of an element of x
}

// ClassOf is the class of a problem.
func ClassOf(p kernels.Problem) Class { return Class{p.Op, p.Pass, p.Bias, p.DType.Size()} }

func (c Class) String() string {
	s := fmt.Sprintf("%s/%s/%d-byte", c.Op, c.Pass, c.Bytes)
	if c.Bias {
		s += "+bias"
	}
	return s
}

// compare orders classes as record.CompareProblems orders their problems.
func (c Class) compare(o Class) int {
	flag := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(o.Op, c.Op), cmp.Compare(o.Pass, c.Pass), cmp.Compare(flag[c.Bias], flag[o.Bias]), cmp.Compare(c.Bytes, o.Bytes))
}

// problem is a problem of the class.
func (c Class) problem(m, n int64) kernels.Problem {
	d := kernels.BF16
	if c.Bytes == kernels.FP32.Size() {
		d = kernels.FP32
	}
	return kernels.Problem{Op: c.Op, Pass: c.Pass, M: m, N: n, DType: d, Weight: d, Bias: c.Bias}
}

// A Box bounds the problems that a rule is for. A zero bound is none. What is fitted
// bounds the rows per multiprocessor; what is read off a launch rule (Launches), the rows.
type Box struct {
	NOver        int64 `json:"n_over,omitempty"` // columns: over this
	NMax         int64 `json:"n_max,omitempty"`  // and at most this
	MOver        int64 `json:"m_per_sm_over,omitempty"`
	MMax         int64 `json:"m_per_sm_max,omitempty"` // rows per multiprocessor, likewise
	RowsOver     int64 `json:"m_over,omitempty"`
	RowsMax      int64 `json:"m_max,omitempty"`      // rows in all, likewise
	RowsMultiple int64 `json:"m_multiple,omitempty"` // that the rows in all are a multiple of
	RowAlign     int64 `json:"row_align,omitempty"`  // bytes that a row is a multiple of
	RowUneven    int64 `json:"row_uneven,omitempty"` // bytes that a row is no multiple of
}

// RowsPerSM is the rows that a multiprocessor has to do with m rows in all,
// rounded up. Up to one row for each, it is 1: there is one wave, however many
// rows. Whole numbers, so that every language cuts at the same problem.
func RowsPerSM(m int64, sms int) int64 { return (m + int64(sms) - 1) / int64(sms) }

// Holds says whether a problem is in the box.
func (b Box) Holds(m, n, bytes int64, sms int) bool {
	rows := RowsPerSM(m, sms)
	return n > b.NOver && (b.NMax == 0 || n <= b.NMax) &&
		rows > b.MOver && (b.MMax == 0 || rows <= b.MMax) &&
		m > b.RowsOver && (b.RowsMax == 0 || m <= b.RowsMax) && (b.RowsMultiple == 0 || m%b.RowsMultiple == 0) &&
		alignment{b.RowAlign, b.RowUneven}.holds(n*bytes)
}

// String is the box in words: 1024 < N <= 4096, M/SM <= 31, rows at 16 bytes; or N = 4096,
// M > 63, M a multiple of 4.
func (b Box) String() string {
	var parts []string
	add := func(name string, over, most int64) {
		switch {
		case most != 0 && over == most-1:
			parts = append(parts, fmt.Sprintf("%s = %d", name, most))
		case over != 0 && most != 0:
			parts = append(parts, fmt.Sprintf("%d < %s <= %d", over, name, most))
		case over != 0:
			parts = append(parts, fmt.Sprintf("%s > %d", name, over))
		case most != 0:
			parts = append(parts, fmt.Sprintf("%s <= %d", name, most))
		}
	}
	add("N", b.NOver, b.NMax)
	add("M/SM", b.MOver, b.MMax)
	add("M", b.RowsOver, b.RowsMax)
	if b.RowsMultiple != 0 {
		parts = append(parts, fmt.Sprintf("M a multiple of %d", b.RowsMultiple))
	}
	if b.RowAlign > 0 {
		parts = append(parts, fmt.Sprintf("rows at %d bytes", b.RowAlign))
	}
	if b.RowUneven > 0 {
		parts = append(parts, fmt.Sprintf("rows not at %d bytes", b.RowUneven))
	}
	if len(parts) == 0 {
		return "always"
	}
	return strings.Join(parts, ", ")
}

// covers says whether every problem of o is in b. It compares like bounds alone: it may say
// no of rows in all that are rows per multiprocessor of b's.
func (b Box) covers(o Box) bool {
	most := func(b, o int64) bool { return b == 0 || o != 0 && o <= b }
	return o.NOver >= b.NOver && most(b.NMax, o.NMax) && o.MOver >= b.MOver && most(b.MMax, o.MMax) &&
		o.RowsOver >= b.RowsOver && most(b.RowsMax, o.RowsMax) && (b.RowsMultiple == 0 || o.multipleOf(b.RowsMultiple)) &&
		(b.RowAlign == 0 || o.RowAlign != 0 && o.RowAlign%b.RowAlign == 0) &&
		(b.RowUneven == 0 || o.RowUneven != 0 && b.RowUneven%o.RowUneven == 0)
}

// multipleOf says whether all rows of the box are a multiple of k: as it asks for, or as
// there is one number of rows only.
func (b Box) multipleOf(k int64) bool {
	return b.RowsMultiple != 0 && b.RowsMultiple%k == 0 || b.RowsMax != 0 && b.RowsOver == b.RowsMax-1 && b.RowsMax%k == 0
}

// empty says whether no problem can be in the box.
func (b Box) empty() bool {
	least := b.RowsOver + 1
	if k := b.RowsMultiple; k > 0 {
		least = (least + k - 1) / k * k
	}
	return b.NMax != 0 && b.NOver >= b.NMax || b.MMax != 0 && b.MOver >= b.MMax || b.RowsMax != 0 && least > b.RowsMax
}

// A Rule is a box with what to run in it.
type Rule struct {
	Box
	Recipe
	Evidence Evidence `json:"evidence,omitzero"`
}

// Evidence is what stands behind a rule: the measured problems that it answers.
// Regrets are geometric means of time over the best known, so 1 is perfect.
type Evidence struct {
	Problems      int     `json:"problems"`
	Regret        float64 `json:"regret"`         // of the rule
	DefaultRegret float64 `json:"default_regret"` // of the default there
	Worst         string  `json:"worst,omitempty"`
	WorstRegret   float64 `json:"worst_regret,omitempty"`
}

// A Hull is where a class was measured. Outside it the rules know nothing. That of launches
// says where they are of; it has no say in their answers, whose boxes have all bounds.
type Hull struct {
	NMin     int64 `json:"n_min"`
	NMax     int64 `json:"n_max"`
	MMin     int64 `json:"m_per_sm_min"` // rows per multiprocessor, see RowsPerSM
	MMax     int64 `json:"m_per_sm_max"`
	ElemsMax int64 `json:"elems_max"` // columns times rows per multiprocessor
}

// Holds says whether a shape is in the hull.
func (h Hull) Holds(m, n int64, sms int) bool {
	rows := RowsPerSM(m, sms)
	return h.NMin <= n && n <= h.NMax && h.MMin <= rows && rows <= h.MMax && n*rows <= h.ElemsMax
}

func (h Hull) String() string {
	return fmt.Sprintf("%d <= N <= %d, %d <= M/SM <= %d, N*M/SM <= %d", h.NMin, h.NMax, h.MMin, h.MMax, h.ElemsMax)
}

// hullOf is the hull of some of a table's shapes.
func hullOf(t *table, use []int) Hull {
	var h Hull
	for i, k := range use {
		s := t.shapes[k]
		e := s.n * s.rows
		if i == 0 {
			h = Hull{s.n, s.n, s.rows, s.rows, e}
		}
		h = Hull{min(h.NMin, s.n), max(h.NMax, s.n), min(h.MMin, s.rows), max(h.MMax, s.rows), max(h.ElemsMax, e)}
	}
	return h
}

// A List is the rules of one class, in order: the first that fires answers.
type List struct {
	Class
	Hull  Hull   `json:"hull"`
	Rules []Rule `json:"rules"`
}

// Match says how an answer came about.
type Match string

// The matches.
const (
	MatchRule    Match = "rule"    // a rule fired
	MatchDefault Match = "default" // no rule fires: the default is as good as anything known
	MatchOutside Match = "outside" // outside the measured hull: the default
	MatchClass   Match = "class"   // nothing of the class was measured, or the launches are of other problems: the default
)

// find is the index of the rule that fires, or -1.
func (l *List) find(m, n int64, sms int) (int, Match) {
	if !l.Hull.Holds(m, n, sms) {
		return -1, MatchOutside
	}
	return l.first(m, n, sms)
}

// first is find without the hull.
func (l *List) first(m, n int64, sms int) (int, Match) {
	for i := range l.Rules {
		if l.Rules[i].Holds(m, n, l.Bytes, sms) {
			return i, MatchRule
		}
	}
	return -1, MatchDefault
}
