// Package report compares sets of measurements with each other and with the
// stream, and renders tables, plots and a page.
package report

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/sweep/models"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// TieBand is how far from 1 a speedup must be to be called one where a side has a median and no
// samples. Medians of two measurements of the same code in one run differ by up to about that much.
// Two runs may differ by more: see verdict.Rule.Unpaired.
const TieBand = 0.02

// A Side is one operand of a comparison.
type Side struct {
	Label string // "base", a file name, FAMILY@LABEL
	// Records is the file that the cells were read from, "" where it is not known. Two sides of one
	// file are two choices from one recording.
	Records string
	Cells   map[kernels.Problem]Measurement
	// Ahead is what FasterThanBase finds of problems whose cell is the base.
	Ahead map[kernels.Problem]Measurement
}

// A Measurement is what one side has for a problem: an entry of records, or an entry of a tuned table. Its
// times mean something only where its status is ok.
type Measurement struct {
	record.Outcome
	Configs int // recorded ok, of which this is the fastest; 0 without a choice
}

// run is the run that measured the cell, an empty one where it is not known.
func (c Measurement) run() *record.Run {
	if c.Run == nil {
		return &record.Run{}
	}
	return c.Run
}

// A Comparison is two sides, row by row. B is judged against A: a speedup above
// 1 says that B is faster.
type Comparison struct {
	A, B string // labels
	// Device is what both were measured on, where a report has several; "" for one.
	Device string
	Rows   []Row  // problems that both sides have
	Kinds  []Mean // per kind, in the order of the rows
	// All is the geometric mean over all rows. Its N is 0 where no row has a
	// time on both sides.
	All   Mean
	Worst *Row // the row with the lowest speedup
	// Stream is how near each side comes to the stream over the rows; none where
	// no side has a time of it.
	Stream   []StreamScore
	OneSided []Row         // problems that one side lacks, in the order of the rows
	Timer    []string      // floors and failed checks of selftests
	Notes    []string      // what stands against comparing the two
	Next     string        // what to do next, for the last line; "" for nothing
	Runs     []*record.Run // that measured them

	steps  []models.Step    // in which the rows are worth something
	series []picture.Series // of both sides, for plots
	beside *Comparison      // of what was measured beside both with B; nil for nothing
	live   *LiveFile        // that it is of, nil for recordings
}

// BytesRule says what GB/s means in every table.
const BytesRule = "GB/s counts compulsory bytes: each input read once, each output written once"

// A Row is a problem that a side has.
type Row struct {
	Problem kernels.Problem
	Kind    string
	Bytes   int64       // compulsory traffic
	A, B    Measurement // of a side that lacks the problem, the status Missing alone
	Speedup float64     // A's median over B's, or by the rounds; 0 where one has none
	// Verdict is on B; "= base" or "= A" where both sides are one variant of one run, so that there is
	// nothing to judge; NotPaired where one recording has no rounds of both. A row without a time on
	// both sides has none.
	Verdict verdict.Verdict
	// FasterThanBase finds the fastest other variant of the run, where B is the base because nothing proved
	// that one faster; without a status where there is none.
	Unproven Measurement

	judged *verdict.Judgement // where both sides were in one run's rounds
	why    string             // Verdict is this, where the table has a note of it
	duel   *ab.DuelResult     // of a live compare, with what its second run said
	second *ab.Confirmation
}

// NotPaired is in place of a verdict where both sides are of one recording that has no rounds of
// the two: B was chosen among others by the same times, and what drifted between its visits and A's
// is part of their ratio.
const NotPaired verdict.Verdict = "not paired"

// equalBase is in place of a verdict where both sides are the base of one run.
const equalBase verdict.Verdict = "= base"

// Missing is the status of a side that lacks a problem.
const Missing kernels.Status = "missing"

var missing = Measurement{Outcome: record.Outcome{Status: Missing}}

// A Mean is the geometric mean of the speedups of some rows. Its interval at 95% draws whole
// shapes, because what moves one cell of a shape moves the others.
type Mean struct {
	Kind    string
	N       int     // rows with a speedup
	Shapes  int     // of these rows
	Speedup float64 // 0 where N is
	Lo, Hi  float64 // 0 of fewer than ten shapes

	Faster, Same, Slower, Unclear int
	Unpaired                      int // NotPaired
	Equal                         int // one variant of one run on both sides
	Without                       int // rows without a speedup
}

// Compare pairs two sides by problem, and judges them.
func Compare(a, b Side) *Comparison {
	all := map[kernels.Problem]bool{}
	for _, s := range []Side{a, b} {
		for p := range s.Cells {
			all[p] = true
		}
	}
	c := newComparison(a, b, slices.SortedFunc(maps.Keys(all), record.CompareProblems))
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Speedup > 0 {
			r.setVerdict(a.Records != "" && a.Records == b.Records)
			if r.Verdict == equalBase {
				r.Unproven = b.Ahead[r.Problem]
			}
		}
	}
	c.Notes = slices.Concat(coverage(c), differences(a.runs(), b.runs()))
	c.Runs = distinct(append(a.runs(), b.runs()...))
	c.summarize(a, b)
	return c
}

