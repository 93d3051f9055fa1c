package peers

import (
	_ "embed"
	"slices"

	"normbench/kernels"
)

//go:embed peers.py
var source string

const sourceName = "peers.py"

// Names lists the peers that peers.py knows, in its order.
var Names = []string{"torch", "compile", "compile-max", "liger", "quack", "apex-fast", "apex-fused", "te", "fast-llm"}

// Register is r with a hidden family for each peer, so that sweeps leave them
// out. What a peer cannot do its worker says when it is asked.
func Register(r *kernels.Registry) *kernels.Registry {
	with := *r
	with.Families = slices.Clone(r.Families)
	with.File = func(name string) (string, error) {
		if name == sourceName {
			return source, nil
		}
		return r.File(name)
	}
	for _, name := range Names {
		with.Families = append(with.Families, family(name))
	}
	return &with
}

func family(name string) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.PeerVariant(name).Family,
		Doc:    "other people's kernels",
		Origin: name,
		Files:  []string{sourceName},
		Hidden: true,
		Bits:   kernels.NotBitwise, // nobody states it of them
		Serves: func(kernels.Problem) error { return nil },
		Base:   func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return kernels.Config{} },
		Refuse: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil },
		Plan:   func(kernels.Problem, kernels.Config, kernels.DeviceInfo) kernels.Plan { return kernels.Plan{} },
	}
}
