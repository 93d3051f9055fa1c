package study

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestExplore(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv("EXPLORE"))
	if seeds == 0 {
		t.Skip()
	}
	g, err := Load("../../results/nvidia-h200/records.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	ss := Setups()
	if os.Getenv("ONLY") != "" {
		ss = ss[:3]
	}
	out, err := Run(context.Background(), g, ss, seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range ss {
		r := Summarize(g, s, out[i], nil)
		fmt.Printf("%-24s %4.0f%% gpu %5.1f%% (%5.1f%%) p50 %.2f%% p95 %.2f%% cells %.1f%% problems %.1f%% %.1f%%\n", s.Label, 100*s.Share, 100*r.GPU, 100*r.GPUMedian, 100*r.Median, 100*r.P95, 100*r.Within, 100*r.Problems, 100*r.Problems2)
	}
}
