package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
)

// growth is two arms over rows and columns: the second has fewer problems, one
// that failed and one without a time of the stream.
func growth(t testing.TB, over *Axis) *Growth {
	cell := func(us, stream float64) Cell {
		c := ok(us)
		c.StreamUS, c.Bytes, c.Run = stream, 1<<20, coldRun("r", "nvidia-h200")
		return c
	}
	a, b := map[kernels.Problem]Cell{}, map[kernels.Problem]Cell{}
	for _, n := range []int64{256, 1024} {
		for _, m := range []int64{1, 3, 64, 4096, 1 << 20} {
			for _, pass := range []string{"fwd", "bwd"} {
				p := devicetest.Problem(t, fmt.Sprintf("rmsnorm/%s/%dx%d/bf16", pass, m, n))
				stream := 2 + float64(m*n)/1e6
				a[p] = cell(stream*1.25, stream)
				if pass == "bwd" && m != 3 {
					b[p] = cell(stream/1.1, stream)
				}
			}
		}
	}
	b[devicetest.Problem(t, "rmsnorm/bwd/64x256/bf16")] = failed(kernels.StatusWrong,
		"dx is wrong <here>")
	none := cell(7, 0)
	b[devicetest.Problem(t, "rmsnorm/bwd/64x1024/bf16")] = none
	return Grow(over, Side{Label: "base", Cells: a}, Side{Label: "rules & <others>", Cells: b})
}

func TestGrowth(t *testing.T) {
	g := growth(t, OverM)
	golden(t, "growth", g.Render)
	assert.That(t, g.Render(io.Discard, "xml") != nil, "xml is a format")
	if err := Grow(nil).Render(io.Discard, FormatText); err != nil { // nothing is a report too
		t.Error(err)
	}
	// Over N, those of one M stand together.
	r := growth(t, OverN).Rows
	assert.That(t, r[0].Problem.M == 1 && r[1].Problem.M == 1 && r[1].Problem.N == 1024,
		"%v, %v", r[0].Problem, r[1].Problem)
	w := growth(t, OverM).Notes
	assert.That(t, len(w) != 0 && strings.Contains(strings.Join(w, "\n"), "1 measurement failed:"),
		"%q", w)
}

func TestPanels(t *testing.T) {
	g := growth(t, OverM)
	ps := g.panels(OverM)
	var got []string
	for _, p := range ps {
		got = append(got, fmt.Sprint(p.what, " ", p.fixed, " ", len(p.lines[0]), " ",
			len(p.lines[1])))
	}
	want := "rms fwd bf16 256 5 0, rms fwd bf16 1024 5 0, rms bwd bf16 256 5 3, rms bwd bf16 " +
		"1024 5 3"
	assert.Equal(t, strings.Join(got, ", "), want)
	for i, pt := range ps[3].lines[1][1:] {
		assert.That(t, pt.X > ps[3].lines[1][i].X, "%v is not in order", ps[3].lines[1])
	}
	_, err := g.Plot("x", OverN) // two columns are no line
	assert.Refused(t, err, "nothing to draw over N: no M has 3 different N")
	many := Side{Label: "x", Cells: map[kernels.Problem]Cell{}}
	for n := range int64(maxPanels + 1) {
		for m := range int64(3) {
			p := devicetest.Problem(t, fmt.Sprintf("rmsnorm/fwd/%dx%d/bf16", m+1, n+1))
			many.Cells[p] = ok(1)
		}
	}
	_, err = Grow(OverM, many).Plot("x", OverM)
	assert.Error(t, err, "33 panels")
}

// A page holds its tables and plots, what it was measured on, and nobody's markup.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	assert.NoError(t,
		growth(t, OverM).Page("On a <card>",
			[]*record.Run{{Device: kernels.DeviceInfo{Driver: "<580>"}}}).Write(&b))
	text := b.String()
	for want, times := range map[string]int{"<svg viewBox=": 6, ">M, rows<": 4, "<table>": 3,
		"<h1>On a &lt;card&gt;</h1>": 1, "A = base, B = rules &amp; &lt;others&gt;": 1, "<here>": 0,
		`<td class="r ">1048576</td>`: 10, "<dt>driver</dt><dd>(CUDA &lt;580&gt;)</dd>": 1,
		"rules &amp; &lt;others&gt;</li>": 2} {
		assert.Equal(t, strings.Count(text, want), times, want, "stands", "times")
	}
	for _, foreign := range []string{"http:", "https:", "src=", "@import", "ZgotmplZ"} {
		assert.That(t, !strings.Contains(text, foreign), "the page has %s", foreign)
	}
	assert.That(t, strings.Count(text, "<title>") >= 20, "marks without their values")
	// Nothing to draw is a page without plots.
	b.Reset()
	err := Grow(nil, Side{Label: "x", Cells: map[kernels.Problem]Cell{devicetest.Problem(t,
		"rmsnorm/fwd/1x1/bf16"): timed(1)}}).Page("x", nil).Write(&b)
	assert.That(t, err == nil && !strings.Contains(b.String(), "<svg"), "%v", err)
	assert.That(t, growth(t, nil).Page("x", nil).Write(brokenWriter{}) != nil,
		"a write error was lost")
}

// Launches have a table; what takes one is not in it.
func TestStages(t *testing.T) {
	cell := ok(51.38)
	cell.Stages = []record.StageUS{{Stage: "k1", MedianUS: 48.29}, {Stage: "k2", MedianUS: 48.19}}
	apart := ok(50)
	apart.Stages = []record.StageUS{{Stage: "k1", MedianUS: 40}, {Stage: "k2", MedianUS: 10}}
	p := Grow(nil, Side{Label: "x",
		Cells: map[kernels.Problem]Cell{devicetest.Problem(t,
			"layernorm/bwd/2048x16384/bf16"): cell,
			devicetest.Problem(t, "layernorm/bwd/8x16384/bf16"): apart}}).Page("x", nil)
	var b bytes.Buffer
	assert.NoError(t, p.Write(&b))
	for want, times := range map[string]int{"Launch by launch": 1, ">k1 48.29, k2 48.19</td>": 1,
		">k1 40.00, k2 10.00</td>": 1, ">51.38</td>": 2} {
		assert.Equal(t, strings.Count(b.String(), want), times, want, "stands", "times")
	}
}

// On a page the shape and the verdict come first, and what all rows have in common stands above.
func TestLedBy(t *testing.T) {
	for other, want := range map[string]string{
		"bf16": "[problem verdict us] [[4x8 SAME 1] [8x8 FASTER 2]] all\nrmsnorm bwd bf16",
		"fp16": "[problem verdict us] [[rmsnorm/bwd/4x8/bf16 SAME 1] [rmsnorm/bwd/8x8/fp16 " +
			"FASTER 2]] " +
			"all",
	} {
		led := (&Table{Title: "all", Header: []string{"problem", "us", "verdict", "none"},
			Align: []Align{Left, Right}, Group: ByProblem,
			Rows: [][]string{{"rmsnorm/bwd/4x8/bf16", "1", "SAME"},
				{"rmsnorm/bwd/8x8/" + other, "2", "FASTER"}},
			Legend: []Meaning{{"us", "time"}, {"none", "nothing"}}}).LedBy("verdict")
		got := fmt.Sprint(led.Header, " ", led.Rows, " ", led.Title)
		assert.That(t, got == want && led.align(2) == Right && len(led.Legend) == 1,
			"%s: %s, %v", other, got, led.Align)
	}
}
