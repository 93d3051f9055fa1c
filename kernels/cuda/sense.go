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
	r, err := d.monitor.Sample()
	if err != nil {
		return kernels.Reading{}, err
	}
	reading := kernels.Reading{
		ClockMHz:     r.SMClockMHz,
		MaxClockMHz:  d.static.MaxSMClockMHz,
		MemClockMHz:  r.MemClockMHz,
		PowerW:       r.PowerW,
		TemperatureC: r.TemperatureC,
		Throttle:     r.Throttling,
		Sliced:       r.MIG,
		Confidential: d.static.Confidential,
		ECC:          d.static.ECC,
	}
	for _, p := range r.OtherProcesses {
		reading.Others = append(reading.Others, p.String())
	}
	return reading, nil
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
	d.monitor, d.static = m, m.Static()
	d.info.DriverVersion = d.static.DriverVersion
}
