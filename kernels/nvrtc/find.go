package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

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

var runtimeVersion = regexp.MustCompile(`(?m)^#define\s+CUDART_VERSION\s+(\d+)\d{3}\s`)

// withHeaders is folders, and where none has CUDA's headers those of a toolkit or of wheels of the
// same major version, with CCCL's (CUB) beside them.
func withHeaders(folders []string, major int) []string {
	has := func(dir string) bool { _, err := os.Stat(filepath.Join(dir, "cuda_bf16.h")); return err == nil }
	if slices.ContainsFunc(folders, has) {
		return folders
	}
	for _, dir := range nvlib.Headers() {
		text, err := os.ReadFile(filepath.Join(dir, "cuda_runtime_api.h"))
		m := runtimeVersion.FindSubmatch(text)
		if err != nil || m == nil || string(m[1]) != fmt.Sprint(major) || !has(dir) {
			continue
		}
		return append(folders, dir, filepath.Join(dir, "cccl"), filepath.Join(dir, "../../cuda_cccl/include"))
	}
	return folders
}
