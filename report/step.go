package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/models"
)

// A stepCall is a norm of a step.
type stepCall struct {
	step string
	models.Call
}

// StepTable has a row for each norm of some steps.
func StepTable(steps []models.Step) *Table {
	var rows []stepCall
	for _, s := range steps {
		for _, c := range s.Calls {
			rows = append(rows, stepCall{s.Name, c})
		}
	}
	list := []Column[stepCall]{
		{Head: "norm", Name: "norm", Value: func(c stepCall) any { return c.Norm }},
		{Head: "calls", Name: "calls", Value: func(c stepCall) any { return c.Count }},
	}
	heads := []string{"problem"}
	if len(steps) > 1 {
		list = append([]Column[stepCall]{{Head: "step", Name: "step",
			Value: func(c stepCall) any { return c.step }}}, list...)
	}
	list = append(list, ProblemColumns(func(c stepCall) (kernels.Problem, int64) {
		return c.Problem, c.Problem.Bytes()
	}, heads...)...)
	title := ""
	if len(steps) == 1 {
		title = "norms of a step of " + steps[0].Name
	}
	t := NewTable(title, rows, list)
	t.Notes = append(t.Notes, leftOut(steps)...)
	return t
}

// leftOut says which parts of the steps' models have norms that are not counted.
func leftOut(steps []models.Step) (notes []string) {
	var keys []string
	for _, s := range steps {
		keys = append(keys, s.LeftOut...)
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) > 0 {
		notes = append(notes, "not counted: the norms of "+strings.Join(keys, ", "))
	}
	return notes
}

// SetSteps has the comparison say what its rows are worth in these steps.
func (c *Comparison) SetSteps(steps []models.Step) { c.steps = steps }

// A stepWorth says what the rows of a comparison come to in a step.
type stepWorth struct {
	step   string
	calls  float64 // of the problems that have a time on both sides
	a, b   float64 // us
	floor  float64 // us of the launches, one a call
	saved  float64
	lo, hi float64    // interval of saved
	parts  []stepPart // those that make up A's time, the longest first
	lacks  []string   // problems without a time
	lost   float64    // calls of these
}

// A stepPart says what a problem takes of a step.
type stepPart struct {
	problem kernels.Problem
	calls   float64
	a, b    float64 // us in a step
}

// worthOf adds up the rows in a step. The interval takes all problems of one shape to err together,
// as what moves one of them moves the others, and different shapes to err on their own.
func (c *Comparison) worthOf(s models.Step) stepWorth {
	w := stepWorth{step: s.Name}
	rows := map[kernels.Problem]Row{}
	for _, r := range c.Rows {
		rows[r.Problem] = r
	}
	type errs struct{ below, above float64 }
	shapes := map[string]*errs{}
	counts := s.Counts()
	for _, p := range models.Problems([]models.Step{s}) {
		n := counts[p]
		r, ok := rows[p]
		if !ok || r.Speedup == 0 {
			w.lacks = append(w.lacks, p.String())
			w.lost += n
			continue
		}
		saved, lo, hi := r.savedTime()
		w.calls += n
		w.parts = append(w.parts, stepPart{p, n, n * r.A.medianUS(), n * (r.A.medianUS() - saved)})
		w.a += n * r.A.medianUS()
		w.saved += n * saved
		w.floor += n * max(r.A.run().FloorUS, r.B.run().FloorUS)
		e := shapes[shape(p)]
		if e == nil {
			e = &errs{}
			shapes[shape(p)] = e
		}
		e.below += n * (saved - lo)
		e.above += n * (hi - saved)
	}
	w.b = w.a - w.saved
	below, above := 0.0, 0.0
	for _, e := range shapes {
		below, above = below+e.below*e.below, above+e.above*e.above
	}
	w.lo, w.hi = w.saved-math.Sqrt(below), w.saved+math.Sqrt(above)
	slices.SortStableFunc(w.parts, func(x, y stepPart) int { return cmp.Compare(y.a, x.a) })
	return w
}

// savedTime computes by how many us B is faster in a call, with its interval, NaN where there is none. Where rounds
// gave a speedup, that is what the saving comes from.
func (r *Row) savedTime() (us, lo, hi float64) {
	a, b := r.A.medianUS(), r.B.medianUS()
	switch {
	case r.isOneVariant():
		return 0, 0, 0
	case r.judged != nil:
		us = a - a/r.Speedup
		if low, high := r.interval(); low > 0 {
			return us, a - a/low, a - a/high
		}
	case r.A.Lo > 0 && r.B.Lo > 0:
		return a - b, a - b - math.Hypot(a-r.A.Lo, r.B.Hi-b), a - b + math.Hypot(r.A.Hi-a, b-r.B.Lo)
	default:
		us = a - b
	}
	return us, math.NaN(), math.NaN()
}

