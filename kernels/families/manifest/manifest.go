// Package manifest makes kernel families of a folder of the user's: YAML files,
// one for each family, that say what package families says in Go (knobs, the base
// rule, constraints, launches and their arguments) beside the .cu files that they
// launch. docs/manifest.md describes a manifest; examples/kernels has one.
//
// Numbers that depend on the problem, the device or the config are expressions.
// They are compiled and checked when a manifest is read, so that what is wrong
// with one is an error with file, line and field before anything runs. Only
// values can be wrong later, for a problem and a config: those are Faults.
package manifest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"normbench/internal/yamldoc"
	"normbench/kernels"
)

// Fields are what stands in a manifest: read by its tags, and not yet checked.
type fields struct {
	Name yamldoc.Word `match:"^([a-z]|OP)[a-z0-9_]*(/[a-z0-9_]+)?$" help:"start with a letter a-z; letters, digits and _ may follow, and a second such part behind a /"`

	Op       []yamldoc.Word                  `one:"" help:"name an op, or a list of them with OP in the name"`
	Pass     kernels.Pass                    `of:"fwd,bwd"`
	Base     yamldoc.OrderedMap[expressions] `yaml:"optional" min:"0" max:"2147483647" help:"write base as KEY: EXPRESSION, or a list of expressions to try"`
	Launches launches                        `help:"docs/manifest.md shows every field"`
	Doc      string                          `yaml:"optional" help:"write a text"`
	Origin   string                          `yaml:"optional" help:"write a text"`
	Bits     string                          `yaml:"optional" of:"per config,bitwise,none"`

	Knobs yamldoc.OrderedMap[knobFields] "yaml:\"optional\" one:\"\" min:\"0\" max:\"2147483647\" item:\"a knob's value is a whole number from 0 to 2147483647\" help:\"write knobs as KEY: [VALUE, ...] (`normbench list knobs` names the keys), and one of your own as NAME: {values: [VALUE, ...], doc: TEXT}\""

	Let         bindings       `yaml:"optional" kind:"truth" help:"write let as NAME: EXPRESSION"`
	Serves      []*rule        `yaml:"optional" help:"write {if: CONDITION, reason: TEXT}"`
	Constraints []*rule        `yaml:"optional" help:"write {if: CONDITION, reason: TEXT}"`
	Scratch     []*buffer      `yaml:"optional" help:"write {name: NAME, dtype: fp32, elems: EXPRESSION}"`
	Inplace     wordMap        `yaml:"optional" help:"write inplace as OUTPUT: INPUT, such as {y: x}"`
	Rounds      bindings       `yaml:"optional" min:"0" max:"8" help:"write OUTPUT: how often it is rounded to x's type on its way"`
	Fragile     *expression    `yaml:"optional" kind:"truth"` // only the compiler knows whether it takes c
	Unordered   *expression    `yaml:"optional" kind:"truth"` // the bits are others from run to run
	Ragged      bool           `yaml:"optional"`              // vectors of 16 bytes may be those around a row
	Host        yamldoc.Word   `yaml:"optional"`              // the family whose host stages stand in
	Plain       bool           `yaml:"optional"`              // to be read: who seeks the fastest takes it by name only
	Include     []yamldoc.Word `yaml:"optional" one:"" help:"name folders of headers"`
	Without     []yamldoc.Word `yaml:"optional" one:"" help:"name headers that only host code needs"`
	Options     []yamldoc.Word `yaml:"optional" one:"" match:"^--?[a-z]" help:"name options of NVRTC, such as --use_fast_math; macros stand under defines:"`
}

const fileHelp = "docs/manifest.md shows every field; " +
	"put quotes around an expression that has a colon, a comma or a #"

// parse reads one manifest, a design for each of its ops. name stands for it in errors.
func parse(name string, data []byte) (ds []*design, err error) {
	body, err := yamldoc.Document(name, data, fileHelp)
	if err != nil {
		return nil, err
	}
	for i := 0; i == 0 || i < len(ds[0].fields.Op); i++ {
		f := fields{Doc: "the kernels of " + name, Origin: name}
		if err := body.Decode(&f); err != nil {
			return nil, err
		}
		d, err := check(f, f.Op[i])
		if err != nil {
			return nil, err
		}
		ds = append(ds, d)
	}
	return ds, nil
}

