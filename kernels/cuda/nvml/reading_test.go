package nvml

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		mask              uint64
		names, throttling []string
	}{
		{0, nil, nil},
		{0x1, []string{"gpu idle"}, nil},
		{0x2, []string{"application clocks"}, nil},
		{0x103, []string{"gpu idle", "application clocks", "display clocks"}, nil},
		{0x4, []string{"sw power cap"}, []string{"sw power cap"}},
		{0x6, []string{"application clocks", "sw power cap"}, []string{"sw power cap"}},
		{0xe8, []string{"hw slowdown", "sw thermal slowdown", "hw thermal slowdown", "hw power brake"},
			[]string{"hw slowdown", "sw thermal slowdown", "hw thermal slowdown", "hw power brake"}},
		{0x201, []string{"gpu idle", "unknown 0x200"}, []string{"unknown 0x200"}},
	} {
		names, throttling := decode(tt.mask)
		if !slices.Equal(names, tt.names) || !slices.Equal(throttling, tt.throttling) {
			t.Errorf("%#x: got %q, %q, want %q, %q", tt.mask, names, throttling, tt.names, tt.throttling)
		}
	}
}

// Records of several versions are compared, so the names must stay.
func TestJSON(t *testing.T) {
	b, err := json.Marshal(Reading{SMClockMHz: 1, OtherProcesses: []Process{{PID: 2, Name: "x", MemoryBytes: 3}}, Unsupported: []string{"mig"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"sm_clock_mhz":1,"mem_clock_mhz":0,"power_w":0,"temperature_c":0,"throttle_reasons":null,"throttling":null,` +
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
