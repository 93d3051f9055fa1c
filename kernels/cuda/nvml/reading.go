package nvml

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoNVML is wrapped by the errors of [Open] when there is no NVML or it does not know the GPU.
var ErrNoNVML = errors.New("no NVML")

// Static is what does not change while a program runs, unless somebody changes a setting.
type Static struct {
	Name            string    `json:"name"`
	UUID            string    `json:"uuid"`
	DriverVersion   string    `json:"driver_version"`        // "580.65.06"
	CUDADriver      int       `json:"cuda_driver"`           // CUDA version of the driver: 13000 is 13.0
	VBIOS           string    `json:"vbios"`                 // "96.00.89.00.01"
	ECC             bool      `json:"ecc"`                   // enabled
	MIG             bool      `json:"mig"`                   // the GPU is partitioned
	PersistenceMode bool      `json:"persistence_mode"`      // the driver stays loaded between programs
	PowerLimitW     float64   `json:"power_limit_w"`         // the limit in force
	MaxSMClockMHz   int       `json:"max_sm_clock_mhz"`      // highest the GPU can do
	MaxMemClockMHz  int       `json:"max_mem_clock_mhz"`     // highest the GPU can do
	SharedWith      []Process `json:"shared_with"`           // other compute processes
	Unsupported     []string  `json:"unsupported,omitempty"` // JSON names of fields that could not be read
}

// A Process computes on the GPU.
type Process struct {
	PID         int    `json:"pid"`
	Name        string `json:"name"` // file name of the program; empty if it cannot be told
	MemoryBytes uint64 `json:"memory_bytes"`
}

func (p Process) String() string {
	if p.Name == "" {
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("process %d (%s)", p.PID, p.Name)
}

// A Reading is the state at a moment.
type Reading struct {
	SMClockMHz        int       `json:"sm_clock_mhz"`
	MemClockMHz       int       `json:"mem_clock_mhz"`
	PowerW            float64   `json:"power_w"`
	TemperatureC      int       `json:"temperature_c"`
	ThrottleReasons   []string  `json:"throttle_reasons"`   // why the clocks are not at their peak, "gpu idle" included
	Throttled         bool      `json:"throttled"`          // by one that is neither idleness nor a clock somebody set
	Utilization       int       `json:"utilization"`        // percent of the last period in which a kernel ran
	MemoryUtilization int       `json:"memory_utilization"` // percent of the last period in which memory was busy
	MIG               bool      `json:"mig"`
	OtherProcesses    []Process `json:"other_processes"`
	Unsupported       []string  `json:"unsupported,omitempty"` // JSON names of fields that could not be read
}

// reasons are the bits of NVML's clocks event reasons (once: throttle reasons). Those with
// harmless leave measurements comparable: an idle GPU is not slowed down, and clocks that
// somebody set stay where they are; [Unfit] sees if they are low.
var reasons = []struct {
	bit      uint64
	name     string
	harmless bool
}{
	{0x001, "gpu idle", true},
	{0x002, "application clocks", true},
	{0x004, "sw power cap", false},
	{0x008, "hw slowdown", false},
	{0x010, "sync boost", false},
	{0x020, "sw thermal slowdown", false},
	{0x040, "hw thermal slowdown", false},
	{0x080, "hw power brake", false},
	{0x100, "display clocks", true},
}

// decode names the bits of a mask. A bit that is not known counts as throttling.
func decode(mask uint64) (names []string, throttled bool) {
	for _, r := range reasons {
		if mask&r.bit != 0 {
			names = append(names, r.name)
			throttled = throttled || !r.harmless
			mask &^= r.bit
		}
	}
	if mask != 0 {
		names = append(names, fmt.Sprintf("unknown %#x", mask))
		throttled = true
	}
	return names, throttled
}

// harmless says whether decode gave the name to a bit that is no throttling.
func harmless(name string) bool {
	for _, r := range reasons {
		if r.name == name {
			return r.harmless
		}
	}
	return false
}

// Unfit returns why a measurement at reading r is not to be trusted, or "". The SM clock must be at
// least minFraction of referenceMHz; either may be 0 for no such rule. What the GPU does not report
// is not held against it.
func Unfit(r Reading, referenceMHz int, minFraction float64) (reason string) {
	var why []string
	if r.MIG {
		why = append(why, "MIG is on")
	}
	for _, p := range r.OtherProcesses {
		why = append(why, "shared with "+p.String())
	}
	if r.Throttled {
		var names []string
		for _, name := range r.ThrottleReasons {
			if !harmless(name) {
				names = append(names, name)
			}
		}
		why = append(why, strings.TrimSuffix("throttled: "+strings.Join(names, ", "), ": "))
	}
	if r.SMClockMHz > 0 && float64(r.SMClockMHz) < minFraction*float64(referenceMHz) {
		why = append(why, fmt.Sprintf("clock %d MHz is below %.0f %% of %d MHz", r.SMClockMHz, 100*minFraction, referenceMHz))
	}
	return strings.Join(why, "; ")
}
