package lab

import (
	"fmt"
	"path/filepath"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/launchmap"
)

// isNamed says whether a name is a device's, in any case and spelling: its own, its ID, or that of its
// folder of results.
func isNamed(name string, d kernels.DeviceInfo) bool {
	spelled := kernels.Slug(strings.TrimPrefix(name, "results/"))
	return spelled != "" && (spelled == kernels.Slug(d.Name) || spelled == kernels.Slug(d.ID))
}

// gpusHere are this machine's GPUs, by the names that --device takes.
func (l *Lab) gpusHere(each func(name string, d kernels.DeviceInfo, err error)) error {
	n, err := CountGPUs()
	for i := range n {
		name := fmt.Sprintf("cuda:%d", i)
		d, err := OpenGPU(l.Registry, i, 0)
		if err != nil {
			each(name, kernels.DeviceInfo{}, err)
			continue
		}
		each(name, d.Info(), nil)
		d.Close()
	}
	return err
}

// deviceHere resolves --device: cpu or cuda:N where it is the name of a device of this
// machine, else itself.
func (l *Lab) deviceHere(name string) string {
	lower := strings.ToLower(name)
	switch first, _, _ := strings.Cut(lower, ":"); {
	case name == "" || first == "replay":
		return name
	case lower == "auto" || lower == "cpu" || strings.HasPrefix(lower, "cuda"):
		return lower
	}
	if d, err := cpu.Open(l.Registry); err == nil && isNamed(name, d.Info()) {
		return "cpu"
	}
	here := name
	l.gpusHere(func(n string, d kernels.DeviceInfo, err error) { //nolint:errcheck // then there are none
		if here == name && err == nil && isNamed(name, d) {
			here = n
		}
	})
	return here
}

// KnownDevice is a device that need not be there: one of this machine, one of public figures, or a
// .json file of a card's. It has every name that DeviceTable prints.
func (l *Lab) KnownDevice(name string) (kernels.DeviceInfo, error) {
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
	switch here := l.deviceHere(name); {
	case here == "cpu":
		d, err := cpu.Open(l.Registry)
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		return d.Info(), nil
	case strings.HasPrefix(here, "cuda"):
		n, err := Ordinal(here)
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		d, err := OpenGPU(l.Registry, n, 0)
		if err != nil {
			return kernels.DeviceInfo{}, err
		}
		defer d.Close()
		return d.Info(), nil
	}
	return kernels.DeviceInfo{}, hint.Errorf(fmt.Sprintf("use %s, a name that `normbench list devices` "+
		"prints, or a .json file of another card's figures", strings.Join(keys, ", ")), "unknown device %q", name)
}
