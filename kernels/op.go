package kernels

import (
	"slices"
	"strings"
)

// An Op is a normalization.
type Op string

// The ops that some designs are for; Ops lists all.
const (
	RMSNorm   Op = "rmsnorm"
	LayerNorm Op = "layernorm"
)

// An OpSpec says what an op needs and is called; its answers are in package reference.
//
// Every op is y = xhat*w + b. Unless it has statistics of its Own, xhat = (x - mean)*r: the mean is the
// row's if Centered, else 0. If Unit, r is 1/max(|x|, Eps), with |x| the root of the sum of squares of
// the row's elements; else it is 1/sqrt(mean((x-mean)²) + Eps).
//
// If Gated, a second tensor z gates it: y = (xhat*w + b)*act(z) with act SiLU or, with the option sigmoid,
// the sigmoid. With gatefirst x*act(z) is what is normalized: y = norm(x*act(z))*w + b.
type OpSpec struct {
	Op       Op
	Short    string // in names of families: "rms" of rms_fwd/plain
	Title    string // in prose and in names of benchmarks: "RMSNorm"
	Eps      float64
	Centered bool
	Unit     bool
	Gated    bool
	Own      int      // the case of its statistics in rows of support.cu, from 2 on; 0 without
	Saved    []string // fp32 numbers of a row that the forward saves for the backward: r, mean
	Options  []string // names of those that it takes
	Weight   bool     // there is a weight, but with the option noweight
	Bias     bool     // --bias auto gives it one
	Default  bool     // commands without --op take it
}

// Eps is the number that rmsnorm and layernorm add to the variance: 1e-5 as in torch.nn.LayerNorm and the
// published benchmarks (TransformerEngine PR 593, Fast-LLM PR 546).
const Eps = 1e-5

// specs lists the ops in the order of tables.
var specs = []OpSpec{
	// Zhang and Sennrich 2019, arXiv:1910.07467.
	{Op: RMSNorm, Short: "rms", Title: "RMSNorm", Eps: Eps, Saved: []string{"rstd"},
		Options: plainOptions, Weight: true, Default: true},
	// Ba, Kiros and Hinton 2016, arXiv:1607.06450.
	{Op: LayerNorm, Short: "ln", Title: "LayerNorm", Eps: Eps, Saved: []string{"rstd", "mean"},
		Options: plainOptions, Weight: true, Bias: true, Centered: true, Default: true},
	// torch.nn.functional.normalize: y = x/max(|x|, eps).
	{Op: "l2norm", Short: "l2", Title: "L2Norm", Eps: 1e-12, Saved: []string{"rnorm"},
		Options: []string{"residual"}, Unit: true},
	// RMSNormGated of mamba_ssm and FusedRMSNormGated of fla, in Mamba-2, Gated DeltaNet and Qwen3-Next.
	{Op: "rmsnormgated", Short: "rmsgated", Title: "RMSNormGated", Eps: Eps, Saved: []string{"rstd"},
		Options: gatedOptions, Weight: true, Gated: true},
	// layernorm_fn of mamba_ssm with a z, and FusedLayerNormGated of fla.
	{Op: "layernormgated", Short: "lngated", Title: "LayerNormGated", Eps: Eps,
		Saved: []string{"rstd", "mean"}, Options: gatedOptions, Weight: true, Bias: true, Centered: true,
		Gated: true},
}

// plainOptions are those that rmsnorm and layernorm take, and gatedOptions those of the gated norms.
var (
	plainOptions = []string{"bias", "zc", "noweight", "residual", "fp8", "fp8t", "acc", "nodw"}
	gatedOptions = []string{"bias", "zc", "noweight", "acc", "nodw", "sigmoid", "gatefirst"}
)

// Statistics returns the case in support.cu that computes a row's statistics: 0 around the mean of
// squares, 1 by the norm, others of one op each.
func (s *OpSpec) Statistics() int {
	if s.Unit {
		return 1
	}
	return s.Own
}

// Ops lists every op.
func Ops() []OpSpec { return slices.Clone(specs) }

// OpNames lists the ops that commands take, and those that they use without --op.
func OpNames() (all, byDefault []string) {
	for _, s := range specs {
		all = append(all, string(s.Op))
		if s.Default {
			byDefault = append(byDefault, string(s.Op))
		}
	}
	return all, byDefault
}

// OpChoices lists the ops in words: a, b or c.
func OpChoices() string {
	all, _ := OpNames()
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// ParseOp reads an op's name as people write it: RMSNorm, rms_norm and layer-norm too. Text that names
// no op stays as it is, for Validate to refuse.
func ParseOp(s string) Op {
	short := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
	for _, x := range specs {
		if short == string(x.Op) {
			return x.Op
		}
	}
	return Op(s)
}

// Spec returns what the table has of the op, an empty spec if there is no such op.
func (o Op) Spec() *OpSpec {
	for i := range specs {
		if specs[i].Op == o {
			return &specs[i]
		}
	}
	return &OpSpec{}
}

// FamilyName makes the name of a design's family for an op and a pass: rms_bwd/reg_persist.
func FamilyName(op Op, pass Pass, design string) string {
	return op.Spec().Short + "_" + string(pass) + "/" + design
}
