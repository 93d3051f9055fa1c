package verdict

import (
	"math"
	"math/rand/v2"
	"slices"

	"normbench/sweep/stats"
)

// powerTrials are the cells that Power draws; 200 tell it to 3.5%.
const powerTrials = 200

// Power is the chance that as many rounds as the cell has, drawn from its own with
// its own effect taken off and a change of Rule.Resolve put on, are called. It is
// about the noise, and says nothing of the verdict on these rounds.
func (r Rule) Power(c Cell) float64 {
	var ok []Round
	var d []float64
	for _, x := range c.Rounds {
		if x.ok() {
			ok = append(ok, x)
			d = append(d, math.Log(x.B/x.A))
		}
	}
	if len(ok) == 0 {
		return 0
	}
	by := math.Exp(-stats.Median(slices.Clone(d))) * (1 + r.Resolve)
	rng := rand.New(rand.NewPCG(bootstrapSeed, uint64(len(ok))))
	called := 0
	for range powerTrials {
		draw := Cell{Step: c.Step, Rounds: make([]Round, len(ok))}
		for i := range draw.Rounds {
			x := ok[rng.IntN(len(ok))]
			x.B *= by
			draw.Rounds[i] = x
		}
		if v := judge(draw, r).Verdict; v == Faster || v == Slower {
			called++
		}
	}
	return float64(called) / powerTrials
}
