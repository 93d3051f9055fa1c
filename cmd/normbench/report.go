package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
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
		Usage:     "show a live compare again, or compare recorded operands; draw a plot",
		ArgsUsage: "FILE | [BASE] RECORDS",
		Description: "FILE is what `normbench compare --live --out` wrote, compare-RUN.json: it " +
			"prints the table of that run. Other operands are written as for compare. A records file or " +
			"results folder alone is compared with its own #base.\n\n" +
			"A plot has all problems of an op and pass side by side. 100% is the stream, a copy of " +
			"the same tensors in the same run. Lines join shapes that share a side.",
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
	whole := len(ops) == 1 && !strings.Contains(ops[0], "#") && !strings.HasPrefix(ops[0], "tuned:")
	var c *report.Comparison
	switch {
	case whole && textfile.Ext(ops[0]) == ".json":
		var live *report.Live
		if live, err = report.ReadLive(ops[0]); err != nil {
			return err
		}
		if live.Keep(wanted); len(live.Duels) == 0 {
			return hint.Errorf("leave out --shapes, --op, --pass or --dtype",
				"%s has none of the problems asked for", ops[0])
		}
		c = live.Comparison()
	case whole:
		c, err = recorded(e, []string{ops[0] + "#base", ops[0]}, wanted)
	case len(ops) != 2:
		return hint.Errorf("`normbench report results/nvidia-h200`, or two operands as of compare",
			"report takes a file of records or two operands, got %d", len(ops))
	default:
		c, err = recorded(e, ops, wanted)
	}
	if err != nil {
		return err
	}
	title := cmp.Or(cfg.title, c.Title())
	if cfg.plot != "" {
		drawn, err := c.Plot(title)
		if err != nil {
			return err
		}
		if err := e.Write(durable.Place{Name: cfg.plot}, drawn); err != nil {
			return err
		}
	}
	return showCompared(e, &cfg.common, &cfg.Selection, c, title)
}
