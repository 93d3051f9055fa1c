package picture

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"testing"

	"normbench/internal/assert"
)

func TestTicksAreRoundNumbers(t *testing.T) {
	for _, tc := range []struct {
		ticks []Tick
		want  string
	}{
		{EvenTicks(0, 14, 1, 8), "0 2 4 6 8 10 12 14"},
		{EvenTicks(0, 1, 1, 8), "0 1"},
		{EvenTicks(0, 120, 20, 8), "0 20 40 60 80 100 120"},
		{EvenTicks(0, 1e6, 20, 8), "0 200000 400000 600000 800000 1e+06"},
		{EvenTicks(0.55, 1.32, 0.1, 6), "0.6 0.8 1 1.2"},
	} {
		var labels []string
		for _, tick := range tc.ticks {
			labels = append(labels, tick.Label)
		}
		assert.Equal(t, strings.Join(labels, " "), tc.want)
	}
}

// The labels of slanted ticks end above the axis' own, in a font as wide as any, and those of a forest's axis do not
// touch.
func TestLabelsDoNotTouch(t *testing.T) {
	p := Plot{Width: 400, Height: 350, Y: Axis{Hi: 1}, X: Axis{Label: "rows", Hi: 1, Slant: true,
		Ticks: []Tick{{At: 0, Label: "1048576x32768"}}}}
	text := p.Draw().body.String()
	var x, y float64
	_, rest, _ := strings.Cut(text, `<text class="dim" transform="translate(`)
	_, err := fmt.Sscanf(rest, "%f %f)", &x, &y)
	assert.NoError(t, err)
	const widest = 0.64 * 12 * 13 // px, of 13 letters
	end := y + widest*math.Sin(math.Pi/3)
	assert.That(t, end < p.Height-5-12, "labels end at %.0f, and the axis' own begins at %.0f", end, p.Height-5-12)
	for _, tc := range []struct {
		lo, hi float64
		want   string
	}{{0.99, 2.5, "[1 1.5 2 2.5]"}, {0.99, 1.01, "[0.99 0.995 1 1.005 1.01]"}, {0.9, 1.4, "[0.9 1 1.1 1.2 1.3 1.4]"},
		{0.5, 9, "[0.5 1 2 4 8]"}, {0.01, 1e6, "[1 256 6.554e+04]"}} {
		assert.Equal(t, fmt.Sprintf("%.4g", ratioTicks(tc.lo, tc.hi, 250)), tc.want)
	}
}

// A file is sound XML whatever a text has in it, wide enough for its longest line, and its points
// stand where they belong: one at the lower left corner of the axes, one at the upper right.
func TestFileIsSoundXMLWhateverItsTexts(t *testing.T) {
	p := Plot{Title: "a<b>\x1b[31m\u202e", Width: 300, Height: 200,
		X: Axis{Lo: 1, Hi: 1024, Log: true}, Y: Axis{Hi: 10},
		Lines: []Curve{{Series: Series{"s", "s1", 0, 1, 2},
			Points: []PlotPoint{{X: 1, Y: 0, Tip: "\x00"}, {X: 32, Y: 5, Apart: true},
				{X: 1024, Y: 10, Lo: 9, Hi: 10}}}}}
	text := string(File(strings.Repeat("long ", 40), []Series{{Name: "s", Class: "s1"}},
		[][]*Drawing{{p.Draw(), p.Draw()}}))
	var svg struct {
		Width float64 `xml:"width,attr"`
	}
	err := xml.Unmarshal([]byte(text), &svg)
	assert.That(t, err == nil && svg.Width >= 1500, "%v, %g wide", err, svg.Width)
	for want, times := range map[string]int{">a&lt;b&gt;?[31m?<": 2, "<title>?</title>": 2,
		`<polyline points="48,162"/>`: 2, `<polyline points="170,94 292,26"/>`: 2} {
		assert.Equal(t, strings.Count(text, want), times, want, "stands", "times in", text)
	}
}

// A band is the area between the intervals, to the right along the upper ends and back along the lower ones, and a
// mark is a line across the plot with its label inside.
func TestBandLiesBetweenItsIntervals(t *testing.T) {
	p := Plot{Width: 300, Height: 200, X: Axis{Hi: 2}, Y: Axis{Hi: 10},
		Marks: []Tick{{At: 0, Label: "early"}, {At: 2, Label: "late"}},
		Lines: []Curve{{Series: Series{"s", "s1", 0, 1, 2}, Band: true,
			Points: []PlotPoint{{X: 0, Y: 5, Lo: 0, Hi: 10}, {X: 2, Y: 5, Lo: 5, Hi: 10}}}}}
	text := string(p.Draw().Inline())
	for _, want := range []string{`points="48,26 292,26 292,94 48,162"`, `class="ref" x1="48" x2="48" y1="26" y2="162"`,
		`x="51" y="38" font-size="11" text-anchor="start">early<`, `x="289" y="51" font-size="11" text-anchor="end">late<`} {
		assert.That(t, strings.Contains(text, want), "no %s in %s", want, text)
	}
	assert.Equal(t, strings.Count(text, `stroke-width="1" x1=`), 0, "bars beside the band")
}
