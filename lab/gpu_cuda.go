//go:build cuda

package lab

import (
	"fmt"
	"os"
	"time"

	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/cuda/driver"
)

// HaveCUDA says whether this build can drive GPUs.
const HaveCUDA = true

// OpenGPU opens GPU n in this process, of which a step may take so long; 0 for any time.
func OpenGPU(r *kernels.Registry, n int, step time.Duration) (kernels.Device, error) {
	return cuda.Open(r, n, step, helper()...)
}

// helper is the command line that runs the compile helper in this very program, also where
// its file has been replaced since it started.
func helper() []string {
	self := "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		if self, err = os.Executable(); err != nil {
			return nil
		}
	}
	return []string{self, HelperCommand}
}

// CountGPUs says how many GPUs the driver offers, or why none.
func CountGPUs() (int, error) {
	n, err := driver.Count()
	if err != nil {
		return 0, fmt.Errorf("no GPU: %w", err)
	}
	return n, nil
}
