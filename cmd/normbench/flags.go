package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/lab"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune/ref"
)

// The flags that several commands share, in groups, and what they mean.

var problemFlags = join([]cli.Flag{
	&cli.StringFlag{Name: "shapes", Category: catWhat, Usage: "`GROUP`, FILE#GROUP, FILE, MxN, or several with commas; GROUP@fp16 or GROUP@fp8 is of that type (default: smoke on a cpu, default on a GPU)"},
}, classFlags, optionFlags)

var (
	allOps, byDefault = kernels.OpNames()
	defaultOps        = strings.Join(byDefault, ",")
)

// classFlags are what is done to a shape, and in which type.
var classFlags = []cli.Flag{
	&cli.StringFlag{Name: "op", Category: catWhat, Usage: strings.Join(allOps, ", ") + ", or several", Value: defaultOps},
	&cli.StringFlag{Name: "pass", Category: catWhat, Usage: "fwd, bwd, or both", Value: "fwd,bwd"},
	&cli.StringFlag{Name: "dtype", Category: catWhat, Usage: "type of x, y, dy and dx: bf16, fp16, fp32, or several", Value: "bf16"},
}

// optionFlags are what a problem has besides its shape and type.
var optionFlags = func() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: "weight-dtype", Category: catWhat,
		Usage: "type of w, b, dw and db (default: as --dtype)"}}
	for _, o := range kernels.Options() {
		switch {
		case o.Doc == "": // another value of a flag above
		case len(o.Values) > 0:
			flags = append(flags, &cli.StringFlag{Name: o.Flag, Category: catWhat, Usage: o.Doc, Value: o.Values[0]})
		default:
			flags = append(flags, &cli.BoolFlag{Name: o.Flag, Category: catWhat, Usage: o.Doc})
		}
	}
	return flags
}()

var deviceFlags = []cli.Flag{
	&cli.StringFlag{Name: "device", Category: catWhere, Usage: "auto, cpu, cuda, cuda:N, cuda:N,cuda:M, or replay:RECORDS to draw from recorded times", Value: "auto"},
	&cli.StringSliceFlag{Name: "worker", Category: catWhere, Usage: "`COMMAND` that starts a worker, such as 'ssh gpu1 normbench worker --device cuda:0'; no shell runs it; may repeat"},
	&cli.DurationFlag{Name: "timeout", Category: catWhere, Usage: "longest time that a worker may take for one step", Value: time.Minute},
}

var measureFlags = []cli.Flag{
	&cli.IntFlag{Name: "samples", Usage: "cold samples per variant", DefaultText: "7 on a cpu, 20 on a GPU"},
	warmFlag, rotateFlag,
}

var (
	warmFlag   = &cli.BoolFlag{Name: "warm", Usage: "do not flush the cache before a sample; warm times compare with warm times only"}
	rotateFlag = &cli.BoolFlag{Name: "rotate", Usage: "use other tensors for every sample, so that they are cold without a flush"}
)

var seedFlag = &cli.Uint64Flag{Name: "seed", Usage: "seed of the inputs", DefaultText: "a fresh one, recorded"}

var formatFlag = &cli.StringFlag{Name: "format", Category: catOutput, Usage: "text, markdown, csv or json", Value: "text"}

func join(groups ...[]cli.Flag) []cli.Flag { return slices.Concat(groups...) }

// selectionOf reads the problem flags that a command has.
func selectionOf(c *cli.Context) *shapes.Selection {
	s := &shapes.Selection{Shapes: c.String("shapes"), Op: c.String("op"), Pass: c.String("pass"), DType: c.String("dtype"),
		Quant: c.String("quant"), Weight: c.String("weight-dtype"), Bias: c.String("bias"), On: map[string]bool{}, Given: map[string]bool{}}
	for _, f := range problemFlags {
		name := f.Names()[0]
		s.On[name], s.Given[name] = c.Bool(name), c.IsSet(name)
	}
	return s
}

// group is the shapes of a device where none are asked for.
func group(info kernels.DeviceInfo) string {
	if info.Kind == kernels.KindCPU {
		return "smoke"
	}
	return "default"
}

// A timing is how the flags want times taken.
type timing struct {
	samples int    // 0 for the device's default
	cache   string // cold by a flush, rotate or warm
}

func timingOf(c *cli.Context) (timing, error) {
	t := timing{c.Int("samples"), "cold"}
	switch warm, rotate := c.Bool("warm"), c.Bool("rotate"); {
	case t.samples < 0 || t.samples > 100_000 || c.IsSet("samples") && t.samples == 0:
		return t, hint.Errorf("use 1 to 100000; 6 give a confidence interval", "--samples %d is out of range", t.samples)
	case warm && rotate:
		return t, hint.Errorf("leave one of them out", "--warm and --rotate exclude each other")
	case warm:
		t.cache = "warm"
	case rotate:
		t.cache = "rotate"
	}
	return t, nil
}

