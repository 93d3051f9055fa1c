package families

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/families/common"
)

// The plain families: each is the definition of an op's pass as kernels, to read first and to hold
// the fast designs against. Their .cu files are one for an op and a pass, plain_rms_fwd.cu and so
// on; all else is here.

// plainFamily makes the plain family of an op and a pass: the definition as kernels, to read first and
// to compare the fast designs with. The .cu files are plain_rms_fwd.cu and so on; all else is in this
// file.
func plainFamily(op kernels.Op, pass kernels.Pass) *kernels.Family {
	source := fmt.Sprintf("plain_%s_%s.cu", op.Spec().Short, pass)
	return &kernels.Family{
		Name:   kernels.FamilyName(op, pass, "plain"),
		Op:     op,
		Pass:   pass,
		Doc:    "the definition as a kernel, to read first: a CTA per row, a thread per column",
		Origin: "normbench",
		Plain:  true,
		Files:  []string{source},
		Knobs: []kernels.Range{
			kernels.Values(kernels.Warps, 1, 2, 4, 8, 16, 32),
			kernels.Values(kernels.PerSM, 0, 8),
		},
		Serves: servesNoFP8,
		Base: func(p kernels.Problem, _ kernels.DeviceInfo) kernels.Config {
			warps := min(kernels.CeilPow2(kernels.CeilDiv(p.N, 256)), 8)
			return kernels.NewConfig(set(kernels.Warps, int(warps)), set(kernels.PerSM, 0))
		},
		Refuse: refusePlain,
		Plan: func(p kernels.Problem, c kernels.Config, d kernels.DeviceInfo) kernels.Plan {
			return planPlain(source, p, c, d)
		},
		Host: hostsOf(op),
	}
}

// plainHosts has the host stages of ops with statistics of their own; each adds them in its own
// host*.go.
var plainHosts = map[kernels.Op]map[string]kernels.HostStage{}

// hostsOf returns the host stages of an op's plain kernels.
func hostsOf(op kernels.Op) map[string]kernels.HostStage {
	if own := plainHosts[op]; own != nil {
		return own
	}
	return map[string]kernels.HostStage{"forward": hostForwards, "backward": hostBackward,
		"gradients": hostGradients}
}

// refusePlain refuses configs that the plain families cannot launch.
func refusePlain(p kernels.Problem, c kernels.Config, _ kernels.DeviceInfo) error {
	switch warps := c.Get(kernels.Warps); {
	case !kernels.IsPow2(warps) || warps > 32:
		return fmt.Errorf("warps are a power of two up to 32")
	case warps > 1 && int64(warps)*16 >= p.N:
		return fmt.Errorf("%d warps leave half of their threads without a column", warps)
	case p.N > 1<<24:
		return fmt.Errorf("columns are indexed in 32 bits, at most %d of them", 1<<24)
	case p.M > 1<<31-1:
		return fmt.Errorf("more than 2^31-1 CTAs")
	}
	return nil
}

// planPlain makes a plain family's plan: k1, and in a backward with a weight k2 for dw and db.
func planPlain(source string, p kernels.Problem, c kernels.Config,
	d kernels.DeviceInfo) kernels.Plan {
	spec := p.Op.Spec()
	warps := c.Get(kernels.Warps)
	ctas := p.M
	if k := c.Get(kernels.PerSM); k > 0 {
		ctas = min(ctas, int64(k*d.SMs))
	}
	k1 := kernels.Launch{
		Stage: "k1", Source: source, Entry: "forward",
		Grid: [3]int{int(ctas), 1, 1}, Block: warps * 32,
		Defines: []kernels.Define{
			{Name: "X_TYPE", Value: int64(p.DType)},
			{Name: "W_TYPE", Value: int64(p.Weight)},
			{Name: "COLUMNS", Value: p.N},
			{Name: "WARPS", Value: int64(warps)},
			{Name: "ZERO_CENTERED", Value: kernels.Flag(p.ZeroCentered)},
		},
	}
	saved, rows := kernels.Buffers(spec.Saved...), kernels.Int64("rows", p.M)
	weight := common.Optional(p.HasWeight(), "w")
	if spec.Gated {
		k1.Defines = append(k1.Defines, common.GateDefines(p)...)
	}
	eps := kernels.Float32("eps", float32(spec.Eps))
	if p.Pass == kernels.Fwd {
		k1.Args = append(kernels.Buffers("x"), besideX(p, "res")...)
		if spec.Weight {
			k1.Args = append(k1.Args, weight, common.Optional(p.Bias, "b"))
		}
		k1.Args = append(k1.Args, kernels.Buffers("y")...)
		if !spec.Gated {
			k1.Args = append(k1.Args, common.Optional(p.Residual, "resout"))
		}
		k1.Args = append(append(k1.Args, saved...), rows, eps)
		return kernels.Plan{Launches: []kernels.Launch{k1}}
	}
	k1.Entry = "backward"
	k1.Args = append(kernels.Buffers("x", "dy"), besideX(p, "dres")...)
	if spec.Weight {
		k1.Args = append(k1.Args, weight)
	}
	outputs := kernels.Buffers("dx")
	if spec.Gated {
		k1.Args = append(k1.Args, common.Optional(p.NeedsBias(), "b"))
		outputs = kernels.Buffers("dx", "dz")
	}
	k1.Args = append(append(append(k1.Args, saved...), outputs...), rows)
	if spec.Statistics() != 0 {
		k1.Args = append(k1.Args, eps)
	}
	if !p.HasWeight() || p.NoDW {
		return kernels.Plan{Launches: []kernels.Launch{k1}}
	}
	k2 := k1
	k2.Stage, k2.Entry = "k2", "gradients"
	k2.Grid[0] = int(kernels.CeilDiv(p.N, int64(k2.Block)))
	k2.Args = kernels.Buffers("x", "dy")
	if spec.Gated {
		k2.Args = append(k2.Args, kernels.Buffers("z")...)
	}
	k2.Args = append(append(k2.Args, saved...),
		common.Optional(p.Accumulate, "dw_in"), common.Optional(p.Accumulate && p.Bias, "db_in"),
		common.Optional(true, "dw"), common.Optional(p.Bias, "db"), rows)
	return kernels.Plan{Launches: []kernels.Launch{k1, k2}}
}

// besideX returns the argument behind x, or dy: z of a gated op, else the residual, which a problem may lack.
func besideX(p kernels.Problem, residual string) []kernels.Arg {
	if p.IsGated() {
		return kernels.Buffers("z")
	}
	return []kernels.Arg{common.Optional(p.Residual, residual)}
}
