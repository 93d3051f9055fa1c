package sweep

import (
	"context"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/verdict"
)

// sensed is a device with scripted readings.
type sensed struct {
	*devicetest.Fake
	reading func(call int) kernels.Reading
	calls   int
}

func (s *sensed) Sense(context.Context) (kernels.Reading, error) {
	s.calls++
	return s.reading(s.calls - 1), nil
}

func duelOptions(rounds int) DuelOptions {
	pr := ColdProtocol(devicetest.H200(), 4)
	return DuelOptions{Protocol: pr, Order: OrderABBA, Seed: 1, Repeats: 1, MinClock: 0.75, MaxReject: 3,
		More: func(c verdict.Cell) bool { return len(c.Rounds) < rounds }}
}

func testDuel(t *testing.T, r *kernels.Registry) Duel {
	t.Helper()
	p, err := kernels.ParseProblem("rmsnorm/bwd/4096x1024/bf16")
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.Base(p, devicetest.H200())
	if err != nil {
		t.Fatal(err)
	}
	return Duel{Problem: p, A: v, B: v}
}

// Every round visits every arm once, in an order that alternates, and keeps
// every sample but the first of a visit.
func TestRunDuel(t *testing.T) {
	r := families.New()
	d := testDuel(t, r)
	res, err := RunDuel(t.Context(), r, &devicetest.Fake{Registry: r}, d, duelOptions(6))
	if err != nil || res.Status != kernels.StatusOK {
		t.Fatalf("%v, %+v", err, res)
	}
	if len(res.Rounds) != 6 || len(res.Visits) != 24 || len(res.States) != 6 {
		t.Fatalf("%d rounds, %d visits, %d states", len(res.Rounds), len(res.Visits), len(res.States))
	}
	for i, v := range res.Visits {
		want := []string{ArmA, ArmB, ArmA2, ArmStream, ArmA2, ArmB, ArmA, ArmStream}[i%8]
		if v.Round != i/4 || v.Place != i%4 || v.Arm != want || len(v.SamplesUS) != 4 {
			t.Errorf("visit %d: %+v, want arm %s", i, v, want)
		}
	}
	if len(res.StagesA) != 2 || len(res.StagesB) != 2 || res.StreamUS <= 0 {
		t.Errorf("stages %v, %v, stream %g", res.StagesA, res.StagesB, res.StreamUS)
	}
}

// Rounds in an unfit state are kept and do not count; too many make the cell
// unfit.
func TestRunDuelUnfit(t *testing.T) {
	r := families.New()
	d := testDuel(t, r)
	fit := kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980}
	for name, test := range map[string]struct {
		reading func(call int) kernels.Reading
		status  kernels.Status
		reason  string
		states  int
	}{
		"fit": {func(int) kernels.Reading { return fit }, kernels.StatusOK, "", 6},
		"twice throttled": {func(call int) kernels.Reading {
			if call < 4 { // two readings a round, the second counts
				return kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980, Throttle: []string{"sw power cap"}}
			}
			return fit
		}, kernels.StatusOK, "", 8},
		"slow clock": {func(int) kernels.Reading { return kernels.Reading{ClockMHz: 1200, MaxClockMHz: 1980} },
			kernels.StatusUnfit, "the clock is 1200 MHz of 1980", 4},
		"shared": {func(int) kernels.Reading { return kernels.Reading{Others: []string{"process 7 (python)"}} },
			kernels.StatusUnfit, "the GPU is shared with process 7 (python)", 4},
		"sliced": {func(int) kernels.Reading { return kernels.Reading{Sliced: true} }, kernels.StatusUnfit, "the GPU is sliced (MIG)", 4},
	} {
		res, err := RunDuel(t.Context(), r, &sensed{Fake: &devicetest.Fake{Registry: r}, reading: test.reading}, d, duelOptions(6))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.Status != test.status || !strings.Contains(res.Reason, test.reason) || len(res.States) != test.states {
			t.Errorf("%s: %s, %q, %d states", name, res.Status, res.Reason, len(res.States))
		}
	}
}

