package main

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/lab"
	"normbench/report"
	"normbench/report/export"
	"normbench/report/history"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
	"normbench/sweep/shapes"
	"normbench/sweep/shard"
	"normbench/tune/ref"
)

// The flags that several commands share, in groups, each with what it is read into.

// commonFlags holds the values of flags that many commands have, and the command's operands. Every Config
// has it.
type commonFlags struct {
	operands []string
	only     string          // what the one operand is, "" where there may be others than one
	given    map[string]bool // flags, by their names
	quiet    bool
	format   string
	html     string
	plot     string
	title    string // of the plot and the page
	seed     uint64
	kernels  string
	loads    bool // the command itself loads the kernels
	hosts    bool // another program speaks for it: that which it runs, or which it serves
	include  cli.StringSlice
	python   string
	// How tables look.
	wide    bool
	columns string
	width   int
	color   string
	// files are further flags that name a file to write, and first makes the first table that will
	// be printed, without its rows; nil where the columns are checked when they are printed.
	files []*string
	first func() *report.Table
}

// defaultOut is the folder of results where --out is not given. In a clone git ignores it, and
// results/, which is tracked, is not written to by mistake.
const defaultOut = "out"

// tableFlags are those of a command that prints tables.
func (x *commonFlags) tableFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Destination: &x.format, Name: "format", Category: catOutput,
			Usage: "text, markdown, csv or json", Value: "text"},
		&cli.BoolFlag{Destination: &x.wide, Name: "wide", Category: catOutput,
			Usage: "print every column of a table, one line per row, beyond the terminal's width"},
		&cli.StringFlag{Destination: &x.columns, Name: "columns", Category: catOutput,
			Usage: "print only these `COLUMNS` of the table, with commas: their names in csv and json; a wrong " +
				"one lists them"},
		&cli.IntFlag{Destination: &x.width, Name: "width", Category: catOutput,
			Usage: "width of text tables", DefaultText: "the terminal's, or $COLUMNS; 100 in a pipe",
			Action: checkRange("width", 40, 1_000_000, "use 40 or more, or --wide")},
		&cli.StringFlag{Destination: &x.color, Name: "color", Category: catOutput,
			Usage: "colour verdicts: auto, always or never; $NO_COLOR turns auto off", Value: "auto"},
	}
}

func (x *commonFlags) htmlFlag() cli.Flag {
	return &cli.StringFlag{Destination: &x.html, Name: "html", Category: catOutput,
		Usage: "write one page with the verdict, charts and tables to `FILE`"}
}

// plotFlags lists the flags of a command that draws a comparison.
func (x *commonFlags) plotFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Destination: &x.plot, Name: "plot", Category: catOutput,
			Usage: "draw to `FILE`.svg"},
		x.htmlFlag(),
		&cli.StringFlag{Destination: &x.title, Name: "title", Category: catOutput,
			Usage: "title of the plot and the page", DefaultText: "the device and the protocol"},
	}
}

const plotHelp = "A plot has all problems of an op and pass side by side. 100% is the stream, a copy of " +
	"the same tensors in the same run. Lines join shapes that share a side."

func (x *commonFlags) seedFlag() cli.Flag {
	return &cli.Uint64Flag{Destination: &x.seed, Name: "seed", Usage: "seed of the inputs",
		DefaultText: "a fresh one, recorded",
		Value:       rand.Uint64() >> 11} // whole in a JSON number
}

func (x *commonFlags) kernelsFlag() cli.Flag {
	return &cli.StringFlag{Destination: &x.kernels, Name: "kernels", Category: catWhat,
		Usage: "`FOLDER` of kernels of your own: manifests (*.yaml) with their .cu or .py files; see " +
			"docs/manifest.md"}
}

// familyFlag asks for one family against itself in place of all.
func familyFlag(to *string, usage string) cli.Flag {
	return &cli.StringFlag{Destination: to, Name: "family", Category: catWhat, Usage: usage,
		DefaultText: "all families"}
}

func (x *commonFlags) pythonFlag() cli.Flag {
	return &cli.StringFlag{Destination: &x.python, Name: "python", Category: catWhat, DefaultText: "python3",
		Usage: "`PROGRAM` that runs the peers and compiles kernels of Triton: a Python 3 that has " +
			"PyTorch for peers, Triton for such kernels"}
}

