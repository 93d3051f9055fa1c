package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/families/common"
)

// A tritonCompile is what Triton is told of a launch.
type tritonCompile struct {
	request  triton.Request
	function triton.FunctionSignature
	place    yamldoc.Position
	args     bindings
	settings []tritonSetting // constexprs, then options
}

// A tritonSetting is a constexpr or an option of Triton's: an expression, a literal of Python, or the type
// of a buffer's elements.
type tritonSetting struct {
	binding
	option  bool
	literal bool
	typeOf  string // the buffer
}

// fields of a launch of Triton's.
type tritonFields struct {
	Like   yamldoc.Word `yaml:"optional"`
	Stage  string       `yaml:"optional" match:"^[a-z][a-z0-9_]*$" help:"letters a-z, digits and _, such as k1"`
	If     *expression  `yaml:"optional" kind:"truth"`
	Triton struct {
		Source   yamldoc.Word `yaml:"optional" match:"^[^/\\\\:#]+[.]py$" help:"name a .py file that lies beside the manifest"`
		Module   yamldoc.Word `yaml:"optional" match:"^[A-Za-z0-9_][A-Za-z0-9_.-]*$" help:"name an installed module, such as package.kernels"`
		Function yamldoc.Word `match:"^[A-Za-z_][A-Za-z0-9_]*$" help:"name a function of @triton.jit"`
	}
	Grid       expressions `min:"1" max:"2147483647" help:"write one number of programs or three"`
	Args       bindings    `help:"write args as PARAMETER: the name of a tensor or of scratch, or an expression"`
	Constexprs bindings    `yaml:"optional" help:"write NAME: EXPRESSION, or a literal of Python: 'text', None, True, tl.float32"`
	Options    bindings    `yaml:"optional" help:"write NAME: EXPRESSION, or a literal of Python: 'text', None, True, tl.float32"`
}

// literalRE is what Python is given as it is: a text, None, True, False, a type of Triton's.
var literalRE = regexp.MustCompile(`^('[^'\\\n]*'|"[^"\\\n]*"|None|True|False|tl\.[a-z0-9]+)$`)

// typeRE is the type of a tensor or of scratch.
var typeRE = regexp.MustCompile(`^dtype\((\w+)\)$`)

// fractionRE finds what only a float has.
var fractionRE = regexp.MustCompile(`\beps\b|\d\.|\de-?\d`)

// kindOf is what an expression without a type comes out as. Conditions are true or false.
func kindOf(text string) kind {
	if fractionRE.MatchString(text) {
		return fraction
	}
	return truth
}

// decodeTriton reads a launch of a kernel of Triton.
func (l *launchSpec) decodeTriton(v yamldoc.Value) error {
	f := tritonFields{Stage: l.Stage}
	if err := v.Decode(&f); err != nil {
		return err
	}
	k := f.Triton
	switch {
	case (k.Source.Text == "") == (k.Module.Text == ""):
		return k.Function.Errorf("give one of the two", "stands beside both source and module, or neither")
	case len(f.Grid) > 3:
		return f.Grid[3].Errorf("write one number of programs or three", "is one of %d numbers", len(f.Grid))
	}
	for _, e := range f.Grid[1:] {
		e.hi = 65535
	}
	l.Stage, l.If, l.Grid, l.Entry, l.Source = f.Stage, f.If, f.Grid, k.Function, k.Source
	if k.Module.Text != "" {
		l.Source = yamldoc.Word{Position: k.Module.Position, Text: nvrtc.Module + k.Module.Text}
	}
	l.python = &tritonCompile{place: k.Function.Position, args: f.Args, request: triton.Request{Source: k.Source.Text,
		Module: k.Module.Text, Function: k.Function.Text}}
	for _, b := range f.Constexprs.Entries {
		l.python.settings = append(l.python.settings, tritonSetting{binding: b})
	}
	for _, b := range f.Options.Entries {
		l.python.settings = append(l.python.settings, tritonSetting{binding: b, option: true})
	}
	return nil
}

// tritonLaunches lists the launches whose kernels are Triton's.
func (d *design) tritonLaunches() (list []*launchSpec) {
	for _, l := range d.launches {
		if l.python != nil {
			list = append(list, l)
		}
	}
	return list
}

// probe finds the functions of all designs in a folder, by one process of a Python. No code of theirs
// runs. Of each design that has one that is not as its manifest says, the errors have the first.
func probe(python string, designs []*design, dir string, files map[string]string) (errs map[*design]error) {
	errs = map[*design]error{}
	var requests []triton.Request
	sources := map[string]string{}
	for name, text := range files {
		if strings.HasSuffix(name, ".py") {
			sources[name] = text
		}
	}
	for _, d := range designs {
		for _, l := range d.tritonLaunches() {
			name := l.python.request.Source
			if _, ok := files[name]; name != "" && !ok {
				errs[d] = l.Source.Errorf("put it beside the manifest", "no file %s", name)
				break
			}
		}
		if errs[d] != nil {
			continue
		}
		for _, l := range d.tritonLaunches() {
			requests = append(requests, l.python.request)
		}
	}
	if len(requests) == 0 {
		return errs
	}
	found, err := triton.ProbeFolder(python, dir, sources, requests)
	for _, d := range designs {
		if errs[d] != nil {
			continue
		}
		for _, l := range d.tritonLaunches() {
			if err != nil {
				errs[d] = cmp.Or(errs[d], l.python.place.Errorf(hint.Of(err), "%v", err))
				continue
			}
			l.python.function, found = found[0], found[1:]
			errs[d] = cmp.Or(errs[d], l.checkFunction(python))
			l.addFiles(files)
		}
	}
	return errs
}

