package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"normbench/internal/assert"
)

// What `normbench judge --help` and docs/read-a-table.md say of a change of 2%: by the noise of the
// visits, and not by the rounds alone.
func TestSmallChangesAreFoundByTheirNoise(t *testing.T) {
	const cells = 1000
	for _, c := range []struct {
		noise       float64
		rounds      int
		least, most float64
	}{{0.006, 12, 0.98, 1}, {0.01, 12, 0.6, 0.8}, {0.02, 12, 0, 0.2}, {0.01, 24, 0.98, 1}, {0.02,
		24, 0.35, 0.6}} {
		found := 0.0
		for seed := range uint64(cells) {
			r := rand.New(rand.NewPCG(seed, 9))
			var cell PairedRounds
			for range c.rounds {
				arm := func(x float64) float64 { return 50 * math.Exp(x+c.noise*r.NormFloat64()) }
				cell.Rounds = append(cell.Rounds, Round{arm(0), arm(math.Log(1.02)), arm(0)})
			}
			if Judge([]PairedRounds{cell}, Default())[0].Verdict == Slower {
				found += 1. / cells
			}
		}
		assert.That(t, found >= c.least && found <= c.most,
			"noise of %.1f%%, %d rounds: %.1f%% found", 100*c.noise, c.rounds, 100*found)
	}
}

// The rule's one weakness is said as it is: an arm that keeps a mode over several rounds is called,
// the more often the longer it keeps it.
func TestArmThatKeepsAModeIsCalled(t *testing.T) {
	const cells = 1000
	for _, c := range []struct{ kept, least, most float64 }{{1, 0, 0.005}, {3, 0.01, 0.04},
		{8, 0.08, 0.13}} {
		wrong := 0.0
		for seed := range uint64(cells) {
			r := rand.New(rand.NewPCG(seed, 10))
			share := 0.1 + 0.4*r.Float64()
			var slow [3]bool
			for i := range slow {
				slow[i] = r.Float64() < share
			}
			var cell PairedRounds
			for rule := Default(); rule.NeedsMore(cell, 1); {
				var x [3]float64
				for i := range slow {
					if r.Float64() < 1/c.kept {
						slow[i] = r.Float64() < share
					}
					if x[i] = 50 * math.Exp(0.003*r.NormFloat64()); slow[i] {
						x[i] *= 1.04
					}
				}
				cell.Rounds = append(cell.Rounds, Round{x[0], x[1], x[2]})
			}
			if claimed(Judge([]PairedRounds{cell}, Default())[0].Verdict) {
				wrong += 1. / cells
			}
		}
		assert.That(t, wrong >= c.least && wrong <= c.most,
			"a mode kept over %g rounds: %.1f%% called", c.kept, 100*wrong)
	}
}
