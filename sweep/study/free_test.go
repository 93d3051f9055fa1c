package study

import (
	"math"
	"math/rand/v2"
	"testing"

	"normbench/kernels/replay"
	"normbench/sweep/search"
)

// auto beats what random draws are expected to find on every kind of space, at 3%
// and from there on, and local does not end at its first summit.
func TestFreeSpaces(t *testing.T) {
	sum, n := 0.0, 0.0
	for name, f := range synthetics() {
		rows, err := RunFree(t.Context(), f, []string{search.Auto, search.Local}, 3)
		if err != nil {
			t.Fatal(err)
		}
		auto, local := rows[0], rows[1]
		sum, n = sum+auto.Score, n+1
		if auto.Score < 0.4 {
			t.Errorf("%s: auto scores %.2f", name, auto.Score)
		}
		for _, share := range []int{3, 6, 10} {
			if random := RandomRegret(f, Draws(f, share)); auto.Mean(share) > random {
				t.Errorf("%s: auto's regret at %d%% is %.3f, random's %.3f", name, share, auto.Mean(share), random)
			}
		}
		if local.Score < 0 {
			t.Errorf("%s: local scores %.2f", name, local.Score)
		}
	}
	if sum/n < 0.75 {
		t.Errorf("auto scores %.2f in the mean", sum/n)
	}
}

// The expected curve of random draws is what draws find.
func TestRandomRegret(t *testing.T) {
	f := synthetics()["invalid"]
	best := math.Inf(1)
	var valid []int
	for i, c := range f.Configs {
		best = min(best, c.Time)
		if !math.IsInf(c.Time, 1) {
			valid = append(valid, i)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const runs, draws = 2000, 50
	sum := 0.0
	for range runs {
		got := f.Configs[valid[rng.IntN(len(valid))]].Time
		for _, i := range rng.Perm(len(f.Configs))[:draws-1] {
			got = min(got, f.Configs[i].Time)
		}
		sum += got/best - 1
	}
	if want := RandomRegret(f, draws); math.Abs(sum/runs-want) > 0.05*want {
		t.Errorf("drawn %.4f, expected %.4f", sum/runs, want)
	}
	flat := &replay.Free{Configs: []replay.FreeConfig{{Time: 1}, {Time: 1}}}
	if got := RandomRegret(flat, 1); got != 0 {
		t.Errorf("regret %g where all are equal", got)
	}
}
