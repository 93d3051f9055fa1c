// Package local finds and opens the devices of this machine by the names that people give them: its cpu and, where
// this build can drive them, its GPUs. It also knows cards that are not there.
package local

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/launchmap"
)

// isNamed says whether a name is a device's, in any case and spelling: its own, its ID, or that of its
// folder of results.
func isNamed(name string, d kernels.DeviceInfo) bool {
	spelled := kernels.Slug(strings.TrimPrefix(name, "results/"))
	return spelled != "" && (spelled == kernels.Slug(d.Name) || spelled == kernels.Slug(d.ID))
}

// OpenCPU opens this machine's cpu.
func OpenCPU(r *kernels.Registry) (kernels.Device, error) { return cpu.Open(r) }

// IsCPU says whether a device is this machine's cpu, which no worker drives.
func IsCPU(d kernels.Device) bool {
	_, ok := d.(*cpu.Device)
	return ok
}

// EachGPU opens this machine's GPUs one by one, and tells the names that --device takes and what they are.
func EachGPU(r *kernels.Registry, each func(name string, d kernels.DeviceInfo, err error)) error {
	n, err := CountGPUs()
	for i := range n {
		name := fmt.Sprintf("cuda:%d", i)
		d, err := OpenGPU(r, i, 0)
		if err != nil {
			each(name, kernels.DeviceInfo{}, err)
			continue
		}
		each(name, d.Info(), nil)
		d.Close()
	}
	return err
}

// Resolve returns what --device names: cpu or cuda:N where it is the name of a device of this machine, else the
// name itself.
func Resolve(r *kernels.Registry, name string) string {
	lower := strings.ToLower(name)
	switch first, _, _ := strings.Cut(lower, ":"); {
	case name == "" || first == "replay":
		return name
	case lower == "auto" || lower == "cpu" || strings.HasPrefix(lower, "cuda"):
		return lower
	}
	if d, err := cpu.Open(r); err == nil && isNamed(name, d.Info()) {
		return "cpu"
	}
	here := name
	EachGPU(r, func(n string, d kernels.DeviceInfo, err error) { //nolint:errcheck // then there are none
		if here == name && err == nil && isNamed(name, d) {
			here = n
		}
	})
	return here
}

// Known returns the figures of a device that need not be there: one of this machine, one of public figures, or a
// .json file of a card's. It takes every name that `normbench list devices` prints.
func Known(r *kernels.Registry, name string) (kernels.DeviceInfo, error) {
	if filepath.Ext(name) == ".json" {
		return launchmap.ReadDevice(name)
	}
	keys := []string{"cpu"}
	key := strings.ReplaceAll(kernels.Slug(name), "-", "")
	for _, k := range launchmap.KnownDevices() {
		if k.Key == key || isNamed(name, k.DeviceInfo) {
			return k.DeviceInfo, nil
		}
		keys = append(keys, k.Key)
	}
	switch here := Resolve(r, name); {
	case here == "cpu":
		d, err := cpu.Open(r)
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		return d.Info(), nil
	case strings.HasPrefix(here, "cuda"):
		n, err := Ordinal(here)
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		d, err := OpenGPU(r, n, 0)
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		defer d.Close()
		return d.Info(), nil
	}
	return kernels.DeviceInfo{}, hint.Errorf(fmt.Sprintf("use %s, a name that `normbench list devices` "+
		"prints, or a .json file of another card's figures", strings.Join(keys, ", ")), "unknown device %q", name)
}

// Ordinal reads cuda or cuda:N.
func Ordinal(name string) (int, error) {
	rest, ok := strings.CutPrefix(name, "cuda")
	if ok && rest == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(rest, ":")); ok && strings.HasPrefix(rest,
		":") && err == nil && n >= 0 {
		return n, nil
	}
	return 0, hint.Errorf("use auto, cpu, cuda or cuda:N; `normbench list devices` shows what is there",
		"unknown device %q", name)
}

// ShareCompilers returns what one of n workers on this machine has in its environment, so that their compilers share
// the cores.
func ShareCompilers(n int) (string, error) {
	all, err := nvrtc.Compilers()
	return fmt.Sprintf("%s=%d", nvrtc.CompilersVariable, (all+n-1)/n), err
}
