//go:build cuda

package main

import (
	"fmt"

	"normbench/kernels"
	"normbench/kernels/cuda"
	"normbench/kernels/cuda/driver"
)

const haveCUDA = true

// openCUDA opens GPU n in this process.
func openCUDA(r *kernels.Registry, n int) (kernels.Device, error) { return cuda.Open(r, n) }

// gpus says how many GPUs the driver offers, or why none.
func gpus() (int, error) {
	n, err := driver.Count()
	if err != nil {
		return 0, fmt.Errorf("no GPU: %w", err)
	}
	return n, nil
}
