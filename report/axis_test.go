package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels"
)

func TestAxisOf(t *testing.T) {
	for _, a := range Axes() {
		if got, err := AxisOf(a.String()); got != a || err != nil {
			t.Errorf("%s is %v, %v", a, got, err)
		}
	}
	if a, err := AxisOf(""); a != nil || a.String() != "" || err != nil {
		t.Error(a, err)
	}
	for _, bad := range []string{"m", "rows", "shapes", "M,N"} {
		if a, err := AxisOf(bad); a != nil || err == nil || !strings.Contains(hint.Of(err), "--over shape") {
			t.Errorf("--over %q: %v, %v", bad, a, err)
		}
	}
}

// shapes is ours and the best peer over shapes of two passes: the peer has fewer,
// one that failed and one without a time of the stream.
func shapes(t testing.TB, over *Axis) *Growth {
	ours, peer := map[kernels.Problem]Cell{}, map[kernels.Problem]Cell{}
	for i, s := range []string{"4096x256", "65536x256", "576000x384", "1024x8192", "2048x8192", "4096x8192", "8192x8192", "29x17389", "256x65536"} {
		for _, pass := range []string{"fwd", "bwd"} {
			p := problem(t, "rmsnorm/"+pass+"/"+s+"/bf16")
			c := ok(10 + float64(i))
			c.StreamUS, c.Device, c.Protocol = 9.5+0.9*float64(i), "nvidia-h200", "cold"
			ours[p] = c
			if pass == "bwd" && s != "65536x256" {
				c.MedianUS *= 1.5
				c.Variant = kernels.Variant{Family: "peer/torch"}
				peer[p] = c
			}
		}
	}
	peer[problem(t, "rmsnorm/bwd/2048x8192/bf16")] = failed(kernels.StatusWrong, "dx is wrong")
	none := ok(20)
	none.StreamUS = 0
	peer[problem(t, "rmsnorm/bwd/256x65536/bf16")] = none
	return Grow(over, Side{Label: "peer:best", Cells: peer}, Side{Label: "tuned:<t>.json", Cells: ours})
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
	const order = ": 4096x256 65536x256 576000x384 1024x8192 2048x8192 4096x8192 8192x8192 29x17389 256x65536"
	want := []string{"rms fwd bf16" + order, "", "|0-1|2|3-4-5-6|7|8", "rms bwd bf16" + order, "|0|2|3|5-6|7", "|0-1|2|3-4-5-6|7|8"}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
	for i, r := range g.Rows[9:] {
		if s := fmt.Sprintf("%dx%d", r.Problem.M, r.Problem.N); s != strings.Fields(order)[1+i] {
			t.Errorf("row %d of the table is %s", i, s)
		}
	}
	// Over no axis the table has the order that the plot has.
	if a, b := shapes(t, nil).panels(OverShape), g.panels(OverShape); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v\n%v", a, b)
	}
}

func TestShapePlot(t *testing.T) {
	data, err := shapes(t, OverShape).Plot("On a <card>", OverShape)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shapes.svg", string(data))
}

// One shape is a plot; none with a time of the stream and too many are not.
func TestShapeBounds(t *testing.T) {
	side := func(n int, stream float64) Side {
		s := Side{Label: "x", Cells: map[kernels.Problem]Cell{}}
		for i := range n {
			c := ok(1)
			c.StreamUS = stream
			s.Cells[problem(t, fmt.Sprintf("rmsnorm/fwd/%dx64/bf16", i+1))] = c
		}
		return s
	}
	if _, err := Grow(OverShape, side(1, 1)).Plot("x", OverShape); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		side Side
		want string
	}{
		{side(3, 0), "nothing to draw over shape: no problem has a time and the stream's"},
		{side(maxShapes+1, 1), "251 shapes of rms fwd bf16 are too many for one plot"},
	} {
		if err := Grow(OverShape, tc.side).CheckPanels(OverShape); err == nil || err.Error() != tc.want || hint.Of(err) == "" {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
	// Each shape has room for its label, however many there are.
	for n, pitch := range map[int]float64{1: 26, 48: 26, 60: 20.8, 250: 15} {
		g := Grow(OverShape, side(n, 1))
		if d := g.draw(g.panels(OverShape), OverShape)[0]; math.Abs((d.Width-80)/float64(n)-pitch) > 1e-9 {
			t.Errorf("%d shapes on %g pixels", n, d.Width)
		}
	}
}

// A page has what is of one kind together, whatever the order of the table, and
// whichever of a problem's options make the kind.
func TestKinds(t *testing.T) {
	cells := map[kernels.Problem]Cell{}
	for _, m := range []int64{1, 2, 3} {
		for _, options := range []string{"", "+zc", "+noweight", "+residual", "+fp8", "+fp8t"} {
			c := ok(20)
			c.StreamUS = 18
			cells[problem(t, fmt.Sprintf("rmsnorm/fwd/%dx64/bf16%s", m, options))] = c
		}
	}
	for _, over := range append(Axes(), nil) {
		p := Grow(over, Side{Label: "x", Cells: cells}).Page("x", nil)
		kinds := map[string]int{}
		last := ""
		for _, r := range p.Charts[0].Rows {
			if r.Kind != last {
				kinds[r.Kind]++
			}
			last = r.Kind
		}
		if len(kinds) != 6 || len(p.Charts[0].Rows) != 18 {
			t.Errorf("over %s: %v", over, kinds)
		}
		for k, n := range kinds {
			if n != 1 {
				t.Errorf("over %s: %s stands in %d places", over, k, n)
			}
		}
	}
}
