package launchrule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"normbench/kernels"
)

// A Box bounds the problems that a rule is for. A zero bound is none. Bounds are of whole
// numbers and of fractions of them, so that every language cuts at the same problem.
type Box struct {
	DType     string `json:"dtype,omitempty"`  // of x
	NOver     int64  `json:"n_over,omitempty"` // columns: over this
	NMax      int64  `json:"n_max,omitempty"`  // and at most this
	Columns   string `json:"columns,omitempty"`
	RowOver   int64  `json:"row_over,omitempty"` // bytes of a row
	RowMax    int64  `json:"row_max,omitempty"`
	RowAlign  int64  `json:"row_align,omitempty"`         // bytes that a row is a multiple of
	RowUneven int64  `json:"row_uneven,omitempty"`        // bytes that a row is no multiple of
	MOver     Ratio  `json:"m_per_sm_over,omitzero"`      // rows for each SM: over this
	MLeast    Ratio  `json:"m_per_sm_least,omitzero"`     // or at least this
	MMax      Ratio  `json:"m_per_sm_max,omitzero"`       // and at most this
	MBelow    Ratio  `json:"m_per_sm_below,omitzero"`     // or less than this
	RowsOver  int64  `json:"m_over,omitempty"`            // rows in all
	RowsMax   int64  `json:"m_max,omitempty"`             //
	Multiple  int64  `json:"m_multiple,omitempty"`        // that the rows in all are a multiple of
	Odd       int64  `json:"m_no_multiple,omitempty"`     // and that they are none of
	Cluster   int64  `json:"cluster,omitempty"`           // CTAs of the clusters that the next two are of:
	WaveLeast int64  `json:"per_cluster_least,omitempty"` // rows for each that runs at once, at least
	WaveMax   int64  `json:"per_cluster_max,omitempty"`   // and at most
	XOver     Ratio  `json:"x_over,omitzero"`             // size of x in L2s
	XMax      Ratio  `json:"x_max,omitzero"`
	ElemsOver int64  `json:"elems_over,omitempty"` // elements of x
	ElemsMax  int64  `json:"elems_max,omitempty"`
}

// Values of Columns.
const (
	Pow2  = "pow2"  // columns that are a power of two
	Other = "other" // and that are none
)

// A Ratio is a fraction that a bound multiplies the SMs, or the L2, by. The zero Ratio is no bound.
type Ratio struct{ Num, Den int64 }

// Whole is n as a Ratio; none for 0.
func Whole(n int64) Ratio {
	if n == 0 {
		return Ratio{}
	}
	return Ratio{n, 1}
}

