package manifest

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/families/common"
)

// A design is a manifest for one op, with all in it checked that can be without other files.
type design struct {
	fields
	Op                kernels.Op
	knobs             []kernels.Range
	base              []choice
	launches          []*launchSpec // all but k2
	reduce            *reduction    // k2; nil without one
	unsavedStatistics []string      // statistics of a forward that no launch takes
	lacking           []string      // other tensors that no launch takes
	gradients         bool          // launches write dw or db
	frozen            bool          // an expression asks whether the weight is frozen
	uses              []sources     // of each expression
}

// A choice is a knob's value in the base config, or several that are tried in their order.
type choice struct {
	knob  *kernels.Knob
	slot  int
	tries []*expression
}

const (
	maxTries = 2000   // base configs that are tried
	maxGrid  = 40_000 // configs that a family's knobs make
)

var (
	knobRE   = regexp.MustCompile(`^[a-z][a-z_]*$`)
	nameRE   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	frozenRE = regexp.MustCompile(`\bno_dw\b`)
	macroRE  = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

// opPlace stands in names for the short name of the op.
const opPlace = "OP"

// A checker makes a design.
type checker struct {
	*design
	names map[string]variable // of expressions, lettings as far as they are read
}

// check makes the design of a manifest for one of its ops, or says what is wrong.
func check(f fields, op yamldoc.Word) (*design, error) {
	ops, _ := kernels.OpNames()
	if !slices.Contains(ops, op.Text) {
		return nil, op.Errorf("use "+strings.Join(ops, " or "), "unknown op %q", op.Text)
	}
	if len(f.Op) > 1 && !strings.Contains(f.Name.Text, opPlace) {
		return nil, f.Name.Errorf("write OP where the name has the op, such as OP_bwd/mine",
			"is one name for several ops")
	}
	d := &design{fields: f, Op: kernels.Op(op.Text)}
	for _, w := range []*yamldoc.Word{&d.Name, &d.Host} {
		w.Text = strings.Replace(w.Text, opPlace, d.Op.Spec().Short, 1)
	}
	c := checker{design: d}
	// Knobs and lettings are variables of what follows them.
	for _, step := range []func() error{c.options, c.readKnobs, c.let, c.readBase, c.rules, c.scratch,
		c.readLaunches, c.arguments, c.inplace} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.unsavedStatistics, d.lacking = c.unusedTensors()
	writes := func(output string) bool { return c.passes(output) || c.liesOver(output) }
	d.gradients = d.reduce != nil || writes("dw") || writes("db")
	return d, nil
}

// compile compiles those expressions that are there.
func (c *checker) compile(known scope, es ...*expression) error {
	for _, e := range es {
		if e != nil {
			if err := e.compile(known); err != nil {
				return err
			}
			c.frozen = c.frozen || frozenRE.MatchString(e.text)
			e.slot = len(c.knobs) + len(c.uses)
			c.uses = append(c.uses, e.sources)
		}
	}
	return nil
}

// options checks those of NVRTC.
func (c *checker) options() error {
	for _, o := range c.Options {
		name, _, _ := strings.Cut(strings.TrimLeft(o.Text, "-"), "=")
		if slices.Contains([]string{"gpu-architecture", "arch", "include-path", "define-macro"}, name) {
			return o.Errorf("the device gives the architecture; folders are listed under include, "+
				"macros under defines",
				"%q is not for here", o.Text)
		}
	}
	return nil
}

// readKnobs reads the knobs and their values.
func (c *checker) readKnobs() error {
	const help = "write knobs as KEY: [VALUE, ...] (`normbench list knobs` names the keys), " +
		"and one of your own as NAME: {values: [VALUE, ...], doc: TEXT}"
	size := 1
	for _, e := range c.Knobs.Entries {
		k, err := c.knob(e, help)
		if err != nil {
			return err
		}
		if c.ranges(k) {
			return e.Key.Errorf(help, "is %s, which stands above", k.Key)
		}
		x := kernels.Range{Knob: k}
		for _, v := range e.Value.values {
			if slices.Contains(x.Values, v.N) {
				return v.Errorf(help, "%d stands twice", v.N)
			}
			x.Values = append(x.Values, v.N)
		}
		if size *= len(x.Values); size > maxGrid {
			return e.Key.Errorf("list fewer values; --knob tries others",
				"the knobs make more than %d configs", maxGrid)
		}
		c.knobs = append(c.knobs, x)
	}
	return nil
}

// knob is the knob of an entry.
func (c *checker) knob(e yamldoc.MapEntry[knobFields], help string) (*kernels.Knob, error) {
	known, err := kernels.FindKnob(e.Key.Text)
	if !e.Value.own {
		if err != nil || known.Macro == strings.ToUpper(e.Key.Text) && known.Key == known.Macro {
			return nil, e.Key.Errorf(help, "unknown knob")
		}
		return known, nil
	}
	name := strings.ToLower(e.Key.Text)
	_, variable := variables[name]
	switch {
	case err == nil && known.Key != strings.ToUpper(name):
		return known, nil
	case !knobRE.MatchString(name):
		return nil, e.Key.Errorf("use letters and _: in a label the value follows the name",
			"malformed name")
	case variable, name == "eps", slices.Contains(c.macros(), strings.ToUpper(name)):
		return nil, e.Key.Errorf("choose another name",
			"is the name of a variable or a macro")
	}
	k, err := kernels.UserKnob(name, e.Value.doc)
	if err != nil {
		err = e.Key.Errorf(hint.Of(err), "%v", err)
	}
	return k, err
}

// known are the names that launches may use.
func (c *checker) known() scope { return scope{c.names, ^sources(0), c.Op.Spec().Eps} }

// ranges says whether k is one of the family's knobs.
func (d *design) ranges(k *kernels.Knob) bool { return slotOf(d.knobs, k) >= 0 }

// let compiles the expressions that have names. Each may use those above it.
func (c *checker) let() error {
	c.names = namesWith(c.knobs)
	for _, l := range c.Let.Entries {
		if _, taken := c.names[l.Key.Text]; taken || !nameRE.MatchString(l.Key.Text) {
			return l.Key.Errorf("use letters, digits and _, and no name of a variable or a knob",
				"is no name for an expression")
		}
		if err := c.compile(c.known(), l.Value); err != nil {
			return err
		}
		c.names[l.Key.Text] = variable{l.Value.sources, node{l.Value.eval, l.Value.tree.truth}}
	}
	return nil
}

// readBase reads the base's values of knobs, which may use the problem, the device and the knobs
// above. Of a knob that is left out all values are tried.
func (c *checker) readBase() error {
	const help = "write base as KEY: EXPRESSION, or a list of expressions to try"
	known, count := scope{c.names, ofProblem | ofDevice, 0}, 1
	for _, e := range c.Base.Entries {
		i := slices.IndexFunc(c.knobs, func(r kernels.Range) bool {
			return e.Key.Text == r.Knob.Key || e.Key.Text == r.Knob.Name
		})
		if i < 0 {
			return e.Key.Errorf("list its values under knobs too", "the family has no knob %s", e.Key.Text)
		}
		if c.hasBase(i) {
			return e.Key.Errorf(help, "is %s, which stands above", c.knobs[i].Knob.Key)
		}
		if err := c.compile(known, e.Value...); err != nil {
			return err
		}
		if count *= len(e.Value); count > maxTries {
			return e.Key.Errorf("list fewer", "more than %d configs to try", maxTries)
		}
		c.base = append(c.base, choice{c.knobs[i].Knob, i, e.Value})
		known.known |= ofKnob(i)
	}
	for i, x := range c.knobs {
		if c.hasBase(i) {
			continue
		}
		of := choice{knob: x.Knob, slot: i}
		for _, v := range x.Values {
			e := &expression{passage: passage{c.Base.Position, strconv.Itoa(v)}, hi: math.MaxInt32}
			if err := c.compile(known, e); err != nil {
				return err
			}
			of.tries = append(of.tries, e)
		}
		if count *= len(x.Values); count > maxTries {
			return yamldoc.Position{At: c.Base.At, Path: "base." + x.Knob.Key}.Errorf(help,
				"is missing, and there are more than %d configs to try", maxTries)
		}
		c.base = append(c.base, of)
	}
	return nil
}

// hasBase says whether the base has a value of the knob of a slot already.
func (c *checker) hasBase(slot int) bool {
	return slices.ContainsFunc(c.base, func(b choice) bool { return b.slot == slot })
}

// rules compiles what is served, the constraints, roundings and what marks configs.
func (c *checker) rules() error {
	for i, r := range slices.Concat(c.Serves, c.Constraints) {
		known := c.known()
		if i < len(c.Serves) {
			known = scope{names: c.names, known: ofProblem}
		}
		if r.If == nil && r.Require == nil {
			return r.Errorf("if refuses what it holds for, require all else", "has neither if nor require")
		}
		if err := c.compile(known, r.If, r.Require); err != nil {
			return err
		}
	}
	for _, b := range c.Rounds.Entries {
		if !slices.Contains(c.outputs(), b.Key.Text) {
			return b.Key.Errorf("name one of "+strings.Join(c.outputs(), ", "), "is no output")
		}
		if err := c.compile(c.known(), b.Value); err != nil {
			return err
		}
	}
	return c.compile(scope{names: c.names, known: ofM - 1}, c.Fragile, c.Unordered)
}

// scratch checks the buffers.
func (c *checker) scratch() error {
	var seen []string
	for _, b := range c.Scratch {
		name := b.Name.Text
		switch {
		case name == noBuffer, slices.Contains(c.tensors(), name):
			return b.Name.Errorf("choose another", "%q is the name of a tensor, or of none", name)
		case slices.Contains(seen, name):
			return b.Name.Errorf("choose another", "%q stands twice", name)
		}
		seen = append(seen, name)
		if err := c.compile(c.known(), b.Elems); err != nil {
			return err
		}
	}
	return nil
}

// noBuffer is an argument that is a null pointer.
const noBuffer = "none"

// reduceBuffers are the scratch that reduce adds.
var reduceBuffers = []string{"dw_partial", "db_partial"}

// readLaunches checks the launches, each by its kind.
func (c *checker) readLaunches() error {
	for i, l := range c.Launches {
		if l.reduce != nil && i != len(c.Launches)-1 {
			return l.Errorf("put it last", "reduce is the last launch")
		}
		if err := c.launch(l); err != nil {
			return err
		}
		same := func(o *launchSpec) bool { return o.Stage == l.Stage && (o.If == nil || l.If == nil) }
		if slices.ContainsFunc(c.launches, same) {
			at := yamldoc.Position{At: l.At, Path: l.Path + ".stage"}
			help := "name it with stage:"
			if l.reduce != nil {
				help = "reduce is k2: give the other launch a name with stage:"
			}
			return at.Errorf(help, "two stages are %q", l.Stage)
		}
		if l.reduce != nil {
			c.reduce = l.reduce
		} else {
			c.launches = append(c.launches, l)
		}
	}
	if len(c.launches) == 0 {
		return c.Name.Errorf(fileHelp, "no kernel is launched")
	}
	return nil
}

// launch checks a launch of whatever kind.
func (c *checker) launch(l *launchSpec) error {
	switch {
	case l.reduce != nil && c.Pass != kernels.Bwd:
		return l.Errorf("a forward leaves no partial sums", "reduce is for a backward")
	case l.reduce != nil:
		return c.compile(c.known(), l.reduce.If, l.reduce.Partials)
	case l.zero.Text != "":
		isZero := func(b *buffer) bool { return b.Name.Text == l.zero.Text }
		if !slices.ContainsFunc(c.Scratch, isZero) && !slices.Contains(c.outputs(), l.zero.Text) {
			return l.zero.Errorf("name a buffer of scratch, or an output", "unknown buffer %q", l.zero.Text)
		}
		return c.compile(c.known(), l.If)
	case l.python != nil:
		return c.triton(l)
	}
	return c.kernel(l)
}

// kernel checks the launch of a kernel.
func (c *checker) kernel(l *launchSpec) error {
	given := 0
	for _, w := range []yamldoc.Word{l.Source, l.Cubin, l.PTX} {
		given += min(len(w.Text), 1)
	}
	switch entry := l.Entry.Text; {
	case given != 1:
		return l.Entry.Errorf("give the launch one of source, cubin and ptx", "is in %d files", given)
	case l.Source.Text == "" && len(l.Defines.Entries) > 0:
		return l.Defines.Entries[0].Key.Errorf("leave it out, and have knobs vary grid, block and shared",
			"is for a source, not for compiled code")
	case entry == kernels.Memcpy, entry == kernels.Memset:
		return l.Entry.Errorf("give the kernel another name", "%q is the driver's", entry)
	case len(l.Grid) > 3:
		return l.Grid[3].Errorf("write one number of CTAs or three", "is one of %d numbers", len(l.Grid))
	case len(l.Block) > 3:
		return l.Block[3].Errorf("write one number of threads or three", "is one of %d numbers", len(l.Block))
	case l.NVCC && l.Source.Text == "":
		return l.Entry.Errorf("give the launch a source, or leave nvcc out",
			"is in %s, which is compiled already", l.file().Text)
	}
	for _, e := range l.Grid[1:] {
		e.hi = 65535 // CUDA's limit of all but the first
	}
	if len(l.Block) == 3 {
		l.Block[2].hi = 64 // CUDA's limit
	}
	list := slices.Concat([]*expression{l.If, l.Shared, l.Cluster, l.Resident}, l.Block, l.Grid)
	first := len(list)
	for _, a := range l.Args {
		for _, leaf := range a.leaves() {
			if leaf.value != nil {
				list = append(list, leaf.value)
			}
		}
	}
	for _, x := range l.Knobs.Entries {
		k, err := kernels.FindKnob(x.Key.Text)
		if err != nil {
			return x.Key.Errorf(hint.Of(err), "unknown knob")
		}
		l.knobs = append(l.knobs, k)
		list = append(list, x.Value)
	}
	if !l.Bare {
		l.macros = c.macros()
	}
	for _, x := range l.Defines.Entries {
		switch {
		case !macroRE.MatchString(x.Key.Text):
			return x.Key.Errorf("use letters A-Z, digits and _", "malformed macro name")
		case slices.Contains(l.macros, x.Key.Text):
			return x.Key.Errorf("choose another name", "is defined by the problem or a knob already")
		}
		l.macros = append(l.macros, x.Key.Text)
		list = append(list, x.Value)
	}
	l.values = list[first:]
	return c.compile(c.known(), list...)
}

// triton checks a launch of a kernel of Triton.
func (c *checker) triton(l *launchSpec) error {
	list := append([]*expression{l.If}, l.Grid...)
	first := len(list)
	for _, b := range l.python.args.Entries {
		a := &argument{Position: b.Value.Position, param: b.Key.Text, name: b.Value.text}
		if !c.isBuffer(a.name) {
			a.kind, a.value, b.Value.kind = kernels.ArgInt64, b.Value, kindOf(a.name)
			if b.Value.kind == fraction {
				a.kind = kernels.ArgFloat32
			}
			list = append(list, b.Value)
		}
		l.Args = append(l.Args, a)
	}
	for i := range l.python.settings {
		s := &l.python.settings[i]
		s.literal = literalRE.MatchString(s.Value.text)
		if m := typeRE.FindStringSubmatch(s.Value.text); m != nil && c.isBuffer(m[1]) {
			s.typeOf = m[1]
		}
		if !s.literal && s.typeOf == "" {
			s.Value.kind = kindOf(s.Value.text)
			list = append(list, s.Value)
		}
	}
	l.values = list[first:]
	return c.compile(c.known(), list...)
}

// isBuffer says whether a text is the name of a buffer.
func (c *checker) isBuffer(text string) bool {
	return slices.Contains(c.buffers(), text) || slices.Contains(reduceBuffers, text) ||
		text == "b" && c.Pass == kernels.Bwd
}

// buffers are the names of tensors and scratch, and none.
func (c *checker) buffers() []string {
	names := append(c.tensors(), noBuffer)
	for _, b := range c.Scratch {
		names = append(names, b.Name.Text)
	}
	return names
}

// arguments checks the buffer arguments of all launches, when all of the scratch
// and the reduction are known.
func (c *checker) arguments() error {
	known := c.buffers()
	if c.reduce != nil {
		known = append(known, reduceBuffers...)
	}
	for _, b := range c.Scratch {
		if c.reduce != nil && slices.Contains(reduceBuffers, b.Name.Text) {
			return b.Name.Errorf("choose another", "%q is a buffer of reduce's", b.Name.Text)
		}
	}
	for _, l := range c.launches {
		for _, a := range l.Args {
			for _, leaf := range a.leaves() {
				if leaf.kind == kernels.ArgBuffer && !slices.Contains(known, leaf.name) {
					return leaf.Errorf("the buffers are "+strings.Join(known, ", "), "unknown buffer %q",
						leaf.name)
				}
			}
		}
	}
	if c.reduce != nil && !c.passes(reduceBuffers[0]) {
		return c.reduce.Partials.Errorf("give it to the launch that leaves the partial sums",
			"no launch has the argument %s", reduceBuffers[0])
	}
	return nil
}

// fewerTensors are the options of problems that lack a tensor which others have.
var fewerTensors = []string{"noweight", "nodw", "gatefirst"}

// fullProblem makes the problem of an op and a pass with all other options that it takes, so that it has
// every tensor there can be.
func fullProblem(op kernels.Op, pass kernels.Pass) kernels.Problem {
	p := kernels.Problem{Op: op, Pass: pass, M: 1, N: 1}
	for _, o := range kernels.Options() {
		takes := (o.Pass == "" || o.Pass == pass) && slices.Contains(op.Spec().Options, o.Name)
		if takes && !slices.Contains(fewerTensors, o.Name) {
			o.Set(&p)
		}
	}
	return p
}

// tensors are the names of all tensors that the design's problems may have. A backward may
// read the saved output, y, and then b too.
func (c *checker) tensors() []string {
	var names []string
	for _, op := range c.fields.Op {
		for _, t := range fullProblem(kernels.Op(op.Text), c.Pass).Tensors() {
			if !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
	}
	saves := len(fullProblem(c.Op, c.Pass).SavedTensors()) > 0
	if saves {
		names = append(names, "y")
	}
	if saves && c.passes("y") {
		names = append(names, "b")
	}
	return names
}

// outputs are the names of those that its problems may have.
func (c *checker) outputs() (names []string) {
	for _, t := range fullProblem(c.Op, c.Pass).Tensors() {
		if t.Role == kernels.Output {
			names = append(names, t.Name)
		}
	}
	return names
}

// passes says whether some launch has the buffer as an argument.
func (c *checker) passes(name string) bool {
	is := func(a *argument) bool { return a.kind == kernels.ArgBuffer && a.name == name }
	has := func(a *argument) bool { return slices.ContainsFunc(a.leaves(), is) }
	return slices.ContainsFunc(c.launches, func(l *launchSpec) bool { return slices.ContainsFunc(l.Args, has) })
}

// macros are the names of the defines that every launch has.
func (c *checker) macros() []string {
	names := []string{kernels.Warps.Macro}
	p := fullProblem(c.Op, c.Pass)
	p.DType, p.Weight = kernels.BF16, kernels.BF16
	var config kernels.Config
	for _, r := range c.knobs {
		config = config.With(kernels.Setting{Knob: r.Knob, Value: r.Values[0]})
	}
	for _, x := range common.Defines(p, config) {
		names = append(names, x.Name)
	}
	return names
}

// unusedTensors lists the tensors that no launch takes: those statistics that a forward need not save for a
// backward, and all others.
func (c *checker) unusedTensors() (unwritten, others []string) {
	if c.Pass == kernels.Fwd {
		unwritten = slices.DeleteFunc(slices.Clone(c.Op.Spec().Saved), c.passes)
	}
	for _, t := range fullProblem(c.Op, c.Pass).Tensors() {
		switch {
		case c.passes(t.Name), slices.Contains(unwritten, t.Name), c.liesOver(t.Name):
		// it reads y instead
		case c.Pass == kernels.Bwd && c.passes("y") && (t.Name == "x" || t.Name == "mean"):
		case c.reduce != nil && slices.Contains([]string{"dw", "db", "dw_in", "db_in"}, t.Name): // k2's
		default:
			others = append(others, t.Name)
		}
	}
	return unwritten, others
}
