package learn

import (
	"math"
	"testing"
	"time"

	"normbench/kernels/families"
	"normbench/kernels/rule"
)

func TestEval(t *testing.T) {
	d, err := Collect([]string{"../../results/nvidia-h200/learn"})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	f := &Filler{Registry: families.With(), Device: d.Device}
	m := f.Fill(d.Points)
	t.Log(time.Since(start))
	for _, r := range m.Rasters {
		t.Log(r.Class, r.Align, r.Problems, r.Regret, len(r.Legend))
	}
	start = time.Now()
	m = f.Fill(d.Points)
	t.Log("again", time.Since(start))
	for _, l := range m.Rasters[4].Lines {
		t.Log(l.From, l.Cells, l.Evidence)
	}
	{
		sum, n, un := 0.0, 0, 0
		for fold := range 5 {
			var in, out []*Point
			for _, p := range d.Points {
				h := int(p.Problem.N*2654435761>>7) % 5
				if h == fold {
					out = append(out, p)
				} else {
					in = append(in, p)
				}
			}
			m := f.Fill(in)
			for _, p := range out {
				a := m.Find(p.Problem, &d.Device)
				if a.Match == rule.MatchCell && p.US[a.Variant] > 0 {
					sum += math.Log(p.US[a.Variant] / p.BestUS)
					n++
				} else {
					un++
				}
			}
		}
		t.Logf("held out N: %.4f on %d, %d unmeasured", sum/float64(n), n, un)
	}
}
