package manifest

import (
	"strconv"
	"strings"

	"normbench/kernels"
	"normbench/kernels/families"
)

// An env is what the variables of an expression stand for.
type env struct {
	kernels.Problem
	device kernels.DeviceInfo
	config kernels.Config
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
	knobs []kernels.Range
	eps   float64 // the op's, of fractions
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
	"registers":  {ofDevice, func(x *env) int { return x.device.RegsPerSM }},
	"vb":         {ofConfig, func(x *env) int { return vectorBytes(x.Problem, x.config) }},
	"vecs": {ofConfig, func(x *env) int {
		return int(x.N*x.DType.Size()) / vectorBytes(x.Problem, x.config)
	}},
}

// lookup is the value of a name in the scope, or nil.
func (s scope) lookup(name string) func(x *env) int {
	if v, ok := variables[name]; ok && v.level <= s.level {
		return v.get
	}
	for _, o := range kernels.Ops() {
		if name == string(o.Op) {
			return func(x *env) int { return flag(x.Op == o.Op) }
		}
	}
	for _, o := range kernels.Options() {
		if name == o.Var {
			return func(x *env) int { return flag(o.Has(x.Problem)) }
		}
	}
	for _, r := range s.knobs {
		if name == r.Knob.Key || name == r.Knob.Name {
			return func(x *env) int { return x.config.Get(r.Knob) }
		}
	}
	return nil
}

// arch is 90 for sm_90, and 0 where there is no such thing.
func arch(d kernels.DeviceInfo) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(d.Arch, "sm_"))
	return n
}

func vectorBytes(p kernels.Problem, c kernels.Config) int {
	bytes, _ := families.VectorBytes(p, c)
	return int(bytes)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
