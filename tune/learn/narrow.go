package learn

import (
	"math"
	"slices"
	"sync"

	"normbench/kernels"
	"normbench/kernels/launchrule"
	"normbench/tune/rules"
)

// Exported rules cannot ask a family what it refuses, so a rule's box must hold
// nothing that its recipe is refused on. What families refuse depends on the
// width of a row, on the bytes that its rows start at a multiple of, and, for
// the number of CTAs, on the rows; between neighbouring powers of two it does
// not change back and forth. So the registry is asked on a lattice of such
// places, and between two of which one is refused; the box shrinks to the largest part that is accepted throughout.
// TestAccepted holds that against random problems.

// A narrower shrinks boxes to what their recipes are accepted on. It remembers what it
// asked the registry; its method may be called from several goroutines.
type narrower struct {
	class  launchrule.Class
	judge  launchrule.Judge
	mu     sync.Mutex
	probes map[string]*probes // by recipe
}

type probes struct {
	mu    sync.Mutex
	known map[extent]map[int64]map[int64]bool // by columns, then by rows per SM
}

// An extent is the bounds of the rows in all.
type extent struct{ over, max int64 }

// newNarrower makes one for a class.
func newNarrower(c launchrule.Class, j launchrule.Judge) *narrower {
	return &narrower{class: c, judge: j, probes: map[string]*probes{}}
}

// Narrow is the largest part of a box within the hull that a recipe is accepted on throughout,
// by how many of the problems it holds. ok is false where it would hold none. The ends of what is left may be
// places of one kind of rows, with others beside them that nobody asked for: it is
// asked there, until nothing changes.
func (w *narrower) Narrow(b launchrule.Box, r launchrule.Recipe, h launchrule.Hull, ps []kernels.Problem) (_ launchrule.Box, ok bool) {
	in := make([]launchrule.Place, len(ps))
	for i, p := range ps {
		in[i] = launchrule.At(p, w.judge.Device)
	}
	for {
		in = slices.DeleteFunc(in, func(at launchrule.Place) bool { return !b.Holds(&at) })
		c, ok := w.once(b, r, h, in)
		if !ok || c == b {
			return c, ok
		}
		b = c
	}
}

