package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/lab"
	"normbench/report"
	"normbench/tune"
)

func lintCommand(e *env) *cli.Command {
	x := &commonFlags{only: "one file"}
	var device string
	return e.command(&cli.Command{
		Name:      "lint",
		Usage:     "find faults in a tuned table: unknown, refused, unproven, stale",
		ArgsUsage: "FILE",
		Description: "Prints one line per finding and exits 1 if there are any: families and knobs that do " +
			"not exist, configs that the device or family refuses, in a map anywhere in their " +
			"cell, kernel sources that have changed since.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Destination: &device, Name: "device", Category: catWhere,
				Usage: "check the file for " + knownDevices, DefaultText: "the file's own"},
			x.kernelsFlag(),
		}, x.tableFlags()...),
	}, x, func() error { return lint(e, x.operands[0], device, x.format) })
}

func lint(e *env, file, device, format string) error {
	var d kernels.DeviceInfo
	var err error
	if device != "" {
		if d, err = e.KnownDevice(device); err != nil {
			return err
		}
	}
	t, err := tune.Read(file)
	if err != nil {
		return err
	}
	if device == "" {
		d = t.Device
		for _, k := range launchmap.KnownDevices() {
			if k.ID == d.ID { // what is written by hand says less
				d = k.DeviceInfo
			}
		}
	}
	rows := report.New("", "file", "finding")
	rows.Device = d.ID
	for _, text := range t.Lint(e.Registry, d) {
		rows.Rows = append(rows.Rows, []string{file, console.OneLine(text)})
		if format == "text" {
			fmt.Fprintf(e.out, "%s: %s\n", file, console.OneLine(text))
		}
	}
	if format != "text" {
		if err := report.RenderTable(e.out, rows, format); err != nil {
			return err
		}
	}
	if n := len(rows.Rows); n > 0 {
		e.Notef("%s in %s", console.Count(n, "finding"), file)
		return lab.Exit(exitGate, nil)
	}
	if format == "text" {
		fmt.Fprintf(e.out, "%s: no findings\n", file)
	}
	return nil
}
