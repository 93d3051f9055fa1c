package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A Cause is what made times move.
type Cause string

// The causes.
const (
	Machine Cause = "machine"         // all arms moved alike
	Memory  Cause = "memory or clock" // the stream moved, and no kernel did
	Peer    Cause = "peer"            // another library's kernels alone
	Kernel  Cause = "kernel"          // ours, relative to the stream
	Noise   Cause = "noise"           // two copies of one kernel differ more than before
	Method  Cause = "method"          // the protocol is another: times do not compare
	Unknown Cause = "unknown"         // too few rounds to say
)

// A Movement is something that moved between two commits.
type Movement struct {
	Device   string
	Previous string // the commit before it that was measured; "" for none
	Commit   string
	Time     time.Time
	Place    int // of its point in the series
	Cause    Cause
	Arms     []string // that moved
	Change   float64  // of their time: 0.03 is 3% slower; NaN where it is no change of time
	// Kinds are where it moved, none where all moved; Problems are there where it is not whole kinds.
	Kinds    []string
	Problems []kernels.Problem
	Note     string // what else changed there
}

// Thresholds say what counts as moved.
type Thresholds struct {
	Window   int     // points before it that a point is compared with
	Settled  int     // of which so many show what the machine does by itself
	Rounds   int     // fewer on a cell say nothing
	Cells    int     // fewer of them do not show how far others go
	Factor   float64 // how many standard errors are no noise
	Farthest float64 // how often the farthest that a settled past went by itself is no noise
	Least    float64 // changes up to this are of no interest
	Unproven float64 // the same, with fewer points than Settled
	Single   float64 // the same, of a single problem
	NoiseUp  float64 // so many times the noise of before is noise
}

// DefaultRule returns the rule of normbench history. TestCausesAreNamedAtTheirErrorRates holds its error rates.
//
//   - Window 8: so that a drift is seen over two months of weekly runs.
//   - Factor 5: a point has some 20 arms of kinds that could move. Least 0.5%: half of the least change that is
//     to be found.
//   - Unproven is what recordings drift apart by (verdict.Rule.Unpaired).
func DefaultRule() Thresholds {
	return Thresholds{Window: 8, Settled: 5, Rounds: 10, Cells: 8, Factor: 5, Farthest: 2.5, Least: 0.005, Unproven: verdict.Default().Unpaired,
		Single: 0.04, NoiseUp: 3}
}

// Find finds what moved in a series, the oldest first.
func (r Thresholds) Find(s *DeviceHistory) (events []Movement) {
	t := newTrace(s)
	for i := range s.Points {
		events = append(events, r.findAt(t, i)...)
	}
	return events
}

// A trace is a series as logarithms of times, which events shift, so that a point is compared with what was
// expected of it after all that is known.
type trace struct {
	*DeviceHistory
	problems []kernels.Problem // of all points, in order
	kinds    []string          // of each problem
	arms     []string          // of all points; the first is the stream
	logs     [][][]float64     // by point, arm and problem; NaN for what was not measured
	unclear  []bool            // points that say nothing
}

func newTrace(s *DeviceHistory) *trace {
	t := &trace{DeviceHistory: s, unclear: make([]bool, len(s.Points))}
	problems, arms := map[kernels.Problem]bool{}, map[string]bool{}
	for _, p := range s.Points {
		for k, c := range p.Cells {
			problems[k] = true
			for arm := range c.US {
				arms[arm] = true
			}
		}
	}
	delete(arms, Stream)
	t.problems = slices.SortedFunc(maps.Keys(problems), record.CompareProblems)
	t.arms = append([]string{Stream}, slices.Sorted(maps.Keys(arms))...)
	for _, p := range t.problems {
		t.kinds = append(t.kinds, KindOf(p))
	}
	for _, p := range s.Points {
		logs := make([][]float64, len(t.arms))
		for a, arm := range t.arms {
			logs[a] = make([]float64, len(t.problems))
			for k, problem := range t.problems {
				logs[a][k] = math.NaN()
				if c := p.Cells[problem]; c != nil && c.US[arm] > 0 {
					logs[a][k] = math.Log(c.US[arm])
				}
			}
		}
		t.logs = append(t.logs, logs)
	}
	return t
}

// window lists the points that point i is compared with, the oldest first: the last ones that have a problem
// of it. changed is the protocol of the last of them where it is another; then none of them compares.
func (t *trace) window(i, most int) (list []int, changed *record.Protocol) {
	p := t.Points[i]
	for j := i - 1; j >= 0 && len(list) < most; j-- {
		shares := false
		for k := range p.Cells {
			if shares = t.Points[j].Cells[k] != nil; shares {
				break
			}
		}
		switch {
		case !shares:
		case t.Points[j].Protocol != p.Protocol:
			if len(list) == 0 && changed == nil {
				changed = &t.Points[j].Protocol
			}
		case !t.unclear[j]:
			list = append(list, j)
		}
	}
	slices.Reverse(list)
	return list, changed
}

