package launchmap

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The problems that maps are for: bounds of rows, columns and elements. Bounds are included.
const (
	MaxM     = 1 << 20
	MinN     = 64
	MaxN     = 1 << 16
	MaxElems = 1 << 28
)

// CoversShape says whether a shape is among the problems that maps are for.
func CoversShape(m, n int64) bool {
	return m >= 1 && m <= MaxM && n >= MinN && n <= MaxN && m*n <= MaxElems
}

// AlignOf computes the alignment of rows of n elements: the multiple of bytes, up to 16, at which they
// start.
func AlignOf(n, bytes int64) int64 {
	row := n * bytes
	return min(row&-row, 16)
}

// Aligns lists the alignments that rows of elements of so many bytes can have, the widest first.
func Aligns(bytes int64) []int64 { return []int64{16, 8, 4, 2}[:4-(bytes-1)/2] }

// Columns lists the first columns of the standard lines of a raster, for columns that are multiples of
// unit. Beyond each step a line begins: a power of two, or three quarters of one. Many configs are accepted
// up to a step only, as rows must fit into registers or shared memory. Each of the widths has a line of
// its own.
func Columns(unit int64, widths ...int64) []int64 {
	from := []int64{MinN}
	for step := int64(MinN); step < MaxN; step *= 2 {
		from = append(from, beyond(step+step/2, unit), beyond(2*step, unit))
	}
	for _, n := range widths {
		if n%unit == 0 && MinN <= n && n <= MaxN {
			from = append(from, n, beyond(n, unit))
		}
	}
	slices.Sort(from)
	from = slices.Compact(from)
	return slices.DeleteFunc(from, func(n int64) bool { return n > MaxN })
}

// beyond returns the least multiple of unit above n.
func beyond(n, unit int64) int64 { return (n/unit + 1) * unit }

// A Bound is the last M of a cell: a number of rows, or where PerSM is not 0 that many hundredths of a
// row for each SM.
type Bound struct{ Rows, PerSM int64 }

// Rows lists the bounds of the standard cells, octaves around powers of two: in rows up to 2 per SM,
// beyond in rows per SM.
func Rows(sms int) (bounds []Bound) {
	for r := 0.5; int(math.Exp2(r)) < 2*max(sms, 1); r++ {
		bounds = append(bounds, Bound{Rows: int64(math.Exp2(r))})
	}
	b := Bound{PerSM: 200}
	for r := 1.5; b.Last(sms) < MaxM; r++ {
		bounds = append(bounds, b)
		b.PerSM = int64(math.Exp2(r) * 100)
	}
	return append(bounds, Bound{Rows: MaxM})
}

// Last computes the last M of the bound on a device with so many SMs.
func (b Bound) Last(sms int) int64 {
	if b.PerSM > 0 {
		return b.PerSM * int64(max(sms, 1)) / 100
	}
	return b.Rows
}

// String writes the bound: 90, or 2.82/SM.
func (b Bound) String() string {
	if b.PerSM > 0 {
		return strconv.FormatFloat(float64(b.PerSM)/100, 'f', -1, 64) + "/SM"
	}
	return strconv.FormatInt(b.Rows, 10)
}

// Bounds are bounds in ascending order.
type Bounds []Bound

// rowBounds converts the bounds to numbers of rows on a device with so many SMs.
func (bs Bounds) rowBounds(sms int) Bounds {
	rows := make(Bounds, len(bs))
	for i, b := range bs {
		rows[i] = Bound{Rows: b.Last(sms)}
	}
	return rows
}

// MarshalText implements encoding.TextMarshaler: 1 2 90 2.82/SM.
func (bs Bounds) MarshalText() ([]byte, error) {
	return []byte(strings.Trim(fmt.Sprint([]Bound(bs)), "[]")), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (bs *Bounds) UnmarshalText(text []byte) error {
	for _, s := range strings.Fields(string(text)) {
		var b Bound
		var err error
		if number, ok := strings.CutSuffix(s, "/SM"); ok {
			var f float64
			f, err = strconv.ParseFloat(number, 64)
			b.PerSM = int64(math.Round(min(max(f, 0), MaxM) * 100))
		} else {
			b.Rows, err = strconv.ParseInt(s, 10, 64)
		}
		if err != nil || b.Rows < 0 || b.Rows > MaxM || b.String() != s {
			return fmt.Errorf("%q is no bound of rows such as 90 or 2.82/SM", s)
		}
		*bs = append(*bs, b)
	}
	return nil
}
