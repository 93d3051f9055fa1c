package main

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/peers"
	"normbench/kernels/replay"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune/ref"
)

// The flags that several commands share, in groups, each with what it is read into.

// A common is what flags of many commands say, and the command's operands. Every Config has one.
type common struct {
	operands []string
	given    map[string]bool // flags, by their names
	format   string
	html     string
	plot     string
	seed     uint64
	kernels  string
	include  []string
	python   string
	// How tables look.
	wide    bool
	columns string
	width   int
	color   string
	// first makes the first table that will be printed, without its rows; nil where the columns
	// are checked when they are printed.
	first func(e *env) *report.Table
}

// addTable adds the flags of a command that prints tables.
func (c *command) addTable() {
	c.format, c.color = report.FormatText, "auto"
	c.add(catOutput, "format", &c.format, strings.Join(report.Formats(), ", ")).
		only(report.Formats()...)
	c.add(catOutput, "wide", &c.wide,
		"print every column of a table, one line per row, beyond the terminal's width")
	c.add(catOutput, "columns", &c.columns,
		"print only these `COLUMNS` of the table, such as 'problem,B us,verdict'")
	c.add(catOutput, "width", &c.width, "width of text tables").
		or("the terminal's, or $COLUMNS; 100 in a pipe").
		within(40, 1e6, "use 40 or more, or --wide")
	c.add(catOutput, "color", &c.color, "colour verdicts: auto, always or never; "+
		"$NO_COLOR turns auto off").
		only("auto", "always", "never")
}

func (c *command) addHTML() {
	c.add(catOutput, "html", &c.html, "write one page with the verdict, charts and tables to `FILE`").
		written(func() error {
			if filepath.Ext(c.html) != ".html" {
				return hint.Errorf("name it .html", "cannot write a page to %s", c.html)
			}
			return nil
		})
}

func (c *command) addPlot(usage string) {
	c.add(catOutput, "plot", &c.plot, usage).
		written(func() error { return report.CheckPlot(c.plot) })
}

func (c *command) addSeed() {
	c.seed = rand.Uint64() >> 11 // whole in a JSON number
	c.add(catHow, "seed", &c.seed, "seed of the inputs").or("a fresh one, recorded")
}

func (c *command) addKernels() {
	c.add(catWhat, "kernels", &c.kernels,
		"`FOLDER` of kernels of your own: manifests (*.yaml) with their .cu files; see docs/kernels.md")
}

func (c *command) addPython() {
	c.add(catWhat, "python", &c.python, "`PROGRAM` that runs the peers, a Python 3 with PyTorch "+
		"for CUDA, and compiles kernels of Triton").or("python3")
}

// addCompiled adds --kernels, and the flags of their compilers. These have a list of folders as
// $NORMBENCH_INCLUDE is, which compilers in other processes read too.
func (c *command) addCompiled() {
	c.addKernels()
	c.addPython()
	c.addInclude()
}

func (c *command) addInclude() {
	c.add(catWhat, "include", &c.include, "`FOLDER` in which #include <FILE> of --kernels is "+
		"looked for first; may be repeated")
}

var allOps, defaultOps = kernels.OpNames()

// addShapes adds the flags of what problems are asked for. none says what they are of recorded
// problems where the flags are left out, "" of those to measure.
func (c *command) addShapes(s *shapes.Selection, none string) {
	c.add(catWhat, "shapes", &s.Shapes, "`GROUP`, FILE#GROUP, FILE, MxN, or several with commas; "+
		"GROUP@fp16 or GROUP@fp8 is of that type").
		or(cmp.Or(none, "smoke on a cpu, default on a GPU")).list().offeringOf(shapeNames)
	c.addClasses(s, none)
}

// shapeNames are the groups, behind an @ with the types that it may have.
func shapeNames(_ *env, typed string) (list []string) {
	at := strings.LastIndexByte(typed, '@')
	if at < 0 {
		return append(shapes.Default().Names(), "random:")
	}
	for _, as := range []string{"bf16", "fp16", "fp32", "fp8", "fp8t"} {
		list = append(list, typed[:at+1]+as)
	}
	return list
}

// addClasses adds the flags of what is done to a shape, and in which type.
func (c *command) addClasses(s *shapes.Selection, none string) {
	c.add(catWhat, "op", &s.Op, strings.Join(allOps, ", ")+", or several").
		or(cmp.Or(none, strings.Join(defaultOps, ","))).list().offering(allOps...)
	c.add(catWhat, "pass", &s.Pass, "fwd, bwd, or both").
		or(cmp.Or(none, "fwd,bwd")).list().offering(string(kernels.Fwd), string(kernels.Bwd))
	c.add(catWhat, "dtype", &s.DType, "type of x, y, dy and dx: bf16, fp16, fp32, or several").
		or(cmp.Or(none, "bf16")).list().offering(dtypeNames()...)
}

func dtypeNames() (list []string) {
	for _, d := range kernels.DTypes() {
		list = append(list, d.String())
	}
	return list
}

// addOptions adds the flags of what a problem has besides its shape and type.
func (c *command) addOptions(s *shapes.Selection) {
	s.On = map[string]bool{}
	c.add(catWhat, "weight-dtype", &s.Weight, "type of w, b, dw and db").
		or("as --dtype").offering(dtypeNames()...)
	for _, o := range kernels.Options() {
		switch {
		case o.Doc == "": // another value of a flag above
		case len(o.Values) > 0:
			to := map[string]*string{"quant": &s.Quant, "bias": &s.Bias}[o.Flag]
			*to = o.Values[0]
			f := c.add(catWhat, o.Flag, to, o.Doc).offering(kernels.OptionValues(o.Flag)...)
			f.several = to == &s.Quant
		default:
			var on bool
			c.add(catWhat, o.Flag, &on, o.Doc).
				check = func() error { s.On[o.Flag] = on; return nil }
		}
	}
}

