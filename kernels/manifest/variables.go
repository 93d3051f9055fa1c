package manifest

import (
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/common"
)

// An env is what the variables of an expression stand for. It remembers values until something
// changes that they rest on: neighbouring problems and configs have most of them in common.
type env struct {
	kernels.Problem
	device kernels.DeviceInfo
	config kernels.Config // whose values the knobs have
	tries  bool           // they have those of a base that is tried
	lacks  bool           // config lacks a knob
	reduce error          // why k2 does not take config's knobs
	slots  []float64      // the values of the knobs, then of expressions; NaN where not known
	uses   []sources      // of these expressions
	vector int            // the slot of the knob vector_bytes, -1 without it
	group  int            // that of cluster
	bad    string         // why an expression has no value
	err    error          // the first Fault, or another reason against the config
}

// setProblem makes p the problem.
func (x *env) setProblem(p kernels.Problem) {
	var changed sources
	if x.M != p.M {
		changed |= ofM
	}
	if x.N != p.N {
		changed |= ofN
	}
	if x.DType != p.DType {
		changed |= ofType
	}
	if x.M, x.N, x.DType = p.M, p.N, p.DType; x.Problem != p {
		x.Problem, changed = p, changed|ofOptions
	}
	x.forget(changed)
}

// setDevice makes d the device.
func (x *env) setDevice(d kernels.DeviceInfo) {
	if x.device != d {
		x.device = d
		x.forget(ofDevice)
	}
}

// setKnob gives the knob of a slot a value.
func (x *env) setKnob(slot, value int) {
	if v := float64(value); x.slots[slot] != v {
		x.slots[slot] = v
		x.forget(ofKnob(slot))
	}
}

// forget drops the values that rest on what has changed.
func (x *env) forget(changed sources) {
	if changed == 0 {
		return
	}
	values := x.slots[len(x.slots)-len(x.uses):]
	for i, of := range x.uses {
		if of&changed != 0 {
			values[i] = math.NaN()
		}
	}
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

// Sources are what a value rests on, as bits: the first are those of the family's knobs. There are
// at most 64 knobs. Those from the 60th on share a bit with another source: then more is forgotten.
type sources uint64

const (
	ofM sources = 1 << (59 + iota)
	ofN
	ofType    // of x
	ofOptions // and all else of the problem
	ofDevice

	ofRows    = ofN | ofType
	ofProblem = ofM | ofRows | ofOptions
)

// ofKnob is the source of the knob of a slot, none where it is -1.
func ofKnob(slot int) sources {
	if slot < 0 {
		return 0
	}
	return 1 << slot
}

// A scope is the names that an expression may use.
type scope struct {
	known  sources
	family []kernels.Range // all knobs
	lets   bindings
	eps    float64 // the op's, of fractions
}

// knows says whether all is known that a value rests on.
func (s *scope) knows(of sources) bool { return of&^s.known == 0 }

// variables are the names beside those of ops, options and knobs.
var variables = map[string]struct {
	sources
	eval func(x *env) float64
}{
	"M":          {ofM, func(x *env) float64 { return float64(x.M) }},
	"N":          {ofN, func(x *env) float64 { return float64(x.N) }},
	"xb":         {ofType, func(x *env) float64 { return float64(x.DType.Size()) }},
	"wb":         {ofOptions, func(x *env) float64 { return float64(x.Weight.Size()) }},
	"x_type":     {ofType, func(x *env) float64 { return float64(x.DType) }},
	"w_type":     {ofOptions, func(x *env) float64 { return float64(x.Weight) }},
	"widest":     {ofRows, func(x *env) float64 { return float64(common.WidestVector(x.Problem)) }},
	"bf16":       {ofType, func(x *env) float64 { return truthOf(x.DType == kernels.BF16) }},
	"fp16":       {ofType, func(x *env) float64 { return truthOf(x.DType == kernels.FP16) }},
	"fp32":       {ofType, func(x *env) float64 { return truthOf(x.DType == kernels.FP32) }},
	"weight":     {ofOptions, func(x *env) float64 { return truthOf(x.HasWeight()) }},
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
	"vb": {ofRows, func(x *env) float64 { return float64(x.vectorBytes()) }},
	"vecs": {ofRows, func(x *env) float64 {
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

// lookup is the variable or the let of a name in the scope, with what it rests on.
func (s *scope) lookup(name string) (n node, of sources, ok bool) {
	for at, r := range s.family {
		if of = ofKnob(at); (name == r.Knob.Key || name == r.Knob.Name) && s.knows(of) {
			return node{eval: func(x *env) float64 { return x.slots[at] }}, of, true
		}
	}
	for _, l := range s.lets {
		if name == l.key.Text && s.knows(l.value.sources) {
			return node{l.value.eval, l.value.tree.truth}, l.value.sources, true
		}
	}
	if v, ok := variables[name]; ok {
		of := v.sources
		switch name {
		case "vb", "vecs":
			of |= ofKnob(slotOf(s.family, kernels.VectorBytes))
		case "clusters_at_once":
			group := slotOf(s.family, kernels.Cluster)
			if ok = group >= 0; ok {
				of |= ofKnob(group)
			}
		}
		return node{eval: v.eval}, of, ok && s.knows(of)
	}
	for _, o := range kernels.Ops() {
		if name == string(o.Op) {
			eval := func(x *env) float64 { return truthOf(x.Op == o.Op) }
			return node{eval: eval}, ofOptions, s.knows(ofOptions)
		}
	}
	for _, o := range kernels.Options() {
		if name == o.Var {
			eval := func(x *env) float64 { return truthOf(o.Has(x.Problem)) }
			return node{eval: eval}, ofOptions, s.knows(ofOptions)
		}
	}
	return n, 0, false
}

// slotOf is the slot of a knob, or -1.
func slotOf(family []kernels.Range, k *kernels.Knob) int {
	return slices.IndexFunc(family, func(r kernels.Range) bool { return r.Knob == k })
}