// kernelFlags have a list of folders as $NORMBENCH_INCLUDE is, which compilers in other processes
// read too.
func (x *commonFlags) kernelFlags() []cli.Flag {
	return []cli.Flag{x.kernelsFlag(), x.pythonFlag(),
		&cli.StringSliceFlag{Destination: &x.include, Name: "include", Category: catWhat,
			Usage:     "`FOLDER` in which #include <FILE> of --kernels is looked for first; may be repeated",
			KeepSpace: true}}
}

// checkRange refuses values of a flag that are out of its range.
func checkRange[N int | int64 | float64](name string, lo, hi N, help string) func(*cli.Context, N) error {
	return func(_ *cli.Context, n N) error {
		if n >= lo && n <= hi {
			return nil
		}
		return hint.Errorf(help, "--%s %v is out of range", name, n)
	}
}

// positive refuses durations of a flag that are none.
func positive(name, help string) func(*cli.Context, time.Duration) error {
	return func(_ *cli.Context, d time.Duration) error {
		if d > 0 {
			return nil
		}
		return hint.Errorf(help, "--%s %s is not positive", name, d)
	}
}

var (
	allOps, byDefault = kernels.OpNames()
	defaultOps        = strings.Join(byDefault, ",")
)

// shapeFlags makes the flags that ask for problems. none and noneOfClass say which shapes and which ops, passes and types
// these are where the flags are left out, "" those of a sweep.
func shapeFlags(s *shapes.Selection, none, noneOfClass string) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Destination: &s.Shapes, Name: "shapes", Category: catWhat,
			DefaultText: cmp.Or(none, "smoke on a cpu, default on a GPU"),
			Usage: "`GROUP`, FILE#GROUP, FILE, MxN or 4Kix8Ki, or several with commas; GROUP@fp16 or " +
				"GROUP@fp8 is of that type"},
	}, append(modelFlags(s), classFlags(s, noneOfClass)...)...)
}

// choosesShapes says whether a flag is one of those in which shapeFlags are more than classFlags.
func choosesShapes(f cli.Flag) bool {
	return slices.Contains([]string{"shapes", "model", "tokens", "tp", "sp"}, f.Names()[0])
}

// modelFlags ask for the norms of a model in place of shapes.
func modelFlags(s *shapes.Selection) []cli.Flag {
	ranks := func(to *int64, name, usage string) cli.Flag {
		return &cli.Int64Flag{Destination: to, Name: name, Category: catWhat, Usage: usage, Value: 1,
			Action: checkRange[int64](name, 1, 1<<20, "use 1 or more ranks")}
	}
	return []cli.Flag{
		&cli.StringFlag{Destination: &s.Model, Name: "model", Category: catWhat,
			Usage: "the norms of a `MODEL` in place of --shapes, each with its calls in a step; a name of " +
				"`normbench list models`, a config.json, or a folder that has one"},
		&cli.StringFlag{Destination: &s.Tokens, Name: "tokens", Category: catWhat,
			Usage:       "with --model: tokens of a step of one replica, of all its ranks together, or several with commas",
			DefaultText: strconv.Itoa(shapes.DefaultTokens)},
		ranks(&s.TP, "tp", "with --model: ranks of tensor parallelism, which share the heads"),
		ranks(&s.SP, "sp", "with --model: ranks that share the tokens: as many as --tp, or a multiple"),
	}
}

// classFlags are what is done to a shape, and in which type.
func classFlags(s *shapes.Selection, none string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Destination: &s.Op, Name: "op", Category: catWhat,
			Usage: strings.Join(allOps, ", ") + ", or several", DefaultText: cmp.Or(none, defaultOps)},
		&cli.StringFlag{Destination: &s.Pass, Name: "pass", Category: catWhat, Usage: "fwd, bwd, or both",
			DefaultText: cmp.Or(none, "fwd,bwd")},
		&cli.StringFlag{Destination: &s.DType, Name: "dtype", Category: catWhat,
			Usage:       "type of x, y, dy and dx: bf16, fp16, fp32, or several",
			DefaultText: cmp.Or(none, "bf16")},
	}
}

