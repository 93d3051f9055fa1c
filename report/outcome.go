package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/sweep/verdict"
)

// A GateOutcome is what a gate says of a comparison: it stands before everything else, in every format
// but csv.
type GateOutcome struct {
	Kind   OutcomeKind
	Reason string   // "2 slower, confirmed", without its word
	Lines  []string // a line for each cell that it rests on
	Next   string   // what to do about it, a command or a hint
	VerdictCounts
}

// An OutcomeKind is what the reader of an outcome does next.
type OutcomeKind string

// The kinds, the worst first: of several comparisons the worst is that of all.
const (
	Wrong     OutcomeKind = "wrong"     // an answer is wrong
	Slower    OutcomeKind = "slower"    // confirmed by a second run
	Broken    OutcomeKind = "broken"    // something could not be measured
	Unfit     OutcomeKind = "unfit"     // the machine was
	Undecided OutcomeKind = "undecided" // too much noise, or it ended early
	Passed    OutcomeKind = "passed"
)

// Kinds are all kinds, the worst first.
var Kinds = []OutcomeKind{Wrong, Slower, Broken, Unfit, Undecided, Passed}

// Word returns how an outcome begins.
func (k OutcomeKind) Word() string {
	switch k {
	case Passed:
		return "PASS"
	case Unfit, Undecided:
		return "UNDECIDED"
	}
	return "FAIL"
}

// String returns the headline.
func (o *GateOutcome) String() string { return o.Kind.Word() + ": " + o.Reason }

// VerdictCounts are of cells, by their verdicts.
type VerdictCounts struct{ Cells, Faster, Same, Slower, Inconclusive int }

// plus counts the cells of two comparisons.
func (t VerdictCounts) plus(u VerdictCounts) VerdictCounts {
	return VerdictCounts{t.Cells + u.Cells, t.Faster + u.Faster, t.Same + u.Same, t.Slower + u.Slower,
		t.Inconclusive + u.Inconclusive}
}

// mostLines are as many lines as an outcome has of one kind of cell; the table has them all.
const mostLines = 10

// Gated says that a gate was asked for: its outcome is shown.
func (l *LiveFile) Gated() bool { return l.Policy != ab.GatePolicy{} }

// Outcome returns what a gate says of the cells. Wrong answers and cells without a time are told whatever
// was asked for.
func (l *LiveFile) Outcome() *GateOutcome {
	s := l.Summary
	o := &GateOutcome{Kind: Passed, VerdictCounts: VerdictCounts{len(l.Duels), s.Faster, s.Same, s.Slower, s.Inconclusive}}
	states := map[kernels.Status][]string{}
	add := func(status kernels.Status, p kernels.Problem, reason string) {
		states[status] = append(states[status], fmt.Sprintf("%s: %s, %s", p, status, reason))
	}
	for _, d := range l.Duels {
		if d.Status != kernels.StatusOK {
			add(d.Status, d.Problem, d.Reason)
		}
	}
	var confirmed, doubtful, unclear []string
	for i := range l.Gate {
		g := &l.Gate[i]
		line := fmt.Sprintf("gate: %s slower, %s", g.Problem, g)
		if status := cmp.Or(g.Status, kernels.StatusOK); status != kernels.StatusOK {
			// of other inputs, on which a kernel may be wrong that was right before
			add(status, g.Problem, line)
			states[status][len(states[status])-1] = line
		}
		if g.Confirmed {
			confirmed = append(confirmed, line)
			continue
		}
		doubtful = append(doubtful, line)
		if g.Again.Verdict == verdict.Inconclusive && cmp.Or(g.Status, kernels.StatusOK) == kernels.StatusOK {
			unclear = append(unclear, line)
		}
	}
	for _, j := range l.Judged {
		if j.Verdict == verdict.Inconclusive {
			unclear = append(unclear, fmt.Sprintf("%s: %s, %s", j.Problem, j.Speedup(), j.Reason))
		}
	}
	wrong, unfit := states[kernels.StatusWrong], states[kernels.StatusUnfit]
	delete(states, kernels.StatusWrong)
	delete(states, kernels.StatusUnfit)
	var broken []string
	for _, lines := range states {
		broken = append(broken, lines...)
	}
	slices.Sort(broken)
	again := 0 // slower, and not measured again as the run ended
	if l.Policy.Gate {
		again = len(l.SlowerDuels()) - len(l.Gate)
	}
	cells := func(list []string) string { return console.Count(len(list), "cell") }
	switch missing := l.Asked - len(l.Duels); {
	case len(wrong) > 0:
		o.Kind, o.Reason, o.Lines = Wrong, "a wrong answer in "+cells(wrong), wrong
	case l.Policy.Gate && len(confirmed) > 0:
		o.Kind, o.Lines = Slower, slices.Concat(confirmed, doubtful)
		o.Reason = fmt.Sprintf("%d slower, confirmed, of %s", len(confirmed), console.Count(len(l.Duels), "cell"))
	case len(broken) > 0:
		o.Kind, o.Reason, o.Lines = Broken, cells(broken)+" could not be measured", broken
	case len(unfit) > 0:
		o.Kind, o.Reason, o.Lines = Unfit, "the machine was unfit in "+cells(unfit), unfit
	case l.Gated() && missing > 0:
		o.Kind, o.Reason = Undecided, fmt.Sprintf("%d of %s measured", len(l.Duels), console.Count(l.Asked, "cell"))
	case again > 0:
		o.Kind, o.Reason = Undecided, fmt.Sprintf("%d slower, and not measured again", again)
	case l.Policy.Strict && len(unclear) > 0:
		o.Kind, o.Lines = Undecided, unclear
		o.Reason = fmt.Sprintf("%d inconclusive, of %s", len(unclear), console.Count(len(l.Duels), "cell"))
	case l.Policy.Gate:
		o.Reason, o.Lines = fmt.Sprintf("0 of %d slower", len(l.Duels)), doubtful
		if len(doubtful) > 0 {
			o.Reason += fmt.Sprintf(", %d looked so and was not confirmed", len(doubtful))
		}
		if s.Inconclusive > 0 {
			o.Reason += fmt.Sprintf(", %d inconclusive", s.Inconclusive)
		}
	default:
		o.Reason = fmt.Sprintf("0 of %d inconclusive", len(l.Duels))
	}
	return o
}

