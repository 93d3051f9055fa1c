package report

import (
	"fmt"

	"normbench/sweep/verdict"
)

// RoundsTable judges the cells of a file of rounds; step is that of the clock that timed them, in
// their unit, 0 for none.
func RoundsTable(cells []verdict.Rounds, step float64) *Table {
	type row struct {
		verdict.Rounds
		verdict.Judgement
	}
	var list []verdict.Cell
	for _, x := range cells {
		list = append(list, verdict.Cell{Rounds: x.Rounds, Step: step})
	}
	var rows []row
	for i, j := range verdict.Judge(list, verdict.Default()) {
		rows = append(rows, row{cells[i], j})
	}
	again := len(cells) > 0 && cells[0].Again
	column := func(head, name, format string, value func(row) any) Column[row] {
		return Column[row]{Head: head, Name: name, Format: format, Value: value}
	}
	columns := []Column[row]{
		column("cell", "cell", "", func(r row) any { return r.Name }),
		column("verdict", "verdict", "", func(r row) any { return r.Verdict }),
		column("b/a", "b/a", "", func(r row) any { return NonZero(r.Effect) }),
		column("", "from", "", func(r row) any { return NonZero(r.Lo) }),
		column("", "to", "", func(r row) any { return NonZero(r.Hi) }),
		column("p", "p", "%.2g", func(r row) any { return r.P }),
		column("q", "q", "%.2g", func(r row) any { return r.Q }),
		column("a2/a %", "a2/a %", "%.2f", func(r row) any {
			if !again {
				return nil
			}
			return 100 * r.Floor
		}),
		column("rounds", "rounds", "", func(r row) any { return r.Judgement.Rounds }),
		column("reason", "reason", "", func(r row) any { return r.Reason }),
	}
	columns[2].Means = "time of b over a's with its interval"
	columns[2].Text = func(r row) string {
		switch {
		case r.Effect == 0:
			return ""
		case r.Lo == 0:
			return fmt.Sprintf("%.4f", r.Effect)
		}
		return fmt.Sprintf("%.4f (%.4f-%.4f)", r.Effect, r.Lo, r.Hi)
	}
	t := NewTable("", rows, columns)
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
