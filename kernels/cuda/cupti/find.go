//go:build cuda && cgo && linux && (amd64 || arm64)

package cupti

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sonames are asked for newest first. CUPTI runs with drivers of its age and newer ones, and with
// older ones of the same CUDA major version; load cannot tell, Start can.
var sonames = []string{"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"}

// find loads CUPTI. It tries, in this order,
//
//  1. the file named by the environment variable NORMBENCH_CUPTI, and nothing else if it is set,
//  2. libcupti.so.13, .12 and .11.8 through the dynamic loader,
//  3. CUDA toolkits: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*, /opt/cuda,
//  4. the nvidia/*/lib folders of Python wheels: $VIRTUAL_ENV, $CONDA_PREFIX, what python3 imports
//     from.
func find(load func(path string) (*Tracer, error)) (*Tracer, error) {
	if file := os.Getenv("NORMBENCH_CUPTI"); file != "" {
		t, err := load(file)
		if err != nil {
			return nil, fmt.Errorf("%w: NORMBENCH_CUPTI: %w", ErrNotFound, err)
		}
		return t, nil
	}
	var broken error // a library that is there but does not load says more than "not found"
	try := func(files []string) *Tracer {
		for _, file := range files {
			t, err := load(file)
			if err == nil {
				return t
			}
			if filepath.IsAbs(file) {
				broken = err
			}
		}
		return nil
	}
	// The last asks Python, whose site-packages can be anywhere, and takes a process.
	for _, places := range []func() []string{func() []string { return nil }, toolkitDirs, environmentDirs, pythonDirs} {
		if t := try(candidates(places())); t != nil {
			return t, nil
		}
	}
	if broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, broken)
	}
	return nil, fmt.Errorf("%w: looked for %s in the loader's path, CUDA toolkits and the nvidia wheels of Python",
		ErrNotFound, strings.Join(sonames, ", "))
}

// candidates are the libraries in folders that match patterns, or the bare sonames without any: the
// newest first, and of folders the last in the order of names, so that cuda-13.0 comes before
// cuda-12.9.
func candidates(dirs []string) []string {
	if dirs == nil {
		return sonames
	}
	var files []string
	for _, name := range sonames {
		for _, dir := range dirs {
			found, err := filepath.Glob(filepath.Join(dir, name))
			if err != nil {
				continue // a folder whose name is a broken pattern
			}
			slices.Reverse(found)
			files = append(files, found...)
		}
	}
	return files
}

func toolkitDirs() []string {
	dirs := []string{}
	for _, root := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"} {
		if root != "" {
			dirs = append(dirs, filepath.Join(root, "extras/CUPTI/lib64"), filepath.Join(root, "targets/*/lib"), filepath.Join(root, "lib64"))
		}
	}
	return dirs
}

func environmentDirs() []string {
	dirs := []string{}
	for _, root := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")} {
		if root != "" {
			dirs = append(dirs, filepath.Join(root, "lib/python3*/site-packages/nvidia/*/lib"))
		}
	}
	return dirs
}

func pythonDirs() []string {
	dirs := []string{}
	out, err := exec.Command("python3", "-c", `import sys; print("\n".join(sys.path))`).Output()
	if err != nil {
		return dirs
	}
	for line := range strings.Lines(string(out)) {
		if dir := strings.TrimSpace(line); filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Join(dir, "nvidia/*/lib"))
		}
	}
	return dirs
}

// mapped returns the absolute path of a library of this soname in the process, or "".
func mapped(name string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		// The mapped file is what a link led to, such as libcupti.so.2025.3.1.
		i := strings.IndexByte(line, '/')
		if i < 0 {
			continue
		}
		file := strings.TrimSpace(line[i:])
		if base := filepath.Base(file); strings.HasPrefix(base, name) || strings.HasPrefix(base, "libcupti.so.20") {
			return file
		}
	}
	return ""
}
