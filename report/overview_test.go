package report

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
)

// overview is two arms over rows and columns: the second has fewer problems, one
// that failed and one without a time of the stream.
func overview(t testing.TB) *Overview {
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
	return NewOverview(Side{Label: "base", Cells: a}, Side{Label: "rules & <others>", Cells: b})
}

func TestOverview(t *testing.T) {
	g := overview(t)
	golden(t, "overview", g.Render)
	assert.That(t, g.Render(io.Discard, "xml") != nil, "xml is a format")
	if err := NewOverview().Render(io.Discard, FormatText); err != nil { // nothing is a report too
		t.Error(err)
	}
	assert.That(t, strings.Contains(strings.Join(g.Notes, "\n"), "1 measurement failed:"), "%q", g.Notes)
}

// shapes is ours and the best peer over shapes of two passes: the peer has fewer,
// one that failed and one without a time of the stream.
func shapes(t testing.TB) *Overview {
	ours, peer := map[kernels.Problem]Cell{}, map[kernels.Problem]Cell{}
	for i, s := range []string{"4096x256", "65536x256", "576000x384", "1024x8192", "2048x8192",
		"4096x8192", "8192x8192", "29x17389", "256x65536"} {
		for _, pass := range []string{"fwd", "bwd"} {
			p := devicetest.Problem(t, "rmsnorm/"+pass+"/"+s+"/bf16")
			c := ok(10 + float64(i))
			c.StreamUS, c.Run = 9.5+0.9*float64(i), coldRun("r", "nvidia-h200")
			ours[p] = c
			if pass == "bwd" && s != "65536x256" {
				c.Median *= 1.5
				c.Variant = kernels.Variant{Family: "peer/torch"}
				peer[p] = c
			}
		}
	}
	peer[devicetest.Problem(t, "rmsnorm/bwd/2048x8192/bf16")] = failed(kernels.StatusWrong,
		"dx is wrong")
	none := ok(20)
	none.StreamUS = 0
	peer[devicetest.Problem(t, "rmsnorm/bwd/256x65536/bf16")] = none
	return NewOverview(Side{Label: "peer:best", Cells: peer},
		Side{Label: "tuned:<t>.json", Cells: ours})
}

// Shapes stand in the order of the table, and a line joins those that share a
// side and stand beside each other.
func TestPanels(t *testing.T) {
	g := shapes(t)
	var got []string
	for _, p := range g.panels() {
		got = append(got, p.what+": "+strings.Join(p.shapes, " "))
		for _, l := range p.lines {
			var s []string
			for _, pt := range l {
				s = append(s, map[bool]string{true: "|", false: "-"}[pt.Apart]+fmt.Sprint(pt.X))
			}
			got = append(got, strings.Join(s, ""))
		}
	}
	const order = ": 4096x256 65536x256 576000x384 1024x8192 2048x8192 4096x8192 8192x8192 " +
		"29x17389 256x65536"
	want := []string{"rms fwd bf16" + order, "", "|0-1|2|3-4-5-6|7|8", "rms bwd bf16" + order,
		"|0|2|3|5-6|7", "|0-1|2|3-4-5-6|7|8"}
	a, b := strings.Join(got, "\n"), strings.Join(want, "\n")
	assert.Equal(t, a, b)
	for i, r := range g.Rows[9:] {
		assert.Equal(t, fmt.Sprintf("%dx%d", r.Problem.M, r.Problem.N), strings.Fields(order)[1+i],
			"row", i, "of the table")
	}
}

func TestPlot(t *testing.T) {
	data, err := shapes(t).Plot("On a <card>")
	assert.NoError(t, err)
	assert.Golden(t, filepath.Join("testdata", "shapes.svg"), string(data))
	many := Side{Label: "x", Cells: map[kernels.Problem]Cell{}}
	for m := range int64(maxShapes + 1) {
		many.Cells[devicetest.Problem(t, fmt.Sprintf("rmsnorm/fwd/%dx1/bf16", m+1))] = ok(1)
	}
	_, err = NewOverview(many).Plot("x")
	assert.Error(t, err, "251 shapes")
	_, err = NewOverview(Side{Label: "x"}).Plot("x")
	assert.Refused(t, err, "nothing to draw")
}

// A page holds its tables and plots, what it was measured on, and nobody's markup.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	assert.NoError(t,
		overview(t).Page("On a <card>",
			[]*record.Run{{Device: kernels.DeviceInfo{Driver: "<580>"}}}).Write(&b))
	text := b.String()
	for want, times := range map[string]int{"<svg viewBox=": 2, "<table>": 3,
		"<h1>On a &lt;card&gt;</h1>": 1, "A = base, B = rules &amp; &lt;others&gt;": 1, "<here>": 0,
		`<td class="r ">1048576</td>`: 10, "<dt>driver</dt><dd>(CUDA &lt;580&gt;)</dd>": 1,
		"rules &amp; &lt;others&gt;</li>": 1} {
		assert.Equal(t, strings.Count(text, want), times, want, "stands", "times")
	}
	for _, foreign := range []string{"http:", "https:", "src=", "@import", "ZgotmplZ"} {
		assert.That(t, !strings.Contains(text, foreign), "the page has %s", foreign)
	}
	assert.That(t, strings.Count(text, "<title>") >= 20, "marks without their values")
	// Nothing to draw is a page without plots.
	b.Reset()
	err := NewOverview(Side{Label: "x", Cells: map[kernels.Problem]Cell{devicetest.Problem(t,
		"rmsnorm/fwd/1x1/bf16"): timed(1)}}).Page("x", nil).Write(&b)
	assert.That(t, err == nil && !strings.Contains(b.String(), "<svg"), "%v", err)
	assert.That(t, overview(t).Page("x", nil).Write(brokenWriter{}) != nil,
		"a write error was lost")
}

// Launches have a table; what takes one is not in it.
func TestStages(t *testing.T) {
	cell := ok(51.38)
	cell.Stages = []record.StageUS{{Stage: "k1", MedianUS: 48.29}, {Stage: "k2", MedianUS: 48.19}}
	apart := ok(50)
	apart.Stages = []record.StageUS{{Stage: "k1", MedianUS: 40}, {Stage: "k2", MedianUS: 10}}
	p := NewOverview(Side{Label: "x",
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
