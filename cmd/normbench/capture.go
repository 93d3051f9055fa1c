package main

import (
	"math"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/lab"
)

func captureCommand(e *env) *cli.Command {
	x, c := &commonFlags{hosts: true}, &lab.CaptureTask{}
	x.files = []*string{&c.Out}
	return e.command(&cli.Command{
		Name:      "capture",
		Usage:     "run a PyTorch program, and write the norms that it calls as problems",
		ArgsUsage: "-- PROGRAM [ARGUMENT ...]",
		Description: "The program runs as it is, under hooks on PyTorch's modules and functions. Each norm " +
			"becomes a problem with its calls, forward and backward. torchrun's ranks are merged. A step " +
			"is one of the program's optimizer. The file is for --shapes; docs/models.md has more.",
		Flags: []cli.Flag{
			&cli.StringFlag{Destination: &c.Out, Name: "out", Category: catOutput,
				Usage: "write the problems to `FILE`.yaml", Value: "captured.yaml"},
			&cli.IntFlag{Destination: &c.Steps, Name: "steps", DefaultText: "all that it does",
				Usage:  "end the program after so many steps",
				Action: checkRange("steps", 1, math.MaxInt32, "use 1 or more")},
		},
	}, x, func() error {
		if len(x.operands) == 0 {
			return hint.Errorf("`normbench capture --out shapes.yaml -- python train.py`, for one",
				"capture takes a program to run")
		}
		c.Command = x.operands
		c.Stdin, c.Stdout, c.Stderr = e.stdin, e.Raw.Writer, e.Err
		return e.Capture(c)
	})
}
