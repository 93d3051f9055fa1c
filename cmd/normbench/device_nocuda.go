//go:build !cuda

package main

import (
	"errors"

	"normbench/internal/hint"
	"normbench/kernels"
)

// haveCUDA says whether this build can drive GPUs.
const haveCUDA = false

var errNoCUDA = errors.New("this normbench was built without CUDA")

func openCUDA(*kernels.Registry, int) (kernels.Device, error) {
	return nil, hint.With(errNoCUDA, "build it with `make cuda`, or use --device cpu")
}

func gpus() (int, error) { return 0, errNoCUDA }