// A wordMap is NAME: NAME.
type wordMap = yamldoc.OrderedMap[yamldoc.Word]

// Bindings are NAME: EXPRESSION: lets, macros, knobs, or what Triton is told.
type bindings = yamldoc.OrderedMap[*expression]

// A binding is one of them.
type binding = yamldoc.MapEntry[*expression]

// knobFields are the values of a knob, and a doc where it is one of the family's own.
type knobFields struct {
	own    bool
	values []yamldoc.WholeNumber
	doc    string
}

// UnmarshalValue reads VALUES or {values: VALUES, doc: TEXT}. The tags are those of VALUES.
func (k *knobFields) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) error {
	if k.own = v.TypeName() == yamldoc.Mapping; !k.own {
		return v.DecodeAs(&k.values, tag)
	}
	var own struct {
		Values yamldoc.Value
		Doc    string `yaml:"optional" help:"write a text"`
	}
	if err := v.Decode(&own); err != nil {
		return err
	}
	k.doc = own.Doc
	return own.Values.DecodeAs(&k.values, tag)
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

// Launches are those of a manifest, in their order.
type launches []*launchSpec

// UnmarshalValue reads them. One that is like a stage above has the fields of that one's first launch
// which it does not say itself, but for its condition.
func (ls *launches) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) error {
	items, err := v.Items(tag.Get("help"), false)
	if err != nil {
		return err
	}
	count := 1
	for i, item := range items {
		l := &launchSpec{Position: item.Position}
		l.Stage = fmt.Sprintf("k%d", count)
		if item.Has("like") {
			if items[i], err = ls.fill(item, l, items[:i]); err != nil {
				return err
			}
		}
		if err := l.decode(items[i]); err != nil {
			return err
		}
		if l.zero.Text == "" {
			count++
		}
		*ls = append(*ls, l)
	}
	return nil
}

// fill gives l, which stands at v, what it has of a launch above.
func (ls launches) fill(v yamldoc.Value, l *launchSpec, above []yamldoc.Value) (yamldoc.Value, error) {
	const help = "name the stage of a kernel that is launched above"
	var f struct{ Like yamldoc.Word }
	if err := v.Only("like").Decode(&f); err != nil {
		return v, err
	}
	i := slices.IndexFunc(ls, func(o *launchSpec) bool { return o.Stage == f.Like.Text && o.isKernel() })
	if i < 0 {
		return v, f.Like.Errorf(help, "no kernel of stage %q stands above", f.Like.Text)
	}
	l.Stage = ls[i].Stage
	return v.Over(above[i].Without("if", "like"), help)
}

// A launch is a kernel, one of Triton's, a buffer or an output to clear, or k2.
type launchSpec struct {
	yamldoc.Position
	kernelSpec
	zero   yamldoc.Word
	reduce *reduction
	python *tritonCompile

	macros []string        // that its source sees
	knobs  []*kernels.Knob // of Knobs
	values []*expression   // of its arguments, knobs and macros
	common bool            // its source includes common.cuh
	symbol string          // of the entry of compiled code
}

// isKernel says whether l launches a kernel of the manifest's.
func (l *launchSpec) isKernel() bool { return l.zero.Text == "" && l.reduce == nil }

// decode reads a launch whose stage is known unless it says another.
func (l *launchSpec) decode(v yamldoc.Value) error {
	switch {
	case v.Has("reduce"):
		var f struct{ Reduce reduction }
		if err := v.Decode(&f); err != nil {
			return err
		}
		l.Stage, l.If, l.reduce = "k2", f.Reduce.If, &f.Reduce
	case v.Has("zero"):
		f := struct {
			Zero  yamldoc.Word
			Stage string      `yaml:"optional" match:"^[a-z][a-z0-9_]*$"`
			If    *expression `yaml:"optional" kind:"truth"`
		}{Stage: "zero"}
		if err := v.Decode(&f); err != nil {
			return err
		}
		l.Stage, l.If, l.zero = f.Stage, f.If, f.Zero
	case v.Has("triton"):
		return l.decodeTriton(v)
	default:
		return v.Decode(&l.kernelSpec)
	}
	return nil
}

