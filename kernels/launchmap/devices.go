package launchmap

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
)

//go:embed devices.json
var devices []byte

// A KnownDevice is a GPU whose public figures are in devices.json, so that commands can reason about it
// without having it. Shared memory per block and registers are those of its compute capability (CUDA C++
// Programming Guide).
type KnownDevice struct {
	Key string // h100, as --device takes it
	kernels.DeviceInfo
}

// KnownDevices are those of devices.json.
var KnownDevices = sync.OnceValue(func() (all []KnownDevice) {
	var known []deviceFile
	if err := json.Unmarshal(devices, &known); err != nil {
		panic(err) // the file is embedded, and a test reads it
	}
	for _, k := range known {
		all = append(all, KnownDevice{k.Key, kernels.DeviceInfo(k.deviceJSON)})
	}
	return all
})

type deviceJSON kernels.DeviceInfo // without the field names of before

// A deviceFile is a device of devices.json, or of a user's file.
type deviceFile struct {
	deviceJSON
	Key, Source string
}

// deviceExample is a file that ReadDevice accepts.
const deviceExample = `{"name": "NVIDIA L4", "arch": "sm_89", "sms": 58, ` +
	`"cache_bytes": 50331648, "shared_per_block": 101376}`

// ReadDevice reads the figures of a GPU from a file with the fields of devices.json. Architecture,
// SMs, L2 and the most dynamic shared memory of a CTA, in bytes, must be there, as launch rules and
// families ask for them.
func ReadDevice(path string) (kernels.DeviceInfo, error) {
	var file deviceFile
	data, err := textfile.Read(path, textfile.Small)
	if err == nil {
		r := json.NewDecoder(bytes.NewReader(data))
		r.DisallowUnknownFields()
		err = r.Decode(&file)
	}
	d := kernels.DeviceInfo(file.deviceJSON)
	d.Kind, d.ID = cmp.Or(d.Kind, kernels.KindCUDA), cmp.Or(d.ID, kernels.Slug(d.Name), "unnamed")
	d.Name, d.RegsPerSM = cmp.Or(d.Name, d.ID), cmp.Or(d.RegsPerSM, 65536)
	switch {
	case err != nil:
	case d.Kind != kernels.KindCUDA:
		err = fmt.Errorf("its kind is %q, not cuda", d.Kind)
	case d.ArchNumber() < 1 || min(int64(d.SMs), d.CacheBytes, int64(d.SharedPerBlock)) < 1:
		err = fmt.Errorf("it needs an arch such as sm_89, and sms, cache_bytes and shared_per_block above 0")
	default:
		err = d.Validate()
	}
	if err != nil {
		help := "write `" + deviceExample + "`"
		return kernels.DeviceInfo{}, hint.Errorf(help, "device file %s: %w", path, err)
	}
	return d, nil
}
