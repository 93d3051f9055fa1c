package ab

import (
	"io"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// A testSession counts how often a device is opened anew.
type testSession struct{ reopened int }

func (*testSession) Prepare(kernels.Device, []sweep.Task) error { return nil }

func (*testSession) TestTimer(*record.Run, ...kernels.Device) error { return nil }

func (s *testSession) Reopen(d kernels.Device) (kernels.Device, *kernels.Registry, error) {
	s.reopened++
	return d, registry, nil
}

// A task measures its pairs, confirms what is slower on a device opened anew, and its file has all of it.
func TestTaskConfirmsWhatIsSlower(t *testing.T) {
	d := testDuel(t)
	d.B.Config = d.B.Config.With(kernels.Setting{Knob: kernels.Stages, Value: 1})
	f := &devicetest.Fake{Registry: registry, Seconds: func(_ kernels.Problem, v kernels.Variant, sample int) float64 {
		us := 10 + float64(sample%7)/100
		if v == d.B {
			us *= 2
		}
		return us / 1e6
	}}
	pr, rule := sweep.ColdProtocol(f.Info(), 4), verdict.Default()
	rule.Plan = verdict.Pocock(rule.Alpha, 12, 24)
	out, s := console.New(t.Context(), nil, io.Discard), &testSession{}
	task := &LiveCompare{Runner: &Runner{Registry: registry, Device: f, Protocol: pr, FastestChooser: NewChooser(out)},
		Pairs: []Pair{{Problem: d.Problem, Of: [2][]kernels.Variant{{d.A}, {d.B}}}}, Out: t.TempDir(), DeviceOpener: s,
		Experiment: &Experiment{Schema: Schema, Run: record.Run{ID: "1", Device: f.Info(), Protocol: pr}, A: "a", B: "b",
			Rule: rule, Policy: GatePolicy{Gate: true}}}
	m, err := task.Run(t.Context(), out)
	assert.NoError(t, err)
	kept, err := Read(task.Saved())
	assert.NoError(t, err)
	assert.That(t, s.reopened == 1 && len(m.Gate) == 1 && m.Gate[0].Confirmed, "reopened %d times: %+v", s.reopened, m.Gate)
	assert.That(t, len(kept.Duels) == 1 && len(kept.Judged) == 1 && kept.Judged[0].Verdict == verdict.Slower &&
		len(kept.Gate) == 1 && kept.Asked == 1, "the file has %+v", kept.Judged)
}