// newComparison has a row for each of the problems that both sides have.
func newComparison(a, b Side, problems []kernels.Problem) *Comparison {
	c := &Comparison{A: a.Label, B: b.Label, series: pairSeries(a, b)}
	for _, p := range problems {
		x, inA := a.Cells[p]
		y, inB := b.Cells[p]
		r := Row{Problem: p, Kind: kind(p), Bytes: cmp.Or(x.Bytes, y.Bytes, p.Bytes()), A: x, B: y}
		r.A.Bytes, r.B.Bytes = r.Bytes, r.Bytes
		switch {
		case !inB:
			r.A, r.B = missingSide(x, "B"), missing
			c.OneSided = append(c.OneSided, r)
		case !inA:
			r.A, r.B = missing, missingSide(y, "A")
			c.OneSided = append(c.OneSided, r)
		default:
			if r.A.medianUS() > 0 && r.B.medianUS() > 0 {
				r.Speedup = r.A.medianUS() / r.B.medianUS()
			}
			c.Rows = append(c.Rows, r)
		}
	}
	return c
}

// missingSide makes a side of a problem that only the other side has.
func missingSide(c Measurement, lacks string) Measurement {
	reason := "not in " + lacks
	if c.Status != kernels.StatusOK {
		reason += "; " + string(c.Status) + ": " + c.Reason
	}
	return Measurement{Outcome: record.Outcome{Status: c.Status, Reason: reason}}
}

// setVerdict judges a row of two times: by the rounds that both sides share, else by their medians if
// they are of two recordings. One variant of one run on both sides needs neither. Of one recording
// oneFile says that both sides are.
func (r *Row) setVerdict(oneFile bool) {
	a, b := r.A, r.B
	oneRun := a.run().ID != "" && a.run().ID == b.run().ID
	x, y := a.Finals(), b.Finals()
	r.Verdict = verdict.Inconclusive
	switch {
	case oneRun && a.Variant == b.Variant:
		r.Verdict, r.Speedup = "= A", 1
		if a.Base || b.Base {
			r.Verdict = equalBase
		}
		if x.Of == 1 {
			r.why = whyAlone
		}
	case oneRun && len(x.Rounds) > 0 && len(x.Rounds) == len(y.Rounds):
		turned := len(x.BaseAgain) == 0 // only the base has a second copy, and it may be B
		if turned {
			x, y = y, x
		}
		step := stats.TimerStep(slices.Concat(a.SamplesUS, b.SamplesUS))
		j := verdict.JudgeRounds(x.Rounds, y.Rounds, x.BaseAgain, step, max(x.Of, y.Of)-1)
		if turned {
			j = j.Reverse()
		}
		r.setPaired(j)
	case slices.ContainsFunc([]Measurement{a, b},
		func(c Measurement) bool { return c.run().Protocol.Phase == record.PhaseSearch }):
		// A search keeps the fastest of many configs, each seen a few times, which is no result.
		r.why = whySearch
	case oneFile || oneInvocation(a, b):
		r.Verdict = NotPaired
	default:
		r.setVerdictByMedians()
	}
}

// FasterThanBase finds the fastest of a problem's variants whose median is ahead of the base's by more than
// verdict.Rule's least effect, where the base was picked all the same; nil for none. A base of finals
// is held against the others of the same finals.
func FasterThanBase(variants []*record.Outcome, picked kernels.Variant) (fastest *record.Outcome) {
	var base *record.Outcome
	for _, x := range variants {
		if x.Base && x.Variant == picked {
			base = x
		}
	}
	if base == nil {
		return nil
	}
	least := base.Median / (1 + verdict.Default().MinEffect)
	for _, x := range variants {
		alike := x.Rivals() && (x.Final == nil) == (base.Final == nil) && (x.Final == nil || x.Run == base.Run)
		if alike && x.Status == kernels.StatusOK && x.Median > 0 && x.Median < least {
			least, fastest = x.Median, x
		}
	}
	return fastest
}

// isOneVariant says whether both sides are one variant of one run.
func (r *Row) isOneVariant() bool { return strings.HasPrefix(string(r.Verdict), "=") }

// setPaired makes a verdict on rounds of both sides that of the row.
func (r *Row) setPaired(j verdict.Judgement) {
	if j.Effect == 0 {
		return
	}
	r.judged, r.Verdict, r.Speedup = &j, j.Verdict, 1/j.Effect
}

// interval is what the verdict on rounds rests on (verdict.JudgeRounds), 0 and 0 where there are
// none, or too few for one.
func (r *Row) interval() (lo, hi float64) {
	if r.judged == nil || r.judged.Lo == 0 {
		return 0, 0
	}
	return 1 / r.judged.Hi, 1 / r.judged.Lo
}

