package report

import (
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// Stages that were timed in a pass of their own are not told against the rounds.
func TestMoved(t *testing.T) {
	stages := func(k1, k2 float64) []record.Stage {
		return []record.Stage{{Stage: "k1", SamplesUS: []float64{k1}},
			{Stage: "k2", SamplesUS: []float64{k2}}}
	}
	for _, c := range []struct {
		a, b   []record.Stage
		slower bool
		stage  string
		by     float64
	}{
		{stages(213, 5), stages(221, 5), false, "", 0}, // FASTER by rounds
		{stages(213, 5), stages(221, 5), true, "k1", 8},
		{stages(213, 50), stages(221, 20), false, "k2", -30},
		{stages(213, 50), stages(205, 90), false, "", 0}, // all together is slower
		{stages(213, 5), stages(213, 5), true, "", 0},
		{nil, stages(1, 1), true, "", 0},
	} {
		r := Row{duel: &ab.Result{StagesA: c.a, StagesB: c.b},
			judged: &verdict.Judgement{Effect: 0.9}}
		if c.slower {
			r.judged.Effect = 1.1
		}
		stage, _, by := r.movedStage()
		assert.That(t, stage == c.stage && by == c.by, "%+v: %s %g", c, stage, by)
	}
}
