package report

import (
	"fmt"
	"slices"
	"strconv"

	"normbench/sweep/verdict"
)

// RoundsTable judges the cells of a file of rounds; step is that of the clock that timed them, in
// their unit, 0 for none.
func RoundsTable(cells []verdict.Rounds, step float64) *Table {
	var list []verdict.Cell
	for _, x := range cells {
		list = append(list, verdict.Cell{Rounds: x.Rounds, Step: step})
	}
	rule := verdict.Default()
	judged := verdict.Judge(list, rule)
	t := New("", "cell", "verdict", ">b/a", ">p", ">q", ">a2/a %", ">rounds", ">need", ">power %",
		">stream/b %", "reason")
	t.Legend = []Meaning{{Column: "b/a", Text: "time of b over a's with its interval"}}
	t.Data = New("", "cell", "verdict", ">b/a", ">from", ">to", ">p", ">q", ">a2/a %", ">rounds",
		">need", ">power %", ">stream/b %", "reason")
	for i, j := range judged {
		call := string(j.Verdict)
		if j.Modes != nil && j.Verdict == verdict.Inconclusive {
			call = "TWO MODES"
			j.Reason += fmt.Sprintf("; a %.4g and %.4g, b %.4g and %.4g", j.Modes.Fast[0], j.Modes.Slow[0],
				j.Modes.Fast[1], j.Modes.Slow[1])
		}
		again := "none"
		if cells[i].Again {
			again = fmt.Sprintf("%.2f", 100*j.Floor)
		}
		row := []string{cells[i].Name, call,
			nonzero("%.4f", j.Effect), nonzero("%.4f", j.Lo), nonzero("%.4f", j.Hi),
			fmt.Sprintf("%.2g", j.P), fmt.Sprintf("%.2g", j.Q), again, strconv.Itoa(j.Rounds),
			nonzero("%.0f", float64(j.Need)), fmt.Sprintf("%.1f", 100*rule.Power(list[i])),
			nonzero("%.1f", 100*cells[i].Stream), j.Reason}
		t.Data.Rows = append(t.Data.Rows, row)
		if row = slices.Clone(row); row[3] != "" {
			row[2] += " (" + row[3] + "-" + row[4] + ")"
		}
		t.Rows = append(t.Rows, slices.Delete(row, 3, 5))
	}
	if slices.ContainsFunc(cells, func(x verdict.Rounds) bool { return !x.Again }) {
		t.Notes = append(t.Notes, "no a2: nothing shows what two copies of one code differ by")
	}
	return t
}
