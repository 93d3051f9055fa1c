package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// A LiveFile is the file of a live compare.
type LiveFile struct{ ab.Experiment }

// ReadLive reads the file of a live compare.
func ReadLive(path string) (*LiveFile, error) {
	m, err := ab.Read(path)
	if err != nil {
		return nil, err
	}
	return &LiveFile{*m}, nil
}

// Sides are the arms as operands, each round's median a sample.
func (l *LiveFile) Sides() (sides [2]Side) {
	run := l.Run
	for _, x := range l.Resumed {
		if math.Abs(x.FloorUS-run.FloorUS) > 0.2 { // which cell has which is not kept
			run.FloorUS = 0
		}
	}
	for i, text := range []string{l.A, l.B} {
		sides[i] = Side{Label: text, Cells: map[kernels.Problem]Measurement{}}
		for _, d := range l.Duels {
			c := Measurement{Outcome: record.Outcome{Run: &run, Variant: []kernels.Variant{d.A, d.B}[i],
				Status: d.Status, Reason: d.Reason, Bytes: d.Problem.Bytes(), StreamUS: d.StreamUS,
				Base: text == "base"}}
			var us []float64
			for _, round := range d.Rounds {
				us = append(us, []float64{round.A, round.B}[i])
			}
			if len(us) > 0 && d.Status == kernels.StatusOK {
				c.Summary, c.SamplesUS = stats.Summarize(us), us
			}
			sides[i].Cells[d.Problem] = c
		}
	}
	return sides
}

// notes are what stands below the table.
func (l *LiveFile) notes() (notes []string) {
	if s := l.Summary; s.Cells > 0 {
		cells := console.Count(s.Cells, "cell")
		if s.Shapes > 0 && s.Shapes < s.Cells {
			cells += " of " + console.Count(s.Shapes, "shape")
		}
		notes = append(notes, fmt.Sprintf("geometric mean %.3fx%s over %s: "+
			"%d faster, %d same, %d slower, %d inconclusive", 1/s.Mean, meanInterval(s), cells,
			s.Faster, s.Same, s.Slower, s.Inconclusive),
			fmt.Sprintf("worst: %s at %.3fx", s.Worst.Problem, 1/s.Worst.Effect))
	}
	for i := range l.Judged {
		notes = append(notes, lateNotes(l.Judged[i].Problem.String(), &l.Judged[i])...)
	}
	for _, g := range l.Gate {
		notes = append(notes, fmt.Sprintf("gate: %s slower, %s", g.Problem, &g))
	}
	if !l.Run.Protocol.Cold {
		notes = append(notes, "WARM: the cache was not flushed; real calls may find it cold")
	}
	var problems []kernels.Problem
	for i := range l.Duels {
		problems = append(problems, l.Duels[i].Problem)
	}
	return append(append(notes, l.Peers...), LadderNotes(l.Run.Device, problems)...)
}

// meanInterval is that of a summary's speedup, of two shapes or more.
func meanInterval(s verdict.Aggregate) string {
	if s.Shapes == 1 {
		return ""
	}
	return fmt.Sprintf(" (95%% %.3f-%.3f)", 1/s.Hi, 1/s.Lo)
}

// LadderNotes say which steps of the ladder the defaults of problems come from, on a GPU.
func LadderNotes(d kernels.DeviceInfo, problems []kernels.Problem) (notes []string) {
	if d.Kind != kernels.KindCUDA {
		return nil
	}
	step := families.Rung(d)
	for _, p := range problems {
		note := "defaults by " + step.ForClass(launchmap.ClassOf(p)).String()
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// page makes a page with the table of rows that of a live compare: its verdict, then what it rests on.
func (l *LiveFile) page(p *Page, rows, stream *Table) *Page {
	a, b := wordsOf(l.A, l.B)
	p.Title = fmt.Sprintf("%s%s against %s on %s", strings.ToUpper(b[:1]), b[1:], a, l.Run.Device.Name)
	found := p.Summary[0]
	p.What, p.Summary, p.Outcome = rows.Title, rows.Notes, rows.Outcome
	if s := l.Summary; s.Cells > 0 { // of all rounds, where the page has medians
		p.Tally[0] = Tally{N: fmt.Sprintf("%.3fx", 1/s.Mean), Word: fmt.Sprintf(
			"geometric mean of the speedups of %s%s", console.Count(s.Cells, "problem"), meanInterval(s))}
		p.Summary[0] = found // the tally says what the note does
	}
	rows.Notes, stream.Title = nil, "Time against the stream's"
	p.Tables = []*Table{rows, stream}
	return p
}