// setVerdictByMedians judges a row of two recordings by the medians of both sides and their intervals,
// which a few samples do not have.
func (r *Row) setVerdictByMedians() {
	rule := verdict.Default()
	least := rule.Unpaired
	if len(r.A.SamplesUS) == 0 || len(r.B.SamplesUS) == 0 {
		least = TieBand
	}
	band, ok := widenBand(rule.RecordedBand(least, r.A.StreamUS, r.B.StreamUS), r.A, r.B)
	switch few := func(c Measurement) bool { return len(c.SamplesUS) > 0 && c.Lo == 0 }; {
	case !ok:
		r.why = whyFloor
	case !few(r.A) && !few(r.B):
		r.Verdict = verdict.JudgeMedians(r.A.Summary, r.B.Summary, least, band)
	}
}

// sortedRows are the rows in the order of problems, which a live compare's need not have.
func (c *Comparison) sortedRows() []Row {
	return slices.SortedStableFunc(slices.Values(c.Rows),
		func(x, y Row) int { return record.CompareProblems(x.Problem, y.Problem) })
}

// summarize adds what all rows say together.
func (c *Comparison) summarize(a, b Side) {
	c.Timer = Timer(a.runs(), b.runs())
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Speedup > 0 && (c.Worst == nil || r.Speedup < c.Worst.Speedup) {
			c.Worst = r
		}
	}
	for kind, rows := range byKind(c.Rows, func(r Row) string { return r.Kind }) {
		c.Kinds = append(c.Kinds, newMean(kind, rows))
	}
	c.All = newMean("", c.Rows)
	scores := streamScores(c.sortedRows())
	if slices.ContainsFunc(scores, func(s StreamScore) bool { return s.N > 0 }) {
		c.Stream = scores
	}
}

// byKind are the parts of a list that are of one kind, in the order of their first.
func byKind[T any](list []T, kind func(T) string) iter.Seq2[string, []T] {
	return func(yield func(string, []T) bool) {
		var kinds []string
		parts := map[string][]T{}
		for _, x := range list {
			k := kind(x)
			if parts[k] == nil {
				kinds = append(kinds, k)
			}
			parts[k] = append(parts[k], x)
		}
		for _, k := range kinds {
			if !yield(k, parts[k]) {
				return
			}
		}
	}
}

// medianUS returns the median time, 0 where there is none.
func (c Measurement) medianUS() float64 {
	if c.Status != kernels.StatusOK || !(c.Median > 0) {
		return 0
	}
	return c.Median
}

// gbps is the rate of compulsory bytes, 1e9 a second; 0 where it is not known.
func (c Measurement) gbps() float64 { return c.perTime(float64(c.Bytes) / 1e3) }

// streamPercent is the stream's time over the cell's; 0 where one of them is not known.
func (c Measurement) streamPercent() float64 { return c.perTime(100 * c.StreamUS) }

func (c Measurement) perTime(x float64) float64 {
	if c.medianUS() == 0 {
		return 0
	}
	return x / c.Median
}

// honestShapes are the fewest from which the interval of a mean is not too narrow: see
// stats.GeoMeanCI.
const honestShapes = 10

func newMean(kind string, rows []Row) Mean {
	m := Mean{Kind: kind}
	var problems []kernels.Problem
	var logs []float64
	for _, r := range rows {
		switch {
		case r.isOneVariant():
			m.Equal++
		case r.Verdict == verdict.Faster:
			m.Faster++
		case r.Verdict == verdict.Slower:
			m.Slower++
		case r.Verdict == verdict.Same:
			m.Same++
		case r.Verdict == NotPaired:
			m.Unpaired++
		case r.Verdict != "":
			m.Unclear++
		}
		if r.Speedup == 0 {
			continue
		}
		gain := math.Log(r.Speedup)
		if r.judged != nil && r.Verdict == verdict.Inconclusive || r.Verdict == NotPaired {
			gain = 0 // nothing was shown
		}
		problems, logs = append(problems, r.Problem), append(logs, gain)
	}
	if m.N, m.Without = len(logs), len(rows)-len(logs); m.N > 0 {
		m.Shapes, m.Speedup, m.Lo, m.Hi = verdict.Mean(problems, logs)
	}
	if m.Shapes < honestShapes {
		m.Lo, m.Hi = 0, 0
	}
	return m
}

// kind returns a problem's text without its shape and types: "rmsnorm/bwd", "layernorm/fwd+bias".
func kind(p kernels.Problem) string {
	return strings.Join(append([]string{string(p.Op) + "/" + string(p.Pass)}, p.Options()...), "+")
}

// dtypes is the dtype, with the weight's where it is another.
func dtypes(p kernels.Problem) string {
	if p.Weight != p.DType {
		return p.DType.String() + "-w" + p.Weight.String()
	}
	return p.DType.String()
}

// shape is the rows and columns of a problem.
func shape(p kernels.Problem) string { return fmt.Sprintf("%dx%d", p.M, p.N) }

// withoutShape returns a problem's text without its shape, "layernorm/fwd/bf16+bias".
func withoutShape(p kernels.Problem) string { return strings.Replace(p.String(), shape(p)+"/", "", 1) }
