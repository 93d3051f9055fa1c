package manifest

import (
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/common"
)

// An env is what the variables of an expression stand for.
type env struct {
	kernels.Problem
	device kernels.DeviceInfo
	slots  []float64 // the values of the knobs, then of the lets; NaN where not known yet
	vector int       // the slot of the knob vector_bytes, -1 without it
	group  int       // that of cluster
	bad    string    // why an expression has no value
	err    error     // the first Fault, or another reason against the config
}

// fail says why an expression has no value.
func (x *env) fail(why string) float64 {
	if x.bad == "" {
		x.bad = why
	}
	return 0
}

// fault makes what is wrong with e the error, if it is the first.
func (x *env) fault(e *expression, text string) {
	if x.err == nil {
		x.err = &Fault{e.Place, text}
	}
}

// letting is a variable whose value is found once and stays in a slot.
func letting(at int, value node) node {
	return node{truth: value.truth, eval: func(x *env) float64 {
		v := x.slots[at]
		if math.IsNaN(v) {
			if v = value.eval(x); x.bad == "" {
				x.slots[at] = v
			}
		}
		return v
	}}
}

// A level says what the variables of an expression are of. Each level knows those before it.
type level uint8

const (
	ofKnobs level = iota // and of no problem
	ofProblem
	ofDevice
	ofConfig
)

// A scope is the names that an expression may use.
type scope struct {
	level
	family []kernels.Range // all knobs
	knobs  []kernels.Range // those that are known
	lets   bindings
	eps    float64 // the op's, of fractions
}

// needs are what must be known before an expression has a value.
type needs struct {
	level
	knobs []*kernels.Knob
}

// meets says whether all that n needs is known.
func (s *scope) meets(n needs) bool {
	return n.level <= s.level && !slices.ContainsFunc(n.knobs, func(k *kernels.Knob) bool {
		return slotOf(s.family, k) >= 0 && slotOf(s.knobs, k) < 0
	})
}

// variables are the names beside those of ops, options and knobs.
var variables = map[string]struct {
	level
	eval func(x *env) float64
}{
	"M":          {ofProblem, func(x *env) float64 { return float64(x.M) }},
	"N":          {ofProblem, func(x *env) float64 { return float64(x.N) }},
	"xb":         {ofProblem, func(x *env) float64 { return float64(x.DType.Size()) }},
	"wb":         {ofProblem, func(x *env) float64 { return float64(x.Weight.Size()) }},
	"x_type":     {ofProblem, func(x *env) float64 { return float64(x.DType) }},
	"w_type":     {ofProblem, func(x *env) float64 { return float64(x.Weight) }},
	"widest":     {ofProblem, func(x *env) float64 { return float64(common.WidestVector(x.Problem)) }},
	"bf16":       {ofProblem, func(x *env) float64 { return truthOf(x.DType == kernels.BF16) }},
	"fp16":       {ofProblem, func(x *env) float64 { return truthOf(x.DType == kernels.FP16) }},
	"fp32":       {ofProblem, func(x *env) float64 { return truthOf(x.DType == kernels.FP32) }},
	"weight":     {ofProblem, func(x *env) float64 { return truthOf(x.HasWeight()) }},
	"footprint":  {ofProblem, func(x *env) float64 { return float64(x.Footprint()) }},
	"sms":        {ofDevice, func(x *env) float64 { return float64(x.device.SMs) }},
	"arch":       {ofDevice, func(x *env) float64 { return float64(x.device.ArchNumber()) }},
	"shared_max": {ofDevice, func(x *env) float64 { return float64(x.device.SharedPerBlock) }},
	"cache":      {ofDevice, func(x *env) float64 { return float64(x.device.CacheBytes) }},
	"memory":     {ofDevice, func(x *env) float64 { return float64(x.device.MemoryBytes) }},
	"registers":  {ofDevice, func(x *env) float64 { return float64(x.device.RegsPerSM) }},
	"clusters_at_once": {ofDevice, func(x *env) float64 {
		return float64(x.device.ClustersAtOnce(int(x.slots[x.group])))
	}},
	"vb": {ofProblem, func(x *env) float64 { return float64(x.vectorBytes()) }},
	"vecs": {ofProblem, func(x *env) float64 {
		return float64(x.N * x.DType.Size() / x.vectorBytes())
	}},
}

// vectorBytes is the width of a vector: by the knob, or the widest.
func (x *env) vectorBytes() int64 {
	if x.vector >= 0 && x.slots[x.vector] > 0 {
		return int64(x.slots[x.vector])
	}
	return common.WidestVector(x.Problem)
}

// lookup is the variable or the let of a name in the scope, with what it needs.
func (s *scope) lookup(name string) (n node, _ needs, ok bool) {
	for _, r := range s.knobs {
		if name == r.Knob.Key || name == r.Knob.Name {
			at := slotOf(s.family, r.Knob)
			return node{eval: func(x *env) float64 { return x.slots[at] }},
				needs{knobs: []*kernels.Knob{r.Knob}}, true
		}
	}
	for i, l := range s.lets {
		if name == l.key.Text && s.meets(l.value.needs) {
			return letting(len(s.family)+i, l.value.tree), l.value.needs, true
		}
	}
	if v, ok := variables[name]; ok {
		n := needs{level: v.level}
		switch name {
		case "vb", "vecs":
			n.knobs = []*kernels.Knob{kernels.VectorBytes}
		case "clusters_at_once":
			n.knobs = []*kernels.Knob{kernels.Cluster}
			if slotOf(s.family, kernels.Cluster) < 0 {
				return node{}, n, false
			}
		}
		return node{eval: v.eval}, n, s.meets(n)
	}
	for _, o := range kernels.Ops() {
		if name == string(o.Op) {
			eval := func(x *env) float64 { return truthOf(x.Op == o.Op) }
			return node{eval: eval}, needs{level: ofProblem}, s.level >= ofProblem
		}
	}
	for _, o := range kernels.Options() {
		if name == o.Var {
			eval := func(x *env) float64 { return truthOf(o.Has(x.Problem)) }
			return node{eval: eval}, needs{level: ofProblem}, s.level >= ofProblem
		}
	}
	return n, needs{}, false
}

// slotOf is the slot of a knob, or -1.
func slotOf(family []kernels.Range, k *kernels.Knob) int {
	return slices.IndexFunc(family, func(r kernels.Range) bool { return r.Knob == k })
}
