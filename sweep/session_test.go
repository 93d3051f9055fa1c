package sweep

import (
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
)

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
		dev := &devicetest.Sensed{Fake: fake(), Reading: func(call int) kernels.Reading {
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
