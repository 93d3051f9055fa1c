package report

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

// shapes is ours and the best peer over shapes of two passes: the peer has fewer,
// one that failed and one without a time of the stream.
func shapes(t testing.TB, over *Axis) *Growth {
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
	return Grow(over, Side{Label: "peer:best", Cells: peer},
		Side{Label: "tuned:<t>.json", Cells: ours})
}

// Shapes stand in the order of the table, and a line joins those that share a
// side and stand beside each other.
func TestShapePanels(t *testing.T) {
	g := shapes(t, OverShape)
	var got []string
	for _, p := range g.panels(OverShape) {
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
	// Over no axis the table has the order that the plot has.
	if a, b := shapes(t, nil).panels(OverShape), g.panels(OverShape); fmt.Sprint(a) != fmt.Sprint(
		b) {
		t.Errorf("%v\n%v", a, b)
	}
}

func TestShapePlot(t *testing.T) {
	data, err := shapes(t, OverShape).Plot("On a <card>", OverShape)
	assert.NoError(t, err)
	assert.Golden(t, filepath.Join("testdata", "shapes.svg"), string(data))
}
