package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/rule"
	"normbench/report"
	"normbench/tune/ref"
)

func (e *env) lintCommand() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "find faults in a tuned table: unknown, refused, unproven, stale",
		ArgsUsage: "FILE",
		Description: "Prints one line per finding and exits 1 if there are any: families and knobs that do not exist, configs that the\n" +
			"device or family refuses, in a map anywhere in their cell, kernel sources that have changed since.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "device", Category: catWhere, Usage: "check the file for " + knownDevices, DefaultText: "the file's own"},
			kernelsFlag,
			formatFlag,
		},
		Action: e.lint,
	}
}

func (e *env) lint(c *cli.Context) error {
	format := c.String("format")
	ops := operands(c)
	if len(ops) != 1 {
		return hint.Errorf("`normbench lint results/nvidia-h200/tuned.json`, for one", "lint takes one file, got %d", len(ops))
	}
	var d kernels.DeviceInfo
	var err error
	if c.IsSet("device") {
		if d, err = e.Known(c.String("device")); err != nil {
			return err
		}
	}
	t, err := ref.Read(ops[0])
	if err != nil {
		return err
	}
	if !c.IsSet("device") {
		d = t.Device
		for _, k := range rule.KnownDevices() {
			if k.ID == d.ID { // what is written by hand says less
				d = k.DeviceInfo
			}
		}
	}
	rows := newTable("", "file", "finding")
	for _, text := range t.Lint(e.Registry, d, families.NewIdentity(e.Registry, d.Kind).Stale) {
		rows.Rows = append(rows.Rows, []string{ops[0], console.OneLine(text)})
		if format == "text" {
			fmt.Fprintf(e.out, "%s: %s\n", ops[0], console.OneLine(text))
		}
	}
	if format != "text" {
		if err := report.RenderTable(e.out, rows, format); err != nil {
			return err
		}
	}
	if n := len(rows.Rows); n > 0 {
		e.Notef("%s in %s", console.Count(n, "finding"), ops[0])
		return &coded{code: exitGate}
	}
	if format == "text" {
		fmt.Fprintf(e.out, "%s: no findings\n", ops[0])
	}
	return nil
}