// A kernel is launched where If holds. Its code is in one file.
type kernelSpec struct {
	Like  yamldoc.Word `yaml:"optional"` // the stage whose other fields it has
	Stage string       `yaml:"optional" match:"^[a-z][a-z0-9_]*$" help:"letters a-z, digits and _, such as k1"`
	If    *expression  `yaml:"optional" kind:"truth"`
	Entry yamldoc.Word `match:"^[A-Za-z_][A-Za-z0-9_:]*(<[A-Za-z0-9_:<>,.()*&+ -]*>)?$" help:"name a __global__ function, such as kernel or kernel<8, float>"`

	Source yamldoc.Word `yaml:"optional" match:"^[^/\\\\:]+[.]cu$" help:"name a .cu file that lies beside the manifest"`
	Cubin  yamldoc.Word `yaml:"optional" match:"^[^/\\\\:]+[.]cubin$" help:"name a .cubin file that lies beside the manifest"`
	PTX    yamldoc.Word `yaml:"optional" match:"^[^/\\\\:]+[.]ptx$" help:"name a .ptx file that lies beside the manifest"`

	Grid     expressions `one:"" min:"1" max:"2147483647" help:"write one number of CTAs or three"`
	Block    expressions `one:"" min:"1" max:"1024" help:"write one number of threads or three"`
	Shared   *expression `yaml:"optional" min:"0" max:"2147483647"`
	Cluster  *expression `yaml:"optional" min:"0" max:"16"`
	Resident *expression `yaml:"optional" kind:"truth"`
	Early    bool        `yaml:"optional"`
	NVCC     bool        `yaml:"optional"` // nvcc compiles the source
	Bare     bool        `yaml:"optional"` // its source sees no macros but Defines
	Knobs    bindings    `yaml:"optional" min:"0" max:"2147483647" help:"write knobs of a launch as KNOB: EXPRESSION"`
	Defines  bindings    `yaml:"optional" help:"write defines as NAME: EXPRESSION"`
	Args     []*argument `help:"an argument is the name of a tensor or of scratch, {TYPE: NAME, value: EXPRESSION}, or a list of these for a struct"`
}

// file is where the code is.
func (k *kernelSpec) file() yamldoc.Word {
	if k.Source.Text != "" {
		return k.Source
	}
	return cmp.Or(k.Cubin, k.PTX)
}

// An argument is a buffer, a number with its value, or a struct of such fields.
type argument struct {
	yamldoc.Position
	param  string // whose it is, where arguments stand by name
	kind   kernels.ArgKind
	name   string
	value  *expression
	fields []*argument // of a struct
}

// leaves are the buffers and numbers that an argument consists of.
func (a *argument) leaves() []*argument {
	if a.kind != kernels.ArgStruct {
		return []*argument{a}
	}
	var all []*argument
	for _, f := range a.fields {
		all = append(all, f.leaves()...)
	}
	return all
}

// UnmarshalValue reads NAME, {TYPE: NAME, value: EXPRESSION} or, of a struct, a list of these.
func (a *argument) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) (err error) {
	help := tag.Get("help")
	switch a.Position = v.Position; v.TypeName() {
	case yamldoc.Text:
		a.name, err = v.Text(help)
		return err
	case yamldoc.List:
		items, err := v.Items(help, false)
		for _, item := range items {
			f := &argument{}
			if err := f.UnmarshalValue(item, tag); err != nil {
				return err
			}
			a.fields = append(a.fields, f)
		}
		a.kind = kernels.ArgStruct
		if err == nil && len(a.fields) == 0 {
			err = a.Errorf(help, "is a struct without fields")
		}
		return err
	}
	entries, err := v.Entries(help)
	if err != nil {
		return err
	}
	for _, e := range entries {
		kind, ok := kernels.FindArgKind(e.Key.Text)
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
