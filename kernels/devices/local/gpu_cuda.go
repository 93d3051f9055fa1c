//go:build cuda

package local

import (
	"fmt"
	"time"

	"normbench/kernels"
	"normbench/kernels/devices/cuda"
	"normbench/kernels/devices/cuda/driver"
)

// HaveCUDA says whether this build can drive GPUs.
const HaveCUDA = true

// OpenGPU opens GPU n in this process, of which a step may take so long; 0 for any time. helper is the command that
// compiles in a process of its own; without one this process compiles.
func OpenGPU(r *kernels.Registry, n int, step time.Duration, helper ...string) (kernels.Device, error) {
	return cuda.Open(r, n, step, helper...)
}

// CountGPUs says how many GPUs the driver offers, or why none.
func CountGPUs() (int, error) {
	n, err := driver.Count()
	if err != nil {
		return 0, fmt.Errorf("no GPU: %w", err)
	}
	return n, nil
}
