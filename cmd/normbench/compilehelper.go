package main

import (
	"os"
	"os/signal"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels/nvrtc"
)

// helperCommand is the name of the subcommand that a CUDA device starts in processes of their
// own, one for each source that it compiles at the same time.
const helperCommand = "compile-helper"

func (e *env) compileHelperCommand() *cli.Command {
	return &cli.Command{
		Name:      helperCommand,
		Hidden:    true,
		Usage:     "compile CUDA sources for another normbench, by JSON on standard input and output",
		ArgsUsage: "NVRTC",
		Action: func(c *cli.Context) error {
			ops := operands(c)
			if len(ops) != 1 {
				return hint.Errorf("normbench starts it by itself", "%s takes the file of NVRTC", helperCommand)
			}
			signal.Ignore(os.Interrupt) // the parent decides, and ends the input
			e.measuring()
			return nvrtc.ServeHelper(e.stdin, e.out, ops[0])
		},
	}
}
