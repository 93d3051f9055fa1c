package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/report"
	"normbench/sweep/shapes"
)

// A reportConfig is what the flags of report ask for.
type reportConfig struct {
	common
	shapes.Selection
	over, title string
}

func reportCommand(e *env) *cli.Command {
	cfg := &reportConfig{}
	return e.command(&cli.Command{
		Name:      "report",
		Usage:     "show recorded times against the stream, over rows, columns or shapes: table, plots, page",
		ArgsUsage: "RECORDS...",
		Description: "Each operand is an arm, written as for compare: PATH#base, PATH#peers, PATH#FAMILY, " +
			"PATH#tuned:FILE, tuned:FILE and so on. A records file or results folder without a # " +
			"has up to three arms: the base, our fastest and the fastest peer. The file of a live " +
			"compare has its two arms. Alone and without --over, it prints its own table.\n\n" +
			"A plot over M or N has a panel for each fixed other side with three sizes or more. A " +
			"plot over shape has all problems of an op and pass side by side. 100% is the stream, " +
			"a copy of the same tensors in the same run. `normbench bench base --shapes " +
			"growth-rows --out DIR` measures the records for a plot over M.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Destination: &cfg.over, Name: "over", Category: catWhat,
				Usage: "M or N (the side that grows), or shape (every problem): the order of the table " +
					"and the axis of the plot"},
			&cli.StringFlag{Destination: &cfg.plot, Name: "plot", Category: catOutput,
				Usage: "draw to `FILE`.svg; needs --over"},
			cfg.htmlFlag(),
			&cli.StringFlag{Destination: &cfg.title, Name: "title", Category: catOutput,
				Usage: "title of the plot and the page", DefaultText: "the device and the protocol"},
		}, shapeFlags(&cfg.Selection, "all"), cfg.tableFlags()),
	}, &cfg.common, func() error { return showReport(e, cfg) })
}

func showReport(e *env, cfg *reportConfig) error {
	cfg.Given = cfg.given
	over, err := report.AxisOf(cfg.over)
	if err != nil {
		return err
	}
	if cfg.plot != "" && over == nil {
		return hint.Errorf("add --over M, --over N or --over shape", "--plot does not know what to go over")
	}
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
		if over == nil {
			return showLive(e, &cfg.common, live)
		}
	}
	sides, err := e.Arms(ops, wanted)
	if err != nil {
		return err
	}
	title := cfg.title
	if title == "" {
		title = report.TitleOf(sides)
	}
	g := report.Grow(over, sides...)
	if live != nil {
		g.Tell(live.Comparison())
	} else if len(sides) == 2 {
		g.Tell(report.Compare(sides[0], sides[1]))
	}
	if cfg.plot != "" {
		drawn, err := g.Plot(title, over)
		if err != nil {
			return err
		}
		if err := e.Write(durable.Place{Name: cfg.plot}, drawn); err != nil {
			return err
		}
	}
	if err := e.writePage(cfg.html,
		func() *report.Page { return g.Page(title, report.RunsOf(sides...)) }); err != nil {
		return err
	}
	return g.Render(e.out, cfg.format)
}