// ParseRatio reads 3, 2.5 or 5/2.
func ParseRatio(s string) (Ratio, error) {
	num, den := s, "1"
	if a, b, ok := strings.Cut(s, "/"); ok {
		num, den = a, b
	} else if a, b, ok := strings.Cut(s, "."); ok {
		num, den = a+b, "1"+strings.Repeat("0", len(b))
	}
	a, err1 := strconv.ParseInt(num, 10, 64)
	b, err2 := strconv.ParseInt(den, 10, 64)
	if err1 != nil || err2 != nil || a < 0 || b < 1 {
		return Ratio{}, fmt.Errorf("%q is no number such as 3, 2.5 or 5/2", s)
	}
	if g := gcd(a, b); g > 1 {
		a, b = a/g, b/g
	}
	// Products with the bytes of x, up to 2^50, stay in 64 bits.
	if a > 1<<31 || b >= 1<<13 {
		return Ratio{}, fmt.Errorf("%q has more than three or four digits behind the point, or is too large", s)
	}
	if a == 0 {
		return Ratio{}, nil
	}
	return Ratio{a, b}, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// String is 3, 2.5, or 1/3 where no decimal number is as exact.
func (r Ratio) String() string {
	if r.Den <= 1 {
		return strconv.FormatInt(r.Num, 10)
	}
	for pow := int64(10); pow <= 10000; pow *= 10 {
		if pow%r.Den == 0 {
			digits := len(strconv.FormatInt(pow, 10)) - 1
			n := r.Num * (pow / r.Den)
			return fmt.Sprintf("%d.%0*d", n/pow, digits, n%pow)
		}
	}
	return fmt.Sprintf("%d/%d", r.Num, r.Den)
}

// whole is the ratio of n, rounded down; 0 where it is no bound.
func (r Ratio) whole(n int64) int64 { return r.Num * n / max(r.Den, 1) }

// MarshalJSON implements json.Marshaler: a number, or a string for a fraction.
func (r Ratio) MarshalJSON() ([]byte, error) {
	s := r.String()
	if strings.Contains(s, "/") {
		s = strconv.Quote(s)
	}
	return []byte(s), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Ratio) UnmarshalJSON(b []byte) error {
	s := string(b)
	if b[0] == '"' {
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
	}
	v, err := ParseRatio(s)
	*r = v
	return err
}

// of compares v with the ratio of n: -1, 0 or 1.
func (r Ratio) of(n, v int64) int {
	a, b := v*r.Den, r.Num*n
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// A Place is a problem on a device, as boxes see it.
type Place struct {
	Problem kernels.Problem
	Device  kernels.DeviceInfo

	row, x, bytes, sms, elems int64
	options                   Options
	// If answers the conditions that rules name; nil holds none.
	If func(at Place, l *List, r *Rule) bool
}

// At is a problem on a device.
func At(p kernels.Problem, d kernels.DeviceInfo) Place {
	bytes := p.DType.Size()
	return Place{Problem: p, Device: d, row: p.N * bytes, x: p.M * p.N * bytes, bytes: bytes, sms: int64(max(d.SMs, 1)), elems: p.M * p.N, options: OptionsOf(p)}
}

func (at *Place) condition(l *List, r *Rule) bool { return at.If != nil && at.If(*at, l, r) }

// RowsPerSM is the rows that an SM has to do with m rows in all,
// rounded up. Up to one row for each, it is 1: there is one wave, however many
// rows.
func RowsPerSM(m int64, sms int) int64 { return (m + int64(sms) - 1) / int64(sms) }

// Holds says whether a problem is in the box.
func (b *Box) Holds(at *Place) bool {
	m, n := at.Problem.M, at.Problem.N
	// In the order of how many problems they exclude.
	if at.row <= b.RowOver || b.RowMax != 0 && at.row > b.RowMax || n <= b.NOver || b.NMax != 0 && n > b.NMax || m <= b.RowsOver || b.RowsMax != 0 && m > b.RowsMax {
		return false
	}
	if b.MOver.Den != 0 && b.MOver.of(at.sms, m) <= 0 || b.MLeast.Den != 0 && b.MLeast.of(at.sms, m) < 0 ||
		b.MMax.Den != 0 && b.MMax.of(at.sms, m) > 0 || b.MBelow.Den != 0 && b.MBelow.of(at.sms, m) >= 0 {
		return false
	}
	if b.RowAlign != 0 && at.row%b.RowAlign != 0 || b.RowUneven != 0 && at.row%b.RowUneven == 0 ||
		b.Multiple != 0 && m%b.Multiple != 0 || b.Odd != 0 && m%b.Odd == 0 {
		return false
	}
	if b.XOver.Den != 0 && b.XOver.of(at.Device.CacheBytes, at.x) <= 0 || b.XMax.Den != 0 && b.XMax.of(at.Device.CacheBytes, at.x) > 0 ||
		at.elems <= b.ElemsOver || b.ElemsMax != 0 && at.elems > b.ElemsMax {
		return false
	}
	if b.Columns != "" && (n&(n-1) == 0) != (b.Columns == Pow2) || b.DType != "" && b.DType != at.Problem.DType.String() {
		return false
	}
	if b.Cluster != 0 {
		once := int64(at.Device.ClustersAtOnce(int(b.Cluster)))
		return m >= b.WaveLeast*once && (b.WaveMax == 0 || m <= b.WaveMax*once)
	}
	return true
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
	ratio := func(name, sign string, r Ratio) {
		if r.Den != 0 {
			parts = append(parts, fmt.Sprintf("%s %s %s", name, sign, r))
		}
	}
	some := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	some(b.DType != "", "%s", b.DType)
	add("N", b.NOver, b.NMax)
	some(b.Columns == Pow2, "N a power of two")
	some(b.Columns == Other, "N no power of two")
	add("row bytes", b.RowOver, b.RowMax)
	if over, most := b.MOver, b.MMax; over.Den == 1 && most.Den == 1 {
		add("M/SM", over.Num, most.Num)
	} else {
		ratio("M/SM", ">", over)
		ratio("M/SM", "<=", most)
	}
	ratio("M/SM", ">=", b.MLeast)
	ratio("M/SM", "<", b.MBelow)
	add("M", b.RowsOver, b.RowsMax)
	some(b.Multiple != 0, "M a multiple of %d", b.Multiple)
	some(b.Odd != 0, "M no multiple of %d", b.Odd)
	some(b.WaveLeast != 0, "M >= %d for each cluster of %d", b.WaveLeast, b.Cluster)
	some(b.WaveMax != 0, "M <= %d for each cluster of %d", b.WaveMax, b.Cluster)
	ratio("x in L2s", ">", b.XOver)
	ratio("x in L2s", "<=", b.XMax)
	add("elements", b.ElemsOver, b.ElemsMax)
	some(b.RowAlign > 0, "rows at %d bytes", b.RowAlign)
	some(b.RowUneven > 0, "rows not at %d bytes", b.RowUneven)
	if len(parts) == 0 {
		return "always"
	}
	return strings.Join(parts, ", ")
}

// Covers says whether every problem of o is in b. It compares like bounds alone: it may say
// no of rows in all that are rows per SM of b's.
func (b Box) Covers(o Box) bool {
	most := func(b, o int64) bool { return b == 0 || o != 0 && o <= b }
	least := func(b, o Ratio) bool { return b.Den == 0 || o.Den != 0 && o.Num*b.Den >= b.Num*o.Den }
	upTo := func(b, o Ratio) bool { return b.Den == 0 || o.Den != 0 && o.Num*b.Den <= b.Num*o.Den }
	same := func(b, o string) bool { return b == "" || b == o }
	return same(b.DType, o.DType) && same(b.Columns, o.Columns) &&
		o.NOver >= b.NOver && most(b.NMax, o.NMax) && o.RowOver >= b.RowOver && most(b.RowMax, o.RowMax) &&
		least(b.MOver, o.MOver) && (least(b.MLeast, o.MLeast) || least(b.MLeast, o.MOver)) &&
		upTo(b.MMax, o.MMax) && (upTo(b.MBelow, o.MBelow)) &&
		o.RowsOver >= b.RowsOver && most(b.RowsMax, o.RowsMax) && (b.Multiple == 0 || o.multipleOf(b.Multiple)) && (b.Odd == 0 || b.Odd == o.Odd) &&
		(b.Cluster == 0 || b.Cluster == o.Cluster && o.WaveLeast >= b.WaveLeast && most(b.WaveMax, o.WaveMax)) &&
		least(b.XOver, o.XOver) && upTo(b.XMax, o.XMax) && o.ElemsOver >= b.ElemsOver && most(b.ElemsMax, o.ElemsMax) &&
		(b.RowAlign == 0 || o.RowAlign != 0 && o.RowAlign%b.RowAlign == 0) &&
		(b.RowUneven == 0 || o.RowUneven != 0 && b.RowUneven%o.RowUneven == 0)
}

// at is what the box asks of rows at the columns and the type of a place, for those columns; false where it is for others.
func (b Box) at(at *Place) (Box, bool) {
	columns := Box{NOver: b.NOver, NMax: b.NMax, Columns: b.Columns, RowOver: b.RowOver, RowMax: b.RowMax, RowAlign: b.RowAlign, RowUneven: b.RowUneven}
	b.NOver, b.NMax, b.Columns, b.RowOver, b.RowMax, b.RowAlign, b.RowUneven = at.Problem.N-1, at.Problem.N, "", 0, 0, 0, 0
	return b, columns.Holds(at)
}

// and is what two boxes of the same columns have in common, or less where a box cannot say it.
func (b Box) and(o Box) Box {
	least := func(b, o int64) int64 {
		if b == 0 || o != 0 && o < b {
			return o
		}
		return b
	}
	higher := func(b, o Ratio) bool { return b.Num*o.Den > o.Num*b.Den }
	atLeast := func(b, o Ratio) Ratio {
		if o.Den == 0 || b.Den != 0 && higher(b, o) {
			return b
		}
		return o
	}
	atMost := func(b, o Ratio) Ratio {
		if o.Den == 0 || b.Den != 0 && higher(o, b) {
			return b
		}
		return o
	}
	nothing := b.Odd != 0 && o.Odd != 0 && b.Odd != o.Odd || b.Cluster != 0 && o.Cluster != 0 && b.Cluster != o.Cluster || b.DType != "" && o.DType != "" && b.DType != o.DType
	b.DType = cmp.Or(b.DType, o.DType)
	b.MOver, b.MLeast, b.MMax, b.MBelow = atLeast(b.MOver, o.MOver), atLeast(b.MLeast, o.MLeast), atMost(b.MMax, o.MMax), atMost(b.MBelow, o.MBelow)
	b.RowsOver, b.RowsMax = max(b.RowsOver, o.RowsOver), least(b.RowsMax, o.RowsMax)
	b.Multiple, b.Odd = max(b.Multiple, 1)/gcd(max(b.Multiple, 1), max(o.Multiple, 1))*max(o.Multiple, 1), max(b.Odd, o.Odd)
	b.Cluster, b.WaveLeast, b.WaveMax = max(b.Cluster, o.Cluster), max(b.WaveLeast, o.WaveLeast), least(b.WaveMax, o.WaveMax)
	b.XOver, b.XMax, b.ElemsOver, b.ElemsMax = atLeast(b.XOver, o.XOver), atMost(b.XMax, o.XMax), max(b.ElemsOver, o.ElemsOver), least(b.ElemsMax, o.ElemsMax)
	if b.Multiple == 1 {
		b.Multiple = 0
	}
	if nothing || b.Empty() {
		return Box{NOver: 1, NMax: 1}
	}
	return b
}

// multipleOf says whether all rows of the box are a multiple of k: as it asks for, or as
// there is one number of rows only.
func (b Box) multipleOf(k int64) bool {
	return b.Multiple != 0 && b.Multiple%k == 0 || b.RowsMax != 0 && b.RowsOver == b.RowsMax-1 && b.RowsMax%k == 0
}

// Empty says whether no problem can be in the box, as far as its like bounds tell.
func (b Box) Empty() bool {
	least := b.RowsOver + 1
	if k := b.Multiple; k > 0 {
		least = (least + k - 1) / k * k
	}
	over := func(lo, hi Ratio, same bool) bool {
		if lo.Den == 0 || hi.Den == 0 {
			return false
		}
		c := lo.Num*hi.Den - hi.Num*lo.Den
		return c > 0 || c == 0 && same
	}
	return b.NMax != 0 && b.NOver >= b.NMax || b.RowMax != 0 && b.RowOver >= b.RowMax || b.RowsMax != 0 && least > b.RowsMax ||
		over(b.MOver, b.MMax, true) || over(b.MOver, b.MBelow, true) || over(b.MLeast, b.MMax, false) || over(b.MLeast, b.MBelow, true) ||
		over(b.XOver, b.XMax, true) || b.ElemsMax != 0 && b.ElemsOver >= b.ElemsMax || b.WaveMax != 0 && b.WaveLeast > b.WaveMax ||
		b.RowAlign != 0 && b.RowUneven != 0 && b.RowAlign%b.RowUneven == 0
}

// ceilPow2 rounds n >= 1 up to a power of two.
func ceilPow2(n int64) int64 { return 1 << bits.Len64(uint64(n-1)) }
