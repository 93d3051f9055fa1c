// Package manifest makes kernel families of a folder of the user's: YAML files,
// one for each family, that say what package families says in Go (knobs, the base
// rule, constraints, launches and their arguments) beside the .cu files that they
// launch. docs/kernels.md describes a manifest; examples/kernels has one.
//
// Numbers that depend on the problem, the device or the config are expressions.
// They are compiled and checked when a manifest is read, so that what is wrong
// with one is an error with file, line and field before anything runs. Only
// values can be wrong later, for a problem and a config: those are Faults.
package manifest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A design is a manifest that was read.
type design struct {
	name        string
	at          place // of the name
	op          kernels.Op
	pass        kernels.Pass
	doc, origin string
	bits        kernels.Determinism
	knobs       []kernels.Range
	base        []choice
	serves      []rule
	constraints []rule
	scratch     []buffer
	launches    []launch
	reduce      *expression // partial rows for k2; nil without one
	host        string      // the family whose host stages stand in; "" for none
	hostAt      place
}

// A choice is a knob's value in the base config, one of those that the knob may have.
type choice struct {
	knob   *kernels.Knob
	value  *expression
	values []int
}

// int is the value for a problem.
func (c choice) int(v vars) (int, error) {
	n, err := c.value.int(v)
	if err == nil && !slices.Contains(c.values, n) {
		err = &Fault{c.value.place, fmt.Sprintf("is %d, which is not among the knob's values", n)}
	}
	return n, err
}

// A rule is a condition with the reason against what breaks it: where when
// holds, require has to. Without require nothing passes.
type rule struct {
	when, require *expression
	reason        string
}

// A buffer is scratch. One without elements is left out.
type buffer struct {
	name  string
	dtype kernels.DType
	elems *expression
}

// A launch is a kernel, or with zero a buffer to clear. Where when does not hold
// it is left out.
type launch struct {
	stage           string
	when            *expression
	zero            string
	source, entry   string
	sourceAt        place
	entryAt         place
	grid            [3]*expression // nil for 1
	block           *expression
	shared, cluster *expression // nil for 0
	resident, early bool
	defines         []define
	args            []argument
}

type define struct {
	name  string
	value *expression
}

// An argument is a buffer, or a number with its value.
type argument struct {
	place
	kind  kernels.ArgKind
	name  string
	value *expression
}

const (
	designFields = "name, op, pass, base, launches; doc, origin, bits, knobs, serves, constraints, scratch, host"
	kernelFields = "source, entry, grid, block, args; stage, if, shared, cluster, resident, early, defines"
)

