//go:build !cuda

package local

import (
	"errors"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
)

// HaveCUDA says whether this build can drive GPUs.
const HaveCUDA = false

var errNoCUDA = errors.New("this normbench was built without CUDA")

// OpenGPU says how to have CUDA.
func OpenGPU(*kernels.Registry, int, time.Duration, ...string) (kernels.Device, error) {
	return nil, hint.With(errNoCUDA, "build it with `make cuda`, or use --device cpu")
}

// CountGPUs says why there is none.
func CountGPUs() (int, error) { return 0, errNoCUDA }
