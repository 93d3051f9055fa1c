package manifest

import (
	"maps"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/kernels/families/common"
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
		x.err = &Fault{e.Position, text}
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

// ofKnob is the source of the knob of a slot.
func ofKnob(slot int) sources { return 1 << slot }

// A scope is the names that an expression may use: of those the ones whose sources are known.
type scope struct {
	names map[string]variable
	known sources
	eps   float64 // the op's, of fractions
}

// A variable is what a name stands for, with what that rests on.
type variable struct {
	sources
	node
}

// variables are the names that all designs have: of numbers, ops and options.
var variables = func() map[string]variable {
	all := map[string]variable{}
	add := func(name string, of sources, eval func(x *env) float64) {
		all[name] = variable{of, node{eval: eval}}
	}
	add("M", ofM, func(x *env) float64 { return float64(x.M) })
	add("N", ofN, func(x *env) float64 { return float64(x.N) })
	add("xb", ofType, func(x *env) float64 { return float64(x.DType.Size()) })
	add("wb", ofOptions, func(x *env) float64 { return float64(x.Weight.Size()) })
	add("x_type", ofType, func(x *env) float64 { return float64(x.DType) })
	add("w_type", ofOptions, func(x *env) float64 { return float64(x.Weight) })
	add("widest", ofRows, func(x *env) float64 { return float64(common.WidestVector(x.Problem)) })
	add("bf16", ofType, func(x *env) float64 { return truthOf(x.DType == kernels.BF16) })
	add("fp16", ofType, func(x *env) float64 { return truthOf(x.DType == kernels.FP16) })
	add("fp32", ofType, func(x *env) float64 { return truthOf(x.DType == kernels.FP32) })
	add("weight", ofOptions, func(x *env) float64 { return truthOf(x.HasWeight()) })
	add("footprint", ofProblem, func(x *env) float64 { return float64(x.Footprint()) })
	add("sms", ofDevice, func(x *env) float64 { return float64(x.device.SMs) })
	add("arch", ofDevice, func(x *env) float64 { return float64(x.device.ArchNumber()) })
	add("shared_max", ofDevice, func(x *env) float64 { return float64(x.device.SharedPerBlock) })
	add("cache", ofDevice, func(x *env) float64 { return float64(x.device.CacheBytes) })
	add("memory", ofDevice, func(x *env) float64 { return float64(x.device.MemoryBytes) })
	add("registers", ofDevice, func(x *env) float64 { return float64(x.device.RegsPerSM) })
	add("vb", ofRows, func(x *env) float64 { return float64(x.vectorBytes()) })
	add("vecs", ofRows, func(x *env) float64 { return float64(x.N * x.DType.Size() / x.vectorBytes()) })
	for _, o := range kernels.Ops() {
		add(string(o.Op), ofOptions, func(x *env) float64 { return truthOf(x.Op == o.Op) })
	}
	for _, o := range kernels.Options() {
		add(o.Var, ofOptions, func(x *env) float64 { return truthOf(o.Has(x.Problem)) })
	}
	return all
}()

// namesWith are the names of a design with some knobs.
func namesWith(knobs []kernels.Range) map[string]variable {
	names := maps.Clone(variables)
	for slot, r := range knobs {
		of := ofKnob(slot)
		for _, name := range []string{r.Knob.Key, r.Knob.Name} {
			names[name] = variable{of, node{eval: func(x *env) float64 { return x.slots[slot] }}}
		}
		switch r.Knob {
		case kernels.VectorBytes:
			names["vb"] = variable{ofRows | of, names["vb"].node}
			names["vecs"] = variable{ofRows | of, names["vecs"].node}
		case kernels.Cluster:
			names["clusters_at_once"] = variable{ofDevice | of, node{eval: func(x *env) float64 {
				return float64(x.device.ClustersAtOnce(int(x.slots[slot])))
			}}}
		}
	}
	return names
}

// vectorBytes is the width of a vector: by the knob, or the widest.
func (x *env) vectorBytes() int64 {
	if x.vector >= 0 && x.slots[x.vector] > 0 {
		return int64(x.slots[x.vector])
	}
	return common.WidestVector(x.Problem)
}

// slotOf is the slot of a knob, or -1.
func slotOf(family []kernels.Range, k *kernels.Knob) int {
	return slices.IndexFunc(family, func(r kernels.Range) bool { return r.Knob == k })
}
