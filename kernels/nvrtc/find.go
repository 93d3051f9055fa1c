package nvrtc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sonames are asked for newest first: a newer NVRTC knows more architectures and still
// compiles for all that a driver of its age can run.
var sonames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}

// Find loads NVRTC. It tries, in this order,
//
//  1. the file named by the environment variable NORMBENCH_NVRTC, and nothing else if it is set,
//  2. libnvrtc.so.13, .12 and .11.2 through the dynamic loader,
//  3. CUDA toolkits: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*, /opt/cuda,
//  4. the nvidia/*/lib folders of Python wheels: $VIRTUAL_ENV, $CONDA_PREFIX, the
//     python3 on PATH, and the usual site-packages.
//
// The error is one line, names these places and wraps [ErrNotFound].
func Find() (*Compiler, error) {
	if file := os.Getenv("NORMBENCH_NVRTC"); file != "" {
		c, err := Open(file)
		if err != nil {
			return nil, fmt.Errorf("%w: NORMBENCH_NVRTC: %w", ErrNotFound, err)
		}
		return c, nil
	}
	if !supported {
		_, err := Open("")
		return nil, err
	}
	for _, name := range sonames {
		if c, err := Open(name); err == nil {
			return c, nil
		}
	}
	var broken error // a library that is there but does not load says more than "not found"
	try := func(dirs []string) *Compiler {
		for _, name := range sonames {
			for _, dir := range dirs {
				for _, file := range glob(filepath.Join(dir, name)) {
					c, err := Open(file)
					if err == nil {
						return c
					}
					broken = err
				}
			}
		}
		return nil
	}
	if c := try(toolkitDirs()); c != nil {
		return c, nil
	}
	if c := try(wheelDirs(sitePackages())); c != nil {
		return c, nil
	}
	// Last, because it takes a process: ask Python, whose site-packages can be anywhere.
	if c := try(wheelDirs(askPython())); c != nil {
		return c, nil
	}
	if broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, broken)
	}
	return nil, fmt.Errorf("%w: looked for %s in the loader's path, CUDA toolkits and the nvidia wheels of Python",
		ErrNotFound, strings.Join(sonames, ", "))
}

// toolkitDirs are patterns of folders in which toolkits keep NVRTC.
func toolkitDirs() []string {
	var dirs []string
	for _, root := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"} {
		if root != "" {
			dirs = append(dirs, filepath.Join(root, "lib64"), filepath.Join(root, "targets/*/lib"))
		}
	}
	return dirs
}

// sitePackages are patterns of folders in which Python packages are installed.
func sitePackages() []string {
	var dirs []string
	prefix := func(root string) {
		dirs = append(dirs, filepath.Join(root, "lib/python3*/site-packages"), filepath.Join(root, "lib/python3*/dist-packages"))
	}
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(env); root != "" {
			prefix(root)
		}
	}
	if python, err := exec.LookPath("python3"); err == nil {
		prefix(filepath.Dir(filepath.Dir(python))) // a virtual environment's python3 is a link: do not follow it yet
		if real, err := filepath.EvalSymlinks(python); err == nil {
			prefix(filepath.Dir(filepath.Dir(real)))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		prefix(filepath.Join(home, ".local"))
	}
	for _, root := range []string{"/usr/local", "/usr", "/opt/conda", "/opt/venv", "/opt/*/.venv", "/opt/*/venv", "/opt/*"} {
		prefix(root)
	}
	return append(dirs, "/usr/lib/python3/dist-packages")
}

// wheelDirs are the patterns of the lib folders of NVIDIA's wheels: nvidia/cuda_nvrtc/lib up to
// CUDA 12, nvidia/cu13/lib from then on.
func wheelDirs(site []string) []string {
	var dirs []string
	for _, d := range site {
		dirs = append(dirs, filepath.Join(d, "nvidia/*/lib"))
	}
	return dirs
}

// askPython returns the import path of python3, or nothing.
func askPython() []string {
	out, err := exec.Command("python3", "-c", `import sys; print("\n".join(sys.path))`).Output()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(dir string) bool {
		return !filepath.IsAbs(dir)
	})
}

// glob returns the files that match a pattern, the last in the order of names first, so that
// cuda-13.0 comes before cuda-12.9.
func glob(pattern string) []string {
	files, err := filepath.Glob(pattern)
	if errors.Is(err, filepath.ErrBadPattern) {
		return nil
	}
	slices.Reverse(files)
	return files
}
