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
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
)

// fields are those of a manifest as they stand there.
type fields struct {
	Name yamldoc.Word `match:"^([a-z]|OP)[a-z0-9_]*(/[a-z0-9_]+)?$" help:"start with a letter a-z; letters, digits and _ may follow, and a second such part behind a /"`

	Op       []yamldoc.Word `one:"" help:"name an op, or a list of them with OP in the name"`
	Pass     kernels.Pass   `of:"fwd,bwd"`
	Base     yamldoc.Value
	Launches []yamldoc.Value `help:"docs/kernels.md shows a manifest"`
	Doc      string          `yaml:"optional"`
	Origin   string          `yaml:"optional"`
	Bits     string          `yaml:"optional" of:"per config,bitwise,none"`
	Knobs    yamldoc.Value   `yaml:"optional"`
	Let      yamldoc.Value   `yaml:"optional"`

	Serves      []*rule        `yaml:"optional" help:"write {if: CONDITION, reason: TEXT}"`
	Constraints []*rule        `yaml:"optional" help:"write {if: CONDITION, reason: TEXT}"`
	Scratch     []*buffer      `yaml:"optional" help:"write {name: NAME, dtype: fp32, elems: EXPRESSION}"`
	Host        yamldoc.Word   `yaml:"optional"` // the family whose host stages stand in
	Include     []yamldoc.Word `yaml:"optional" one:"" help:"name folders of headers"`
	Options     []yamldoc.Word `yaml:"optional" one:"" match:"^--?[a-z]" help:"name options of NVRTC, such as --use_fast_math"`
}

// A design is a manifest that was read.
type design struct {
	fields
	Op          kernels.Op
	knobs       []kernels.Range
	lets        []*letting
	base        []choice
	launches    []launch
	reduce      *reduction // k2; nil without one
	prefix      string     // of its files
	include     []string   // absolute paths
	expressions int        // compiled so far
	modules     []string   // Python's, as names of sources
	found       atomic.Pointer[foundBase]
}

// A choice is a knob's value in the base config, or several that are tried in their order.
type choice struct {
	knob  *kernels.Knob
	tries []*expression
}

// A reduction is k2 over partial rows, where If holds.
type reduction struct {
	If       *expression `yaml:"optional" kind:"truth"`
	Partials *expression `min:"1" max:"2147483647"`
}

// A rule is a condition with the reason against what breaks it: where If
// holds, Require has to. Without Require nothing passes.
type rule struct {
	yamldoc.Place
	If      *expression `yaml:"optional" kind:"truth"`
	Require *expression `yaml:"optional" kind:"truth"`
	Reason  string
}

// A buffer is scratch. One without elements is left out.
type buffer struct {
	Name  yamldoc.Word `match:"^[A-Za-z_][A-Za-z0-9_]*$" help:"use letters, digits and _"`
	DType string       `of:"fp32,bf16,fp16,i32"`
	Elems *expression  `min:"0" max:"1099511627776"`
}

// A launch is a kernel, or with zero a buffer to clear.
type launch struct {
	kernel
	zero   string
	common bool     // its source includes common.cuh
	python *compile // of a kernel of Triton
}

// A kernel is launched where If holds. Its code is in one file.
type kernel struct {
	Stage string       `yaml:"optional" match:"^[a-z][a-z0-9_]*$" help:"letters a-z, digits and _, such as k1"`
	If    *expression  `yaml:"optional" kind:"truth"`
	Entry yamldoc.Word `match:"^[A-Za-z_][A-Za-z0-9_:]*(<[A-Za-z0-9_:<>,.()*&+ -]*>)?$" help:"name a __global__ function, such as kernel or kernel<8, float>"`

	Source yamldoc.Word `yaml:"optional" match:"^[^/\\\\:]+[.]cu$" help:"name a .cu file that lies beside the manifest"`
	Cubin  yamldoc.Word `yaml:"optional" match:"^[^/\\\\:]+[.]cubin$" help:"name a .cubin file that lies beside the manifest"`
	PTX    yamldoc.Word `yaml:"optional" match:"^[^/\\\\:]+[.]ptx$" help:"name a .ptx file that lies beside the manifest"`

	Grid     []*expression `one:"" min:"1" max:"2147483647" help:"write one number of CTAs or three"`
	Block    *expression   `min:"1" max:"1024"`
	Shared   *expression   `yaml:"optional" min:"0" max:"2147483647"`
	Cluster  *expression   `yaml:"optional" min:"0" max:"16"`
	Resident *expression   `yaml:"optional" kind:"truth"`
	Early    bool          `yaml:"optional"`
	Knobs    macros        `yaml:"optional"`
	Defines  defines       `yaml:"optional"`
	Args     []*argument   `help:"an argument is the name of a tensor or of scratch, or {TYPE: NAME, value: EXPRESSION}"`
}