func (t timing) protocol(info kernels.DeviceInfo) record.Protocol {
	n := t.samples
	if n == 0 && info.Kind == kernels.KindCPU {
		n = 7
	} else if n == 0 {
		n = 20
	}
	switch t.cache {
	case "warm":
		return sweep.WarmProtocol(info, n)
	case "rotate":
		return sweep.RotateProtocol(info, n)
	}
	return sweep.ColdProtocol(info, n)
}

// configOf is what the flags say of devices and of peers beside them.
func configOf(c *cli.Context) (*lab.Config, error) {
	m := &lab.Config{Workers: c.StringSlice("worker"), Seed: c.Uint64("seed"), Peers: c.String("peers")}
	if c.IsSet("device") {
		m.Device = c.String("device")
	}
	if c.IsSet("python") {
		m.Python = c.String("python")
	}
	if jobs := c.Int("peer-jobs"); c.IsSet("peer-jobs") {
		m.Jobs = &jobs
	}
	if m.Timeout = c.Duration("timeout"); m.Timeout <= 0 {
		return nil, hint.Errorf("use a duration such as 30s or 2m", "--timeout %s is not positive", m.Timeout)
	}
	if !c.IsSet("timeout") {
		m.Timeout = 0
	}
	t, err := timingOf(c)
	m.Cache = t.cache
	return m, err
}

// useKernels adds the families of --kernels, for commands that have the flag.
func (e *env) useKernels(c *cli.Context) error {
	python := ""
	if c.IsSet(pythonFlag.Name) {
		python = c.String(pythonFlag.Name)
	}
	peers := !slices.Contains([]string{"kernels", "configs", "sweep", "learn"}, c.Command.Name)
	return e.UseKernels(c.String(kernelsFlag.Name), c.StringSlice(includeFlag.Name), python, peers)
}

// seed is the seed of the flags, or a fresh one.
func seed(c *cli.Context) uint64 {
	if c.IsSet("seed") {
		return c.Uint64("seed")
	}
	return rand.Uint64() >> 11 // whole in a JSON number
}

// A stand is what a command measures on: the open devices, and the problems of its flags.
type stand struct {
	*lab.Config
	timing   timing
	devices  []kernels.Device
	info     kernels.DeviceInfo // of the first
	problems []kernels.Problem
}

// open opens the devices, with peers beside them where a REF names one. What is wrong with the
// problem flags is said before, as a device may take a while.
func (e *env) open(c *cli.Context, refs ...*ref.Ref) (*stand, error) {
	sel := selectionOf(c)
	_, err := sel.Problems("default")
	if err != nil {
		return nil, err
	}
	s := &stand{}
	if s.timing, err = timingOf(c); err != nil {
		return nil, err
	}
	if s.Config, err = configOf(c); err != nil {
		return nil, err
	}
	if s.devices, err = e.Open(s.Config, refs...); err != nil {
		return nil, err
	}
	s.info = s.devices[0].Info()
	if d, ok := s.devices[0].(*replay.Device); ok && c.Command.Name == "sweep" {
		s.problems, err = lab.ReplayProblems(sel, d, s.Config)
	} else {
		s.problems, err = sel.Problems(group(s.info))
	}
	if err != nil {
		lab.Close(s.devices)
	}
	return s, err
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

var pythonFlag = &cli.StringFlag{Name: "python", Category: catWhat, Usage: "`PROGRAM` that runs the peers, a Python 3 with PyTorch for CUDA, and compiles kernels of Triton", Value: "python3"}

// peerFlags are those of the commands that measure peers.
var peerFlags = []cli.Flag{
	pythonFlag,
	&cli.StringFlag{Name: "peers", Category: catWhat, Usage: "`NAMES` of the peers that peer:best is chosen from, with commas", DefaultText: "all that are installed but " + lab.OnlyNamed},
	&cli.IntFlag{Name: "peer-jobs", Category: catWhere, Usage: "processes that compile for the peers before anything is measured; 0 compiles between measurements", Value: -1, DefaultText: "the CPUs but two"},
}

var kernelsFlag = &cli.StringFlag{Name: "kernels", Category: catWhat, Usage: "`FOLDER` of kernels of your own: manifests (*.yaml) with their .cu files; see docs/kernels.md"}

// includeFlag is a list as $NORMBENCH_INCLUDE is, which compilers in other processes read too.
var includeFlag = &cli.StringSliceFlag{Name: "include", Category: catWhat, Usage: "`FOLDER` in which #include <FILE> of --kernels is looked for first; may be repeated", KeepSpace: true}
