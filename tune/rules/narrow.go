package rules

import (
	"math"
	"slices"

	"normbench/kernels/launchrule"
)

// Exported rules cannot ask a family what it refuses, so a rule's box must hold
// nothing that its recipe is refused on. What families refuse depends on the
// width of a row, on the bytes that its rows start at a multiple of, and, for
// the number of CTAs, on the rows; between neighbouring powers of two it does
// not change back and forth. So the registry is asked on a lattice of such
// places, and the box shrunk to the largest part that is accepted throughout.
// TestAccepted holds that against random problems.

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
	nOver, nMost, mOver, mMost := bounds(b, h, t.sms)
	if nOver >= nMost || mOver >= mMost {
		return b, false
	}
	rows := launchrule.Lattice(mOver, mMost)
	id := r.String()
	for _, a := range withinBox(b, alignments(size)) {
		ns := a.lattice(nOver, nMost, size)
		ok := make([][]bool, len(ns))
		for i, n := range ns {
			ok[i] = make([]bool, len(rows))
			for j, q := range rows {
				ok[i][j] = n*q > h.ElemsMax || t.acceptsRows(id, r, n, q, b) // beyond the hull the default answers
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
						c.MOver = launchrule.Whole(rows[j0] - 1)
					}
					if j1 < len(rows)-1 {
						c.MMax = launchrule.Whole(rows[j1])
					}
					count := 0
					for _, k := range shapes {
						if c.Holds(&t.shapes[k].at) {
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

// withinBox are the alignments that ask for no less than the box does, the weakest first.
func withinBox(b Box, as []alignment) (list []alignment) {
	for _, a := range as {
		a.least = max(a.least, b.RowAlign)
		if a.uneven == 0 || b.RowUneven > 0 && b.RowUneven < a.uneven {
			a.uneven = b.RowUneven
		}
		if (a.uneven == 0 || a.least < a.uneven) && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
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
	for _, n := range launchrule.Lattice(over, most) {
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
// the number of rows that come to q per SM.
func (t *table) acceptsRows(id string, r Recipe, n, q int64, b Box) bool {
	k := probe{id, n, q, b.RowsOver, b.RowsMax}
	t.mu.Lock()
	ok, known := t.probes[k]
	t.mu.Unlock()
	if known {
		return ok
	}
	ok = true
	sms := int64(t.sms)
	most := q * sms
	if b.RowsMax > 0 {
		most = min(most, b.RowsMax)
	}
	for _, m := range []int64{max((q-1)*sms, b.RowsOver) + 1, most, most - 1} { // odd ones too
		if m >= 1 && m > b.RowsOver && launchrule.RowsPerSM(m, t.sms) == q {
			ok = ok && offers(t.judge, t.class.Problem(m, n), r)
		}
	}
	t.mu.Lock()
	t.probes[k] = ok
	t.mu.Unlock()
	return ok
}

// A probe is a place at which the registry was asked.
type probe struct {
	recipe    string
	n, q      int64
	over, max int64 // bounds of the rows in all
}

// bounds are a box's columns and rows per SM, within the hull.
func bounds(b Box, h Hull, sms int) (nOver, nMost, mOver, mMost int64) {
	nOver, nMost, mOver, mMost = max(b.NOver, h.NMin-1), h.NMax, max(b.MOver.Num, h.MMin-1), h.MMax
	mOver = max(mOver, launchrule.RowsPerSM(b.RowsOver+1, sms)-1)
	if b.RowsMax > 0 {
		mMost = min(mMost, launchrule.RowsPerSM(b.RowsMax, sms))
	}
	if b.NMax > 0 {
		nMost = min(nMost, b.NMax)
	}
	if b.MMax.Num > 0 {
		mMost = min(mMost, b.MMax.Num)
	}
	return nOver, nMost, mOver, mMost
}
