package main

import (
	"os"
	"os/signal"

	"normbench/internal/hint"
	"normbench/kernels/nvrtc"
	"normbench/lab"
)

func compileHelperCommand() *command {
	c := &command{
		common: &common{},
		path:   lab.HelperCommand,
		hidden: true,
		usage:  "compile CUDA sources for another normbench, by JSON on standard input and output",
		args:   "NVRTC",
		examples: "compile-helper libnvrtc.so.13\n" +
			"compile-helper /usr/local/cuda/lib64/libnvrtc.so",
	}
	c.run = func(e *env) error {
		if len(c.operands) != 1 {
			return hint.Errorf("normbench starts it by itself",
				"%s takes the file of NVRTC", lab.HelperCommand)
		}
		signal.Ignore(os.Interrupt) // the parent decides, and ends the input
		e.Started()
		return nvrtc.ServeHelper(e.stdin, e.out, c.operands[0])
	}
	return c
}
