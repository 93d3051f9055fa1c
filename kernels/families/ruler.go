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

// rulerFamilies makes the families with which selftest checks the timer: an empty launch, two of them, a
// spin, and one that tells whether the L2 keeps lines: kept reads x with the wish that the L2 keeps it, then
// reads twice the L2 plainly. If x is still there in the next sample, k1 is fast.
func rulerFamilies(op kernels.Op) []*kernels.Family {
	return []*kernels.Family{ruler(op, "empty", "ruler.cu", "empty"),
		ruler(op, "pair", "ruler.cu", "empty", "empty"), ruler(op, "spin", "ruler.cu", "spin"),
		ruler(op, "kept", "kept.cu", "keep", "wash")}
}

// ruler makes a family that launches entries of a source one after the other.
func ruler(op kernels.Op, design, source string, entries ...string) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.FamilyName(op, kernels.Fwd, design),
		Op:     op,
		Pass:   kernels.Fwd,
		Doc:    "what the ruler is tested with",
		Origin: "normbench",
		Hidden: true,
		Files:  []string{source},
		Serves: servesAll,
		Base:   func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return kernels.Config{} },
		Refuse: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil },
		Plan: func(p kernels.Problem, _ kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			var plan kernels.Plan
			for i, entry := range entries {
				l := kernels.Launch{Stage: []string{"k1", "k2"}[i], Source: source, Entry: entry,
					Grid: [3]int{1, 1, 1}, Block: 32}
				bytes := p.M * p.N * p.DType.Size()
				switch entry {
				case "spin":
					l.Args = []kernels.Arg{kernels.Int64("ns", SpinTime.Nanoseconds())}
				case "keep":
					l.Grid[0], l.Block = 4*d.SMs, 512
					l.Args = append(kernels.Buffers("x", "wash"), kernels.Int64("bytes", bytes))
				case "wash":
					l.Grid[0], l.Block = 4*d.SMs, 512
					l.Args = append(kernels.Buffers("wash", "wash"), kernels.Int64("bytes", 2*d.CacheBytes))
					plan.Scratch = []kernels.Scratch{{Name: "wash", DType: kernels.I32,
						Elems: d.CacheBytes / 2}}
				}
				plan.Launches = append(plan.Launches, l)
			}
			return plan
		},
		Host: map[string]kernels.HostStage{"empty": hostEmpty, "spin": hostSpin, "keep": hostEmpty,
			"wash": hostEmpty},
	}
}
