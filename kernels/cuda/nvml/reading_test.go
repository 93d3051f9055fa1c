package nvml

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnfit(t *testing.T) {
	python := []Process{{PID: 1234, Name: "python", MemoryBytes: 1 << 30}}
	for _, tt := range []struct {
		r         Reading
		reference int
		fraction  float64
		want      string
	}{
		{Reading{SMClockMHz: 1980}, 1980, 0.75, ""},
		{Reading{SMClockMHz: 1485}, 1980, 0.75, ""}, // exactly at the bound
		{Reading{SMClockMHz: 1200}, 1980, 0.75, "clock 1200 MHz is below 75 % of 1980 MHz"},
		{Reading{SMClockMHz: 1200}, 0, 0.75, ""},
		{Reading{SMClockMHz: 1200}, 1980, 0, ""},
		{Reading{Unsupported: []string{"sm_clock_mhz"}}, 1980, 0.75, ""},
		{Reading{MIG: true}, 1980, 0.75, "MIG is on"},
		{Reading{OtherProcesses: python}, 0, 0, "shared with process 1234 (python)"},
		{Reading{OtherProcesses: []Process{{PID: 7}}}, 0, 0, "shared with process 7"},
		{reading(0), 0, 0, ""},
		{reading(0x1), 0, 0, ""},
		{reading(0x103), 0, 0, ""},
		{reading(0x4), 0, 0, "throttled: sw power cap"},
		{reading(0x4a), 0, 0, "throttled: hw slowdown, hw thermal slowdown"},
		{reading(0x4000), 0, 0, "throttled: unknown 0x4000"},
		{Reading{Throttled: true}, 0, 0, "throttled"},
		{Reading{MIG: true, OtherProcesses: python, SMClockMHz: 345}, 1980, 0.5,
			"MIG is on; shared with process 1234 (python); clock 345 MHz is below 50 % of 1980 MHz"},
	} {
		if got := Unfit(tt.r, tt.reference, tt.fraction); got != tt.want {
			t.Errorf("%+v at %d MHz, %g: got %q, want %q", tt.r, tt.reference, tt.fraction, got, tt.want)
		}
	}
}

func reading(mask uint64) (r Reading) {
	r.ThrottleReasons, r.Throttled = decode(mask)
	return r
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		mask      uint64
		names     []string
		throttled bool
	}{
		{0, nil, false},
		{0x1, []string{"gpu idle"}, false},
		{0x2, []string{"application clocks"}, false},
		{0x5, []string{"gpu idle", "sw power cap"}, true},
		{0xe8, []string{"hw slowdown", "sw thermal slowdown", "hw thermal slowdown", "hw power brake"}, true},
		{0x200, []string{"unknown 0x200"}, true},
	} {
		names, throttled := decode(tt.mask)
		if !slices.Equal(names, tt.names) || throttled != tt.throttled {
			t.Errorf("%#x: got %q, %v, want %q, %v", tt.mask, names, throttled, tt.names, tt.throttled)
		}
	}
}

// Records of several versions are compared, so the names must stay.
func TestJSON(t *testing.T) {
	b, err := json.Marshal(Reading{SMClockMHz: 1, OtherProcesses: []Process{{PID: 2, Name: "x", MemoryBytes: 3}}, Unsupported: []string{"mig"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"sm_clock_mhz":1,"mem_clock_mhz":0,"power_w":0,"temperature_c":0,"throttle_reasons":null,"throttled":false,` +
		`"utilization":0,"memory_utilization":0,"mig":false,"other_processes":[{"pid":2,"name":"x","memory_bytes":3}],"unsupported":["mig"]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

// Without NVML, or without the tag, the error is one line of ours and the process lives.
func TestNoDevice(t *testing.T) {
	m, err := Open("GPU-00000000-0000-0000-0000-000000000000")
	if m != nil || !errors.Is(err, ErrNoNVML) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, %v", m, err)
	}
	if os.Getenv("NORMBENCH_REQUIRE_CUDA") == "1" && strings.Contains(err.Error(), "libnvidia-ml.so.1 not found") {
		t.Errorf("NORMBENCH_REQUIRE_CUDA is set, but: %v", err)
	}
	t.Log(err)
}
