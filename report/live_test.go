package report

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
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

// smallLive is a recorded live compare with two of its duels, after change.
func smallLive(t testing.TB, change func(*Live)) []byte {
	t.Helper()
	run, err := ReadLive("../results/nvidia-h200/peers/layernorm-bwd.json.gz")
	assert.NoError(t, err)
	run.Duels = run.Duels[:2]
	run.Judge()
	change(run)
	data, err := json.Marshal(run)
	assert.NoError(t, err)
	return data
}

// Whatever is accepted can be printed, and judged again.
func FuzzParseLive(f *testing.F) {
	good := smallLive(f, func(*Live) {})
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"status":"ok"`), []byte(`"status":"wrong"`), 1))
	f.Add([]byte(`{"schema":1,"duels":[null]}`))
	f.Add(smallLive(f, func(r *Live) { r.Summary.Worst = nil }))
	f.Add(bytes.Replace(good, []byte(`"id":"`), []byte(`"id":"../../`), 1))
	f.Add(bytes.Replace(good, []byte(`"a":`), []byte(`"a":NaN,"a":`), 1))
	f.Add(bytes.Replace(good, []byte(`"rounds":[`), []byte(`"rounds":null,"x":[`), 1))
	f.Add(append([]byte("\xef\xbb\xbf"), good...))
	f.Add([]byte(`{"schema":1,"duels":` + strings.Repeat("[", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ab.Parse(data)
		if err != nil {
			return
		}
		run := &Live{Match: *m}
		assert.NoError(t, Render(io.Discard, run.Comparison(), FormatText))
		if len(run.Duels) > 20 || run.Duels[0].Status == kernels.StatusOK &&
			len(run.Duels[0].Rounds) > 100 {
			return // judging takes the square of the rounds
		}
		run.Judge()
	})
}
