package nvrtc

import (
	"fmt"

	"normbench/internal/nvlib"
)

// library is asked for newest first: a newer NVRTC knows more architectures and still
// compiles for all that a driver of its age can run.
var library = nvlib.Library{
	Name: "NVRTC", Variable: "NORMBENCH_NVRTC",
	Sonames: []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"},
	Folders: []string{"lib64", "targets/*/lib"},
}

// Find loads NVRTC: the file named by the environment variable NORMBENCH_NVRTC, or where
// [nvlib.Find] looks, libnvrtc.so.13 before .12 and .11.2.
//
// The error is one line, names these places and wraps [ErrNotFound].
func Find() (*Compiler, error) {
	if !supported {
		_, err := Open("")
		return nil, err
	}
	c, err := nvlib.Find(library, Open)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return c, nil
}