// file is where the code is.
func (k *kernel) file() yamldoc.Word {
	if k.Source.Text != "" {
		return k.Source
	}
	return cmp.Or(k.Cubin, k.PTX)
}

// defines are macros, of which the problem and the knobs have others.
type defines []define

type define struct {
	name  yamldoc.Word
	value *expression
}

// UnmarshalValue reads NAME: EXPRESSION.
func (d *defines) UnmarshalValue(v yamldoc.Value, _ reflect.StructTag) error {
	entries, err := v.Entries("write defines as NAME: EXPRESSION")
	for _, e := range entries {
		x := define{name: e.Key}
		if err := e.Value.Decode(&x.value); err != nil {
			return err
		}
		*d = append(*d, x)
	}
	return err
}

// macros are the knobs that a launch has the macros of, with their values there; nil is all, as they
// are.
type macros []choice

// UnmarshalValue reads KNOB: EXPRESSION.
func (m *macros) UnmarshalValue(v yamldoc.Value, _ reflect.StructTag) error {
	const help = "write knobs of a launch as KNOB: EXPRESSION"
	entries, err := v.Entries(help)
	for _, e := range entries {
		k, bad := kernels.ParseKnob(e.Key.Text)
		if bad != nil {
			return e.Key.Errorf(help, "unknown knob")
		}
		x := choice{k, []*expression{{}}}
		if err := x.tries[0].UnmarshalValue(e.Value, `min:"0" max:"2147483647"`); err != nil {
			return err
		}
		*m = append(*m, x)
	}
	return err
}

// An argument is a buffer, or a number with its value.
type argument struct {
	yamldoc.Place
	param string // whose it is, where arguments stand by name
	kind  kernels.ArgKind
	name  string
	value *expression
}

// UnmarshalValue reads NAME or {TYPE: NAME, value: EXPRESSION}.
func (a *argument) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) (err error) {
	help := tag.Get("help")
	if a.Place = v.Place; v.TypeName() == yamldoc.Text {
		a.name, err = v.Text(help)
		return err
	}
	entries, err := v.Entries(help)
	if err != nil {
		return err
	}
	for _, e := range entries {
		kind, ok := kernels.ParseArgKind(e.Key.Text)
		switch {
		case e.Key.Text == "value":
			err = e.Value.Decode(&a.value)
		case ok && a.name == "":
			a.kind = kind
			a.name, err = e.Value.Text(help)
		default:
			err = e.Key.Errorf(help, "unknown field")
		}
		if err != nil {
			return err
		}
	}
	if a.name == "" || a.value == nil {
		return a.Errorf(help, "has not a type and a value")
	}
	if a.kind.IsFloat() {
		a.value.kind = fraction
	} else {
		lo, hi := a.kind.Range()
		a.value.lo, a.value.hi = int(lo), int(hi)
	}
	return nil
}