var (
	nameRE  = regexp.MustCompile(`^[a-z][a-z0-9_]*(/[a-z0-9_]+)?$`)
	wordRE  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	macroRE = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	stageRE = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// maxGrid bounds the configs that a family's knobs make.
const maxGrid = 20_000

// parse reads one manifest. name stands for it in errors.
func parse(name string, data []byte) (*design, error) {
	r := &reader{name: name}
	body, err := r.body(data)
	if err != nil {
		return nil, err
	}
	f, err := r.fields(body, "", designFields)
	if err != nil {
		return nil, err
	}
	d := &design{}
	// Knobs are variables of what follows them.
	for _, read := range []func(*design, map[string]pair) error{r.title, r.knobs, r.base, r.serves, r.constraints, r.scratch, r.launches} {
		if err := read(d, f); err != nil {
			return nil, err
		}
	}
	return d, d.buffers()
}

// title reads what needs no expressions.
func (r *reader) title(d *design, f map[string]pair) (err error) {
	const nameHelp = "start with a letter a-z; letters, digits and _ may follow, and a second such part behind a /"
	if d.name, err = r.text(f["name"].value, "name", nameHelp); err != nil {
		return err
	}
	if d.at = r.place(f["name"].value, "name"); !nameRE.MatchString(d.name) || d.name == "base" {
		return hint.Errorf(nameHelp, "%s: malformed name %q", d.at, d.name)
	}
	ops, _ := kernels.OpNames()
	op, err := r.oneOf(f["op"].value, "op", ops...)
	if err != nil {
		return err
	}
	pass, err := r.oneOf(f["pass"].value, "pass", string(kernels.Fwd), string(kernels.Bwd))
	if err != nil {
		return err
	}
	d.op, d.pass = kernels.Op(op), kernels.Pass(pass)
	d.doc, d.origin = "the kernels of "+r.name, r.name
	for _, x := range []struct {
		name string
		text *string
	}{{"doc", &d.doc}, {"origin", &d.origin}, {"host", &d.host}} {
		if p, ok := f[x.name]; ok {
			if *x.text, err = r.text(p.value, x.name, fileHelp); err != nil {
				return err
			}
		}
	}
	if p, ok := f["host"]; ok {
		d.hostAt = r.place(p.value, "host")
	}
	if p, ok := f["bits"]; ok {
		bits, err := r.oneOf(p.value, "bits", "per config", "bitwise", "none")
		if err != nil {
			return err
		}
		d.bits = map[string]kernels.Determinism{"per config": kernels.PerConfig, "bitwise": kernels.Bitwise, "none": kernels.NotBitwise}[bits]
	}
	return nil
}

// knob finds the knob that p's key names.
func (r *reader) knob(p pair, path string) (*kernels.Knob, error) {
	k, err := kernels.ParseKnob(p.name)
	if err != nil {
		return nil, r.errorf(p.key, join(path, p.name), hint.Of(err), "unknown knob")
	}
	return k, nil
}

func (r *reader) knobs(d *design, f map[string]pair) error {
	p, ok := f["knobs"]
	if !ok {
		return nil
	}
	const help = "write knobs as KEY: [VALUE, ...]; `normbench list knobs` names the keys"
	ps, err := r.pairs(p.value, "knobs", help)
	if err != nil {
		return err
	}
	size := 1
	for _, p := range ps {
		path := join("knobs", p.name)
		k, err := r.knob(p, "knobs")
		if err != nil {
			return err
		}
		if d.ranges(k) {
			return r.errorf(p.key, path, help, "is %s, which stands above", k.Key)
		}
		items := []ast.Node{p.value}
		if _, ok := p.value.(*ast.IntegerNode); !ok {
			if items, err = r.list(p, path, help); err != nil {
				return err
			}
		}
		x := kernels.Range{Knob: k}
		for i, n := range items {
			v, err := r.number(n, index(path, i))
			if err != nil {
				return err
			}
			if slices.Contains(x.Values, v) {
				return r.errorf(n, index(path, i), help, "%d stands twice", v)
			}
			x.Values = append(x.Values, v)
		}
		if size *= len(x.Values); size > maxGrid {
			return r.errorf(p.key, path, "list fewer values; --knob tries others", "the knobs make more than %d configs", maxGrid)
		}
		d.knobs = append(d.knobs, x)
	}
	return nil
}

// ranges says whether k is one of the family's knobs.
func (d *design) ranges(k *kernels.Knob) bool {
	return slices.ContainsFunc(d.knobs, func(r kernels.Range) bool { return r.Knob == k })
}

// base reads a value for every knob, which may use the problem, the device and
// the knobs above it.
func (r *reader) base(d *design, f map[string]pair) error {
	const help = "write base as KEY: EXPRESSION, for every one of the knobs"
	ps, err := r.pairs(f["base"].value, "base", help)
	if err != nil {
		return err
	}
	known := deviceVars(some, kernels.DeviceInfo{})
	for _, p := range ps {
		path := join("base", p.name)
		k, err := r.knob(p, "base")
		switch {
		case err != nil:
			return err
		case !d.ranges(k):
			return r.errorf(p.key, path, "list its values under knobs too", "the family has no knob %s", k.Key)
		case slices.ContainsFunc(d.base, func(c choice) bool { return c.knob == k }):
			return r.errorf(p.key, path, help, "is %s, which stands above", k.Key)
		}
		e, err := r.expression(p.value, path, whole, known, 0, math.MaxInt32)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(d.knobs, func(r kernels.Range) bool { return r.Knob == k })
		c := choice{k, e, d.knobs[i].Values}
		if !e.reads() { // of another the plans of the problem say it
			if _, err := c.int(nil); err != nil {
				return hint.With(err, "list it under knobs too")
			}
		}
		d.base = append(d.base, c)
		known.knob(k, 0)
	}
	for _, x := range d.knobs {
		if !slices.ContainsFunc(d.base, func(c choice) bool { return c.knob == x.Knob }) {
			return r.errorf(f["base"].key, join("base", x.Knob.Key), help, "is missing")
		}
	}
	return nil
}

func (r *reader) serves(d *design, f map[string]pair) (err error) {
	d.serves, err = r.rules(f["serves"], "serves", problemVars(some))
	return err
}

func (r *reader) constraints(d *design, f map[string]pair) (err error) {
	d.constraints, err = r.rules(f["constraints"], "constraints", d.known())
	return err
}

func (r *reader) rules(p pair, path string, known vars) ([]rule, error) {
	if p.value == nil {
		return nil, nil
	}
	const help = "write {if: CONDITION, reason: TEXT} to refuse, or {require: CONDITION, reason: TEXT}"
	items, err := r.list(p, path, help)
	if err != nil {
		return nil, err
	}
	var rules []rule
	for i, n := range items {
		at := index(path, i)
		f, err := r.fields(n, at, "reason; if, require")
		if err != nil {
			return nil, err
		}
		if f["if"].value == nil && f["require"].value == nil {
			return nil, r.errorf(n, at, help, "has neither if nor require")
		}
		var x rule
		if x.when, err = r.optional(f, at, "if", truth, known, 0, 0); err != nil {
			return nil, err
		}
		if x.require, err = r.optional(f, at, "require", truth, known, 0, 0); err != nil {
			return nil, err
		}
		if x.reason, err = r.text(f["reason"].value, join(at, "reason"), help); err != nil {
			return nil, err
		}
		rules = append(rules, x)
	}
	return rules, nil
}

// scratchTypes are the types that scratch may have.
var scratchTypes = []string{"fp32", "bf16", "fp16", "i32"}

func (r *reader) scratch(d *design, f map[string]pair) error {
	p, ok := f["scratch"]
	if !ok {
		return nil
	}
	const help = "write {name: NAME, dtype: fp32, elems: EXPRESSION}"
	items, err := r.list(p, "scratch", help)
	if err != nil {
		return err
	}
	for i, n := range items {
		path := index("scratch", i)
		f, err := r.fields(n, path, "name, dtype, elems;")
		if err != nil {
			return err
		}
		var b buffer
		if b.name, err = r.text(f["name"].value, join(path, "name"), help); err != nil {
			return err
		}
		switch {
		case !wordRE.MatchString(b.name):
			return r.errorf(f["name"].value, join(path, "name"), help, "malformed name %q", b.name)
		case slices.Contains(d.tensors(), b.name), slices.Contains(reduceBuffers, b.name):
			return r.errorf(f["name"].value, join(path, "name"), "choose another", "%q is the name of a tensor or of reduce's", b.name)
		case slices.ContainsFunc(d.scratch, func(c buffer) bool { return c.name == b.name }):
			return r.errorf(f["name"].value, join(path, "name"), "choose another", "%q stands twice", b.name)
		}
		dtype, err := r.oneOf(f["dtype"].value, join(path, "dtype"), scratchTypes...)
		if err != nil {
			return err
		}
		if b.dtype = kernels.I32; dtype != kernels.I32.String() {
			if b.dtype, err = kernels.ParseDType(dtype); err != nil {
				return err
			}
		}
		if b.elems, err = r.expression(f["elems"].value, join(path, "elems"), whole, d.known(), 0, 1<<40); err != nil {
			return err
		}
		d.scratch = append(d.scratch, b)
	}
	return nil
}

// buffers checks the buffer arguments of all launches, when all of the scratch
// and the reduction are known.
func (d *design) buffers() error {
	known := d.tensors()
	for _, b := range d.scratch {
		known = append(known, b.name)
	}
	if d.reduce != nil {
		known = append(known, reduceBuffers...)
	}
	for _, l := range d.launches {
		for _, a := range l.args {
			if a.kind == kernels.ArgBuffer && !slices.Contains(known, a.name) {
				return hint.Errorf("the buffers are "+strings.Join(known, ", "), "%s: unknown buffer %q", a.place, a.name)
			}
		}
	}
	if d.reduce != nil && !d.passes(reduceBuffers[0]) {
		return hint.Errorf("give it to the launch that leaves the partial sums", "%s: no launch has the argument %s", d.reduce.place, reduceBuffers[0])
	}
	return nil
}
