package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/families/presets"
	"normbench/report"
	"normbench/sweep/models"
	"normbench/sweep/shapes"
)

// A listConfig has the flags of the lists.
type listConfig struct {
	commonFlags
	shapes, family, problem, device string
	selection                       shapes.Selection // of list models
	plans, refused                  bool
}

// listCommand makes the command list, with a subcommand for each list.
func listCommand(e *env) *cli.Command {
	sub := func(name, usage string, flags func(*listConfig) []cli.Flag,
		table func(*env, *listConfig) (*report.Table, error)) *cli.Command {
		cfg := &listConfig{}
		list := cfg.tableFlags()
		if flags != nil {
			list = append(flags(cfg), list...)
		}
		return e.command(&cli.Command{Name: name, Usage: usage, Flags: list}, &cfg.commonFlags, func() error {
			t, err := table(e, cfg)
			if err != nil {
				return err
			}
			return report.RenderTable(e.out, t, cfg.format)
		})
	}
	return &cli.Command{
		Name:  "list",
		Usage: "list families, presets, peers, knobs, shapes, models, devices or configs",
		Subcommands: []*cli.Command{
			sub("families", "list the kernel families, with the knob values of their grids",
				func(cfg *listConfig) []cli.Flag { return cfg.kernelFlags() }, listFamilies),
			sub("presets", "list the launch rules of published systems", nil, listPresets),
			sub("peers", "list the other libraries that a Python has",
				func(cfg *listConfig) []cli.Flag { return []cli.Flag{cfg.pythonFlag()} }, func(e *env, cfg *listConfig) (*report.Table, error) {
					return e.PeerTable(cfg.python)
				}),
			sub("knobs", "list the knobs, with their label keys", nil, listKnobs),
			sub("shapes", "list the groups of shapes", func(cfg *listConfig) []cli.Flag {
				return []cli.Flag{&cli.StringFlag{Destination: &cfg.shapes, Name: "shapes",
					Category: catWhat, Usage: "a `FILE` instead of the built-in shapes.yaml, or a " +
						"group to list"}}
			}, listShapes),
			sub("models", "list the models that --model names, or the norms of one", func(cfg *listConfig) []cli.Flag {
				return append(modelFlags(&cfg.selection), classFlags(&cfg.selection, "")[1:]...)
			}, listModels),
			sub("devices", "list this machine's devices, and cards known by public figures", nil,
				func(e *env, _ *listConfig) (*report.Table, error) { return e.DeviceTable() }),
			sub("configs", "list a family's configs for a problem, and why others do not run",
				(*listConfig).configFlags, listConfigs),
		},
		Action: func(c *cli.Context) error {
			if ops := c.Args().Slice(); len(ops) > 0 {
				return unknownCommand("list ", ops, c.Command.Subcommands,
					"list families, presets, peers, knobs, shapes, models, devices or configs")
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

// configFlags makes the flags of list configs.
func (cfg *listConfig) configFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Destination: &cfg.family, Name: "family", Category: catWhat,
			Usage: "`FAMILY` of kernels, such as rms_bwd/reg_persist"},
		&cli.StringFlag{Destination: &cfg.problem, Name: "problem", Category: catWhat,
			Usage: "`PROBLEM`, such as rmsnorm/bwd/4096x8192/bf16"},
		&cli.StringFlag{Destination: &cfg.device, Name: "device", Category: catWhere,
			Usage: "list the configs for " + knownDevices, Value: "cpu"},
		&cli.BoolFlag{Destination: &cfg.plans, Name: "plans",
			Usage: "show what each config launches"},
		&cli.BoolFlag{Destination: &cfg.refused, Name: "refused",
			Usage: "list every refused config with its reason, not only a few; so does --wide"},
	}, cfg.kernelFlags()...)
}

// listFamilies makes the table of families with the values of their knobs.
func listFamilies(e *env, _ *listConfig) (*report.Table, error) {
	t := report.New("", "family", "op", "pass", "design", "grid", "after", "bits")
	t.Drop = []string{"op,pass"} // the family says them
	for _, f := range e.Registry.Families {
		if f.Hidden {
			continue
		}
		var knobs []string
		for _, r := range f.Knobs {
			values := make([]string, len(r.Values))
			for i, v := range r.Values {
				values[i] = strconv.Itoa(v)
			}
			knobs = append(knobs, r.Knob.Key+"="+strings.Join(values, ","))
		}
		t.Rows = append(t.Rows, []string{f.Name, string(f.Op), string(f.Pass), f.Doc,
			strings.Join(knobs, " "), f.Origin, f.Bits.String()})
	}
	return t, nil
}

