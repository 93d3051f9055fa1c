package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// shapes is ours against the best peer over shapes of two passes: one of the peer failed, and one
// is without a time of the stream.
func shapes(t testing.TB) *Comparison {
	ours, peer := map[kernels.Problem]Measurement{}, map[kernels.Problem]Measurement{}
	for i, s := range []string{"4096x256", "65536x256", "576000x384", "1024x8192", "2048x8192",
		"4096x8192", "8192x8192", "29x17389", "256x65536"} {
		for _, pass := range []string{"fwd", "bwd"} {
			p := devicetest.Problem(t, "rmsnorm/"+pass+"/"+s+"/bf16")
			c := ok(10 + float64(i))
			c.StreamUS, c.Run = 9.5+0.9*float64(i), coldRun("r", "nvidia-h200")
			ours[p] = c
			c.Median *= 1.5
			c.Variant = kernels.Variant{Family: "peer/torch"}
			peer[p] = c
		}
	}
	wrong, none := failed(kernels.StatusWrong, "dx is wrong"), ok(20)
	wrong.Variant.Family, none.Variant.Family, none.StreamUS = "peer/torch", "peer/torch", 0
	peer[devicetest.Problem(t, "rmsnorm/bwd/2048x8192/bf16")] = wrong
	peer[devicetest.Problem(t, "rmsnorm/bwd/256x65536/bf16")] = none
	return Compare(Side{Label: "peer:best", Cells: peer},
		Side{Label: "tuned:<t>.json", Cells: ours})
}

// Shapes stand in the order of the table, and a line joins those that share a side and stand beside
// each other.
func TestPlotHasShapesInTheOrderOfItsTable(t *testing.T) {
	data, err := shapes(t).Plot("On a <card>")
	assert.NoError(t, err)
	assert.Golden(t, filepath.Join("testdata", "shapes.svg"), string(data))
	many := Side{Label: "x", Cells: map[kernels.Problem]Measurement{}}
	for m := range int64(maxShapes + 1) {
		many.Cells[devicetest.Problem(t, fmt.Sprintf("rmsnorm/fwd/%dx1/bf16", m+1))] = ok(1)
	}
	_, err = Compare(many, many).Plot("x")
	assert.Error(t, err, "251 shapes")
	_, err = Compare(Side{Label: "x"}, Side{Label: "x"}).Plot("x")
	assert.Refused(t, err, "nothing to draw")
}

// A page begins with a gate's outcome. Its first figure has each speedup with its interval, those of one variant on
// both sides left out; its table has the verdict second, and of one kind the shapes alone. Its legends say what the
// sides are.
func TestPageBeginsWithItsOutcome(t *testing.T) {
	c := ofConstant(t, 3, 2.5, 1.02)
	c.Rows[0].judged = &verdict.Judgement{Verdict: verdict.Faster, Effect: 0.5, Lo: 0.4, Hi: 0.625}
	c.Rows[1].Verdict = equalBase
	p := c.Page("x")
	p.Outcome = &GateOutcome{Kind: Passed, Reason: "0 of 3 slower"}
	var b bytes.Buffer
	assert.NoError(t, p.Write(&b))
	text := b.String()
	at := -1
	for _, want := range []string{"<h1>x</h1>", `<h2 class="good">PASS: 0 of 3 slower</h2>`, `class="tally"`,
		"<h2>Speedup of B over A</h2>", "1 problem with one variant on both sides left out.", "256x4096: 2.000x, FASTER",
		"<h2>Speed against the stream</h2>", "A, the best other library</li>", "B, our tuned kernels</li>",
		"<h2>Every shape of rmsnorm/bwd/bf16</h2>",
		`<thead><tr><th>problem</th><th>verdict</th><th class="r">speedup</th><th class="r">M</th>`,
		`<td class=" ">64x4096</td><td class=" good">FASTER</td>`} {
		next := strings.Index(text, want)
		assert.Must(t, next > at, "%q at %d, not behind %d", want, next, at)
		at = next
	}
	assert.That(t, strings.Contains(text, "64x4096: 2.000x (1.600-2.500), FASTER") &&
		!strings.Contains(text, "<title>128x4096: 2.0"), "the intervals, and no other rows")
}

// Two sides never have one hue, and a side of ours or of another library keeps its own.
func TestTwoSidesNeverHaveOneHue(t *testing.T) {
	side := func(label, family string, base bool) Side {
		x := ok(1)
		x.Variant.Family, x.Base = family, base
		return Side{Label: label, Cells: map[kernels.Problem]Measurement{devicetest.Problem(t, "rmsnorm/fwd/1x1/bf16"): x}}
	}
	ours, base := side("tuned:x", "rms_fwd/cta_reg", false), side("base", "rms_fwd/cta_reg", true)
	peer := side("peer:best", "peer/torch", false)
	for _, tc := range []struct {
		a, b Side
		want string
	}{{peer, ours, "s0 s1"}, {ours, peer, "s1 s0"}, {base, ours, "s2 s1"}, {ours, base, "s1 s2"},
		{ours, ours, "s2 s1"}, {base, base, "s2 s1"}, {base, peer, "s1 s0"}, {peer, peer, "s0 s3"}} {
		s := pairSeries(tc.a, tc.b)
		assert.Equal(t, s[0].Class+" "+s[1].Class, tc.want, tc.a.Label, "and", tc.b.Label)
	}
}

// A page holds its tables and plots, what it was measured on, and nobody's markup.
func TestPageHasItsTablesAndNobodysMarkup(t *testing.T) {
	c := shapes(t)
	var b bytes.Buffer
	c.Runs = []*record.Run{{Device: kernels.DeviceInfo{Driver: "<580>"}}}
	assert.NoError(t, c.Page("On a <card>").Write(&b))
	text := b.String()
	for want, times := range map[string]int{"<svg viewBox=": 4, "<table>": 3,
		"<h1>On a &lt;card&gt;</h1>": 1, "A = peer:best, B = tuned:&lt;t&gt;.json": 1, "<t>": 0,
		"<dt>driver</dt><dd>(CUDA &lt;580&gt;)</dd>": 1} {
		assert.Equal(t, strings.Count(text, want), times, want, "stands", "times")
	}
	for _, foreign := range []string{"http:", "https:", "src=", "@import", "ZgotmplZ"} {
		assert.That(t, !strings.Contains(text, foreign), "the page has %s", foreign)
	}
	assert.That(t, strings.Count(text, "<title>") >= 20, "marks without their values")
	assert.That(t, c.Page("x").Write(brokenWriter{}) != nil, "a write error was lost")
	// Nothing to draw is a page without plots.
	b.Reset()
	one := Side{Label: "x", Cells: map[kernels.Problem]Measurement{devicetest.Problem(t,
		"rmsnorm/fwd/1x1/bf16"): failed(kernels.StatusWrong, "x is wrong")}}
	err := Compare(one, one).Page("x").Write(&b)
	assert.That(t, err == nil && !strings.Contains(b.String(), "<svg"), "%v", err)
}
