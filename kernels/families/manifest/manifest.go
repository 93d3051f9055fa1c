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
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"normbench/internal/yamldoc"
	"normbench/kernels"
)

// fields are those of a manifest as they stand there.
type fields struct {
	Name yamldoc.Word `match:"^([a-z]|OP)[a-z0-9_]*(/[a-z0-9_]+)?$" help:"start with a letter a-z; letters, digits and _ may follow, and a second such part behind a /"`

	Op       []yamldoc.Word  `one:"" help:"name an op, or a list of them with OP in the name"`
	Pass     kernels.Pass    `of:"fwd,bwd"`
	Base     yamldoc.Value   `yaml:"optional"`
	Launches []yamldoc.Value `help:"docs/kernels.md shows a manifest"`
	Doc      string          `yaml:"optional" help:"write a text"`
	Origin   string          `yaml:"optional" help:"write a text"`
	Bits     string          `yaml:"optional" of:"per config,bitwise,none"`
	Knobs    yamldoc.Value   `yaml:"optional"`
	Let      bindings        `yaml:"optional" kind:"truth" help:"write let as NAME: EXPRESSION"`

	Serves      []*rule        `yaml:"optional" help:"write {if: CONDITION, reason: TEXT}"`
	Constraints []*rule        `yaml:"optional" help:"write {if: CONDITION, reason: TEXT}"`
	Scratch     []*buffer      `yaml:"optional" help:"write {name: NAME, dtype: fp32, elems: EXPRESSION}"`
	Rounds      bindings       `yaml:"optional" min:"0" max:"8" help:"write OUTPUT: how often it is rounded to x's type on its way"`
	Fragile     *expression    `yaml:"optional" kind:"truth"` // only the compiler knows whether it takes c
	Unordered   *expression    `yaml:"optional" kind:"truth"` // the bits are others from run to run
	Ragged      bool           `yaml:"optional"`              // vectors of 16 bytes may be those around a row
	Host        yamldoc.Word   `yaml:"optional"`              // the family whose host stages stand in
	Include     []yamldoc.Word `yaml:"optional" one:"" help:"name folders of headers"`
	Options     []yamldoc.Word `yaml:"optional" one:"" match:"^--?[a-z]" help:"name options of NVRTC, such as --use_fast_math"`
}

// A design is a manifest that was read.
type design struct {
	fields
	Op       kernels.Op
	knobs    []kernels.Range
	names    map[string]variable // of expressions, lettings as far as they are read
	base     []choice
	launches []launchSpec
	reduce   *reduction // k2; nil without one
	prefix   string     // of its files
	include  []string   // absolute paths
	modules  []string   // Python's, as names of sources
	lacking  []string   // tensors that no launch takes
	uses     []sources  // of each expression and each check
	envs     sync.Pool
}

// A choice is a knob's value in the base config, or several that are tried in their order.
type choice struct {
	knob  *kernels.Knob
	slot  int
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
	yamldoc.Position
	If      *expression `yaml:"optional" kind:"truth"`
	Require *expression `yaml:"optional" kind:"truth"`
	Reason  string      `help:"write a text"`
}

// Error makes a broken rule the error that refuses.
func (r *rule) Error() string { return r.Reason }

// A buffer is scratch. One without elements is left out.
type buffer struct {
	Name  yamldoc.Word `match:"^[A-Za-z_][A-Za-z0-9_]*$" help:"use letters, digits and _"`
	DType string       `of:"fp32,bf16,fp16,i32,x,w"` // x and w: as that tensor
	Elems *expression  `min:"0" max:"1099511627776"`
}

// A launchSpec is a kernel, or with zero a buffer or an output to clear.
type launchSpec struct {
	kernelSpec
	zero   string
	common bool            // its source includes common.cuh
	knobs  []*kernels.Knob // of Knobs
	values []*expression   // of its arguments, knobs and macros
	python *tritonCompile  // of a kernel of Triton
}

// A kernelSpec is launched where If holds. Its code is in one file.
type kernelSpec struct {
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
	Bare     bool          `yaml:"optional"` // its source sees no macros but Defines
	Knobs    bindings      `yaml:"optional" min:"0" max:"2147483647" help:"write knobs of a launch as KNOB: EXPRESSION"`
	Defines  bindings      `yaml:"optional" help:"write defines as NAME: EXPRESSION"`
	Args     []*argument   `help:"an argument is the name of a tensor or of scratch, or {TYPE: NAME, value: EXPRESSION}"`
}

// file is where the code is.
func (k *kernelSpec) file() yamldoc.Word {
	if k.Source.Text != "" {
		return k.Source
	}
	return cmp.Or(k.Cubin, k.PTX)
}

// A binding is NAME: EXPRESSION: a let, a macro, a knob, or what Triton is told.
type binding struct {
	key   yamldoc.Word
	value *expression
}

type bindings []binding

// UnmarshalValue reads the expressions, whose tags are those of the field.
func (b *bindings) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) error {
	entries, err := v.Entries(tag.Get("help"))
	for _, e := range entries {
		x := binding{e.Key, &expression{}}
		if err := x.value.UnmarshalValue(e.Value, tag); err != nil {
			return err
		}
		*b = append(*b, x)
	}
	return err
}

// An argument is a buffer, or a number with its value.
type argument struct {
	yamldoc.Position
	param string // whose it is, where arguments stand by name
	kind  kernels.ArgKind
	name  string
	value *expression
}

// UnmarshalValue reads NAME or {TYPE: NAME, value: EXPRESSION}.
func (a *argument) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) (err error) {
	help := tag.Get("help")
	if a.Position = v.Position; v.TypeName() == yamldoc.Text {
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
	fileHelp = "docs/kernels.md shows a manifest; " +
		"put quotes around an expression that has a colon, a comma or a #"

	maxTries = 2000   // base configs that are tried
	maxGrid  = 40_000 // configs that a family's knobs make
)

// parse reads one manifest, a design for each of its ops. name stands for it in errors.
func parse(name string, data []byte) (ds []*design, err error) {
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
	d.lacking = d.untaken()
	return nil
}

// compile compiles those expressions that are there.
func (d *design) compile(known scope, es ...*expression) error {
	for _, e := range es {
		if e != nil {
			if err := e.compile(known); err != nil {
				return err
			}
			e.slot = len(d.knobs) + len(d.uses)
			d.uses = append(d.uses, e.sources)
		}
	}
	return nil
}

func (d *design) checkOptions() error {
	for _, o := range d.Options {
		name, _, _ := strings.Cut(strings.TrimLeft(o.Text, "-"), "=")
		if slices.Contains([]string{"gpu-architecture", "arch", "include-path", "define-macro"}, name) {
			return o.Errorf("the device gives the architecture; folders are listed under include, "+
				"macros under defines",
				"%q is not for here", o.Text)
		}
	}
	return nil
}
