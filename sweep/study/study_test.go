package study

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/search"
)

// grids are problems of n variants whose times follow their warps, with 2% of noise.
func grids(problems, n int) *Grids {
	rng := rand.New(rand.NewPCG(1, 2))
	g := &Grids{Source: "test", Device: kernels.DeviceInfo{ID: "gpu", Kind: kernels.KindCUDA, SMs: 132}, Protocol: record.Protocol{Name: "cold", Samples: 20, Discard: 1, Flush: 1 << 27, Cold: true}}
	noisy := func(us float64) []float64 {
		var x []float64
		for range 20 {
			x = append(x, us*(1+0.02*rng.NormFloat64()))
		}
		return x
	}
	for i := range problems {
		p := Grid{Problem: kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Bwd, M: 512 << i, N: 4096, DType: kernels.BF16, Weight: kernels.BF16}, Stream: noisy(30)}
		for j := range n {
			c := kernels.NewConfig(kernels.Setting{Knob: kernels.Warps, Value: 1 << (j % 6)}, kernels.Setting{Knob: kernels.BlockRows, Value: 1 << (j / 6 % 6)}, kernels.Setting{Knob: kernels.PerSM, Value: j / 36})
			us := 40 + 5*float64((j%6-3)*(j%6-3)) + 3*float64((j/6%6-2)*(j/6%6-2)) + 2*float64(j/36)
			p.Variants = append(p.Variants, Variant{Variant: kernels.Variant{Family: "rms_bwd/x", Config: c}, Samples: noisy(us), Check: kernels.Check{Busy: 3e-4}})
		}
		g.Problems = append(g.Problems, p)
	}
	return g
}

func TestRun(t *testing.T) {
	g := grids(4, 100)
	setups := append(Quick(), Setup{Label: "finals", Strategy: search.Auto, Transfer: true, Finals: 8}, Setup{Label: "evolve", Strategy: search.Evolve, Share: 0.2, Every: 2})
	run := func() [][][]Outcome {
		out, err := Run(t.Context(), g, setups, 6)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run()
	rows := map[string]Row{}
	for i, s := range setups {
		rows[s.Label] = Summarize(g, s, out[i], nil)
	}
	if r := rows["grid"]; r.GPU < 0.95 || r.GPU > 1.05 || r.Configs != 1 {
		t.Errorf("the grid takes %.2f of itself, %.2f of the variants", r.GPU, r.Configs)
	}
	if auto, random := rows["auto"], rows["random"]; auto.P95 > random.P95 || auto.GPU > 0.2 || auto.Within < 0.7 {
		t.Errorf("auto %+v\nrandom %+v", auto, random)
	}
	if rows["finals"].GPU <= rows["auto"].GPU {
		t.Error("finals are for free")
	}
	if n := len(out[4][0]); n != 3 {
		t.Errorf("%d searches by every second of 6 seeds", n)
	}
	if again := run(); fmt.Sprint(again) != fmt.Sprint(out) {
		t.Error("the same seeds gave another table")
	}
	if r := Summarize(g, setups[0], out[0], func(Grid) bool { return false }); r.GPU != 0 {
		t.Errorf("of no problem: %+v", r)
	}
	g.Problems[1].Variants[2].Samples = []float64{1, 2, 3}
	if _, err := Run(t.Context(), g, setups, 1); err == nil {
		t.Error(err)
	}
}

// The checked-in grids of an H200: auto takes at most a tenth of their GPU time,
// and finds nearly as many of their winners as measuring them again does (over 100
// seeds 79% of them, against 89).
func TestRecorded(t *testing.T) {
	path := filepath.Join("..", "..", "results", "nvidia-h200", "grids")
	if _, err := os.Stat(path); err != nil || testing.Short() || raceEnabled() {
		t.Skip("takes seconds, and needs the results")
	}
	g, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Problems) != 12 || g.Skipped > 0 || g.Problems[0].Base < 0 {
		t.Fatalf("%d grids, %d left out", len(g.Problems), g.Skipped)
	}
	out, err := Run(t.Context(), g, Quick(), 10)
	if err != nil {
		t.Fatal(err)
	}
	auto, grid := Summarize(g, Quick()[0], out[0], nil), Summarize(g, Quick()[2], out[2], nil)
	t.Logf("auto: %.1f%% of the GPU time, within 1%% in %.1f%% of searches; the grid again in %.1f%%", 100*auto.GPU, 100*auto.Within, 100*grid.Within)
	if auto.GPU > 0.10 || auto.Within < grid.Within-0.15 {
		t.Errorf("auto: %+v\ngrid: %+v", auto, grid)
	}
}

func raceEnabled() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
