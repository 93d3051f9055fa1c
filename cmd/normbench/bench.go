package main

import (
	"cmp"
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/tune/ref"
)

// A benchConfig is what the flags of bench ask for.
type benchConfig struct {
	targetFlags
	all bool
	out string
}

func benchCommand(e *env) *cli.Command {
	cfg := &benchConfig{}
	cfg.first = func() *report.Table { return report.BenchTable(nil, &record.Run{}) }
	return e.command(&cli.Command{
		Name:      "bench",
		Usage:     "measure given variants, with the time of each stage",
		ArgsUsage: "REF...",
		Description: ref.RunHelp + ".\nKnobs that a label leaves out take the family's base value. " +
			"Without a REF, bench measures base.",
		Flags: slices.Concat(cfg.flags(), cfg.timingFlags.flags(), cfg.peerFlags(), []cli.Flag{
			&cli.BoolFlag{Destination: &cfg.all, Name: "all-candidates", Category: catWhat,
				Usage: "measure every variant of a REF that times several (an autotuned preset, " +
					"peer:best), not only the fastest"},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "`FOLDER` to record into (default: none)"},
		}),
	}, &cfg.commonFlags, func() error { return bench(e, cfg) })
}

func bench(e *env, cfg *benchConfig) error {
	texts := cfg.operands
	if len(texts) == 0 {
		texts = []string{"base"}
	}
	refs, err := e.ParseAll(texts...)
	if err != nil {
		return err
	}
	if err := cfg.open(e, false, refs...); err != nil {
		return err
	}
	defer lab.Close(cfg.devices)
	b, err := e.Bench(&lab.BenchTask{Config: &cfg.OpenOptions, Devices: cfg.devices, Problems: cfg.problems,
		Refs: refs, Protocol: cfg.protocol(cfg.info), Seed: cfg.seed, All: cfg.all, Out: cfg.out})
	if b == nil {
		return err
	}
	if err := cmp.Or(err, e.WithRecords(report.RenderTable(e.out, b.Table, cfg.format))); err != nil {
		return err
	}
	if b.Failed > 0 {
		return lab.Exit(exitGate, hint.Errorf("the table's last column has the reason of each; "+
			"`normbench verify` names the outputs that are wrong", "%d of %d variants failed",
			b.Failed, b.Measured))
	}
	return nil
}