// optionFlags are what a problem has besides its shape and type.
func optionFlags(s *shapes.Selection) []cli.Flag {
	s.On = map[string]bool{}
	flags := []cli.Flag{&cli.StringFlag{Destination: &s.Weight, Name: "weight-dtype", Category: catWhat,
		Usage: "type of w, b, dw and db", DefaultText: "as --dtype"}}
	for _, o := range kernels.Options() {
		switch {
		case o.Doc == "": // another value of a flag above
		case len(o.Values) > 0:
			to := map[string]*string{"quant": &s.Quant, "bias": &s.Bias}[o.Flag]
			flags = append(flags, &cli.StringFlag{Destination: to, Name: o.Flag, Category: catWhat,
				Usage: o.Doc, Value: o.Values[0]})
		default:
			flags = append(flags, &cli.BoolFlag{Name: o.Flag, Category: catWhat, Usage: o.Doc,
				Action: func(_ *cli.Context, on bool) error { s.On[o.Flag] = on; return nil }})
		}
	}
	return flags
}

func names(flags []cli.Flag) (list []string) {
	for _, f := range flags {
		list = append(list, f.Names()[0])
	}
	return list
}

// dashedNames lists the flags' names as they are written.
func dashedNames(flags []cli.Flag) (list []string) {
	for _, name := range names(flags) {
		list = append(list, "--"+name)
	}
	return list
}

// shardFlag asks for a part of the problems.
func shardFlag(to *string) cli.Flag {
	return &cli.StringFlag{Destination: to, Name: "shard", Category: catWhat,
		Usage: "measure the part `SHARD` of the problems, such as 3/8, into a folder of its own; " + shard.Whole +
			" measures all",
		DefaultText: "what Slurm, Kubernetes or CI says of this job; see docs/clusters.md"}
}

// shardOf returns the shard that a flag or a scheduler asks for, nil for none, and says so.
func (e *env) shardOf(flag, out string) (*record.Shard, error) {
	var s *record.Shard
	by, err := "--shard", error(nil)
	if flag != "" {
		s, err = shard.Parse(flag)
	} else {
		s, by, err = shard.FromEnv(os.Getenv)
	}
	if err == nil && s != nil {
		where := ""
		if out != "" {
			where = ", in " + filepath.Join(out, s.Folder())
		}
		e.Notef("shard %s, by %s%s", s, by, where)
	}
	return s, err
}

// machineFlags are the flags of devices and of peers beside them.
type machineFlags struct {
	lab.OpenOptions
	workers cli.StringSlice
}

func (m *machineFlags) flags() []cli.Flag {
	m.Jobs = -1 // of a command without peers
	return []cli.Flag{
		&cli.StringFlag{Destination: &m.Device, Name: "device", Category: catWhere,
			Usage: "auto, cpu, cuda, cuda:N, cuda:N,cuda:M, or replay:RECORDS to draw from " +
				"recorded times",
			DefaultText: "auto"},
		&cli.StringSliceFlag{Destination: &m.workers, Name: "worker", Category: catWhere,
			Usage: "`COMMAND` that starts a worker, such as 'ssh gpu1 normbench worker --device " +
				"cuda:0', or 4:'srun -n1 --gres=gpu:1 normbench worker' for four; no shell runs it; may repeat"},
		&cli.DurationFlag{Destination: &m.Start, Name: "start-timeout", Category: catWhere,
			Usage: "longest time until a --worker has started, as in a scheduler's queue", DefaultText: "15m0s",
			Action: positive("start-timeout", "use a duration such as 30s or 15m")},
		&cli.DurationFlag{Destination: &m.Timeout, Name: "timeout", Category: catWhere,
			Usage: "longest time that a worker may take for one step, or the emulator of verify for " +
				"a launch", DefaultText: "1m0s",
			Action: positive("timeout", "use a duration such as 30s or 2m")},
	}
}

// peerFlags are those of the commands that measure peers, beside --python.
func (m *machineFlags) peerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Destination: &m.Peers, Name: "peers", Category: catWhat,
			Usage:       "`NAMES` of the peers that peer:best is chosen from, with commas",
			DefaultText: "all that are installed but " + strings.Join(lab.OnlyNamed, " and ")},
		&cli.IntFlag{Destination: &m.Jobs, Name: "peer-jobs", Category: catWhere,
			Usage: "processes that compile for the peers before anything is measured; 0 compiles " +
				"between measurements", Value: -1, DefaultText: "the CPUs but two"},
	}
}

// config is what the lab opens.
func (m *machineFlags) config(x *commonFlags, cache string) *lab.OpenOptions {
	m.Workers, m.Python, m.Cache = m.workers.Value(), x.python, cache
	if x.given["seed"] {
		m.Seed = x.seed
	}
	return &m.OpenOptions
}

