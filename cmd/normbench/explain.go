package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/lab"
	"normbench/report"
)

// An explainConfig has the flags of explain.
type explainConfig struct {
	commonFlags
	machineFlags
	timingFlags
	tuned   string
	family  string
	measure bool
}

// explainCommand makes the command explain.
func explainCommand(e *env) *cli.Command {
	cfg := &explainConfig{}
	cfg.only = "one shape or problem"
	return e.command(&cli.Command{
		Name:      "explain",
		Usage:     "show what the default or a tuned table picks for a shape, and why",
		ArgsUsage: "SHAPE",
		Description: "SHAPE is MxN, for every op and pass, or a problem such as " +
			"rmsnorm/bwd/4096x8192/bf16. The answer says how good the match is. It is exact (an entry " +
			"of its own), cell (of a map), or moved (the nearest cell's, as its own is refused on " +
			"this device). Else it is base (the analytic base's config for the cell), outside or default. It " +
			"says which map answers, what the neighbours run, and draws the cells around the " +
			"pick. An entry of another device's table is no match. csv and json have the launches " +
			"as data: grid, block, shared memory, cluster, defines, and arguments by name in the " +
			"kernel's order.\n" +
			"With --measure it runs the pick of one problem on this machine, and says why it takes its time. " +
			"It compares it with a copy of the same tensors (the stream), the card's peak, and an empty launch (the " +
			"floor). It has the time of each stage, and what each launch has of the device.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.tuned, Name: "tuned", Category: catWhat,
				Usage: "ask this `FILE` of sweep, map fill or map learn instead of the program's own map"},
			&cli.BoolFlag{Destination: &cfg.measure, Name: "measure",
				Usage: "run the pick, and say where its time goes"},
			&cli.StringFlag{Destination: &cfg.Device, Name: "device", Category: catWhere,
				Usage:       "launch on " + knownDevices + "; with --measure auto, cpu, cuda or cuda:N",
				DefaultText: "h200; with --measure auto"},
			familyFlag(&cfg.family, "what this `FAMILY` picks: its own default, or with --tuned its own table"),
			cfg.kernelsFlag(),
		}, cfg.timingFlags.flags(), cfg.tableFlags()),
	}, &cfg.commonFlags, func() error { return explain(e, cfg) })
}

// explain prints how the variant of a shape or problem was chosen, without measuring anything unless
// --measure is given.
func explain(e *env, cfg *explainConfig) error {
	if cfg.measure {
		return explainMeasured(e, cfg)
	}
	for _, name := range []string{"samples", "warm"} {
		if cfg.given[name] {
			return hint.Errorf("add --measure", "--%s is for times, and explain takes none without --measure", name)
		}
	}
	d, err := local.Known(e.Registry, cmp.Or(cfg.Device, "h200"))
	if err != nil {
		return err
	}
	table, err := e.Explain(cfg.tuned, cfg.family, cfg.operands[0], d)
	if err != nil {
		return err
	}
	return report.RenderTable(e.out, table, cfg.format)
}

// explainMeasured measures the variant that runs one problem, and prints its times with the explanation.
func explainMeasured(e *env, cfg *explainConfig) error {
	if !strings.Contains(cfg.operands[0], "/") {
		return hint.Errorf("write one problem, such as rmsnorm/bwd/"+cfg.operands[0]+"/bf16",
			"--measure takes one problem, and %s is the shape of several", cfg.operands[0])
	}
	p, err := kernels.ParseProblem(cfg.operands[0])
	if err != nil {
		return err
	}
	text := cmp.Or(cfg.family, "base")
	if cfg.tuned != "" {
		text = "tuned:" + cfg.tuned
	}
	refs, err := e.ParseAll(text)
	if err != nil {
		return err
	}
	cfg.Jobs = -1 // no peers
	devices, err := e.Open(cfg.config(&cfg.commonFlags, cfg.cache()), refs...)
	if err != nil {
		return err
	}
	defer lab.Close(devices)
	table, err := e.ExplainMeasured(cfg.tuned, cfg.family, &lab.BenchTask{Config: &cfg.OpenOptions, Devices: devices,
		Problems: []kernels.Problem{p}, Refs: refs, Protocol: cfg.protocol(devices[0].Info()), Seed: cfg.seed})
	if err != nil {
		return err
	}
	return report.RenderTable(e.out, table, cfg.format)
}

// knownDevices is the help of flags that name a device without opening it.
const knownDevices = "`DEVICE`: cpu, h200, another name that list devices prints, or a .json file of a " +
	"card's figures"
