package main

import (
	"cmp"
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/report"
	"normbench/sweep/shapes"
)

// A reportConfig is what the flags of report ask for.
type reportConfig struct {
	common
	shapes.Selection
	title string
}

func reportCommand(e *env) *cli.Command {
	cfg := &reportConfig{}
	return e.command(&cli.Command{
		Name:      "report",
		Usage:     "show recorded times against the stream: table, plot, page",
		ArgsUsage: "RECORDS...",
		Description: "Each operand is an arm, written as for compare: PATH#base, PATH#peers, PATH#FAMILY, " +
			"tuned:FILE and so on. A records file or results folder without a # " +
			"has up to three arms: the base, our fastest and the fastest peer. Two arms print the " +
			"table of compare, and the file of a live compare its own.\n\n" +
			"A plot has all problems of an op and pass side by side. 100% is the stream, a copy of " +
			"the same tensors in the same run. Lines join shapes that share a side: `normbench " +
			"bench base --shapes growth-rows --out DIR` measures some to see how time grows.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.plot, Name: "plot", Category: catOutput,
				Usage: "draw to `FILE`.svg"},
			cfg.htmlFlag(),
			&cli.StringFlag{Destination: &cfg.title, Name: "title", Category: catOutput,
				Usage: "title of the plot and the page", DefaultText: "the device and the protocol"},
		}, shapeFlags(&cfg.Selection, "all"), cfg.tableFlags()),
	}, &cfg.common, func() error { return showReport(e, cfg) })
}

func showReport(e *env, cfg *reportConfig) error {
	cfg.Given = cfg.given
	wanted, err := cfg.Filter()
	if err != nil {
		return err
	}
	ops := cfg.operands
	var live *report.Live
	if len(ops) == 1 && report.IsLive(ops[0]) {
		if live, err = report.ReadLivePart(ops[0], wanted); err != nil {
			return err
		}
	}
	sides, err := e.Arms(ops, wanted)
	if err != nil {
		return err
	}
	title := cmp.Or(cfg.title, report.TitleOf(sides))
	all := report.NewOverview(sides...)
	if cfg.plot != "" {
		drawn, err := all.Plot(title)
		if err != nil {
			return err
		}
		if err := e.Write(durable.Place{Name: cfg.plot}, drawn); err != nil {
			return err
		}
	}
	switch {
	case live != nil:
		return showLive(e, &cfg.common, live)
	case len(sides) == 2:
		return showCompared(e, &cfg.common, report.Compare(sides[0], sides[1]), title, sides)
	}
	if err := e.writePage(cfg.html,
		func() *report.Page { return all.Page(title, report.RunsOf(sides...)) }); err != nil {
		return err
	}
	return all.Render(e.out, cfg.format)
}
