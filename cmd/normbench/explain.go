package main

import (
	"github.com/urfave/cli/v2"

	"normbench/report"
)

func explainCommand(e *env) *cli.Command {
	x := &commonFlags{only: "one shape or problem"}
	var tuned, device string
	return e.command(&cli.Command{
		Name:      "explain",
		Usage:     "show what the default or a tuned table picks for a shape, and why",
		ArgsUsage: "SHAPE",
		Description: "SHAPE is MxN, for every op and pass, or a problem such as " +
			"rmsnorm/bwd/4096x8192/bf16. The answer says how good the match is: exact (an entry " +
			"of its own), cell (of a map), moved (the nearest cell's, as its own is refused on " +
			"this device), base (the analytic base's config for the cell), outside or default. It " +
			"says which map answers, what the neighbours run, and draws the cells around the " +
			"pick. An entry of another device's table is no match. csv and json have the launches " +
			"as data: grid, block, shared memory, cluster, defines, and arguments by name in the " +
			"kernel's order.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Destination: &tuned, Name: "tuned", Category: catWhat,
				Usage: "ask this `FILE` of sweep, map fill or map learn instead of the program's own map"},
			&cli.StringFlag{Destination: &device, Name: "device", Category: catWhere,
				Usage: "launch on " + knownDevices, Value: "h200"},
			x.kernelsFlag(),
		}, x.tableFlags()...),
	}, x, func() error {
		d, err := e.KnownDevice(device)
		if err != nil {
			return err
		}
		table, err := e.Explain(tuned, x.operands[0], d)
		if err != nil {
			return err
		}
		return report.RenderTable(e.out, table, x.format)
	})
}

// knownDevices is the help of flags that take one.
const knownDevices = "`DEVICE`: cpu, h200, another name that list devices prints, or a .json file of a " +
	"card's figures"
