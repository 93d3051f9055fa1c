package manifest

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/common"
)

// An env is what the variables of an expression stand for.
type env struct {
	kernels.Problem
	device kernels.DeviceInfo
	config kernels.Config
	lets   []float64 // values of lettings, NaN where they are not known yet
}

// letting is the value of a letting, which is found once.
func (x *env) letting(i int, value *node) (v float64, err error) {
	for len(x.lets) <= i {
		x.lets = append(x.lets, math.NaN())
	}
	if v = x.lets[i]; math.IsNaN(v) {
		v, err = value.eval(x, true)
		x.lets[i] = v
	}
	return v, err
}

// A level says what the variables of an expression are of. Each level knows those before it.
type level uint8

const (
	ofProblem level = iota
	ofDevice
	ofConfig
)

// A scope is the names that an expression may use.
type scope struct {
	level
	family []kernels.Range // all knobs
	knobs  []kernels.Range // those that are known
	lets   []*letting
	eps    float64 // the op's, of fractions
}

// A letting is an expression with a name.
type letting struct {
	name  yamldoc.Word
	value *expression
	needs
}

// needs are what must be known before an expression has a value.
type needs struct {
	level
	knobs []*kernels.Knob
}

// meets says whether all that n needs is known.
func (s *scope) meets(n needs) bool {
	return n.level <= s.level && !slices.ContainsFunc(n.knobs, func(k *kernels.Knob) bool {
		is := func(r kernels.Range) bool { return r.Knob == k }
		return slices.ContainsFunc(s.family, is) && !slices.ContainsFunc(s.knobs, is)
	})
}

// variables are the names beside those of ops, options and knobs.
var variables = map[string]struct {
	level
	get func(x *env) int
}{
	"M":          {ofProblem, func(x *env) int { return int(x.M) }},
	"N":          {ofProblem, func(x *env) int { return int(x.N) }},
	"xb":         {ofProblem, func(x *env) int { return int(x.DType.Size()) }},
	"wb":         {ofProblem, func(x *env) int { return int(x.Weight.Size()) }},
	"widest":     {ofProblem, func(x *env) int { return vectorBytes(x.Problem, kernels.Config{}) }},
	"bf16":       {ofProblem, func(x *env) int { return flag(x.DType == kernels.BF16) }},
	"fp16":       {ofProblem, func(x *env) int { return flag(x.DType == kernels.FP16) }},
	"fp32":       {ofProblem, func(x *env) int { return flag(x.DType == kernels.FP32) }},
	"weight":     {ofProblem, func(x *env) int { return flag(x.HasWeight()) }},
	"sms":        {ofDevice, func(x *env) int { return x.device.SMs }},
	"arch":       {ofDevice, func(x *env) int { return arch(x.device) }},
	"shared_max": {ofDevice, func(x *env) int { return x.device.SharedPerBlock }},
	"cache":      {ofDevice, func(x *env) int { return int(x.device.CacheBytes) }},
	"registers":  {ofDevice, func(x *env) int { return x.device.RegsPerSM }},
	"vb":         {ofProblem, func(x *env) int { return vectorBytes(x.Problem, x.config) }},
	"vecs": {ofProblem, func(x *env) int {
		return int(x.N*x.DType.Size()) / vectorBytes(x.Problem, x.config)
	}},
}

// lookup is the variable or the letting of a name in the scope, with what it needs, or nil.
func (s *scope) lookup(name string) (*node, needs) {
	variable := func(get func(x *env) int) *node { return &node{get: get} }
	if v, ok := variables[name]; ok {
		n := needs{level: v.level}
		if name == "vb" || name == "vecs" {
			n.knobs = []*kernels.Knob{kernels.VectorBytes}
		}
		if !s.meets(n) {
			return nil, n
		}
		return variable(v.get), n
	}
	for _, o := range kernels.Ops() {
		if name == string(o.Op) {
			return variable(func(x *env) int { return flag(x.Op == o.Op) }), needs{}
		}
	}
	for _, o := range kernels.Options() {
		if name == o.Var {
			return variable(func(x *env) int { return flag(o.Has(x.Problem)) }), needs{}
		}
	}
	for _, r := range s.knobs {
		if name == r.Knob.Key || name == r.Knob.Name {
			get := func(x *env) int { return x.config.Get(r.Knob) }
			return variable(get), needs{knobs: []*kernels.Knob{r.Knob}}
		}
	}
	for i, l := range s.lets {
		if name == l.name.Text && s.meets(l.needs) {
			return &node{op: "let", args: []*node{l.value.tree}, let: i, truth: l.value.tree.truth}, l.needs
		}
	}
	return nil, needs{}
}

// arch is 90 for sm_90, and 0 where there is no such thing.
func arch(d kernels.DeviceInfo) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(d.Arch, "sm_"))
	return n
}

func vectorBytes(p kernels.Problem, c kernels.Config) int { return int(common.VectorBytes(p, c)) }

func flag(on bool) int { return int(kernels.Flag(on)) }