// A sweep's times in an unfit state are taken again; what stays unfit is a row
// without a time.
func TestRunUnfit(t *testing.T) {
	throttled := kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980, Throttle: []string{"hw slowdown"}}
	for name, test := range map[string]struct {
		bad    int // readings until the device is fit; the stream takes the first
		status kernels.Status
		reason string
	}{
		"fit":          {0, kernels.StatusOK, ""},
		"for a while":  {4, kernels.StatusOK, ""},
		"all the time": {1000, kernels.StatusUnfit, "rejected 5 times: throttled: hw slowdown"},
	} {
		dev := &sensed{Fake: fake(), reading: func(call int) kernels.Reading {
			if call < test.bad {
				return throttled
			}
			return kernels.Reading{ClockMHz: 1980, MaxClockMHz: 1980}
		}}
		sink := &memory{}
		ts := tasks(t, 1, "rmsnorm/fwd/64x256/bf16")
		if _, err := Run(t.Context(), registry, []kernels.Device{dev}, ts, sink, options(5)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rs := sink.variants()
		if len(rs) != 1 || rs[0].Status != test.status || rs[0].Reason != test.reason || (len(rs[0].SamplesUS) > 0) != (test.status == kernels.StatusOK) {
			t.Errorf("%s: %+v", name, rs)
		}
	}
}

// A variant that fails or answers wrong is a result, named by its arm.
func TestRunDuelFailures(t *testing.T) {
	r := families.New()
	d := testDuel(t, r)
	d.B.Config = d.B.Config.With(kernels.Setting{Knob: kernels.Stages, Value: 1})
	for _, status := range []kernels.Status{kernels.StatusWrong, kernels.StatusLaunch, kernels.StatusTimeout} {
		f := &devicetest.Fake{Registry: r, Fail: func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			if v == d.B {
				return kernels.Failf(status, "as asked")
			}
			return nil
		}}
		res, err := RunDuel(t.Context(), r, f, d, duelOptions(6))
		if err != nil || res.Status != status || !strings.HasPrefix(res.Reason, "B: ") || len(res.Rounds) != 0 {
			t.Errorf("%s: %v, %+v", status, err, res)
		}
	}
}

// The floor is one for our variants, a user's kernel and a peer, on either side.
func TestFloor(t *testing.T) {
	r := families.New()
	d := testDuel(t, r)
	info := devicetest.H200()
	info.PeakRate = 4_800e9
	for _, fast := range []kernels.Variant{{Family: "rms_bwd/two_pass"}, {Family: "my/rms"}, kernels.PeerVariant("liger")} {
		f := &devicetest.Fake{DeviceInfo: info, Seconds: func(p kernels.Problem, v kernels.Variant, sample int) float64 {
			if v == fast {
				return 1e-6
			}
			return devicetest.Typical(p, v, sample)
		}}
		for _, duel := range []Duel{{Problem: d.Problem, A: fast, B: d.B}, {Problem: d.Problem, A: d.A, B: fast}} {
			res, err := RunDuel(t.Context(), r, f, duel, duelOptions(6))
			if err != nil || res.Status != kernels.StatusUnfit || !strings.Contains(res.Reason, "peak is 4800") {
				t.Errorf("%s: %v, %+v", fast, err, res)
			}
		}
	}
}

// What reads faster than the memory goes is not a time.
func TestTooFast(t *testing.T) {
	d := devicetest.H200()
	d.PeakRate = 4_800e9
	p, err := kernels.ParseProblem("rmsnorm/fwd/8192x4096/bf16") // 64 MiB are read: 14 us at the peak
	if err != nil {
		t.Fatal(err)
	}
	cold, warm := ColdProtocol(d, 5), WarmProtocol(d, 5)
	if why := tooFast(p, d, cold, 13); !strings.Contains(why, "peak is 4800") {
		t.Errorf("13 us cold: %q", why)
	}
	for name, why := range map[string]string{"15 us": tooFast(p, d, cold, 15), "warm": tooFast(p, d, warm, 13), "no peak": tooFast(p, devicetest.H200(), cold, 13)} {
		if why != "" {
			t.Errorf("%s: %q", name, why)
		}
	}
}
