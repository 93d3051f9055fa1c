package main

import (
	"cmp"

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

func reportCommand() *command {
	cfg := &reportConfig{}
	c := &command{
		common: &cfg.common,
		path:   "report",
		usage: "show recorded times against the stream, over rows, columns or shapes: table, " +
			"plots, page",
		args: "RECORDS...",
		about: `Each operand is an arm, written as for compare: PATH#base, PATH#peers, PATH#FAMILY,
PATH#tuned:FILE, tuned:FILE and so on. A records file or results folder without a # has up to three
arms: the base, our fastest and the fastest peer. The file of a live compare has its two arms. Alone
and without --over, it prints its own table.

A plot over M or N has a panel for each fixed other side with three sizes or more. A plot over shape
has all problems of an op and pass side by side. 100% is the stream, a copy of the same tensors in
the same run. ` + "`normbench bench base --shapes growth-rows --out DIR`" + ` measures the records
for a plot over M.`,
		examples: `report results/nvidia-h200/peers/layernorm-bwd.json.gz --shapes fast-llm
report results/nvidia-h200 --op rmsnorm --shapes quack --over M --html rows.html`,
		run: func(e *env) error { return showReport(e, cfg) },
	}
	c.add(catWhat, "over", &cfg.over, "M or N (the side that grows), or shape (every problem): the "+
		"order of the table and the axis of the plot").only("M", "N", "shape")
	c.addPlot("draw to `FILE`.svg; needs --over")
	c.addHTML()
	c.add(catOutput, "title", &cfg.title, "title of the plot and the page").
		or("the device and the protocol")
	c.addShapes(&cfg.Selection, "all")
	c.addTable()
	return c
}

func showReport(e *env, cfg *reportConfig) error {
	cfg.Given = cfg.given
	over, err := report.AxisOf(cfg.over)
	if err != nil {
		return err
	}
	if cfg.plot != "" && over == nil {
		return hint.Errorf("add --over M, --over N or --over shape",
			"--plot does not know what to go over")
	}
	wanted, err := cfg.Filter()
	if err != nil {
		return err
	}
	var live *report.Live // the only operand, if it is one
	if ops := cfg.operands; len(ops) == 1 && report.IsLive(ops[0]) {
		if live, err = report.ReadLivePart(ops[0], wanted); err != nil {
			return err
		}
	}
	if live != nil && over == nil {
		return cfg.show(e, live.Render, live.Page)
	}
	sides, err := e.Arms(cfg.operands, wanted)
	if err != nil {
		return err
	}
	g := report.Grow(over, sides...)
	if live != nil {
		g.Tell(live.Comparison())
	} else if len(sides) == 2 {
		g.Tell(report.Compare(sides[0], sides[1]))
	}
	return drawReport(e, cfg, g, over, sides)
}

// drawReport draws the plot, writes the page and prints the table.
func drawReport(e *env, cfg *reportConfig, g *report.Growth, over *report.Axis,
	sides []report.Side) error {
	title := cmp.Or(cfg.title, report.TitleOf(sides))
	if cfg.plot != "" {
		drawn, err := g.Plot(title, over)
		if err != nil {
			return err
		}
		if err := e.write(durable.Place{Name: cfg.plot}, drawn); err != nil {
			return err
		}
	}
	return cfg.show(e, g.Render,
		func() *report.Page { return g.Page(title, e.Scope.RunsOf(sides...)) })
}
