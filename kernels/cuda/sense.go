//go:build cuda

package cuda

import (
	"context"

	"normbench/kernels"
	"normbench/kernels/cuda/nvml"
)

// Sense implements kernels.Sensor with NVML, which only reads. Without NVML nothing
// is known, and nothing is held against the device.
func (d *Device) Sense(context.Context) (kernels.Reading, error) {
	if d.monitor == nil {
		return kernels.Reading{}, nil
	}
	return d.monitor.Sample()
}

// Beside implements kernels.Neighbour.
func (d *Device) Beside(pids ...int) {
	if d.monitor != nil {
		d.monitor.Beside(pids...)
	}
}

// watch opens NVML for the GPU, if it is there.
func (d *Device) watch() {
	m, err := nvml.Open(d.info.UUID)
	if err != nil {
		return
	}
	d.monitor = m
	d.info.DriverVersion = m.DriverVersion()
}