// findAt finds what moved at a point.
func (r Thresholds) findAt(t *trace, i int) (events []Movement) {
	p := t.Points[i]
	event := func(c Cause, arms []string, change float64, note string) Movement {
		e := Movement{Device: t.Device, Commit: p.Commit, Time: p.Time, Place: i, Cause: c, Arms: arms, Change: change, Note: note}
		if i > 0 {
			e.Previous = t.Points[i-1].Commit
		}
		return e
	}
	if n := p.rounds(); n < float64(r.Rounds) {
		t.unclear[i] = true
		return []Movement{event(Unknown, nil, math.NaN(), fmt.Sprintf("%g rounds, and %d are needed", n, r.Rounds))}
	}
	window, changed := t.window(i, r.Window)
	if why, noisy := r.isNoisy(t, i, window); noisy {
		t.unclear[i] = true
		return []Movement{event(Noise, nil, math.NaN(), why)}
	}
	if changed != nil {
		return []Movement{event(Method, nil, math.NaN(), methodNote(*changed, p.Protocol))}
	}
	if len(window) == 0 {
		return nil
	}
	note := environmentNote(t.Points[window[len(window)-1]], p)
	c := r.compare(t, i, window)
	for _, m := range c.moves() {
		e := event(m.cause, m.arms, math.Expm1(m.shift), note)
		e.Kinds = m.kinds
		for _, k := range m.singles {
			e.Problems = append(e.Problems, t.problems[k])
		}
		events = append(events, e)
		t.shift(i, m)
	}
	return events
}

// shift has all points before i look as if they had moved already.
func (t *trace) shift(i int, m move) {
	for _, logs := range t.logs[:i] {
		for _, arm := range m.arms {
			a := slices.Index(t.arms, arm)
			for k, by := range m.by {
				logs[a][k] += by
			}
		}
	}
}

// isNoisy says whether two copies of one kernel differ at a point by more than they did, and how.
func (r Thresholds) isNoisy(t *trace, i int, window []int) (why string, noisy bool) {
	now := t.Points[i].again()
	var before []float64
	for _, j := range window {
		before = append(before, t.Points[j].again()...)
	}
	if len(now) < r.Cells {
		return "", false
	}
	shift, spread, usual := stats.Median(now), scale(now, 0), 0.0
	if len(before) >= r.Cells {
		usual = scale(before, 0)
	}
	if limit := max(r.Factor*medianError(max(usual, spread), len(now)), r.Least); math.Abs(shift) > limit {
		return fmt.Sprintf("a second copy of one kernel took %+.1f%%", 100*math.Expm1(shift)), true
	}
	// The error of a median deviation is about this share of it.
	up := max(r.NoiseUp, 1+r.Factor*1.17/math.Sqrt(float64(len(now))))
	if usual > 0 && spread > max(up*usual, r.Least) {
		return fmt.Sprintf("two copies of one kernel differ by %.1f%%, and by %.1f%% before", 100*spread, 100*usual), true
	}
	return "", false
}

// scale returns a robust standard deviation of values around a center.
func scale(values []float64, center float64) float64 {
	const normal = 1.4826 // of the median absolute deviation
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - center)
	}
	return normal * median(away)
}

// median returns that of values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

// medianError returns the standard error of a median of n values.
func medianError(sd float64, n int) float64 {
	if n < 3 { // the mean
		return sd / math.Sqrt(float64(n))
	}
	return sd * math.Sqrt(math.Pi/2/float64(n))
}

// methodNote says what differs between two protocols.
func methodNote(was, now record.Protocol) string {
	var parts []string
	add := func(name string, was, now any) {
		if was != now {
			parts = append(parts, fmt.Sprintf("%s %v, was %v", name, now, was))
		}
	}
	add("protocol", was.Name, now.Name)
	add("cache", was.Cache(), now.Cache())
	add("samples", was.Samples, now.Samples)
	add("discarded samples", was.Discard, now.Discard)
	add("flush", was.Flush, now.Flush)
	add("version of the inputs", max(was.Inputs, 1), max(now.Inputs, 1))
	return strings.Join(parts, ", ")
}

// environmentNote says what else a point differs in from the one before.
func environmentNote(was, now *Observation) string {
	var parts []string
	a, b := was.Runs[len(was.Runs)-1], now.Runs[0]
	for _, x := range []struct{ name, was, now string }{{"driver", a.Driver, b.Driver},
		{"compiler", a.Compiler, b.Compiler}} {
		if x.was != x.now {
			parts = append(parts, fmt.Sprintf("%s %s, was %s", x.name, cmp.Or(x.now, "unknown"), cmp.Or(x.was, "unknown")))
		}
	}
	if a.UUID != b.UUID {
		parts = append(parts, "another card")
	}
	return strings.Join(parts, ", ")
}
