package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"normbench/internal/assert"
)

func wideTable() *Table {
	t := &Table{
		Title: "a title of so many words that it has to go on in a second line where the " +
			"terminal has " +
			"eighty columns",
		Header: []string{"problem", "us", "empty", "q", "GB/s", "verdict", "why"},
		Align:  []Align{Left, Right, Left, Right, Right, Left, Left},
		Drop:   []string{"q", "GB/s"},
		Group:  ByProblem,
		Legend: []Meaning{{"q", "the corrected p-value"}, {"us", "the median"}},
		Notes:  []string{"a note"},
	}
	for i := range 6 {
		op := []string{"rmsnorm", "layernorm"}[i/3]
		t.Rows = append(t.Rows,
			[]string{fmt.Sprintf("%s/bwd/%dx1024/bf16+bias", op, 1<<i), "51.57", "", "0.0005",
				"3000", []string{"FASTER", "SLOWER"}[i%2],
				"rms_bwd/reg_persist@br4.w8.k2 took less in a launch that is named by as many " +
					"words as this"})
	}
	return t
}

func shown(t *testing.T, tab *Table, l Layout) string {
	t.Helper()
	var b bytes.Buffer
	assert.NoError(t, RenderTable(&Screen{Writer: &b, Layout: l}, tab, FormatText))
	return b.String()
}

// A table fits the terminal: testdata/layout.txt. What rows have in common stands above them, empty
// columns go, and on a narrow one those that may be left out.
func TestLayoutFits(t *testing.T) {
	// Words break where the columns then fit: "the clock's step is" takes 19 of 20.
	tight := &Table{Header: []string{"us", "why"}, Align: []Align{Right}, Rows: [][]string{
		{strings.Repeat("1", 29), "the clock's step is 5.0% of the time"}}}
	all := shown(t, tight, Layout{Width: 50})
	for _, width := range []int{50, 80, 100, 160} {
		got := shown(t, wideTable(), Layout{Width: width})
		for line := range strings.Lines(got) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			assert.That(t, n <= width, "%d columns on %d: %s", n, width, line)
		}
		all += fmt.Sprintf("\non %d columns\n%s", width, got)
	}
	all += "\nin colour\n" + shown(t, wideTable(), Layout{Color: true})
	assert.Golden(t, "testdata/layout.txt", all)
}