func (c *command) addMachine(m *lab.Config) {
	m.Jobs = -1
	c.add(catWhere, "device", &m.Device, "auto, cpu, cuda, cuda:N, cuda:N,cuda:M, or "+
		"replay:RECORDS to draw from recorded times").
		or("auto").offering("auto", "cpu", "cuda", "cuda:0", "replay:")
	c.add(catWhere, "worker", &m.Workers, "`COMMAND` that starts a worker, such as 'ssh gpu1 "+
		"normbench worker --device cuda:0'; no shell runs it; may repeat")
	c.add(catWhere, "timeout", &m.Timeout, "longest time that a worker may take for one step").
		or("1m0s").positive("use a duration such as 30s or 2m")
}

// addPeers adds the flags of commands that measure peers, beside --python.
func (c *command) addPeers(m *lab.Config) {
	c.add(catWhat, "peers", &m.Peers, "`NAMES` of the peers that peer:best is chosen from, with commas").
		or("all that are installed but " + lab.OnlyNamed).list().offering(peers.Names...)
	c.add(catWhere, "peer-jobs", &m.Jobs, "processes that compile for the peers before anything is "+
		"measured; 0 compiles between measurements").or("the CPUs but two")
}

// config is what the lab opens.
func (s *stand) config(cache string) *lab.Config {
	s.Python, s.Cache = s.python, cache
	if s.given["seed"] {
		s.Seed = s.seed
	}
	return &s.Config
}

// A timing is how the flags want times taken.
type timing struct {
	samples      int // 0 for the device's default
	warm, rotate bool
}

func (c *command) addTiming(t *timing) {
	c.add(catHow, "samples", &t.samples, "cold samples per variant").
		or("7 on a cpu, 20 on a GPU").
		within(1, 1e5, "use 1 to 100000; 6 give a confidence interval")
	c.addCache(t)
}

func (c *command) addCache(t *timing) {
	c.add(catHow, "warm", &t.warm,
		"do not flush the cache before a sample; warm times compare with warm times only")
	c.add(catHow, "rotate", &t.rotate,
		"use other tensors for every sample, so that they are cold without a flush")
}

// cache is cold by a flush, rotate or warm.
func (t *timing) cache() (string, error) {
	switch {
	case t.warm && t.rotate:
		return "", hint.Errorf("leave one of them out", "--warm and --rotate exclude each other")
	case t.warm:
		return "warm", nil
	case t.rotate:
		return "rotate", nil
	}
	return "cold", nil
}

func (t *timing) protocol(info kernels.DeviceInfo) record.Protocol {
	n := t.samples
	if n == 0 && info.Kind == kernels.KindCPU {
		n = 7
	} else if n == 0 {
		n = 20
	}
	switch {
	case t.warm:
		return sweep.WarmProtocol(info, n)
	case t.rotate:
		return sweep.RotateProtocol(info, n)
	}
	return sweep.ColdProtocol(info, n)
}

// group is the shapes of a device where none are asked for.
func group(info kernels.DeviceInfo) string {
	if info.Kind == kernels.KindCPU {
		return "smoke"
	}
	return "default"
}

// A stand is what a command measures on: the devices and problems of its flags.
type stand struct {
	common
	lab.Config
	timing
	shapes.Selection
	devices  []kernels.Device
	info     kernels.DeviceInfo // of the first
	problems []kernels.Problem
}

// addStand adds the flags of the problems, of the devices and of the user's kernels.
func (c *command) addStand(s *stand) {
	c.addShapes(&s.Selection, "")
	c.addOptions(&s.Selection)
	c.addMachine(&s.Config)
	c.addCompiled()
	c.addTable()
	c.addSeed()
}

// open opens the devices, with peers beside them where a REF names one. What is wrong with the
// problem flags is said before, as a device may take a while. replayed says that the problems of a
// replay are those it has.
func (s *stand) open(e *env, replayed bool, refs ...*ref.Ref) error {
	s.Given = s.given
	if _, err := s.Problems("default"); err != nil {
		return err
	}
	cache, err := s.cache()
	if err != nil {
		return err
	}
	if s.devices, err = e.Open(s.config(cache), refs...); err != nil {
		return err
	}
	s.info = s.devices[0].Info()
	if d, ok := s.devices[0].(*replay.Device); ok && replayed {
		s.problems, err = lab.ReplayProblems(&s.Selection, d, &s.Config)
	} else {
		s.problems, err = s.Problems(group(s.info))
	}
	if err != nil {
		lab.Close(s.devices)
	}
	return err
}

// knobOverrides reads --knob KEY=V,V flags.
func knobOverrides(list []string) ([]kernels.Range, error) {
	const help = "write --knob w=4,8,16; `normbench list knobs` names the keys"
	var ranges []kernels.Range
	for _, s := range list {
		key, values, ok := strings.Cut(s, "=")
		if !ok {
			return nil, hint.Errorf(help, "malformed --knob %q", s)
		}
		k, err := kernels.ParseKnob(key)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ranges, func(r kernels.Range) bool { return r.Knob == k }) {
			return nil, hint.Errorf(help, "--knob %s stands twice", key)
		}
		r := kernels.Range{Knob: k}
		for _, v := range strings.Split(values, ",") {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return nil, hint.Errorf(help, "malformed value %q in --knob %q", v, s)
			}
			r.Values = append(r.Values, n)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}