// RenderOutcome writes an outcome without cells in the place of a comparison. In csv it has no rows.
func RenderOutcome(w io.Writer, o *GateOutcome, format string) error {
	var b bytes.Buffer
	switch t := (&Table{Outcome: o}); format {
	case FormatJSON:
		return RenderTable(w, t, format)
	case FormatCSV:
	default:
		l := &Layout{}
		if s, ok := w.(*Screen); ok {
			l = &s.Layout
		}
		b.WriteString(l.outcome(o, format))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Join returns the outcome of several comparisons: the worst, with the counts of all.
func Join(list []*GateOutcome) *GateOutcome {
	if len(list) == 1 {
		return list[0]
	}
	all := &GateOutcome{Kind: Passed}
	var reasons []string
	for _, o := range list {
		all.VerdictCounts = all.plus(o.VerdictCounts)
		if slices.Index(Kinds, o.Kind) < slices.Index(Kinds, all.Kind) {
			all.Kind, reasons, all.Lines, all.Next = o.Kind, nil, nil, ""
		}
		if o.Kind == all.Kind {
			if !slices.Contains(reasons, o.Reason) {
				reasons = append(reasons, o.Reason)
			}
			all.Lines, all.Next = append(all.Lines, o.Lines...), cmp.Or(all.Next, o.Next)
		}
	}
	all.Reason = strings.Join(reasons, "; ")
	return all
}

// lines returns those to show.
func (o *GateOutcome) lines() []string {
	list := slices.Clone(o.Lines)
	if more := len(list) - mostLines; more > 0 {
		list = append(list[:mostLines], fmt.Sprintf("and %d more", more))
	}
	if o.Next != "" {
		list = append(list, o.Next)
	}
	return list
}

// json returns the outcome as the first value of a table's object.
func (o *GateOutcome) json() string {
	var lines []string
	for _, l := range o.Lines {
		lines = append(lines, jsonText(l))
	}
	return fmt.Sprintf(`{"outcome": %s, "kind": %s, "reason": %s, "cells": %d, "faster": %d, "same": %d, `+
		`"slower": %d, "inconclusive": %d, "lines": [%s]}`, jsonText(o.Kind.Word()), jsonText(string(o.Kind)),
		jsonText(o.Reason), o.Cells, o.Faster, o.Same, o.VerdictCounts.Slower, o.Inconclusive, strings.Join(lines, ", "))
}