// timingFlags are the flags of how times are taken.
type timingFlags struct {
	samples int // 0 for the device's default
	warm    bool
}

func (t *timingFlags) flags() []cli.Flag {
	return append([]cli.Flag{&cli.IntFlag{Destination: &t.samples, Name: "samples",
		Usage: "cold samples per variant", DefaultText: "7 on a cpu, 20 on a GPU",
		Action: checkRange("samples", 1, 100_000, "use 1 to 100000; 6 give a confidence interval")}},
		t.cacheFlags()...)
}

func (t *timingFlags) cacheFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Destination: &t.warm, Name: "warm", Usage: "do not flush the cache before a " +
			"sample; warm times compare with warm times only"},
	}
}

// cache is cold or warm.
func (t *timingFlags) cache() string {
	if t.warm {
		return "warm"
	}
	return "cold"
}

func (t *timingFlags) protocol(info kernels.DeviceInfo) record.Protocol {
	n := 20
	if info.Kind == kernels.KindCPU {
		n = 7
	}
	if n = cmp.Or(t.samples, n); t.warm {
		return sweep.WarmProtocol(info, n)
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

// targetFlags are the flags of what a command measures: devices and problems.
type targetFlags struct {
	commonFlags
	machineFlags
	timingFlags
	shapes.Selection
	devices  []kernels.Device
	info     kernels.DeviceInfo // of the first
	problems []kernels.Problem
}

// flags are those of the problems, of the devices and of the user's kernels.
func (s *targetFlags) flags() []cli.Flag {
	return slices.Concat(shapeFlags(&s.Selection, "", ""), optionFlags(&s.Selection), s.machineFlags.flags(),
		s.kernelFlags(),
		s.tableFlags(), []cli.Flag{s.seedFlag()})
}

// open opens the devices, with peers beside them where a REF names one. What is wrong with the
// problem flags is said before, as a device may take a while. replayed says that the problems of a
// replay are those it has.
func (s *targetFlags) open(e *env, replayed bool, refs ...*ref.Ref) error {
	if err := s.checkProblems(); err != nil {
		return err
	}
	devices, err := e.Open(s.config(&s.commonFlags, s.cache()), refs...)
	if err != nil {
		return err
	}
	s.devices = devices
	s.info = s.devices[0].Info()
	if s.problems, err = s.problemsOn(s.devices[0], replayed); err != nil {
		lab.Close(s.devices)
	}
	return err
}

// openEach opens devices without peers, and does something with those of each kind.
func (s *targetFlags) openEach(e *env, do func(*lab.DeviceGroup) error) error {
	if err := s.checkProblems(); err != nil {
		return err
	}
	return e.EachGroup(s.config(&s.commonFlags, s.cache()), do)
}

// checkProblems says what is wrong with the flags of problems.
func (s *targetFlags) checkProblems() error {
	s.Given = s.given
	_, err := s.Problems("default")
	return err
}

// problemsOn returns the problems to measure on a device.
func (s *targetFlags) problemsOn(dev kernels.Device, replayed bool) ([]kernels.Problem, error) {
	if d, ok := dev.(*replay.Device); ok && replayed {
		return lab.ReplayProblems(&s.Selection, d, &s.OpenOptions)
	}
	return s.Problems(group(dev.Info()))
}

// knobOverrides reads --knob KEY=V,V flags.
func knobOverrides(list []string) ([]kernels.Range, error) {
	const help = "write --knob warps=4,8,16; `normbench list knobs` names them"
	var ranges []kernels.Range
	for _, s := range list {
		key, values, ok := strings.Cut(s, "=")
		if !ok {
			return nil, hint.Errorf(help, "malformed --knob %q", s)
		}
		k, err := kernels.FindKnob(key)
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

// choices are the values of a flag that takes one of a few words, nil for any other.
func choices(command, flag string) []string {
	switch flag {
	case "strategy":
		return search.Names()
	case "emit":
		return shard.Formats()
	case "color":
		return []string{"auto", "always", "never"}
	case "policy":
		return []string{"off", "regression", "strict"}
	case "comment":
		return []string{"auto", "always", "never"}
	case "format":
		switch command {
		case "export":
			return []string{export.KTCache, export.Benchfmt}
		case "map export":
			return launchmap.Formats
		case "history":
			return append(report.Formats(), history.ExportFormats()...)
		}
		return report.Formats()
	}
	return nil
}
