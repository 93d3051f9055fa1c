package peers

import (
	_ "embed"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
)

//go:embed peers.py
var source string

const sourceName = "peers.py"

// Names lists the peers that peers.py knows, in its order.
var Names = []string{"torch", "compile", "compile-max", "liger", "quack", "apex-fast", "apex-fused",
	"te", "fast-llm"}

// Register is r with a hidden family for each peer, so that sweeps leave them out. What a peer
// cannot do its worker says when it is asked. found has the versions of those that are there, if
// that is known.
func Register(r *kernels.Registry, found []kernels.Peer) *kernels.Registry {
	with := *r
	with.Families = slices.Clone(r.Families)
	with.File = func(name string) (string, error) {
		if name == sourceName {
			return source, nil
		}
		return r.File(name)
	}
	for _, name := range Names {
		f := family(name)
		if p, ok := Find(found, name); ok {
			f.Version = p.Version
		}
		i := slices.IndexFunc(with.Families, func(x *kernels.Family) bool { return x.Name == f.Name })
		if i < 0 {
			with.Families = append(with.Families, f)
		} else {
			with.Families[i] = f
		}
	}
	return &with
}

// serves refuses the ops that peers.py does not know.
func serves(p kernels.Problem) error {
	if p.Op != kernels.RMSNorm && p.Op != kernels.LayerNorm {
		return hint.Errorf("peers have rmsnorm and layernorm", "no peer has %s", p.Op)
	}
	return nil
}

func family(name string) *kernels.Family {
	return &kernels.Family{
		Name:   kernels.PeerVariant(name).Family,
		Doc:    "other people's kernels",
		Origin: name,
		Files:  []string{sourceName},
		Hidden: true,
		Bits:   kernels.NotBitwise, // nobody states it of them
		Serves: serves,
		Base:   func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return kernels.Config{} },
		Refuse: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil },
		Plan:   func(kernels.Problem, kernels.Config, kernels.DeviceInfo) kernels.Plan { return kernels.Plan{} },
	}
}
