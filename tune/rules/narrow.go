package rules

import (
	"math"
	"slices"
)

// Exported rules cannot ask a family what it refuses, so a rule's box must hold
// nothing that its recipe is refused on. What families refuse depends on the
// width of a row, on the bytes that its rows start at a multiple of, and, for
// the number of programs, on the rows; between neighbouring powers of two it does
// not change back and forth. So the registry is asked on a lattice of such
// places, and the box shrunk to the largest part that is accepted throughout.
// TestAccepted holds that against random problems.

// lattice are the whole numbers in (over, most] at which to ask: the ends,
// powers of two with what is just above them, and some between.
func lattice(over, most int64) []int64 {
	at := []int64{over + 1, most}
	for p := int64(1); p <= most; p *= 2 {
		for _, v := range []int64{p, p + 1, p + p/4, p + p/2, p + p/2 + 1, p + p*3/4} {
			if over < v && v <= most {
				at = append(at, v)
			}
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// narrow shrinks a box to what the recipe is accepted on, keeping as many of the
// shapes as it can. ok is false where nothing is left. The ends of what is left may be
// places of one kind of rows, with others beside them that nobody asked for: it is
// asked there, until nothing changes.
func (t *table) narrow(b Box, r Recipe, h Hull, shapes []int) (_ Box, ok bool) {
	for {
		c, ok := t.narrowOnce(b, r, h, shapes)
		if !ok || c == b {
			return c, ok
		}
		b = c
	}
}

func (t *table) narrowOnce(b Box, r Recipe, h Hull, shapes []int) (_ Box, ok bool) {
	size := t.class.Bytes
	best, bestCount, bestArea := Box{}, 0, 0.0
	nOver, nMost, mOver, mMost := b.bounds(h, t.sms)
	if nOver >= nMost || mOver >= mMost {
		return b, false
	}
	rows := lattice(mOver, mMost)
	for _, a := range alignments(size) {
		ns := a.lattice(nOver, nMost, size)
		ok := make([][]bool, len(ns))
		for i, n := range ns {
			ok[i] = make([]bool, len(rows))
			for j, q := range rows {
				ok[i][j] = t.acceptsRows(r, n, q)
			}
		}
		for i0 := range ns {
			all := slices.Clone(ok[i0])
			for i1 := i0; i1 < len(ns); i1++ {
				for j := range all {
					all[j] = all[j] && ok[i1][j]
				}
				for j0 := 0; j0 < len(rows); j0++ {
					if !all[j0] {
						continue
					}
					j1 := j0
					for j1+1 < len(rows) && all[j1+1] {
						j1++
					}
					c := b
					c.RowAlign, c.RowUneven = a.least, a.uneven
					if i0 > 0 {
						c.NOver = ns[i0] - 1
					}
					if i1 < len(ns)-1 {
						c.NMax = ns[i1]
					}
					if j0 > 0 {
						c.MOver = rows[j0] - 1
					}
					if j1 < len(rows)-1 {
						c.MMax = rows[j1]
					}
					count := 0
					for _, k := range shapes {
						if c.Holds(t.shapes[k].m, t.shapes[k].n, size, t.sms) {
							count++
						}
					}
					// Octaves of columns times those of rows, not to end with one width
					// where asking for an alignment would keep them all. Alignments come
					// with the weakest first.
					area := math.Log2(2*float64(ns[i1])/float64(ns[i0])) * float64(j1-j0+1)
					if count > bestCount || count == bestCount && count > 0 && area > 1.1*bestArea {
						best, bestCount, bestArea = c, count, area
					}
					j0 = j1
				}
			}
		}
	}
	return best, bestCount > 0
}

// An alignment says at what rows begin: at multiples of least bytes, but not all
// at multiples of uneven ones. Zeros say nothing.
type alignment struct{ least, uneven int64 }

// alignments lists what a box may ask of rows, the weakest first.
func alignments(size int64) []alignment {
	as := []alignment{{}}
	for a := 2 * size; a <= 16; a *= 2 {
		as = append(as, alignment{least: a})
	}
	for a := int64(16); a >= 2*size; a /= 2 {
		as = append(as, alignment{uneven: a})
	}
	return as
}

// lattice are columns in (over, most] that have the alignment, of every kind
// that does.
func (a alignment) lattice(over, most, size int64) []int64 {
	var ns []int64
	for _, n := range lattice(over, most) {
		for unit := size; unit <= 16; unit *= 2 {
			e := unit / size                                                         // elements
			for _, n := range []int64{n / e * e, (n/e | 1) * e, ((n-1)/e | 1) * e} { // the uneven one above, and below
				if over < n && n <= most && a.holds(n*size) {
					ns = append(ns, n)
				}
			}
		}
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

func (a alignment) holds(row int64) bool {
	return (a.least == 0 || row%a.least == 0) && (a.uneven == 0 || row%a.uneven != 0)
}

// acceptsRows says whether the recipe can run on rows of n elements, whatever
// the number of rows that come to q per multiprocessor.
func (t *table) acceptsRows(r Recipe, n, q int64) bool {
	k := probe{r.String(), n, q}
	t.mu.Lock()
	ok, known := t.probes[k]
	t.mu.Unlock()
	if known {
		return ok
	}
	ok = true
	sms := int64(t.sms)
	for _, m := range []int64{(q-1)*sms + 1, q * sms, q*sms - 1} { // odd ones too
		if m >= 1 && RowsPerSM(m, t.sms) == q {
			ok = ok && t.judge.offers(t.class.problem(m, n), r)
		}
	}
	t.mu.Lock()
	t.probes[k] = ok
	t.mu.Unlock()
	return ok
}

// A probe is a place at which the registry was asked.
type probe struct {
	recipe string
	n, q   int64
}
