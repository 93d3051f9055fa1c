package rules

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A launch rule is a function of the rows that is constant over long stretches: its answer
// changes at a few numbers of rows, and now and then it asks whether the rows are a
// multiple of a power of two. So it can be found by asking: of each kind of rows by itself,
// at every number while they are few, at a hundredth more each time where they are many, and between
// two that differ until they are neighbours. Then it is asked where nobody has looked.

// A Range is where one variant is the answer: rows over Over, at most Max, and a multiple
// of Multiple where that is not 0. Of several that hold, the first answers.
type Range struct {
	Over, Max, Multiple int64
	Variant             kernels.Variant
}

// Holds says whether m rows are in the range.
func (r Range) Holds(m int64) bool {
	return r.Over < m && m <= r.Max && (r.Multiple == 0 || m%r.Multiple == 0)
}

const (
	kinds     = 7           // of rows: multiples of 64, and by the largest power of two below that divides them
	everyRow  = 4096        // up to so many, each is asked
	step      = 1.01        // and beyond, of each kind one that is so many times the one before
	proofs    = 500 * kinds // rows that are drawn in each pass
	passes    = 5           // that may find something
	maxRanges = 256         // more than anybody would paste
)

// Ranges finds what pick answers for 1 to rows rows, in few ranges. Where pick has no
// answer there is none. It asks beside each of near too, at which a caller knows that
// the answer may change: of a single number among many it else knows by luck only. The
// error names rows at which no few ranges have the answer.
func Ranges(pick func(m int64) (kernels.Variant, bool), rows int64, near ...int64) ([]Range, error) {
	f := finder{pick: pick, rows: rows, numbers: map[kernels.Variant]int{}, variants: make([]kernels.Variant, 1)}
	for n := range f.kinds {
		f.kinds[n] = newKind(n, rows)
		f.ask(&f.kinds[n], near)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for pass := 0; ; pass++ {
		rs, err := f.ranges()
		if err != nil {
			return nil, err
		}
		wrong := f.disprove(rs, draw)
		switch {
		case wrong == 0:
			return rs, nil
		case pass == passes:
			return nil, tooFine(wrong)
		}
	}
}

// tooFine says that m rows are not answered by few ranges.
func tooFine(m int64) error {
	help := fmt.Sprintf("give --rows %d, up to which each number is asked, or another REF", everyRow)
	if m <= everyRow {
		help = fmt.Sprintf("give --rows less than %d, or another REF", m)
	}
	return hint.Errorf(help, "the answer changes too often for a few ranges, as at %d rows", m)
}

// A finder is what is known of a pick. Answers have numbers; 0 is none.
type finder struct {
	pick     func(m int64) (kernels.Variant, bool)
	rows     int64
	variants []kernels.Variant // by number
	numbers  map[kernels.Variant]int
	kinds    [kinds]kind
}

// A kind of rows is first, first + by, and so on, count of them, by number from 0.
type kind struct {
	first, by, count int64
	asked            []answered // in order; the first and the last of the kind are among them
}

// An answered row is the i-th of its kind.
type answered struct {
	i      int64
	answer int
}

func newKind(n int, rows int64) kind {
	k := kind{first: 1 << n, by: 2 << n}
	if n == kinds-1 {
		k.by = k.first // any multiple
	}
	if rows >= k.first {
		k.count = (rows-k.first)/k.by + 1
	}
	return k
}

// kindOf is the kind that m rows are of.
func (f *finder) kindOf(m int64) *kind {
	return &f.kinds[min(bits.TrailingZeros64(uint64(m)), kinds-1)]
}

func (k *kind) row(i int64) int64 { return k.first + i*k.by }

// upTo is the number of the last row of the kind that is at most m, -1 where there is none.
func (k *kind) upTo(m int64) int64 {
	if m < k.first {
		return -1
	}
	return min((m-k.first)/k.by, k.count-1)
}

// find is where in asked the i-th row of the kind is, or belongs.
func (k *kind) find(i int64) (at int, found bool) {
	return slices.BinarySearchFunc(k.asked, i, func(a answered, i int64) int { return cmp.Compare(a.i, i) })
}

// in is the answer at the last row of the kind from lo to hi; ok is false where there is no
// such row.
func (k *kind) in(lo, hi int64) (answer int, ok bool) {
	i := k.upTo(hi)
	if i < 0 || k.row(i) < lo {
		return 0, false
	}
	at, found := k.find(i)
	if !found {
		at-- // those beside it answer the same
	}
	return k.asked[at].answer, true
}

// answer is the number of what pick answers for m rows.
func (f *finder) answer(m int64) int {
	v, ok := f.pick(m)
	if !ok {
		return 0
	}
	n, ok := f.numbers[v]
	if !ok {
		n = len(f.variants)
		f.numbers[v], f.variants = n, append(f.variants, v)
	}
	return n
}

// ask asks at rows of a kind: each of the few, some of the many, and those beside near.
func (f *finder) ask(k *kind, near []int64) {
	if k.count == 0 {
		return
	}
	is := []int64{k.count - 1}
	for i := int64(0); i <= k.upTo(everyRow); i++ {
		is = append(is, i)
	}
	for m := float64(everyRow); m < float64(f.rows); m *= step {
		is = append(is, k.upTo(int64(m)))
	}
	for _, m := range near {
		is = append(is, k.upTo(m-1), k.upTo(m), k.upTo(m)+1)
	}
	slices.Sort(is)
	for _, i := range slices.Compact(is) {
		if 0 <= i && i < k.count {
			k.asked = append(k.asked, answered{i, f.answer(k.row(i))})
		}
	}
	f.bisect(k)
}

// bisect asks between rows of a kind that differ until they are neighbours.
func (f *finder) bisect(k *kind) {
	var all []answered
	var between func(a, b answered)
	between = func(a, b answered) {
		if a.answer == b.answer || b.i-a.i == 1 {
			return
		}
		i := a.i + (b.i-a.i)/2
		mid := answered{i, f.answer(k.row(i))}
		between(a, mid)
		all = append(all, mid)
		between(mid, b)
	}
	for j, b := range k.asked {
		if j > 0 {
			between(k.asked[j-1], b)
		}
		all = append(all, b)
	}
	k.asked = all
}

// A change is where a kind's answer changes: over and most are neighbours of the kind. A
// cut over the one and at most the other serves it.
type change struct{ over, most int64 }

// cuts are the first rows of the fewest pieces in which each kind has one answer, with the
// row behind the last piece.
func (f *finder) cuts() ([]int64, error) {
	var changes []change
	for n := range f.kinds {
		k := &f.kinds[n]
		for j := 1; j < len(k.asked); j++ {
			if a, b := k.asked[j-1], k.asked[j]; a.answer != b.answer {
				changes = append(changes, change{k.row(a.i), k.row(b.i)})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.most, b.most) })
	cuts := []int64{1}
	for _, c := range changes {
		if cuts[len(cuts)-1] > c.over {
			continue
		}
		if len(cuts) > 2*maxRanges { // two pieces make a range at least
			return nil, tooFine(c.most)
		}
		cuts = append(cuts, c.most)
	}
	for i := len(cuts) - 1; i > 0; i-- {
		cuts[i] = f.moved(cuts, i, changes)
	}
	return append(cuts, f.rows+1), nil
}

// moved is a cut at the first row from which on all answer alike, as far as the changes
// allow that it alone serves. Else a row that is the first of its kind could be left behind.
func (f *finder) moved(cuts []int64, i int, changes []change) int64 {
	at, over := cuts[i], cuts[i-1]
	for _, c := range changes {
		if c.over < at && at <= c.most && cuts[i-1] <= c.over && (i+1 == len(cuts) || cuts[i+1] > c.most) {
			over = max(over, c.over)
		}
	}
	want, _ := f.kindOf(at).in(at, at)
	for at-1 > over {
		if a, _ := f.kindOf(at-1).in(at-1, at-1); a != want {
			break
		}
		at--
	}
	return at
}

// A portion of a piece is its rows of some kinds, with their answer.
type portion struct {
	first, last, multiple int64
	answer                int
}

// portions are those of lo to hi rows, the kinds of the largest powers first. The last is
// all that the others leave.
func (f *finder) portions(lo, hi int64) []portion {
	var ps []portion
	for n := kinds - 1; n >= 0; n-- {
		k := &f.kinds[n]
		a, ok := k.in(lo, hi)
		if !ok {
			continue
		}
		if len(ps) == 0 || ps[len(ps)-1].answer != a {
			ps = append(ps, portion{answer: a})
		}
		p := &ps[len(ps)-1]
		p.multiple = k.first
		p.first, p.last = (lo+k.first-1)/k.first*k.first, hi/k.first*k.first
	}
	return ps
}

// ranges are what is known as ranges. What is left of a piece goes on through the pieces
// behind it that leave the same.
func (f *finder) ranges() ([]Range, error) {
	cuts, err := f.cuts()
	if err != nil {
		return nil, err
	}
	var out []Range
	last, from := 0, int64(1) // what is left answers last, and did from there on
	left := func(answer int, lo int64) {
		if answer == last {
			return
		}
		if last != 0 {
			out = append(out, Range{Over: from - 1, Max: lo - 1, Variant: f.variants[last]})
		}
		last, from = answer, lo
	}
	for i, lo := range cuts[:len(cuts)-1] {
		hi := cuts[i+1] - 1
		ps := f.portions(lo, hi)
		rest := ps[len(ps)-1]
		if p := ps[0]; len(ps) == 2 && p.first == p.last && (p.last == hi || p.first == lo) {
			// One row at an end needs no multiple.
			if p.last == hi {
				left(rest.answer, lo)
				left(p.answer, hi)
			} else {
				left(p.answer, lo)
				left(rest.answer, lo+1)
			}
			continue
		}
		left(rest.answer, lo)
		for _, p := range ps[:len(ps)-1] {
			if p.answer == 0 {
				return nil, hint.Errorf(fmt.Sprintf("give --rows less than %d, or another REF", p.first), "there is no answer at %d rows, and is one beside them, which no rule says", p.first)
			}
			r := Range{lo - 1, hi, p.multiple, f.variants[p.answer]}
			if p.first == p.last {
				r.Over, r.Max, r.Multiple = p.first-1, p.first, 0
			}
			out = append(out, r)
		}
		if len(out) > maxRanges {
			return nil, tooFine(lo)
		}
	}
	left(0, f.rows+1)
	return out, nil
}

// disprove asks at rows that are drawn, of each kind as many, and beside the ends of the
// ranges. What the ranges have wrong is known afterwards; it returns the least such row, 0
// for none.
func (f *finder) disprove(rs []Range, draw *rand.Rand) (wrong int64) {
	check := func(m int64) {
		if m < 1 || m > f.rows {
			return
		}
		a := f.answer(m)
		i := slices.IndexFunc(rs, func(r Range) bool { return r.Holds(m) })
		if i < 0 && a == 0 || i >= 0 && a != 0 && rs[i].Variant == f.variants[a] {
			return
		}
		k := f.kindOf(m)
		if at, found := k.find(k.upTo(m)); !found {
			k.asked = slices.Insert(k.asked, at, answered{k.upTo(m), a})
		}
		if wrong == 0 || m < wrong {
			wrong = m
		}
	}
	for n := range proofs {
		if k := &f.kinds[n%kinds]; k.count > 0 {
			m := math.Exp(draw.Float64() * math.Log(float64(f.rows)))
			check(k.row(max(k.upTo(int64(m)), 0)))
		}
	}
	for _, r := range rs {
		for _, end := range []int64{r.Over, r.Max} {
			for m := end - 1; m <= end+2; m++ {
				check(m)
			}
		}
	}
	if wrong > 0 {
		for n := range f.kinds {
			f.bisect(&f.kinds[n])
		}
	}
	return wrong
}
