package sweep

import (
	"path/filepath"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// A sweep's times in an unfit state are taken again; what stays unfit is a row
// without a time.
func TestUnfitTimesAreTakenAgain(t *testing.T) {
	throttled := kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980,
		Throttle: []string{"hw slowdown"}}
	for name, test := range map[string]struct {
		bad    int // readings until the device is fit; the stream takes the first
		status kernels.Status
		reason string
	}{
		"fit":          {0, kernels.StatusOK, ""},
		"for a while":  {4, kernels.StatusOK, ""},
		"all the time": {1000, kernels.StatusUnfit, "rejected 5 times: throttled: hw slowdown"},
	} {
		dev := &devicetest.SensorFake{Fake: fake(), Reading: func(call int) kernels.Reading {
			if call < test.bad {
				return throttled
			}
			return kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980}
		}}
		sink := &memorySink{}
		ts := tasks(t, 1, "rmsnorm/fwd/64x256/bf16")
		_, err := Run(t.Context(), registry, []kernels.Device{dev}, ts, sink, options(5))
		assert.Must(t, err == nil, "%s: %v", name, err)
		rs := sink.variants()
		assert.That(t, len(rs) == 1 && rs[0].Status == test.status && rs[0].Reason == test.reason &&
			(len(rs[0].SamplesUS) > 0) == (test.status == kernels.StatusOK), "%s: %+v", name, rs)
	}
}

// Rounds ask a device once in a while how it is, and for a listener behind each: asking takes as
// long as a round.
func TestRoundsAskADeviceOnceInAWhile(t *testing.T) {
	for _, listens := range []bool{false, true} {
		calls := 0
		dev := &devicetest.SensorFake{Fake: fake(), Reading: func(int) kernels.Reading {
			calls++
			return kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980}
		}}
		task := tasks(t, 1, "rmsnorm/fwd/64x256/bf16")[0]
		s := &Session{Device: dev, Registry: registry, Problem: task.Problem, Protocol: options(5).Run.Protocol,
			sensed: time.Now().Add(time.Hour)}
		rounds := &RoundRunner{Session: s, Launches: 2, More: func(n int) bool { return n < 9 }}
		if listens {
			rounds.Sensed = func(RoundState) {}
		}
		arm := &Arm{Variant: task.Base}
		assert.NoError(t, rounds.Run(t.Context(), []*Arm{arm}))
		want := 0
		if listens {
			want = 9
		}
		assert.That(t, calls == want && len(arm.Rounds) == 9, "%d readings, %d rounds", calls, len(arm.Rounds))
	}
}

// What reads faster than the memory goes, or is shorter than nothing, is no time, whatever the
// device says of its memory: testdata/impossible.txt.
func TestImpossibleTimesAreNoTimes(t *testing.T) {
	assert.Lines(t, "testdata/impossible.txt", func(input string) string {
		x := assert.Value[struct {
			Problem                 string
			Unknown, Warm, CPU      bool // another card, a warm protocol, or a cpu
			Peak, Empty, Stream, Us float64
		}](t, input)
		d := devicetest.H200()
		if d.PeakRate = int64(x.Peak); x.Unknown {
			d.ID = "nvidia-h900"
		}
		if x.CPU {
			d.Kind = kernels.KindCPU
		}
		pr := ColdProtocol(d, 5)
		if x.Warm {
			pr = WarmProtocol(d, 5)
		}
		return Impossible(devicetest.Problem(t, x.Problem), d, pr, x.Empty, x.Stream, x.Us)
	})
}

// Whoever takes times, of whatever, holds them to what is possible.
func TestEveryMeasurementRefusesImpossibleTimes(t *testing.T) {
	ts := tasks(t, 4, "rmsnorm/fwd/64x256/bf16") // 7 ns at the peak
	lies := map[string]func(kernels.Problem, kernels.Variant, int) float64{
		"each": devicetest.Always(1e-6),
		"the last": func(p kernels.Problem, v kernels.Variant, n int) float64 {
			if v == ts[0].Variants[3] {
				return 1e-6
			}
			return devicetest.Typical(p, v, n)
		},
	}
	for name, lie := range lies {
		for _, o := range []RunOptions{options(4), contesting(4),
			searching(search.Grid, search.Budget{})} {
			o.Run.FloorUS = 2.5
			f, sink := fake(), &memorySink{}
			f.Seconds = lie
			Run(t.Context(), registry, devices(f), ts, sink, o)
			for _, r := range sink.records {
				assert.That(t,
					name != "each" && r.Variant() != ts[0].Variants[3] ||
						r.Status == kernels.StatusUnfit,
					"%s: %s is %s", name, r.Variant(), r.Status)
			}
		}
	}
}

// No time that is checked in is impossible. A third of the files each day.
func TestCheckedInTimesArePossible(t *testing.T) {
	files, err := filepath.Glob("../results/*/records.jsonl.bz2")
	more, _ := filepath.Glob("../results/*/*/records.jsonl.bz2")
	files = append(files, more...)
	assert.Must(t, err == nil && len(files) >= 3, "%v %v", files, err)
	n := 0
	for i, path := range files {
		if !assert.Sampled(i, 3) {
			continue
		}
		record.Read(path, func(r *record.Record, run *record.Run) error {
			if r.Status == kernels.StatusOK {
				n++
				assert.Equal(t,
					Impossible(r.Problem, run.Device, run.Protocol, run.EmptyUS(), r.StreamUS,
						stats.Median(r.SamplesUS)),
					"", path, r.Variant(), r.Problem)
			}
			return nil
		})
	}
	t.Logf("%d times", n)
}