// listPresets makes the table of presets.
func listPresets(*env, *listConfig) (*report.Table, error) {
	t := report.New("", "preset", "system", "rule")
	for _, p := range presets.All() {
		t.Rows = append(t.Rows, []string{p.Name, p.System, p.Doc})
	}
	return t, nil
}

// listKnobs makes the table of knobs.
func listKnobs(_ *env, cfg *listConfig) (*report.Table, error) {
	t := report.New("", "key", "name", "macro", "on cpu=on_cpu", "meaning")
	for _, k := range kernels.Knobs() {
		onCPU := "fixed"
		if k.Host {
			onCPU = "varies"
		}
		t.Rows = append(t.Rows, []string{k.Key, k.Name, k.Macro, onCPU, k.Doc})
	}
	return t, nil
}

// listModels makes the table of models, or with --model that of its norms and their calls in a step.
func listModels(_ *env, cfg *listConfig) (*report.Table, error) {
	sel := &cfg.selection
	if sel.Given = cfg.given; sel.Model == "" {
		if _, err := sel.Steps(); err != nil {
			return nil, err
		}
		t := report.New("", "model", "norms as=norms_as", ">layers", ">hidden", ">norms in a forward=norms_in_forward",
			"figures of=figures_of")
		for _, m := range models.Default().Models() {
			layers, hidden, calls := m.Size()
			row := []string{m.Name, m.Architecture()}
			for _, n := range []int64{layers, hidden, calls} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			t.Rows = append(t.Rows, append(row, m.Source))
		}
		return t, nil
	}
	steps, err := sel.Steps()
	if err != nil {
		return nil, err
	}
	return report.StepTable(steps), nil
}

// listShapes makes the table of a file's groups of shapes, or of the shapes that --shapes names.
func listShapes(_ *env, cfg *listConfig) (*report.Table, error) {
	t := report.New("", "group", ">shapes", "M x N=shape")
	t.Data = report.New("", "group", "shape", ">m", ">n")
	add := func(group string, s shapes.Shape) {
		t.Data.Rows = append(t.Data.Rows, []string{group, s.String(), strconv.FormatInt(s.M, 10),
			strconv.FormatInt(s.N, 10)})
	}
	f := shapes.Default()
	if arg := cfg.shapes; arg != "" {
		list, err := shapes.Select(arg)
		if info, statErr := os.Stat(arg); statErr == nil && info.Mode().IsRegular() {
			if f, err = shapes.Load(arg); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		} else {
			for _, s := range list {
				t.Rows = append(t.Rows, []string{arg, "1", s.String()})
				add(arg, s)
			}
			return t, nil
		}
	}
	for _, name := range f.Names() {
		list, err := f.Group(name)
		if err != nil {
			return nil, err
		}
		var texts []string
		for _, s := range list {
			texts = append(texts, s.String())
			add(name, s)
		}
		if s := f.Step(name); s != nil {
			texts = []string{fmt.Sprintf("%s of a step, with their calls",
				console.Count(len(models.Problems([]models.Step{*s})), "problem"))}
		}
		if len(texts) > 6 {
			texts = append(append(texts[:3:3], "..."), texts[len(texts)-2:]...)
		}
		t.Rows = append(t.Rows, []string{name, strconv.Itoa(len(list)), strings.Join(texts, " ")})
	}
	return t, nil
}

// listConfigs makes the table of a family's configs for a problem, and of the refused ones.
func listConfigs(e *env, cfg *listConfig) (*report.Table, error) {
	for _, name := range []string{"family", "problem"} {
		if !cfg.given[name] { // cli's Required prints the help to standard output
			return nil, hint.Errorf("`normbench list configs --help` lists its flags",
				"list configs needs --%s", name)
		}
	}
	p, err := kernels.ParseProblem(cfg.problem)
	if err != nil {
		return nil, err
	}
	f, err := e.Registry.Lookup(cfg.family)
	if err != nil {
		return nil, err
	}
	if err := f.CheckServes(p); err != nil {
		return nil, err
	}
	info, err := local.Known(e.Registry, cfg.device)
	if err != nil {
		return nil, err
	}
	return report.SpaceTable(f, p, info, cfg.plans, cfg.refused || e.out.Layout.Wide), nil
}
