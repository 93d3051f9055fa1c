// Package verdict decides whether one kernel is faster than another, from the
// rounds of a live A/B or, with less to say, from recorded samples.
//
// A round visits three arms: A, B and A', a second copy of A. A round, not a
// launch, is the unit: launches in a row share the clock, the temperature and
// the memory's mood, so thirty of them are not thirty opinions. Everything here
// is about d = log(B/A), one number per round, in which what both arms share
// cancels. docs/verdicts.md is the argument at length, with error rates.
package verdict

import (
	"fmt"
	"math"
	"slices"

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

// A Cell is a problem on which A and B were compared. Step is that of the clock,
// in the unit of the rounds (stats.TimerStep), 0 where it has none.
type Cell struct {
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
//     clock's step, and the distance of the visits' two modes if they have two. A
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
	Plan        Plan
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

	Modes *Modes `json:"modes,omitempty"` // where the visits have two
}

// Modes are the two modes of a cell's visits.
type Modes struct {
	Apart float64 `json:"apart"`
	Share float64 `json:"share"` // of the visits in the slower
}

// Judge judges each cell by its own rounds and then corrects for their number:
// P, Verdict and the rest are those of a cell judged alone, PHolm, Q and Gate
// are not. Neither the order of the rounds nor their unit matters.
func Judge(cells []Cell, rule Rule) []Judgement {
	judged := make([]Judgement, len(cells))
	for i, c := range cells {
		judged[i] = judge(c, rule)
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

// away is how far the interval stays away from 0, negative where it does not.
func (x interval) away() float64 { return max(x.lo, -x.hi) }

// within is how far it reaches.
func (x interval) within() float64 { return max(-x.lo, x.hi) }

func (x interval) half() float64 { return (x.hi - x.lo) / 2 }

func judge(c Cell, rule Rule) Judgement {
	var times, logs [3][]float64 // of A, B, A2
	for _, r := range c.Rounds {
		if r.ok() {
			for k, us := range []float64{r.A, r.B, r.A2} {
				times[k], logs[k] = append(times[k], us), append(logs[k], math.Log(us))
			}
		}
	}
	n := len(logs[0])
	j := Judgement{Problem: c.Problem, Rounds: n, P: 1, Band: rule.MinEffect, Verdict: Inconclusive}
	if n == 0 {
		j.Reason = "no rounds"
		return j
	}
	d, alpha := minus(logs[1], logs[0]), rule.Plan.alpha(n)
	x := newInterval(d, 1-alpha)
	j.P = min(1, stats.SignedRank(d)*rule.Plan.total()/alpha)
	j.Floor = math.Expm1(math.Abs(newInterval(minus(logs[2], logs[0]), 1).est))
	j.Step = max(0, c.Step) / min(stats.Median(times[0]), stats.Median(times[1]))

	j.Band = max(rule.MinEffect, rule.FloorFactor*j.Floor, 0.8*j.Step)
	if j.Step > rule.Resolve {
		j.Band = max(j.Band, j.Step)
	}
	j.setEffect(x)
	if math.IsInf(x.lo, -1) {
		j.Reason = fmt.Sprintf("%d rounds, at least %d are needed", n, rule.Plan.least(n))
		return j
	}
	j.call(x, logs[:], rule)
	return j
}

// call finds the verdict of a cell with an interval.
func (j *Judgement) call(x interval, logs [][]float64, rule Rule) {
	// A difference of exactly one step is not beyond a band of one; logs round.
	band := math.Log1p(j.Band) * (1 + 1e-9)
	beyond := j.beyond(x, band, rule)
	apart, share, cleared := modes(logs)
	if apart > max(rule.MinEffect, 1.5*j.Step) { // else it is a step of the clock, or of no interest
		j.Modes = &Modes{Apart: apart, Share: share}
	}
	if beyond && apart > rule.Modes {
		// The effect must still be there when the modes are taken away: on the same side, beyond
		// the band, and with an interval that leaves out 0. What remains of an effect that comes of
		// one arm's more slow visits is not.
		free := newInterval(minus(cleared[1], cleared[0]), 1-rule.Plan.alpha(j.Rounds))
		beyond = free.est*x.est > 0 && math.Abs(free.est) > band && free.away() > 0
		if beyond { // the effect is what the modes do not explain
			x = free
			j.setEffect(x)
		}
	}
	switch {
	case beyond && x.est < 0:
		j.Verdict = Faster
	case beyond:
		j.Verdict = Slower
	case apart <= rule.Modes && j.Band == rule.MinEffect && j.Step <= rule.MinEffect &&
		x.within() < math.Log1p(rule.MinEffect):
		j.Verdict = Same
	case j.Modes != nil:
		j.Reason = fmt.Sprintf("two modes, %s apart, %.0f%% of the visits in the slower",
			percent(apart), 100*share)
	default:
		j.explain(x, rule)
	}
}

// beyond says that the effect is there and beyond a band.
func (j *Judgement) beyond(x interval, band float64, rule Rule) bool {
	if j.Step > rule.Resolve {
		return x.away() > band
	}
	return x.away() > 0 && j.P <= rule.Alpha && math.Abs(x.est) > band &&
		x.half() < 1.5*math.Abs(x.est)
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
	size, half := math.Abs(x.est), x.half()
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
	case x.away() > 0 && half >= 1.5*size: // to one side only: some rounds are far from all others
	case size > same && (j.Step > rule.Resolve || x.away() > 0):
		j.Reason = widened
		return
	case x.within() < same: // else it would be the same
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

// Two modes explain what one does not where the split of the visits in two
// explains this share of their variance and each side has this share of them.
// The best split of a normal distribution explains 64 %, of a uniform one 75 %;
// of 12 to 24 rounds of noise, less than 1 % pass for modes.
const (
	modesExplain = 0.82
	modesShare   = 0.1
)

// modes is the distance of two modes that a cell's visits fall into, and the
// share of the slower one; both are 0 where one mode will do. cleared are the logs of the
// arms with the distance taken off the slower visits.
//
// A kernel with two modes has no one time, and what B seems to differ by is how
// often each arm met the slow one. A wide interquartile range alone does not
// tell modes from noise, and noise the intervals account for. It takes no side: the arms are all
// alike to it.
func modes(logs [][]float64) (apart, share float64, cleared [][]float64) {
	visits := excess(logs)
	apart, share, cut := split(visits)
	cleared = make([][]float64, len(logs))
	for k := range logs {
		cleared[k] = slices.Clone(logs[k])
	}
	for i, v := range visits {
		if v > cut {
			cleared[i%len(logs)][i/len(logs)] -= apart
		}
	}
	return math.Expm1(apart), share, cleared
}

// excess is what each visit takes more than its arm's level and its round's fastest visit explain,
// by round and then by arm: drift and effect are taken away. Of two modes what is left is either
// about zero or about their distance.
func excess(logs [][]float64) (visits []float64) {
	n := len(logs[0])
	free := make([][]float64, len(logs))
	for i := range n {
		mean := 0.0
		for k := range logs {
			mean += logs[k][i] / float64(len(logs))
		}
		for k := range logs {
			free[k] = append(free[k], logs[k][i]-mean)
		}
	}
	for k := range free {
		m := stats.Median(free[k])
		for i := range free[k] {
			free[k][i] -= m
		}
	}
	for i := range n {
		least := math.Inf(1)
		for k := range free {
			least = min(least, free[k][i])
		}
		for k := range free {
			visits = append(visits, free[k][i]-least)
		}
	}
	return visits
}

// split is the distance of the two groups of values whose split at cut explains most of their
// variance (Otsu 1979), and the share of the upper one; 0 and 0 where it does not explain enough.
func split(values []float64) (apart, share, cut float64) {
	u := slices.Sorted(slices.Values(values))
	sum, squares := 0.0, 0.0
	for _, v := range u {
		sum, squares = sum+v, squares+v*v
	}
	all := float64(len(u))
	variance := squares - sum*sum/all
	best, below := 0.0, 0.0
	for i, v := range u[:len(u)-1] {
		below += v
		fast, slow := float64(i+1), all-float64(i+1)
		gap := (sum-below)/slow - below/fast
		if between := fast * slow / all * gap * gap; between > best {
			best, apart, share, cut = between, gap, slow/all, (v+u[i+1])/2
		}
	}
	if !(variance > 0) || best < modesExplain*variance || min(share, 1-share) < modesShare {
		return 0, 0, 0
	}
	return apart, share, cut
}
