package main

import (
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/nvrtc"
	"normbench/lab"
)

func (e *env) compileHelperCommand() *cli.Command {
	return &cli.Command{
		Name:      lab.HelperCommand,
		Hidden:    true,
		Usage:     "compile CUDA sources for another normbench, by JSON on standard input and output",
		ArgsUsage: "NVRTC",
		Action: func(c *cli.Context) error {
			ops := operands(c)
			if len(ops) != 1 {
				return hint.Errorf("normbench starts it by itself", "%s takes the file of NVRTC", lab.HelperCommand)
			}
			signal.Ignore(os.Interrupt) // the parent decides, and ends the input
			e.Started()
			return nvrtc.ServeHelper(e.stdin, e.out, ops[0])
		},
	}
}
