package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// ofConstant are two sides over shapes of one kind: B takes a us more than b times the stream's time.
func ofConstant(t *testing.T, shapes int, a, b float64) *Comparison {
	base, fast := map[kernels.Problem]Measurement{}, map[kernels.Problem]Measurement{}
	for i := range shapes {
		p := devicetest.Problem(t, fmt.Sprintf("rmsnorm/bwd/%dx4096/bf16", 64<<i))
		x := ok(10 * math.Pow(2, float64(i)/2))
		x.StreamUS, x.Run = (x.Median-a)/b, coldRun("r", "gpu")
		fast[p] = x
		x.Median *= 2
		x.Lo, x.Hi, x.Run = 2*x.Lo, 2*x.Hi, coldRun("other", "gpu")
		base[p] = x
	}
	return Compare(Side{Label: "peer:best", Cells: base}, Side{Label: "tuned:t.json", Cells: fast})
}

// The table of the stream has what each side takes beyond the stream's time, of ten shapes or more.
func TestStreamTableHasTheConstantOfEachSide(t *testing.T) {
	var b bytes.Buffer
	assert.NoError(t, Render(&b, ofConstant(t, 12, 2.5, 1.02), FormatText))
	text := strings.Join(strings.Fields(b.String()), " ")
	assert.That(t, strings.Contains(text, " 2.50 (2.50-2.50) 1.020 (1.020-1.020) "), "%s", text)
	assert.That(t, strings.Contains(text, "constant us: time = constant + factor x the stream's time"), "%s", text)
	b.Reset()
	assert.NoError(t, Render(&b, ofConstant(t, 9, 2.5, 1.02), FormatText))
	assert.That(t, !strings.Contains(b.String(), "constant"), "of nine shapes: %s", b.String())
}

// A table ends with what was found in one sentence and what to do next, in each format that has more than rows.
func TestATableEndsWithWhatToDoNext(t *testing.T) {
	c := ofConstant(t, 12, 2.5, 1.02)
	c.Next = "`x | y <b>`"
	found := "B (our tuned kernels) is faster than A (the best other library) in all 12 problems: 2.000x in " +
		"the geometric mean (95% 2.000-2.000), 2.000x at the least."
	for format, want := range map[string]string{
		FormatText: "\n\nfound: " + found + "\nnext: " + c.Next + "\n",
		FormatJSON: ",\n  \"found\": \"" + found + "\",\n  \"next\": \"`x | y <b>`\"\n}\n",
		FormatCSV:  ",FASTER\n",
	} {
		var b bytes.Buffer
		s := &Screen{Writer: &b, Layout: Layout{Width: 400}}
		assert.NoError(t, Render(s, c, format))
		assert.That(t, strings.HasSuffix(b.String(), want), "%s: %s", format, b.String())
	}
	var page bytes.Buffer // in which people read the headline first, and unfold the rows
	assert.NoError(t, Render(&page, c, FormatMarkdown))
	assert.That(t, strings.HasPrefix(page.String(), "### "+found+"\n") &&
		strings.Contains(page.String(), "\n\n**next:** `x | y &lt;b>`\n\n<details>"), "%s", &page)
	assert.Equal(t, sample(t).Found(), "B (results/nvidia-h200/tuned.json) is faster than A (the base) in 3 of 6 "+
		"problems, slower in 1, the same in 1, undecided in 1: 1.162x in the geometric mean, 0.890x at the least.")
	assert.Equal(t, Compare(Side{}, Side{}).Found(), "", "of nothing")
	// Two sides of one word keep their own.
	c = Compare(Side{Label: "tuned:a.json"}, Side{Label: "tuned:b.json"})
	a, b := c.Words()
	assert.Equal(t, a+", "+b, "tuned:a.json, tuned:b.json")
}

// A share above 100% is explained in a table that has one, and in no other.
func TestShareAbove100IsExplained(t *testing.T) {
	for b, want := range map[float64]bool{1.02: false, 0.9: true} {
		table := ofConstant(t, 3, 0.01, b).Table()
		assert.Equal(t, len(table.Notes) > 0 && table.Notes[0] == aboveStream, want, b)
		assert.That(t, strings.Contains(table.Title, checked), "%s", table.Title)
	}
}