var (
	knobRE  = regexp.MustCompile(`^[a-z][a-z_]*$`)
	nameRE  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	macroRE = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

const (
	fileHelp = "docs/kernels.md shows a manifest; put quotes around an expression that has a colon, a comma or a #"

	maxManifest    = 64 << 10 // bytes
	maxExpressions = 500      // each is evaluated for every config
	maxTries       = 1000     // base configs that are tried
	maxGrid        = 20_000   // configs that a family's knobs make
)

// parse reads one manifest, a design for each of its ops. name stands for it in errors.
func parse(name string, data []byte) (ds []*design, err error) {
	if len(data) > maxManifest {
		return nil, hint.Errorf("a manifest has some hundred lines at most",
			"%s has %d bytes, more than %d", name, len(data), maxManifest)
	}
	body, err := yamldoc.Document(name, data, fileHelp)
	if err != nil {
		return nil, err
	}
	for i := 0; i == 0 || i < len(ds[0].fields.Op); i++ {
		d := &design{fields: fields{Doc: "the kernels of " + name, Origin: name}}
		if err := body.Decode(&d.fields); err != nil {
			return nil, err
		}
		if err := d.read(d.fields.Op[i]); err != nil {
			return nil, err
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// opPlace stands in names for the short name of the op.
const opPlace = "OP"

// read reads the design for one op.
func (d *design) read(op yamldoc.Word) error {
	ops, _ := kernels.OpNames()
	if d.Op = kernels.Op(op.Text); !slices.Contains(ops, op.Text) {
		return op.Errorf("use "+strings.Join(ops, " or "), "unknown op %q", op.Text)
	}
	if len(d.fields.Op) > 1 && !strings.Contains(d.Name.Text, opPlace) {
		return d.Name.Errorf("write OP where the name has the op, such as OP_bwd/mine",
			"is one name for several ops")
	}
	for _, w := range []*yamldoc.Word{&d.Name, &d.Host} {
		w.Text = strings.Replace(w.Text, opPlace, d.Op.Spec().Short, 1)
	}
	// Knobs and lettings are variables of what follows them.
	for _, step := range []func() error{d.checkOptions, d.readKnobs, d.readLet, d.readBase,
		d.readRules, d.readScratch, d.readLaunches, d.checkBuffers} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// compile compiles those expressions that are there.
func (d *design) compile(known scope, es ...*expression) error {
	for _, e := range es {
		if e == nil {
			continue
		}
		if d.expressions++; d.expressions > maxExpressions {
			return e.Errorf("split the family", "is one of more than %d expressions", maxExpressions)
		}
		if err := e.compile(known); err != nil {
			return err
		}
	}
	return nil
}

func (d *design) checkOptions() error {
	for _, o := range d.Options {
		name, _, _ := strings.Cut(strings.TrimLeft(o.Text, "-"), "=")
		if slices.Contains([]string{"gpu-architecture", "arch", "include-path", "define-macro"}, name) {
			return o.Errorf("the device gives the architecture; folders are listed under include, macros under defines",
				"%q is not for here", o.Text)
		}
	}
	return nil
}

func (d *design) readKnobs() error {
	if !d.Knobs.Known() {
		return nil
	}
	const help = "write knobs as KEY: [VALUE, ...] (`normbench list knobs` names the keys), " +
		"and one of your own as NAME: {values: [VALUE, ...], doc: TEXT}"
	entries, err := d.Knobs.Entries(help)
	if err != nil {
		return err
	}
	size := 1
	for _, e := range entries {
		k, values, err := d.knob(e, help)
		if err != nil {
			return err
		}
		if d.ranges(k) {
			return e.Key.Errorf(help, "is %s, which stands above", k.Key)
		}
		x := kernels.Range{Knob: k}
		items, err := values.Items(help, true)
		if err != nil {
			return err
		}
		for _, item := range items {
			v, err := item.Int("a knob's value is a whole number from 0 to 2147483647", 0, math.MaxInt32)
			if err != nil {
				return err
			}
			if slices.Contains(x.Values, v) {
				return item.Errorf(help, "%d stands twice", v)
			}
			x.Values = append(x.Values, v)
		}
		if size *= len(x.Values); size > maxGrid {
			return e.Key.Errorf("list fewer values; --knob tries others",
				"the knobs make more than %d configs", maxGrid)
		}
		d.knobs = append(d.knobs, x)
	}
	return nil
}

// knob is the knob of an entry, and its values. One of the family's own has a mapping.
func (d *design) knob(e yamldoc.Entry, help string) (*kernels.Knob, yamldoc.Value, error) {
	known, err := kernels.ParseKnob(e.Key.Text)
	if e.Value.TypeName() != yamldoc.Mapping {
		if err != nil || known.Macro == strings.ToUpper(e.Key.Text) && known.Key == known.Macro {
			return nil, e.Value, e.Key.Errorf(help, "unknown knob")
		}
		return known, e.Value, nil
	}
	var own struct {
		Values yamldoc.Value
		Doc    string `yaml:"optional"`
	}
	if err := e.Value.Decode(&own); err != nil {
		return nil, e.Value, err
	}
	name := strings.ToLower(e.Key.Text)
	_, variable := variables[name]
	switch {
	case err == nil && known.Key != strings.ToUpper(name):
		return known, own.Values, nil
	case !knobRE.MatchString(name):
		return nil, e.Value, e.Key.Errorf("use letters and _: in a label the value follows the name",
			"malformed name")
	case variable, name == "eps", slices.Contains(d.macros(), strings.ToUpper(name)):
		return nil, e.Value, e.Key.Errorf("choose another name",
			"is the name of a variable or a macro")
	}
	k, err := kernels.UserKnob(name, own.Doc)
	if err != nil {
		err = e.Key.Errorf(hint.Of(err), "%v", err)
	}
	return k, own.Values, err
}

// known are the names that launches may use.
func (d *design) known() scope { return scope{ofConfig, d.knobs, d.knobs, d.lets, d.Op.Spec().Eps} }

// ranges says whether k is one of the family's knobs.
func (d *design) ranges(k *kernels.Knob) bool {
	return slices.ContainsFunc(d.knobs, func(r kernels.Range) bool { return r.Knob == k })
}

// readLet reads the expressions that have names. Each may use those above it.
func (d *design) readLet() error {
	if !d.Let.Known() {
		return nil
	}
	const help = "write let as NAME: EXPRESSION"
	entries, err := d.Let.Entries(help)
	if err != nil {
		return err
	}
	for _, e := range entries {
		known := d.known()
		if taken, _ := known.lookup(e.Key.Text); taken != nil || !nameRE.MatchString(e.Key.Text) {
			return e.Key.Errorf("use letters, digits and _, and no name of a variable or a knob",
				"is no name for an expression")
		}
		l := &letting{name: e.Key, value: &expression{}}
		if err := l.value.UnmarshalValue(e.Value, `kind:"truth"`); err != nil {
			return err
		}
		if err := d.compile(known, l.value); err != nil {
			return err
		}
		l.needs = l.value.needs
		d.lets = append(d.lets, l)
	}
	return nil
}

// readBase reads a value for every knob, which may use the problem, the device and
// the knobs above it.
func (d *design) readBase() error {
	const help = "write base as KEY: EXPRESSION, for every one of the knobs, or a list of " +
		"expressions to try"
	entries, err := d.Base.Entries(help)
	if err != nil {
		return err
	}
	known, tries := scope{ofDevice, d.knobs, nil, d.lets, 0}, 1
	for _, e := range entries {
		i := slices.IndexFunc(d.knobs, func(r kernels.Range) bool {
			return e.Key.Text == r.Knob.Key || e.Key.Text == r.Knob.Name
		})
		if i < 0 {
			return e.Key.Errorf("list its values under knobs too", "the family has no knob %s", e.Key.Text)
		}
		c := choice{knob: d.knobs[i].Knob}
		if slices.ContainsFunc(d.base, func(b choice) bool { return b.knob == c.knob }) {
			return e.Key.Errorf(help, "is %s, which stands above", c.knob.Key)
		}
		items, err := e.Value.Items(help, true)
		if err != nil {
			return err
		}
		for _, item := range items {
			x := &expression{}
			if err := x.UnmarshalValue(item, `min:"0" max:"2147483647"`); err != nil {
				return err
			}
			if err := d.compile(known, x); err != nil {
				return err
			}
			c.tries = append(c.tries, x)
		}
		if tries *= len(items); tries > maxTries {
			return e.Key.Errorf("list fewer", "more than %d configs to try", maxTries)
		}
		d.base = append(d.base, c)
		known.knobs = append(known.knobs, d.knobs[i])
	}
	for _, x := range d.knobs {
		if !slices.ContainsFunc(d.base, func(c choice) bool { return c.knob == x.Knob }) {
			return yamldoc.Place{At: d.Base.At, Path: "base." + x.Knob.Key}.Errorf(help, "is missing")
		}
	}
	return nil
}

func (d *design) readRules() error {
	for i, r := range slices.Concat(d.Serves, d.Constraints) {
		known := d.known()
		if i < len(d.Serves) {
			known = scope{level: ofProblem, family: d.knobs}
		}
		if r.If == nil && r.Require == nil {
			return r.Errorf("if refuses what it holds for, require all else", "has neither if nor require")
		}
		if err := d.compile(known, r.If, r.Require); err != nil {
			return err
		}
	}
	return nil
}

func (d *design) readScratch() error {
	var seen []string
	for _, b := range d.Scratch {
		name := b.Name.Text
		switch {
		case name == noBuffer, slices.Contains(d.tensors(), name):
			return b.Name.Errorf("choose another", "%q is the name of a tensor, or of none", name)
		case slices.Contains(seen, name):
			return b.Name.Errorf("choose another", "%q stands twice", name)
		}
		seen = append(seen, name)
		if err := d.compile(d.known(), b.Elems); err != nil {
			return err
		}
	}
	return nil
}

// noBuffer is an argument that is a null pointer.
const noBuffer = "none"

// reduceBuffers are the scratch that reduce adds.
var reduceBuffers = []string{"dw_partial", "db_partial"}

func (d *design) readLaunches() error {
	for i, v := range d.Launches {
		l := launch{kernel: kernel{Stage: fmt.Sprintf("k%d", 1+len(d.kernels()))}}
		var err error
		switch {
		case v.Has("reduce") && d.Pass != kernels.Bwd:
			return v.Errorf("a forward leaves no partial sums", "reduce is for a backward")
		case v.Has("reduce") && i != len(d.Launches)-1:
			return v.Errorf("put it last", "reduce is the last launch")
		case v.Has("reduce"):
			var f struct{ Reduce reduction }
			if err = v.Decode(&f); err == nil {
				d.reduce, l.Stage = &f.Reduce, "k2"
				err = d.compile(d.known(), d.reduce.If, d.reduce.Partials)
			}
		case v.Has("zero"):
			f := struct {
				Zero  yamldoc.Word
				Stage string `yaml:"optional" match:"^[a-z][a-z0-9_]*$"`
			}{Stage: "zero"}
			err = v.Decode(&f)
			l.Stage, l.zero = f.Stage, f.Zero.Text
			named := func(b *buffer) bool { return b.Name.Text == l.zero }
			if err == nil && !slices.ContainsFunc(d.Scratch, named) {
				err = f.Zero.Errorf("name a buffer of scratch", "unknown buffer %q", l.zero)
			}
		case v.Has("triton"):
			err = d.readTriton(v, &l)
		default:
			if err = v.Decode(&l.kernel); err == nil {
				err = d.readKernel(&l)
			}
		}
		if err != nil {
			return err
		}
		same := func(o launch) bool { return o.Stage == l.Stage && (o.If == nil || l.If == nil) }
		if slices.ContainsFunc(d.launches, same) {
			at := yamldoc.Place{At: v.At, Path: v.Path + ".stage"}
			return at.Errorf("name it with stage:", "two stages are %q", l.Stage)
		}
		if d.reduce == nil {
			d.launches = append(d.launches, l)
		}
	}
	if len(d.launches) == 0 {
		return d.Name.Errorf(fileHelp, "no kernel is launched")
	}
	return nil
}

// readKernel checks the launch of a kernel.
func (d *design) readKernel(l *launch) error {
	given := flag(l.Source.Text != "") + flag(l.Cubin.Text != "") + flag(l.PTX.Text != "")
	switch entry := l.Entry.Text; {
	case given != 1:
		return l.Entry.Errorf("give the launch one of source, cubin and ptx", "is in %d files", given)
	case l.Source.Text == "" && len(l.Defines) > 0:
		return l.Defines[0].name.Errorf("leave it out, and have knobs vary grid, block and shared",
			"is for a source, not for compiled code")
	case entry == kernels.Memcpy, entry == kernels.Memset:
		return l.Entry.Errorf("give the kernel another name", "%q is the driver's", entry)
	case len(l.Grid) > 3:
		return l.Grid[3].Errorf("write one number of CTAs or three", "is one of %d numbers", len(l.Grid))
	}
	for _, e := range l.Grid[1:] {
		e.hi = 65535 // CUDA's limit of all but the first
	}
	list := append([]*expression{l.If, l.Block, l.Shared, l.Cluster, l.Resident}, l.Grid...)
	for _, x := range l.Knobs {
		list = append(list, x.tries...)
	}
	for _, x := range l.Defines {
		switch {
		case !macroRE.MatchString(x.name.Text):
			return x.name.Errorf("use letters A-Z, digits and _", "malformed macro name")
		case slices.Contains(d.macros(), x.name.Text):
			return x.name.Errorf("choose another name", "is defined by the problem or a knob already")
		}
		list = append(list, x.value)
	}
	for _, a := range l.Args {
		list = append(list, a.value)
	}
	return d.compile(d.known(), list...)
}

// checkBuffers checks the buffer arguments of all launches, when all of the scratch
// and the reduction are known.
func (d *design) checkBuffers() error {
	known := append(d.tensors(), noBuffer)
	if d.reduce != nil {
		known = append(known, reduceBuffers...)
	}
	for _, b := range d.Scratch {
		if d.reduce != nil && slices.Contains(reduceBuffers, b.Name.Text) {
			return b.Name.Errorf("choose another", "%q is a buffer of reduce's", b.Name.Text)
		}
		known = append(known, b.Name.Text)
	}
	for _, l := range d.launches {
		for _, a := range l.Args {
			if a.kind == kernels.ArgBuffer && !slices.Contains(known, a.name) {
				return a.Errorf("the buffers are "+strings.Join(known, ", "), "unknown buffer %q", a.name)
			}
		}
	}
	if d.reduce != nil && !d.passes(reduceBuffers[0]) {
		return d.reduce.Partials.Errorf("give it to the launch that leaves the partial sums",
			"no launch has the argument %s", reduceBuffers[0])
	}
	return nil
}