// addFiles adds what a launch's function is made of.
func (l *launchSpec) addFiles(files map[string]string) {
	r, f := l.python.request, l.python.function
	if r.Module != "" {
		files[nvrtc.Module+r.Module] = f.Text
		return
	}
	listing, _ := json.Marshal(map[string]any{"Package": f.Package, "Root": f.Root, "Files": slices.Sorted(maps.Keys(f.Files))})
	files[nvrtc.Imports(r.Source)] = string(listing)
	maps.Copy(files, f.Files)
}

// checkFunction holds a launch against the signature of its function.
func (l *launchSpec) checkFunction(python string) error {
	f := l.python.function
	if f.Error != "" {
		help := "correct the file, or name a function of @triton.jit, and the file or module that has it"
		if strings.HasPrefix(f.Error, "Python has no module") {
			help = triton.ModuleHelp(python)
		}
		return l.python.place.Errorf(help, "%s", f.Error)
	}
	where := fmt.Sprintf("%s (%s:%d)", l.Entry.Text, f.File, f.Line)
	parameter := func(name string) *triton.Parameter {
		i := slices.IndexFunc(f.Params, func(p triton.Parameter) bool { return p.Name == name })
		if i < 0 {
			return nil
		}
		return &f.Params[i]
	}
	given := map[string]bool{}
	for _, a := range l.Args {
		switch p := parameter(a.param); {
		case p == nil:
			return a.Errorf("`normbench init triton FILE.py:FUNCTION` writes all parameters",
				"%s has no parameter %s", where, a.param)
		case p.Constexpr:
			return a.Errorf("move it there", "%s of %s is a constexpr: it stands under constexprs",
				a.param, where)
		case p.Descriptor:
			return a.Errorf("make it in the kernel, by tl.make_tensor_descriptor",
				"%s of %s is a tensor descriptor, which the host would have to make", a.param, where)
		}
		given[a.param] = true
	}
	for _, s := range l.python.settings {
		switch p := parameter(s.Key.Text); {
		case s.option && p != nil:
			return s.Key.Errorf("move it to constexprs or args", "is a parameter of %s", where)
		case !s.option && p == nil:
			return s.Key.Errorf("`normbench init triton FILE.py:FUNCTION` writes all parameters",
				"%s has no parameter %s", where, s.Key.Text)
		}
		given[s.Key.Text] = true
	}
	for _, p := range f.Params {
		if !given[p.Name] && p.Default == "" {
			of, under := "argument", "args"
			if p.Constexpr {
				of, under = "value", "constexprs"
			}
			return l.Entry.Errorf("give it one under "+under, "%s has no %s for %s", where, of, p.Name)
		}
	}
	return nil
}

// compileWith gives k what Triton is told: of each argument, of constexprs, of options.
func (l *launchSpec) compileWith(k *kernels.Launch, x *env, c kernels.Config, buffers []kernels.Tensor) {
	types := map[string]kernels.DType{"w": x.Weight, "b": x.Weight} // which a problem may lack
	for _, t := range buffers {
		types[t.Name] = t.DType
	}
	for _, name := range reduceBuffers {
		types[name] = common.PartialType(x.Problem, c)
	}
	for i, a := range k.Args {
		told := l.Args[i].param + "="
		switch {
		case a.Kind != kernels.ArgBuffer && l.Args[i].value.tree.truth:
			told += "True" // as False: they are one class
		case a.Kind == kernels.ArgInt64:
			told += triton.Int(a.Int)
		case a.Kind != kernels.ArgBuffer:
			told += "0.5" // floats are one class
		case a.Name == "":
			told += "None"
		default:
			told += triton.Pointer(types[a.Name])
		}
		k.Params = append(k.Params, told)
	}
	warps := 4
	k.Options = []string{"triton=" + l.python.function.Compiler}
	for _, s := range l.python.settings {
		text, n := s.text(x)
		if s.typeOf != "" {
			text = types[s.typeOf].String()
		}
		if s.option && s.Key.Text == "num_warps" {
			warps = n
		}
		k.Options = append(k.Options, s.Key.Text+"="+text)
	}
	k.Block = 32 * warps // the compiled kernel has the last word
}

// text is a setting as Python reads it, and as a number.
func (s *tritonSetting) text(x *env) (text string, n int) {
	if s.literal || s.typeOf != "" {
		return s.Value.text, 0
	}
	if s.Value.kind == fraction {
		return fmt.Sprintf("%#v", s.Value.float(x)), 0
	}
	n = s.Value.int(x)
	switch {
	case !s.Value.tree.truth:
		text = fmt.Sprint(n)
	case n != 0:
		text = "True"
	default:
		text = "False"
	}
	return text, n
}
