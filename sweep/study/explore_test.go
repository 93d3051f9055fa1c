package study

import (
	"context"
	"fmt"
	"normbench/sweep/stats"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestExplore(t *testing.T) {
	if os.Getenv("EXPLORE") == "" {
		t.Skip()
	}
	seeds, _ := strconv.Atoi(os.Getenv("EXPLORE"))
	g, err := Load("../../results/nvidia-h200/records.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	var setups []Setup
	for _, s := range []Setup{{"auto", "auto", 0, true}, {"auto alone", "auto", 0, false}, {"model", "model", 0, false}, {"local", "local", 0.2, true}, {"halving", "halving", 0.2, false}, {"halving100", "halving", 0, false}, {"random10", "random", 0.1, false}, {"grid", "grid", 0, false}} {
		if os.Getenv("ONLY") == "" || os.Getenv("ONLY") == s.Label {
			setups = append(setups, s)
		}
	}
	for i := range setups {
		start := time.Now()
		out, err := Run(context.Background(), g, setups[i:i+1], seeds, nil)
		if err != nil {
			t.Fatal(err)
		}
		report(g, setups[i], out[0], time.Since(start))
	}
}

func report(g *Grids, s Setup, out [][]Outcome, d time.Duration) {
	for _, half := range []string{"all", "rmsnorm", "layernorm"} {
		cells, ok, probOK, n := 0, 0, 0, 0
		var sec, grid, configs float64
		var regs []float64
		var shares []float64
		for i, p := range out {
			if half != "all" && string(g.Problems[i].Problem.Op) != half {
				continue
			}
			var r []float64
			var ps, pg float64
			for _, o := range p {
				cells++
				if o.Regret <= 0.01 {
					ok++
				}
				r = append(r, o.Regret)
				sec += o.Seconds
				grid += o.Grid
				configs += float64(o.Configs) / float64(len(g.Problems[i].Variants))
				ps += o.Seconds
				pg += o.Grid
			}
			shares = append(shares, ps/pg)
			regs = append(regs, r...)
			n++
			if stats.Median(r) <= 0.01 {
				probOK++
			}
		}
		fmt.Printf("%-12s %-9s cells %.3f problems %.3f gpu %.3f (median of problems %.3f, p90 %.3f) configs %.3f p50 %.4f p95 %.4f  %s\n", s.Label, half, float64(ok)/float64(cells), float64(probOK)/float64(n), sec/grid, stats.Median(shares), stats.Quantile(.9, shares), configs/float64(cells), stats.Median(regs), stats.Quantile(0.95, regs), d.Round(time.Millisecond))
	}
}
