package main

import (
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/nvrtc"
	"normbench/lab"
)

func compileHelperCommand(e *env) *cli.Command {
	x := &common{}
	return e.command(&cli.Command{
		Name:      lab.HelperCommand,
		Hidden:    true,
		Usage:     "compile CUDA sources for another normbench, by JSON on standard input and output",
		ArgsUsage: "NVRTC",
	}, x, func() error {
		if len(x.operands) != 1 {
			return hint.Errorf("normbench starts it by itself", "%s takes the file of NVRTC",
				lab.HelperCommand)
		}
		signal.Ignore(os.Interrupt) // the parent decides, and ends the input
		e.Started()
		return nvrtc.ServeHelper(e.stdin, e.out, x.operands[0])
	})
}
