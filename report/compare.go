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
	A     string `json:"a"` // labels
	B     string `json:"b"`
	Rows  []Row  `json:"rows"`  // problems that both sides have
	Kinds []Mean `json:"kinds"` // per kind, in the order of the rows
	// All is the geometric mean over all rows. Its N is 0 where no row has a
	// time on both sides.
	All   Mean `json:"all"`
	Worst *Row `json:"worst,omitempty"` // the row with the lowest speedup
	// Stream is how near each side comes to the stream over the rows; none where
	// no side has a time of it.
	Stream    []StreamScore `json:"stream,omitempty"`
	OneSided  []OneSided    `json:"one_sided,omitempty"` // in the order of the rows
	TieBand   float64       `json:"tie_band"`
	Timer     []string      `json:"timer,omitempty"` // floors and failed checks of selftests
	Notes     []string      `json:"notes,omitempty"` // what stands against comparing the two
	BytesRule string        `json:"bytes_rule"`

	series []picture.Series // of both sides, for plots
	match  *ab.Match        // that it is of, nil for recordings
}

// BytesRule says what GB/s means in every table.
const BytesRule = "GB/s counts compulsory bytes: each input read once, each output written once"

// A Row is a problem that both sides have.
type Row struct {
	Problem kernels.Problem `json:"problem"`
	Kind    string          `json:"kind"`
	Bytes   int64           `json:"bytes"` // compulsory traffic
	A       Value           `json:"a"`
	B       Value           `json:"b"`
	Speedup float64         `json:"speedup,omitempty"` // A's median over B's; 0 where one has none
	// Verdict is on B; "= base" or "= A" where both sides are one variant of one run, so that there is
	// nothing to judge. A row without a time on both sides has none.
	Verdict verdict.Verdict `json:"verdict,omitempty"`
	Paired  *PairedSpeedup  `json:"paired,omitempty"` // where both sides were in one run's rounds

	a, b   Cell               // what A and B are of
	judged *verdict.Judgement // what Paired is of
	why    reason             // of Verdict, where the table has a note of it
	duel   *ab.Result         // of a live compare, with what its second run said
	second *ab.Second
}

// A PairedSpeedup is a speedup over the interleaved rounds of one run, with the interval that its
// verdict rests on (verdict.JudgeRounds); both ends are 0 where the rounds are too few for one.
type PairedSpeedup struct {
	Rounds  int     `json:"rounds"`
	Speedup float64 `json:"speedup"`
	Lo      float64 `json:"lo"`
	Hi      float64 `json:"hi"`
	Reason  string  `json:"reason,omitempty"` // why it is INCONCLUSIVE
}

// A Value is one side of a row.
type Value struct {
	Family        string         `json:"family"`
	Config        kernels.Config `json:"config"`
	Base          bool           `json:"base,omitempty"` // it is what runs untuned
	Status        kernels.Status `json:"status"`
	Reason        string         `json:"reason,omitempty"`
	US            float64        `json:"us,omitempty"`             // median time
	LoUS          float64        `json:"lo_us,omitempty"`          // 95 % interval of the median
	HiUS          float64        `json:"hi_us,omitempty"`          //
	Phase         string         `json:"phase,omitempty"`          // grid, finals or search
	Configs       int            `json:"configs,omitempty"`        // that it is the fastest of
	GBps          float64        `json:"gbps,omitempty"`           // compulsory bytes, 1e9 a second
	StreamPercent float64        `json:"stream_percent,omitempty"` // stream's time over this time
}

// A Mean is the geometric mean of the speedups of some rows. Its interval at 95% draws whole
// shapes, because what moves one cell of a shape moves the others.
type Mean struct {
	Kind    string  `json:"kind,omitempty"`
	N       int     `json:"n"`                 // rows with a speedup
	Shapes  int     `json:"shapes"`            // of these rows
	Speedup float64 `json:"speedup,omitempty"` // 0 where N is
	Lo      float64 `json:"lo,omitempty"`      // 0 of fewer than ten shapes
	Hi      float64 `json:"hi,omitempty"`
	Faster  int     `json:"faster"`
	Same    int     `json:"same"`
	Equal   int     `json:"equal"` // one variant of one run on both sides
	Slower  int     `json:"slower"`
	Unclear int     `json:"unclear"`
	Without int     `json:"without"` // rows without a speedup
}

// A OneSided is a problem that one side lacks.
type OneSided struct {
	Problem kernels.Problem `json:"problem"`
	Kind    string          `json:"kind"`
	Side    string          `json:"side"` // the one that has it, "A" or "B"
	Status  kernels.Status  `json:"status"`
	Reason  string          `json:"reason"`
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
	c := &Comparison{A: a.Label, B: b.Label, Rows: []Row{}, Kinds: []Mean{}, TieBand: TieBand,
		BytesRule: BytesRule, series: pairSeries(a, b)}
	for _, p := range problems {
		x, inA := a.Cells[p]
		y, inB := b.Cells[p]
		switch {
		case !inB:
			c.OneSided = append(c.OneSided, oneSided(p, "A", "B", x))
		case !inA:
			c.OneSided = append(c.OneSided, oneSided(p, "B", "A", y))
		default:
			r := Row{Problem: p, Kind: kind(p), Bytes: cmp.Or(x.Bytes, y.Bytes, p.Bytes()), a: x, b: y}
			r.A, r.B = ValueOf(x, r.Bytes), ValueOf(y, r.Bytes)
			if r.A.US > 0 && r.B.US > 0 {
				r.Speedup = r.A.US / r.B.US
			}
			c.Rows = append(c.Rows, r)
		}
	}
	return c
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
	r.Paired = &PairedSpeedup{Rounds: j.Rounds, Speedup: r.Speedup, Reason: j.Reason}
	if j.Lo > 0 {
		r.Paired.Lo, r.Paired.Hi = 1/j.Hi, 1/j.Lo
	}
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

func oneSided(p kernels.Problem, has, lacks string, c Cell) OneSided {
	o := OneSided{Problem: p, Kind: kind(p), Side: has, Status: c.Status, Reason: "not in " + lacks}
	if c.Status != kernels.StatusOK {
		o.Reason += "; " + string(c.Status) + ": " + c.Reason
	}
	return o
}

// ValueOf is what a table has of a cell whose problem has so many compulsory bytes.
func ValueOf(c Cell, bytes int64) Value {
	v := Value{Family: c.Variant.Family, Config: c.Variant.Config, Base: c.Base, Status: c.Status,
		Reason: c.Reason}
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
		if r.Paired != nil && r.Verdict == verdict.Inconclusive {
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
