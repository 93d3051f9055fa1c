package report

import (
	"cmp"
	"fmt"

	"normbench/sweep/verdict"
)

// speedupOf turns B's time over A's into A's time over B's; nil where there is none.
func speedupOf(effect float64) any {
	if effect == 0 {
		return nil
	}
	return 1 / effect
}

// RoundsTable judges the cells of a file of rounds; step is that of the clock that timed them, in
// their unit, 0 for none. gate has an outcome on it: no cell is slower, beyond doubt among so many.
func RoundsTable(cells []verdict.NamedRounds, step float64, gate bool) *Table {
	type row struct {
		verdict.NamedRounds
		verdict.Judgement
	}
	var list []verdict.PairedRounds
	for _, x := range cells {
		list = append(list, verdict.PairedRounds{Rounds: x.Rounds, Step: step})
	}
	var rows []row
	judged := verdict.Judge(list, verdict.Default())
	for i, j := range judged {
		rows = append(rows, row{cells[i], j})
	}
	again := len(cells) > 0 && cells[0].Again
	column := func(head, name, format string, value func(row) any) Column[row] {
		return Column[row]{Head: head, Name: name, Format: format, Value: value}
	}
	columns := []Column[row]{
		column("cell", "cell", "", func(r row) any { return r.Name }),
		column("verdict", "verdict", "", func(r row) any { return r.Verdict }),
		column("speedup", "speedup", "", func(r row) any { return speedupOf(r.Effect) }),
		column("", "speedup_lo", "", func(r row) any { return speedupOf(r.Hi) }),
		column("", "speedup_hi", "", func(r row) any { return speedupOf(r.Lo) }),
		column("p", "p", "%.2g", func(r row) any { return r.P }),
		column("q", "q", "%.2g", func(r row) any { return r.Q }),
		column("A2/A %", "floor_percent", "%.2f", func(r row) any {
			if !again {
				return nil
			}
			return 100 * r.Floor
		}),
		column("rounds", "rounds", "", func(r row) any { return r.Judgement.Rounds }),
		column("reason", "reason", "", func(r row) any { return r.Reason }),
	}
	columns[2].Means = "A's time over B's, with its interval"
	columns[2].Text = func(r row) string {
		switch {
		case r.Effect == 0:
			return ""
		case r.Lo == 0:
			return ratioIn(1/r.Effect, 0, 0)
		}
		return ratioIn(1/r.Effect, 1/r.Hi, 1/r.Lo)
	}
	t := NewTable("", rows, columns)
	if gate {
		s := verdict.Summarize(judged)
		o := &GateOutcome{Kind: Passed, VerdictCounts: VerdictCounts{len(rows), s.Faster, s.Same, s.Slower, s.Inconclusive}}
		for i, r := range rows {
			if r.Gate == verdict.Slower {
				o.Kind = Slower
				name := cmp.Or(r.Name, fmt.Sprintf("cell %d", i+1))
				o.Lines = append(o.Lines, fmt.Sprintf("%s: %s slower", name, r.Speedup()))
			}
		}
		o.Reason = fmt.Sprintf("%d of %d slower", len(o.Lines), len(rows))
		if s.Inconclusive > 0 {
			o.Reason += fmt.Sprintf(", %d inconclusive", s.Inconclusive)
		}
		t.Outcome = o
	}
	for _, r := range rows {
		t.Notes = append(t.Notes, lateNotes(r.Name, &r.Judgement)...)
	}
	if !again {
		t.Notes = append(t.Notes, "no a2: nothing shows what two copies of one code differ by")
	}
	return t
}

// lateNotes name the visits of a cell whose rounds did not count.
func lateNotes(cell string, j *verdict.Judgement) (notes []string) {
	for _, l := range j.Late {
		note := l.String()
		if cell != "" {
			note = cell + ": " + note
		}
		notes = append(notes, note)
	}
	return notes
}
