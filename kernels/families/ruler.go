package families

import (
	"time"

	"normbench/kernels"
)

// The ruler's families launch kernels whose time is known, so that selftest can
// hold the timer against them. They write no output, so they are timed and
// never checked.

// SpinTime is how long the spin family takes, by the device's own clock.
const SpinTime = 200 * time.Microsecond

func rulerEmpty(op kernels.Op) *kernels.Family { return ruler(op, "empty", "empty") }
func rulerPair(op kernels.Op) *kernels.Family  { return ruler(op, "pair", "empty", "empty") }
func rulerSpin(op kernels.Op) *kernels.Family  { return ruler(op, "spin", "spin") }

// ruler is a family that launches entries one after the other.
func ruler(op kernels.Op, design string, entries ...string) *kernels.Family {
	return &kernels.Family{
		Name:   name(op, kernels.Fwd, design),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "what the ruler is tested with",
		Origin: "normbench",
		Hidden: true,
		Files:  []string{"ruler.go", "ruler.cu"},
		Serves: servesAll,
		Base:   func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return kernels.Config{} },
		Refuse: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil },
		Plan: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) kernels.Plan {
			var p kernels.Plan
			for i, entry := range entries {
				l := kernels.Launch{Stage: []string{"k1", "k2"}[i], Source: "ruler.cu", Entry: entry, Grid: [3]int{1, 1, 1}, Block: 32}
				if entry == "spin" {
					l.Args = []kernels.Arg{kernels.Int64("ns", SpinTime.Nanoseconds())}
				}
				p.Launches = append(p.Launches, l)
			}
			return p
		},
		Host: map[string]kernels.HostStage{"empty": hostEmpty, "spin": hostSpin},
	}
}

func hostEmpty(*kernels.HostRun, int) {}

func hostSpin(h *kernels.HostRun, _ int) {
	for start := time.Now(); time.Since(start) < time.Duration(h.Arg("ns")); {
	}
}
