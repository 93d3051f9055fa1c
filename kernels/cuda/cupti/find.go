//go:build cuda && cgo && linux && (amd64 || arm64)

package cupti

import (
	"fmt"

	"normbench/internal/nvlib"
)

// where CUPTI is: in toolkits in a folder of its own. It runs with drivers of its age and newer
// ones, and with older ones of the same CUDA major version; load cannot tell, Start can.
var where = nvlib.Library{
	Name: "CUPTI", Variable: "NORMBENCH_CUPTI",
	Sonames: []string{"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"},
	Folders: []string{"extras/CUPTI/lib64", "targets/*/lib", "lib64"},
}

// find loads CUPTI: the file named by the environment variable NORMBENCH_CUPTI, or where
// [nvlib.Find] looks.
func find(load func(path string) (*Tracer, error)) (*Tracer, error) {
	t, err := nvlib.Find(where, load)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return t, nil
}