// once narrows by what the registry accepts on a lattice, refined at the borders of what it refuses.
func (w *narrower) once(b launchrule.Box, r launchrule.Recipe, h launchrule.Hull, in []launchrule.Place) (_ launchrule.Box, ok bool) {
	sms := max(w.judge.Device.SMs, 1)
	nOver, nMost, mOver, mMost := bounds(b, h, sms)
	if nOver >= nMost || mOver >= mMost || len(in) == 0 {
		return b, false
	}
	id := r.String()
	w.mu.Lock()
	asked := w.probes[id]
	if asked == nil {
		asked = &probes{known: map[extent]map[int64]map[int64]bool{}}
		w.probes[id] = asked
	}
	w.mu.Unlock()
	asked.mu.Lock()
	defer asked.mu.Unlock()
	within := extent{b.RowsOver, b.RowsMax}
	columns := asked.known[within]
	if columns == nil {
		columns = map[int64]map[int64]bool{}
		asked.known[within] = columns
	}
	var column map[int64]bool // of at columns, as most questions are about the columns of the one before
	at := int64(-1)
	accepts := func(n, q int64) bool {
		if n*q > h.ElemsMax { // beyond the hull the default answers
			return true
		}
		if n != at {
			if column = columns[n]; column == nil {
				column = map[int64]bool{}
				columns[n] = column
			}
			at = n
		}
		return w.acceptsRows(column, r, n, q, b)
	}
	rows := launchrule.Lattice(mOver, mMost)
	var ends []int64 // of the hull, where it is narrower than the box
	for _, q := range rows {
		if n := h.ElemsMax / q; nOver < n && n < nMost {
			ends = append(ends, n)
		}
	}
	ns := alignment{}.lattice(nOver, nMost, w.class.Bytes, ends...)
	ns, rows = w.refine(ns, rows, accepts)
	grid := make([][]bool, len(ns))
	for i, n := range ns {
		grid[i] = make([]bool, len(rows))
		for j, q := range rows {
			grid[i][j] = accepts(n, q)
		}
	}
	best, bestCount, bestArea := launchrule.Box{}, 0, 0.0
	for _, a := range withinBox(b, alignments(w.class.Bytes)) {
		// Runs of columns that are accepted alike: a border lies between two of these.
		type run struct {
			first, last int64
			ok          []bool
		}
		var runs []run
		for i, n := range ns {
			if !a.holds(n * w.class.Bytes) {
				continue
			}
			if k := len(runs) - 1; k >= 0 && slices.Equal(runs[k].ok, grid[i]) {
				runs[k].last = n
			} else {
				runs = append(runs, run{n, n, grid[i]})
			}
		}
		for i0 := range runs {
			all := slices.Clone(runs[i0].ok)
			for i1 := i0; i1 < len(runs); i1++ {
				for j := range all {
					all[j] = all[j] && runs[i1].ok[j]
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
						c.NOver = runs[i0].first - 1
					}
					if i1 < len(runs)-1 {
						c.NMax = runs[i1].last
					}
					if j0 > 0 {
						c.MOver = launchrule.Whole(rows[j0] - 1)
					}
					if j1 < len(rows)-1 {
						c.MMax = launchrule.Whole(rows[j1])
					}
					count := 0
					for k := range in {
						if c.Holds(&in[k]) {
							count++
						}
					}
					// Octaves of columns times those of rows, not to end with one width
					// where asking for an alignment would keep them all. Alignments come
					// with the weakest first.
					area := math.Log2(2*float64(runs[i1].last)/float64(runs[i0].first)) * float64(j1-j0+1)
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

// refine adds to a lattice the last place that is accepted and the first that is not, of each kind of columns and
// of rows: between two places of the lattice, of which one is accepted, these are found by bisection.
func (w *narrower) refine(ns, rows []int64, accepts func(n, q int64) bool) (_, _ []int64) {
	kind := func(n int64) int64 { return min(n*w.class.Bytes&-(n*w.class.Bytes), 16) / w.class.Bytes }
	var columns, more []int64
	grid := make([][]bool, len(ns)) // asked once: a map of all answers is out of the caches
	for i, n := range ns {
		grid[i] = make([]bool, len(rows))
		for j, q := range rows {
			grid[i][j] = accepts(n, q)
		}
	}
	last := map[int64]int{}
	for i, n := range ns {
		unit := kind(n)
		step := 2 * unit // to the next of the kind
		if unit == 16/w.class.Bytes {
			step = unit
		}
		if before, ok := last[unit]; ok {
			for j, q := range rows {
				if at := grid[i][j]; at != grid[before][j] {
					lo, hi := ns[before], n
					for hi-lo > step {
						if mid := lo + (hi-lo)/step/2*step; accepts(mid, q) == at {
							hi = mid
						} else {
							lo = mid
						}
					}
					columns = append(columns, lo, hi)
				}
			}
		}
		last[unit] = i
	}
	for i, n := range ns {
		for j := 1; j < len(rows); j++ {
			if at := grid[i][j]; at != grid[i][j-1] {
				lo, hi := rows[j-1], rows[j]
				for hi-lo > 1 {
					if mid := lo + (hi-lo)/2; accepts(n, mid) == at {
						hi = mid
					} else {
						lo = mid
					}
				}
				more = append(more, lo, hi)
			}
		}
	}
	merge := func(a, b []int64) []int64 {
		a = append(a, b...)
		slices.Sort(a)
		return slices.Compact(a)
	}
	return merge(ns, columns), merge(rows, more)
}

// withinBox are the alignments that ask for no less than the box does, the weakest first.
func withinBox(b launchrule.Box, as []alignment) (list []alignment) {
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
func (a alignment) lattice(over, most, size int64, more ...int64) []int64 {
	var ns []int64
	for _, n := range append(launchrule.Lattice(over, most), more...) {
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
func (w *narrower) acceptsRows(asked map[int64]bool, r launchrule.Recipe, n, q int64, b launchrule.Box) bool {
	ok, known := asked[q]
	if known {
		return ok
	}
	ok = true
	sms := max(w.judge.Device.SMs, 1)
	most := q * int64(sms)
	if b.RowsMax > 0 {
		most = min(most, b.RowsMax)
	}
	for _, m := range []int64{max((q-1)*int64(sms), b.RowsOver) + 1, most, most - 1} { // odd ones too
		if m >= 1 && m > b.RowsOver && launchrule.RowsPerSM(m, sms) == q {
			ok = ok && rules.Offers(w.judge, w.class.Problem(m, n), r)
		}
	}
	asked[q] = ok
	return ok
}

// bounds are a box's columns and rows per SM, within the hull.
func bounds(b launchrule.Box, h launchrule.Hull, sms int) (nOver, nMost, mOver, mMost int64) {
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
