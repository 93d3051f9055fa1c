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
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// TieBand is how far from 1 a speedup must be to be called one where both sides
// come from one run, or from no samples at all. Medians of two measurements of
// the same code in one run differ by up to about that much. Two runs may differ
// by more: see verdict.Rule.Unpaired.
const TieBand = 0.02

// A Side is one operand of a comparison.
type Side struct {
	Label string // "base", a file name, FAMILY@LABEL
	Cells map[kernels.Problem]Cell
}

// A Cell is what one side has for a problem: an entry of records, or what another file has of one.
// Its times mean something only where its status is ok.
type Cell struct {
	record.Entry
	Configs int // recorded ok, of which this is the fastest; 0 without a choice
}

// run is the run that measured the cell, an empty one where it is not known.
func (c Cell) run() *record.Run {
	if c.Run == nil {
		return &record.Run{}
	}
	return c.Run
}

// A Comparison is two sides, row by row. B is judged against A: a speedup above
// 1 says that B is faster.
type Comparison struct {
	A, B  string // labels
	Rows  []Row  // problems that both sides have
	Kinds []Mean // per kind, in the order of the rows
	// All is the geometric mean over all rows. Its N is 0 where no row has a
	// time on both sides.
	All   Mean
	Worst *Row // the row with the lowest speedup
	// Stream is how near each side comes to the stream over the rows; none where
	// no side has a time of it.
	Stream   []StreamScore
	OneSided []Row    // problems that one side lacks, in the order of the rows
	Timer    []string // floors and failed checks of selftests
	Notes    []string // what stands against comparing the two

	series []picture.Series // of both sides, for plots
	match  *ab.Match        // that it is of, nil for recordings
}

// BytesRule says what GB/s means in every table.
const BytesRule = "GB/s counts compulsory bytes: each input read once, each output written once"

// A Row is a problem that a side has.
type Row struct {
	Problem kernels.Problem
	Kind    string
	Bytes   int64   // compulsory traffic
	A, B    Value   // of a side that lacks the problem, the status Missing alone
	Speedup float64 // A's median over B's, or by the rounds; 0 where one has none
	// Verdict is on B; "= base" or "= A" where both sides are one variant of one run, so that there is
	// nothing to judge. A row without a time on both sides has none.
	Verdict verdict.Verdict

	a, b   Cell               // what A and B are of
	judged *verdict.Judgement // where both sides were in one run's rounds
	why    reason             // of Verdict, where the table has a note of it
	duel   *ab.Result         // of a live compare, with what its second run said
	second *ab.Second
}

// A Value is one side of a row.
type Value struct {
	Family        string
	Config        kernels.Config
	Status        kernels.Status
	Reason        string
	US            float64 // median time
	LoUS, HiUS    float64 // 95 % interval of the median
	Phase         string  // grid, finals or search
	Configs       int     // that it is the fastest of
	GBps          float64 // compulsory bytes, 1e9 a second
	StreamPercent float64 // stream's time over this time
}

// Missing is the status of a side that lacks a problem.
const Missing kernels.Status = "missing"

// A Mean is the geometric mean of the speedups of some rows. Its interval at 95% draws whole
// shapes, because what moves one cell of a shape moves the others.
type Mean struct {
	Kind    string
	N       int     // rows with a speedup
	Shapes  int     // of these rows
	Speedup float64 // 0 where N is
	Lo, Hi  float64 // 0 of fewer than ten shapes

	Faster, Same, Slower, Unclear int
	Equal                         int // one variant of one run on both sides
	Without                       int // rows without a speedup
}

// Compare pairs two sides by problem, and judges them.
func Compare(a, b Side) *Comparison {
	c := newComparison(a, b, problems(a, b))
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Speedup > 0 {
			r.judge()
		}
	}
	c.Notes = slices.Concat(coverage(c), differences(a, b))
	c.summarize(a, b)
	return c
}

// newComparison has a row for each of the problems that both sides have.
func newComparison(a, b Side, problems []kernels.Problem) *Comparison {
	c := &Comparison{A: a.Label, B: b.Label, series: pairSeries(a, b)}
	for _, p := range problems {
		x, inA := a.Cells[p]
		y, inB := b.Cells[p]
		r := Row{Problem: p, Kind: kind(p), Bytes: cmp.Or(x.Bytes, y.Bytes, p.Bytes()), a: x, b: y}
		switch {
		case !inB:
			r.A, r.B = alone(x, "B"), Value{Status: Missing}
			c.OneSided = append(c.OneSided, r)
		case !inA:
			r.A, r.B = Value{Status: Missing}, alone(y, "A")
			c.OneSided = append(c.OneSided, r)
		default:
			r.A, r.B = ValueOf(x, r.Bytes), ValueOf(y, r.Bytes)
			if r.A.US > 0 && r.B.US > 0 {
				r.Speedup = r.A.US / r.B.US
			}
			c.Rows = append(c.Rows, r)
		}
	}
	return c
}

