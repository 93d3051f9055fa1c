package nvml

import (
	"errors"
	"fmt"
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
	Confidential    bool      `json:"confidential"`          // Confidential Computing is on
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
	Throttling        []string  `json:"throttling"`         // those of them that are neither idleness nor a clock somebody set
	Utilization       int       `json:"utilization"`        // percent of the last period in which a kernel ran
	MemoryUtilization int       `json:"memory_utilization"` // percent of the last period in which memory was busy
	MIG               bool      `json:"mig"`
	OtherProcesses    []Process `json:"other_processes"`
	Unsupported       []string  `json:"unsupported,omitempty"` // JSON names of fields that could not be read
}

// reasons are the bits of NVML's clocks event reasons (once: throttle reasons). Those with
// harmless leave measurements comparable: an idle GPU is not slowed down, and clocks that
// somebody set stay where they are; their number says if they are low.
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

// decode names the bits of a mask, and again those that throttle. A bit that is not known does.
func decode(mask uint64) (names, throttling []string) {
	for _, r := range reasons {
		if mask&r.bit != 0 {
			names = append(names, r.name)
			if !r.harmless {
				throttling = append(throttling, r.name)
			}
			mask &^= r.bit
		}
	}
	if mask != 0 {
		unknown := fmt.Sprintf("unknown %#x", mask)
		names, throttling = append(names, unknown), append(throttling, unknown)
	}
	return names, throttling
}
