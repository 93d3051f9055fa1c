// Package verdict decides whether one kernel is faster than another, from the
// rounds of a live A/B or, with less to say, from recorded samples.
//
// A round visits three arms: A, B and A', a second copy of A. A round, not a
// launch, is the unit: launches in a row share the clock, the temperature and
// the memory's mood, so thirty of them are not thirty opinions. Everything here
// is about d = log(B/A), one number per round, in which what both arms share
// cancels. lab/notes/verdicts.md is the argument at length, with error rates.
package verdict

import (
	"fmt"
	"math"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// A Round is the times of one interleaved visit to the three arms, each the
// median of a few cold launches, in any one unit.
type Round struct {
	A, B, A2 float64
}

// ok says whether a round can be judged; others are left out.
func (r Round) ok() bool {
	good := func(t float64) bool { return t > 0 && !math.IsInf(t, 1) }
	return good(r.A) && good(r.B) && good(r.A2)
}

func (r Round) times() [3]float64 { return [3]float64{r.A, r.B, r.A2} }

// PairedRounds are the rounds of a problem on which A and B were compared. Step is that of the clock,
// in the unit of the rounds (stats.TimerStep), 0 where it has none.
type PairedRounds struct {
	Problem kernels.Problem
	Rounds  []Round
	Step    float64
}

// A Verdict is on B: FASTER says that B takes less time than A.
type Verdict string

// The verdicts. INCONCLUSIVE is not SAME: it says that nothing was shown.
const (
	Faster       Verdict = "FASTER"
	Slower       Verdict = "SLOWER"
	Same         Verdict = "SAME"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// A Rule says what it takes to be called what. Effects are relative: 0.01 is 1 %.
//
// FASTER and SLOWER need three things:
//
//  1. The interval of the effect, at the level of its look, leaves 1 out, and P
//     is at most Alpha, which is the same but for ties. The order of the arms
//     within a round is random, so of two equal arms chance alone decides which
//     was visited when, whatever the machine did meanwhile; the signed-rank test
//     then errs in at most Alpha of all cells, over all looks. This is a property
//     of the design, not of the noise.
//  2. The estimate lies beyond the band, which is the largest of MinEffect,
//     FloorFactor times the difference that A' shows against A, four fifths of the
//     clock's step, and the distance of the visits' two modes if they have two. If
//     the rounds themselves have two modes, both must lie beyond it, to one side. A
//     real difference of 0.2 % is nobody's business; one that two copies of the
//     same code show is not B's; two readings that are each off by up to half a
//     step are by more than that in 4 % of all pairs; and of two modes, B may
//     have met the slow one more often.
//     The interval is at most three times as wide as the estimate is large (one that
//     leaves 1 out is twice if it lies evenly): of 1.29x within 1.06x to 8.6x the sign
//     may be sure, but a few rounds made the number.
//  3. Where the clock's step is coarser than Resolve, the band is at least the
//     step and the whole interval lies beyond it: medians sharpen a coarse clock,
//     and what is then left does not average out.
//
// A stricter rule would want the whole interval beyond the band in every case. At
// the noise of 10 to 90 us kernels it finds 69 to 93 % of true changes of 2 % in 24
// rounds; this rule finds 97 to 100 %. The first condition already limits wrong
// calls to Alpha. The looser rule may get the size wrong, not the sign: it may call
// a change of 0.8 % one of 1 %. The interval shows the size.
//
// SAME needs the whole interval within MinEffect and a band that nothing
// widened: noise, a coarse clock or a copy of A that differs from A must not
// make it easier to be the same. All else is INCONCLUSIVE, with a reason.
type Rule struct {
	Alpha       float64 // chance that a cell without a change is called FASTER or SLOWER, at most
	Gate        float64 // chance that any of a family of such cells is, in Judgement.Gate
	MinEffect   float64 // effects up to this are of no interest
	FloorFactor float64 // how often the effect exceeds what A' shows
	Resolve     float64 // effect that the plan is made to find; a clock with a coarser step cannot
	Modes       float64 // distance from which two modes count; from MinEffect on they are named
	Narrow      float64 // half width of the interval from which more rounds are not worth it
	Unpaired    float64 // MinEffect where A and B were not interleaved
	Plan        Schedule
}

// Default is the rule of normbench compare.
//
//   - Alpha 0.5 % per cell: a table of 200 cells without a change has one wrong
//     word on average. Gate 5 % per run.
//   - MinEffect 1 %: near-ties within that are the rule and not the exception
//     among tuned configs. Resolve is twice that.
//   - FloorFactor 2: A' is one copy, and the next may differ by more than it did.
//   - Modes 2 %: a change of Resolve must not be the share of slow rounds.
//   - Unpaired 5 %: recordings drift apart by that much and more.
//   - 12 rounds, then 24: see Pocock.
func Default() Rule {
	return Rule{
		Alpha:       0.005,
		Gate:        0.05,
		MinEffect:   0.01,
		FloorFactor: 2,
		Resolve:     0.02,
		Modes:       0.02,
		Narrow:      0.005,
		Unpaired:    0.05,
		Plan:        Pocock(0.005, 12, 24),
	}
}

// A Judgement is the verdict on a cell. Floor, Step and Band are relative.
type Judgement struct {
	Problem kernels.Problem `json:"problem"`
	Rounds  int             `json:"rounds"`         // that counted
	Effect  float64         `json:"effect"`         // B's time over A's; 0 where there are no rounds
	Lo      float64         `json:"lo"`             // its interval at the level of the look;
	Hi      float64         `json:"hi"`             // both 0 where the rounds are too few for one
	P       float64         `json:"p"`              // exact signed-rank, adjusted for the looks
	PHolm   float64         `json:"p_holm"`         // P, adjusted for the number of cells
	Q       float64         `json:"q"`              // Benjamini and Hochberg's of P
	Floor   float64         `json:"floor"`          // what A' shows against A
	Step    float64         `json:"step,omitempty"` // the clock's, over the faster arm's median
	Band    float64         `json:"band"`
	Verdict Verdict         `json:"verdict"`
	Gate    Verdict         `json:"gate"`             // INCONCLUSIVE where PHolm is above Rule.Gate
	Reason  string          `json:"reason,omitempty"` // why it is INCONCLUSIVE

	Modes *Modes      `json:"modes,omitempty"` // where the rounds or the visits have two
	Late  []LateVisit `json:"late,omitempty"`  // visits whose rounds did not count
}

// Judge judges each cell by its own rounds and then corrects for their number:
// P, Verdict and the rest are those of a cell judged alone, PHolm, Q and Gate
// are not. Neither the order of the rounds nor their unit matters.
func Judge(cells []PairedRounds, rule Rule) []Judgement {
	judged := make([]Judgement, len(cells))
	for i, c := range cells {
		judged[i] = judgePaired(c, rule)
	}
	p := make([]float64, len(judged))
	for i := range judged {
		p[i] = judged[i].P
	}
	holm, q := stats.Holm(p), stats.BenjaminiHochberg(p)
	for i := range judged {
		j := &judged[i]
		j.PHolm, j.Q, j.Gate = holm[i], q[i], j.Verdict
		if (j.Verdict == Faster || j.Verdict == Slower) && j.PHolm > rule.Gate {
			j.Gate = Inconclusive
		}
	}
	return judged
}

// An interval is an estimate of a log ratio with its interval, which is infinite where there are
// too few rounds for one.
type interval struct{ est, lo, hi float64 }

func newInterval(logs []float64, level float64) (x interval) {
	x.est, x.lo, x.hi = stats.HodgesLehmann(logs, level)
	return x
}

// moveToRound moves an interval's estimate where no round shows it: the mean of two modes is moved to the
// round beside it that is nearer to no effect. The interval holds the median of d.
func (j *Judgement) moveToRound(x interval, d []float64, rule Rule) interval {
	near := math.Log1p(max(rule.MinEffect, j.Step))
	below, above := math.Inf(-1), math.Inf(1)
	for _, v := range d {
		if v <= x.est {
			below = max(below, v)
		} else {
			above = min(above, v)
		}
	}
	if min(x.est-below, above-x.est) > near {
		x.est = below
		if math.Abs(above) < math.Abs(below) {
			x.est = above
		}
	}
	m := stats.Median(d)
	x.lo, x.hi = min(x.lo, x.est, m), max(x.hi, x.est, m)
	return x
}

// distanceFromZero says how far the interval stays away from 0, negative where it does not.
func (x interval) distanceFromZero() float64 { return max(x.lo, -x.hi) }

// reach says how far from 0 the interval goes.
func (x interval) reach() float64 { return max(-x.lo, x.hi) }

func (x interval) halfWidth() float64 { return (x.hi - x.lo) / 2 }

func judgePaired(c PairedRounds, rule Rule) Judgement {
	var times, logs [3][]float64 // of A, B, A2
	rounds, late := c.countedRounds()
	for _, r := range rounds {
		for k, us := range r.times() {
			times[k], logs[k] = append(times[k], us), append(logs[k], math.Log(us))
		}
	}
	n := len(rounds)
	j := Judgement{Problem: c.Problem, Rounds: n, P: 1, Band: rule.MinEffect, Verdict: Inconclusive,
		Late: late}
	if n == 0 {
		j.Reason = "no rounds"
		return j
	}
	d, alpha := minus(logs[1], logs[0]), rule.Plan.alpha(n)
	j.P = min(1, stats.SignedRank(d)*rule.Plan.totalAlpha()/alpha)
	j.Floor = math.Expm1(math.Abs(newInterval(minus(logs[2], logs[0]), 1).est))
	j.Step = max(0, c.Step) / min(stats.Median(times[0]), stats.Median(times[1]))

	j.Band = max(rule.MinEffect, rule.FloorFactor*j.Floor, 0.8*j.Step)
	if j.Step > rule.Resolve {
		j.Band = max(j.Band, j.Step)
	}
	x := j.moveToRound(newInterval(d, 1-alpha), d, rule)
	j.setEffect(x)
	if math.IsInf(x.lo, -1) {
		j.Reason = fmt.Sprintf("%s, at least %d are needed", countRounds(n), rule.Plan.fewestRoundsAbove(n))
		return j
	}
	j.call(x, logs[:], rule)
	return j
}

// call finds the verdict of a cell with an interval.
func (j *Judgement) call(x interval, logs [][]float64, rule Rule) {
	// A difference of exactly one step is not beyond a band of one; logs round.
	band := math.Log1p(j.Band) * (1 + 1e-9)
	beyond := j.isBeyond(x, band, rule)
	least := max(rule.MinEffect, 1.5*j.Step) // nearer modes are steps of the clock, or of no interest
	d := minus(logs[1], logs[0])
	two := splitRounds(d, 1-rule.Plan.alpha(j.Rounds))
	if apart := two.distance(); apart > least {
		j.Modes = &Modes{Apart: apart, Share: two.share, Rounds: true}
		x, beyond = two.span(x), beyond && two.isBeyond(band)
		j.setEffect(x)
	} else {
		apart, share, cleared := modes(logs)
		if apart > least {
			j.Modes = &Modes{Apart: apart, Share: share}
		}
		if beyond && apart > rule.Modes {
			// The effect must still be there when the modes are taken away: on the same side, beyond
			// the band, and with an interval that leaves out 0. What remains of an effect that comes of
			// one arm's more slow visits is not.
			free := newInterval(minus(cleared[1], cleared[0]), 1-rule.Plan.alpha(j.Rounds))
			free = j.moveToRound(free, d, rule)
			beyond = free.est*x.est > 0 && math.Abs(free.est) > band && free.distanceFromZero() > 0
			if beyond { // the effect is what the modes do not explain
				x = free
				j.setEffect(x)
			}
		}
	}
	switch {
	case beyond && x.est < 0:
		j.Verdict = Faster
	case beyond:
		j.Verdict = Slower
	case j.Band == rule.MinEffect && j.Step <= rule.MinEffect && x.reach() < math.Log1p(rule.MinEffect) &&
		(j.Modes == nil || j.Modes.Apart <= rule.Modes):
		j.Verdict = Same
	case j.Modes != nil:
		j.Reason = j.Modes.String()
	default:
		j.explain(x, rule)
	}
}

// isBeyond says whether the effect is proven and beyond a band.
func (j *Judgement) isBeyond(x interval, band float64, rule Rule) bool {
	if j.Step > rule.Resolve {
		return x.distanceFromZero() > band
	}
	return x.distanceFromZero() > 0 && j.P <= rule.Alpha && math.Abs(x.est) > band &&
		x.halfWidth() < 1.5*math.Abs(x.est)
}

// setEffect sets the effect and its interval.
func (j *Judgement) setEffect(x interval) {
	j.Effect = math.Exp(x.est)
	if !math.IsInf(x.lo, -1) {
		j.Lo, j.Hi = math.Exp(x.lo), math.Exp(x.hi)
	}
}

// explain says why a cell with an interval is INCONCLUSIVE.
func (j *Judgement) explain(x interval, rule Rule) {
	size, half := math.Abs(x.est), x.halfWidth()
	same := math.Log1p(rule.MinEffect)
	// Half widths shrink with the root of the rounds.
	need := func(target float64) int {
		more := (half / target) * (half / target)
		return max(j.Rounds+1, int(math.Ceil(float64(j.Rounds)*min(more, 1e6))))
	}
	widened := fmt.Sprintf("a second copy of A differs from A by %s", percent(j.Floor))
	if j.Step > rule.Resolve || j.Band <= 0.8*j.Step || j.Band == rule.MinEffect {
		widened = fmt.Sprintf("the clock's step is %s of the time", percent(j.Step))
	}
	target := size // half width that would tell
	switch {
	case x.distanceFromZero() > 0 && half >= 1.5*size: // to one side only: some rounds are far from all others
	case x.distanceFromZero() > 0 && j.P > rule.Alpha: // the interval does not know of ties
		j.Reason = fmt.Sprintf("p is %.2g, and %.2g is needed: rounds tie", j.P, rule.Alpha)
		return
	case size > same && (j.Step > rule.Resolve || x.distanceFromZero() > 0):
		j.Reason = widened
		return
	case x.reach() < same: // else it would be the same
		j.Reason = widened
		return
	case size <= same:
		target = same - size
	}
	switch n := need(target); {
	case n <= 10*j.Rounds:
		j.Reason = fmt.Sprintf("noise of ±%s; about %d rounds would tell", percent(half), n)
	case half > same:
		j.Reason = fmt.Sprintf("noise of ±%s", percent(half))
	default:
		j.Reason = fmt.Sprintf("too close to the least effect of %s to tell", percent(rule.MinEffect))
	}
}

func countRounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

func percent(relative float64) string {
	return fmt.Sprintf("%.1f%%", 100*relative)
}

// minus is x-y, rounded so that readings of a clock with a step tie where they
// should: the logs of 51/50 and of 102/100 differ in the last bit.
func minus(x, y []float64) []float64 {
	d := make([]float64, len(x))
	for i := range d {
		d[i] = math.Round((x[i]-y[i])*1e12) / 1e12
	}
	return d
}