// alone is a side of a problem that the other side lacks.
func alone(c Cell, lacks string) Value {
	v := Value{Status: c.Status, Reason: "not in " + lacks}
	if c.Status != kernels.StatusOK {
		v.Reason += "; " + string(c.Status) + ": " + c.Reason
	}
	return v
}

// judge judges a row of two times: by the rounds that both sides share, else by their medians. One
// variant of one run on both sides needs neither.
func (r *Row) judge() {
	a, b := r.a, r.b
	oneRun := a.run().ID != "" && a.run().ID == b.run().ID
	x, y := a.Finals(), b.Finals()
	r.Verdict = verdict.Inconclusive
	switch {
	case oneRun && a.Variant == b.Variant:
		r.Verdict, r.Speedup = "= A", 1
		if a.Base || b.Base {
			r.Verdict = "= base"
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
	case r.isSearch():
		r.why = whySearch
	default:
		r.judgeMedians(oneRun)
	}
}

// alike says that both sides are one variant of one run.
func (r *Row) alike() bool { return strings.HasPrefix(string(r.Verdict), "=") }

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

// judgeMedians judges a row by the medians of both sides and their intervals, which a few samples
// do not have.
func (r *Row) judgeMedians(oneRun bool) {
	rule := verdict.Default()
	least := rule.Unpaired
	if oneRun || len(r.a.SamplesUS) == 0 || len(r.b.SamplesUS) == 0 {
		least = TieBand
	}
	band, ok := widenBand(rule.RecordedBand(least, r.a.StreamUS, r.b.StreamUS), r.a, r.b)
	switch few := func(c Cell) bool { return len(c.SamplesUS) > 0 && c.Lo == 0 }; {
	case !ok:
		r.why = whyFloor
	case !few(r.a) && !few(r.b):
		r.Verdict = verdict.JudgeMedians(r.a.Summary, r.b.Summary, least, band)
	}
}

// problems are those of all sides, in the order of tables.
func problems(sides ...Side) []kernels.Problem {
	seen := map[kernels.Problem]bool{}
	for _, s := range sides {
		for p := range s.Cells {
			seen[p] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), record.CompareProblems)
}

// summarize adds what all rows say together.
func (c *Comparison) summarize(a, b Side) {
	c.Timer = timer(a, b)
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Speedup > 0 && (c.Worst == nil || r.Speedup < c.Worst.Speedup) {
			c.Worst = r
		}
	}
	for kind, rows := range byKind(c.Rows, func(r Row) string { return r.Kind }) {
		c.Kinds = append(c.Kinds, newMean(kind, rows))
	}
	c.All = newMean("", c.Rows)
	both := []Side{{Cells: map[kernels.Problem]Cell{}}, {Cells: map[kernels.Problem]Cell{}}}
	for _, r := range c.Rows { // on the same problems
		both[0].Cells[r.Problem], both[1].Cells[r.Problem] = r.a, r.b
	}
	scores := StreamScores(both...)
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

// ValueOf is what a table has of a cell whose problem has so many compulsory bytes.
func ValueOf(c Cell, bytes int64) Value {
	v := Value{Family: c.Variant.Family, Config: c.Variant.Config, Status: c.Status, Reason: c.Reason}
	if c.Status != kernels.StatusOK || !(c.Median > 0) || math.IsInf(c.Median, 0) {
		return v
	}
	v.US, v.LoUS, v.HiUS = c.Median, c.Lo, c.Hi
	if v.Configs = c.Configs; c.Configs > 0 {
		v.Phase = phaseName(c.run().Protocol.Phase)
	}
	v.GBps = float64(bytes) / (c.Median * 1e3)
	if c.StreamUS > 0 {
		v.StreamPercent = 100 * c.StreamUS / c.Median
	}
	return v
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
		case r.alike():
			m.Equal++
		case r.Verdict == verdict.Faster:
			m.Faster++
		case r.Verdict == verdict.Slower:
			m.Slower++
		case r.Verdict == verdict.Same:
			m.Same++
		case r.Verdict != "":
			m.Unclear++
		}
		if r.Speedup == 0 {
			continue
		}
		gain := math.Log(r.Speedup)
		if r.judged != nil && r.Verdict == verdict.Inconclusive {
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

// kind is the short name of what is computed: "rms bwd", "ln fwd +bias".
func kind(p kernels.Problem) string {
	k := cmp.Or(p.Op.Spec().Short, string(p.Op)) + " " + string(p.Pass)
	for _, o := range p.Options() {
		k += " +" + o
	}
	return k
}

// dtypes is the dtype, with the weight's where it is another.
func dtypes(p kernels.Problem) string {
	if p.Weight != p.DType {
		return p.DType.String() + "-w" + p.Weight.String()
	}
	return p.DType.String()
}

// name is a problem in the words of the table.
func name(p kernels.Problem) string {
	return strings.Join([]string{kind(p), dtypes(p), fmt.Sprintf("%dx%d", p.M, p.N)}, " ")
}
