package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
)

func (d *design) readKnobs() error {
	if !d.Knobs.Exists() {
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
func (d *design) knob(e yamldoc.Field, help string) (*kernels.Knob, yamldoc.Value, error) {
	known, err := kernels.ParseKnob(e.Key.Text)
	if e.Value.TypeName() != yamldoc.Mapping {
		if err != nil || known.Macro == strings.ToUpper(e.Key.Text) && known.Key == known.Macro {
			return nil, e.Value, e.Key.Errorf(help, "unknown knob")
		}
		return known, e.Value, nil
	}
	var own struct {
		Values yamldoc.Value
		Doc    string `yaml:"optional" help:"write a text"`
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
func (d *design) known() scope { return scope{d.names, ^sources(0), d.Op.Spec().Eps} }

// ranges says whether k is one of the family's knobs.
func (d *design) ranges(k *kernels.Knob) bool { return slotOf(d.knobs, k) >= 0 }

// readLet reads the expressions that have names. Each may use those above it.
func (d *design) readLet() error {
	d.names = namesWith(d.knobs)
	for _, l := range d.Let {
		if _, taken := d.names[l.key.Text]; taken || !nameRE.MatchString(l.key.Text) {
			return l.key.Errorf("use letters, digits and _, and no name of a variable or a knob",
				"is no name for an expression")
		}
		if err := d.compile(d.known(), l.value); err != nil {
			return err
		}
		d.names[l.key.Text] = variable{l.value.sources, node{l.value.eval, l.value.tree.truth}}
	}
	return nil
}

// readBase reads the base's values of knobs, which may use the problem, the device and the knobs
// above. Of a knob that is left out all values are tried.
func (d *design) readBase() error {
	const help = "write base as KEY: EXPRESSION, or a list of expressions to try"
	var entries []yamldoc.Field
	if d.Base.Exists() {
		var err error
		if entries, err = d.Base.Entries(help); err != nil {
			return err
		}
	}
	known, tries := scope{d.names, ofProblem | ofDevice, 0}, 1
	for _, e := range entries {
		i := slices.IndexFunc(d.knobs, func(r kernels.Range) bool {
			return e.Key.Text == r.Knob.Key || e.Key.Text == r.Knob.Name
		})
		if i < 0 {
			return e.Key.Errorf("list its values under knobs too", "the family has no knob %s", e.Key.Text)
		}
		c := choice{knob: d.knobs[i].Knob, slot: i}
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
		known.known |= ofKnob(i)
	}
	for i, x := range d.knobs {
		if slices.ContainsFunc(d.base, func(c choice) bool { return c.knob == x.Knob }) {
			continue
		}
		c := choice{knob: x.Knob, slot: i}
		for _, v := range x.Values {
			e := &expression{Position: d.Base.Position, text: strconv.Itoa(v), hi: math.MaxInt32}
			if err := d.compile(known, e); err != nil {
				return err
			}
			c.tries = append(c.tries, e)
		}
		if tries *= len(x.Values); tries > maxTries {
			return yamldoc.Position{At: d.Base.At, Path: "base." + x.Knob.Key}.Errorf(help,
				"is missing, and there are more than %d configs to try", maxTries)
		}
		d.base = append(d.base, c)
	}
	return nil
}

func (d *design) readRules() error {
	for i, r := range slices.Concat(d.Serves, d.Constraints) {
		known := d.known()
		if i < len(d.Serves) {
			known = scope{names: d.names, known: ofProblem}
		}
		if r.If == nil && r.Require == nil {
			return r.Errorf("if refuses what it holds for, require all else", "has neither if nor require")
		}
		if err := d.compile(known, r.If, r.Require); err != nil {
			return err
		}
	}
	for _, b := range d.Rounds {
		if !slices.Contains(d.outputs(), b.key.Text) {
			return b.key.Errorf("name one of "+strings.Join(d.outputs(), ", "), "is no output")
		}
		if err := d.compile(d.known(), b.value); err != nil {
			return err
		}
	}
	return d.compile(scope{names: d.names, known: ofM - 1}, d.Fragile, d.Unordered)
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
	kernel := 1
	for i, v := range d.Launches {
		var l launchSpec
		l.Stage = fmt.Sprintf("k%d", kernel)
		if v.Has("reduce") && i != len(d.Launches)-1 {
			return v.Errorf("put it last", "reduce is the last launch")
		}
		if err := d.readLaunch(v, &l); err != nil {
			return err
		}
		same := func(o launchSpec) bool { return o.Stage == l.Stage && (o.If == nil || l.If == nil) }
		if slices.ContainsFunc(d.launches, same) {
			at := yamldoc.Position{At: v.At, Path: v.Path + ".stage"}
			return at.Errorf("name it with stage:", "two stages are %q", l.Stage)
		}
		if l.zero == "" {
			kernel++
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

// readLaunch reads a launch whose stage is known, of whatever kind.
func (d *design) readLaunch(v yamldoc.Value, l *launchSpec) error {
	switch {
	case v.Has("reduce") && d.Pass != kernels.Bwd:
		return v.Errorf("a forward leaves no partial sums", "reduce is for a backward")
	case v.Has("reduce"):
		var f struct{ Reduce reduction }
		if err := v.Decode(&f); err != nil {
			return err
		}
		d.reduce, l.Stage, l.If = &f.Reduce, "k2", f.Reduce.If
		return d.compile(d.known(), d.reduce.If, d.reduce.Partials)
	case v.Has("zero"):
		f := struct {
			Zero  yamldoc.Word
			Stage string      `yaml:"optional" match:"^[a-z][a-z0-9_]*$"`
			If    *expression `yaml:"optional" kind:"truth"`
		}{Stage: "zero"}
		if err := v.Decode(&f); err != nil {
			return err
		}
		l.Stage, l.zero, l.If = f.Stage, f.Zero.Text, f.If
		if !slices.ContainsFunc(d.Scratch, func(b *buffer) bool { return b.Name.Text == l.zero }) &&
			!slices.Contains(d.outputs(), l.zero) {
			return f.Zero.Errorf("name a buffer of scratch, or an output", "unknown buffer %q", l.zero)
		}
		return d.compile(d.known(), l.If)
	case v.Has("triton"):
		return d.readTriton(v, l)
	}
	if err := v.Decode(&l.kernelSpec); err != nil {
		return err
	}
	return d.readKernel(l)
}

// readKernel checks the launch of a kernel.
func (d *design) readKernel(l *launchSpec) error {
	given := 0
	for _, w := range []yamldoc.Word{l.Source, l.Cubin, l.PTX} {
		given += min(len(w.Text), 1)
	}
	switch entry := l.Entry.Text; {
	case given != 1:
		return l.Entry.Errorf("give the launch one of source, cubin and ptx", "is in %d files", given)
	case l.Source.Text == "" && len(l.Defines) > 0:
		return l.Defines[0].key.Errorf("leave it out, and have knobs vary grid, block and shared",
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
	first := len(list)
	for _, a := range l.Args {
		if a.value != nil {
			list = append(list, a.value)
		}
	}
	for _, x := range l.Knobs {
		k, err := kernels.ParseKnob(x.key.Text)
		if err != nil {
			return x.key.Errorf(hint.Of(err), "unknown knob")
		}
		l.knobs = append(l.knobs, k)
		list = append(list, x.value)
	}
	for _, x := range l.Defines {
		switch {
		case !macroRE.MatchString(x.key.Text):
			return x.key.Errorf("use letters A-Z, digits and _", "malformed macro name")
		case !l.Bare && slices.Contains(d.macros(), x.key.Text):
			return x.key.Errorf("choose another name", "is defined by the problem or a knob already")
		}
		list = append(list, x.value)
	}
	l.values = list[first:]
	return d.compile(d.known(), list...)
}

// buffers are the names of tensors and scratch, and none.
func (d *design) buffers() []string {
	names := append(d.tensors(), noBuffer)
	for _, b := range d.Scratch {
		names = append(names, b.Name.Text)
	}
	return names
}

// checkBuffers checks the buffer arguments of all launches, when all of the scratch
// and the reduction are known.
func (d *design) checkBuffers() error {
	known := d.buffers()
	if d.reduce != nil {
		known = append(known, reduceBuffers...)
	}
	for _, b := range d.Scratch {
		if d.reduce != nil && slices.Contains(reduceBuffers, b.Name.Text) {
			return b.Name.Errorf("choose another", "%q is a buffer of reduce's", b.Name.Text)
		}
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
