package rule

import (
	_ "embed"
	"encoding/json"
	"errors"
	"sync"

	"normbench/kernels"
)

//go:embed devices.json
var devices []byte

// A KnownDevice is a GPU that can be reasoned about without having it, by public figures.
// Shared memory per block and registers are those of its compute capability (CUDA C++ Programming Guide).
type KnownDevice struct {
	Key string // h100, as --device takes it
	kernels.DeviceInfo
	Source string // of the figures
}

// KnownDevices are those of devices.json.
var KnownDevices = sync.OnceValue(func() []KnownDevice {
	var infos []kernels.DeviceInfo
	var known []struct{ Key, Source string }
	if err := errors.Join(json.Unmarshal(devices, &infos), json.Unmarshal(devices, &known)); err != nil {
		panic(err) // the file is embedded, and a test reads it
	}
	all := make([]KnownDevice, len(infos))
	for i, k := range known {
		all[i] = KnownDevice{k.Key, infos[i], k.Source}
	}
	return all
})