// stepTable says what the comparison is worth in each of its steps: a row for each.
func (c *Comparison) stepTable() *Table {
	var rows []stepWorth
	for _, s := range c.steps {
		rows = append(rows, c.worthOf(s))
	}
	percent := func(of func(stepWorth) float64) func(stepWorth) any {
		return func(w stepWorth) any {
			if w.a == 0 {
				return nil
			}
			return 100 * of(w) / w.a
		}
	}
	number := func(head, name string, of func(stepWorth) float64) Column[stepWorth] {
		return Column[stepWorth]{Head: head, Name: name, Value: func(w stepWorth) any { return of(w) },
			Text: func(w stepWorth) string { return Micros(of(w)) }}
	}
	low := func(w stepWorth) float64 { return w.lo }
	high := func(w stepWorth) float64 { return w.hi }
	columns := []Column[stepWorth]{
		{Head: "per step", Name: "step", Value: func(w stepWorth) any { return w.step }},
		{Head: "calls", Name: "calls", Value: func(w stepWorth) any { return w.calls }},
		number("A us", "a_us", func(w stepWorth) float64 { return w.a }),
		number("B us", "b_us", func(w stepWorth) float64 { return w.b }),
		{Head: "saved us", Name: "saved_us", Value: func(w stepWorth) any { return w.saved }, Text: stepWorth.savedText},
		{Name: "saved_lo_us", Value: func(w stepWorth) any { return low(w) }},
		{Name: "saved_hi_us", Value: func(w stepWorth) any { return high(w) }},
		{Head: "saved %", Name: "saved_percent", Value: percent(func(w stepWorth) float64 { return w.saved }),
			Text: stepWorth.percentText, Means: "of A's time in the norms of a step; the intervals are those of the problems, together"},
		{Name: "saved_lo_percent", Value: percent(low)},
		{Name: "saved_hi_percent", Value: percent(high)},
		{Head: "launches us", Name: "floor_us", Value: func(w stepWorth) any { return NonZero(w.floor) },
			Text:  func(w stepWorth) string { return Micros(w.floor) },
			Means: "the floor, once for each call: it is part of A us and of B us"},
		{Name: "calls_without_a_time", Value: func(w stepWorth) any { return w.lost }},
	}
	t := NewTable("", rows, columns)
	t.Name, t.Drop = "steps", []string{"launches us"}
	for _, w := range rows {
		t.Notes = append(t.Notes, w.notes(len(rows) > 1)...)
	}
	t.Notes = append(t.Notes, leftOut(c.steps)...)
	return t
}

func (w stepWorth) savedText() string {
	digits := 1
	if math.Abs(w.saved) >= 100 {
		digits = 0
	}
	if math.IsNaN(w.lo) || math.IsNaN(w.hi) {
		return fmt.Sprintf("%.*f", digits, w.saved)
	}
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, w.saved, digits, w.lo, digits, w.hi)
}

func (w stepWorth) percentText() string {
	switch share := func(x float64) float64 { return 100 * x / w.a }; {
	case w.a == 0:
		return ""
	case math.IsNaN(w.lo) || math.IsNaN(w.hi):
		return fmt.Sprintf("%.1f", share(w.saved))
	default:
		return fmt.Sprintf("%.1f (%.1f to %.1f)", share(w.saved), share(w.lo), share(w.hi))
	}
}

// calls are those of a step, of a capture not always whole.
func calls(n float64) string {
	if n == 1 {
		return "1 call"
	}
	return Number(n) + " calls"
}

// mostOf is how much of a step's time is told problem by problem.
const mostOf = 0.9

// notes name the few problems that make most of the step's time, and those without a time.
func (w stepWorth) notes(several bool) (notes []string) {
	of := ""
	if several {
		of = w.step + ": "
	}
	var most []string
	sum := 0.0
	for _, p := range w.parts {
		if sum >= mostOf*w.a {
			break
		}
		sum += p.a
		most = append(most, fmt.Sprintf("%s of %s: %.0f%% of A's time, saved %.1f us", calls(p.calls),
			p.problem, 100*p.a/w.a, p.a-p.b))
	}
	if len(most) > 0 {
		notes = append(notes, fmt.Sprintf("%s%.0f%% of A's time is in %d of %s:", of, 100*sum/w.a, len(most),
			console.Count(len(w.parts), "problem")))
		notes = append(notes, indentLines(most)...)
	}
	if len(w.lacks) > 0 {
		notes = append(notes, fmt.Sprintf("%s%s left out, without a time on both sides: %s.", of, calls(w.lost),
			strings.Join(w.lacks, "; ")))
	}
	return notes
}
