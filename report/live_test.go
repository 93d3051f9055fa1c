package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// Stages that were timed in a pass of their own are not told against the rounds: testdata/moved.txt,
// the stages of both sides, whether B is slower by the rounds, and the stage that is told.
func TestMoved(t *testing.T) {
	assert.Lines(t, "testdata/moved.txt", func(input string) string {
		x := assert.Value[struct {
			A, B   map[string]float64
			Effect float64
		}](t, input)
		stages := func(us map[string]float64) (list []record.Stage) {
			for _, name := range slices.Sorted(maps.Keys(us)) {
				list = append(list, record.Stage{Stage: name, SamplesUS: []float64{us[name]}})
			}
			return list
		}
		r := Row{duel: &ab.Result{StagesA: stages(x.A), StagesB: stages(x.B)},
			judged: &verdict.Judgement{Effect: x.Effect}}
		stage, _, by := r.movedStage()
		return fmt.Sprintf("%s %g", stage, by)
	})
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
