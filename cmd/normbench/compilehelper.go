package main

import (
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"

	"normbench/kernels/compile/nvrtc"
	"normbench/lab"
)

func compileHelperCommand(e *env) *cli.Command {
	x := &commonFlags{only: "the file of NVRTC", hosts: true}
	return e.command(&cli.Command{
		Name:      lab.HelperCommand,
		Hidden:    true,
		Usage:     "compile CUDA sources for another normbench, by JSON on standard input and output",
		ArgsUsage: "NVRTC",
	}, x, func() error {
		signal.Ignore(os.Interrupt) // the parent decides, and ends the input
		e.Started()
		return nvrtc.ServeHelper(e.stdin, e.out, x.operands[0])
	})
}
