package verdict

import (
	"fmt"
	"math"
	"slices"
)

// An InterimTest (a look) is a point at which paired rounds are judged, and the share of Rule.Alpha that
// is spent there.
type InterimTest struct {
	Rounds int
	Alpha  float64
}

// A Schedule lists the interim tests of a live A/B, fixed before it starts. A duel is judged
// at no other point: whoever tests after every round finds something in the end.
type Schedule struct {
	Looks []InterimTest
}

// Pocock is a plan of looks at these numbers of rounds that spends alpha in
// equal shares, as Pocock 1977 does. The shares add up to alpha, so the bound
// needs no joint distribution of the looks. His own constants, 0.0029 each for
// two looks at 0.005, would reach the same ranks at 12 rounds, where p-values
// come in steps of 0.0005, and all but the same at 24.
//
// Not O'Brien and Fleming 1979, who save nearly all for the last look: their
// first share would be below 0.0001, and the least p-value of 12 rounds is
// 0.0005. That look could never stop anything, and most of what an A/B costs is
// cells that are clear after 12 rounds.
func Pocock(alpha float64, rounds ...int) Schedule {
	var p Schedule
	for _, n := range rounds {
		p.Looks = append(p.Looks, InterimTest{n, alpha / float64(len(rounds))})
	}
	return p
}

// alpha is what is spent on a cell of n rounds: the share of the next look, as
// a cell between two looks was not stopped at the first.
func (p Schedule) alpha(n int) float64 {
	for _, l := range p.Looks {
		if n <= l.Rounds {
			return l.Alpha
		}
	}
	return p.Looks[len(p.Looks)-1].Alpha
}

func (p Schedule) totalAlpha() float64 {
	sum := 0.0
	for _, l := range p.Looks {
		sum += l.Alpha
	}
	return sum
}

// fewestRoundsAbove finds the fewest rounds above n whose interval has an end.
func (p Schedule) fewestRoundsAbove(n int) int {
	for n++; math.Exp2(1-float64(n)) > p.alpha(n); n++ {
	}
	return n
}

// Rounds is the most rounds that a cell is given.
func (p Schedule) Rounds() int { return p.Looks[len(p.Looks)-1].Rounds }

// CheckValid says what is wrong with r, or nil.
func (r Rule) CheckValid() error {
	var first error
	bad := func(wrong bool, format string, args ...any) {
		if wrong && first == nil { // the others follow from it, as often as not
			first = fmt.Errorf(format, args...)
		}
	}
	bad(!(r.Alpha > 0 && r.Alpha < 1), "alpha %g is out of range", r.Alpha)
	bad(!(r.Gate > 0 && r.Gate < 1), "gate %g is out of range", r.Gate)
	bad(!(r.MinEffect > 0), "least effect %g is not positive", r.MinEffect)
	bad(!(r.MinEffect < 1), "least effect %g is not below 1, which is 100%%", r.MinEffect)
	bad(!(r.FloorFactor >= 1), "floor factor %g is below 1", r.FloorFactor)
	bad(!(r.Resolve >= 0 && r.Modes >= 0 && r.Narrow >= 0), "a limit is negative")
	bad(!(r.Unpaired >= r.MinEffect), "least effect %g of recordings is below the %g of rounds",
		r.Unpaired, r.MinEffect)
	bad(len(r.Plan.Looks) == 0, "a plan without looks")
	last := 0
	for i, l := range r.Plan.Looks {
		bad(l.Rounds <= last, "look %d, at %d rounds, does not come after %d", i+1, l.Rounds, last)
		bad(math.Exp2(1-float64(l.Rounds)) > l.Alpha, "%d rounds cannot reach p = %g; %d can", l.Rounds,
			l.Alpha, fewestRounds(l.Alpha))
		last = l.Rounds
	}
	sum := r.Plan.totalAlpha()
	bad(sum > r.Alpha*(1+1e-9), "the looks spend %g of an alpha of %g", sum, r.Alpha)
	return first
}

// fewestRounds computes the fewest rounds of which the signed-rank test can reach alpha.
func fewestRounds(alpha float64) int { return int(math.Ceil(1 - math.Log2(alpha))) }

// NeedsMore says whether a live A/B needs another round of a cell, one of a family
// of so many: call it after every round.
//
// Between looks it does. At a look the cell is judged, and it does not where
//
//   - the verdict is SAME,
//   - the verdict is FASTER or SLOWER and the gate would believe it even if it
//     were the only such cell of the family (12 rounds serve up to 51 cells),
//   - or the interval is narrower than Rule.Narrow, so that the cell is too close
//     to the band and would be at twice the rounds.
//
// After the last look it never does.
func (r Rule) NeedsMore(c PairedRounds, family int) bool {
	_, more := r.judgeInterim(c, family)
	return more
}

// judgeInterim judges paired rounds where the schedule has a test, and says what NeedsMore does.
func (r Rule) judgeInterim(c PairedRounds, family int) (j Judgement, more bool) {
	n := 0
	for _, x := range c.Rounds {
		if x.ok() {
			n++
		}
	}
	last := n >= r.Plan.Rounds()
	if !last && !slices.ContainsFunc(r.Plan.Looks, func(l InterimTest) bool { return l.Rounds == n }) {
		return j, true
	}
	j = judgePaired(c, r)
	return j, !last && !r.stops(&j, family)
}

func (r Rule) stops(j *Judgement, family int) bool {
	switch j.Verdict {
	case Same:
		return true
	case Faster, Slower:
		return j.P*float64(max(family, 1)) <= r.Gate
	}
	return j.Lo > 0 && math.Log(j.Hi/j.Lo)/2 < r.Narrow
}
