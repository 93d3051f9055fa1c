// Package nvlib finds NVIDIA's user-space libraries and loads them at run time, without cgo:
// their sonames differ between CUDA versions (libnvrtc.so.11.2, .12, .13), so a program that
// links one runs with that one only, and not at all where there is none.
package nvlib

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A LibraryQuery says what Find looks for.
type LibraryQuery struct {
	Name     string   // as messages have it: "NVRTC"
	Variable string   // the environment variable that may name a file: "NORMBENCH_NVRTC"
	Sonames  []string // the best first
	Folders  []string // patterns of where a CUDA toolkit keeps it, below its root
}

// wheel is the pattern of the lib folder of an NVIDIA wheel: nvidia/cuda_nvrtc/lib up to CUDA 12,
// nvidia/cu13/lib from then on.
const wheel = "nvidia/*/lib"

// Find opens a library by the first name or file that open accepts. It tries, in this order,
//
//  1. the file that the variable names, and nothing else if it is set,
//  2. the sonames through the dynamic loader,
//  3. CUDA toolkits: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*, /opt/cuda,
//  4. the nvidia/*/lib folders of Python wheels: beside this program, $VIRTUAL_ENV,
//     $CONDA_PREFIX, the python3 on PATH, the usual site-packages, and where python3 says that it
//     imports from.
//
// The error is one line and names these places.
func Find[T any](l LibraryQuery, open func(path string) (T, error)) (T, error) {
	var none T
	if file := os.Getenv(l.Variable); file != "" {
		t, err := open(file)
		if err != nil {
			return none, fmt.Errorf("%s: %w", l.Variable, err)
		}
		return t, nil
	}
	for _, name := range l.Sonames {
		if t, err := open(name); err == nil {
			return t, nil
		}
	}
	var broken error // a library that is there but does not load says more than "not found"
	// The last place takes a process to find.
	for _, place := range []func() []string{
		func() []string { return patternsBelow(toolkits(), l.Folders...) },
		func() []string { return patternsBelow(sitePackages(), wheel) },
		func() []string { return patternsBelow(askPython(), wheel) }} {
		dirs := place()
		for _, name := range l.Sonames {
			for _, dir := range dirs {
				for _, file := range Glob(filepath.Join(dir, name)) {
					t, err := open(file)
					if err == nil {
						return t, nil
					}
					broken = err
				}
			}
		}
	}
	if broken != nil {
		return none, broken
	}
	if runtime.GOOS != "linux" {
		return none, fmt.Errorf("%s is not loaded on %s, use linux", l.Name, runtime.GOOS)
	}
	return none, fmt.Errorf("looked for %s in the loader's path, CUDA toolkits and the nvidia wheels "+
		"of Python", strings.Join(l.Sonames, ", "))
}

// Program finds a program of CUDA: the file that an environment variable names, the one in PATH, a
// toolkit's, or that of Python's wheels.
func Program(variable, name string) (string, error) {
	if file := os.Getenv(variable); file != "" {
		path, err := exec.LookPath(file)
		if err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, place := range []func() []string{
		func() []string { return patternsBelow(toolkits(), "bin") },
		func() []string { return patternsBelow(sitePackages(), "nvidia/*/bin") },
		func() []string { return patternsBelow(askPython(), "nvidia/*/bin") }} {
		for _, dir := range place() {
			for _, file := range Glob(filepath.Join(dir, name)) {
				if path, err := exec.LookPath(file); err == nil {
					return path, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no %s in PATH, CUDA toolkits and the nvidia wheels of Python", name)
}

// patternsBelow joins each folder with each pattern.
func patternsBelow(folders []string, patterns ...string) (all []string) {
	for _, folder := range folders {
		for _, p := range patterns {
			all = append(all, filepath.Join(folder, p))
		}
	}
	return all
}

// toolkits lists patterns of the roots of CUDA toolkits.
func toolkits() []string {
	return slices.DeleteFunc([]string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda",
		"/usr/local/cuda-*", "/opt/cuda"}, func(root string) bool { return root == "" })
}

// Headers lists the folders of CUDA's headers, of toolkits and of Python's wheels, in the order of Find.
func Headers() (dirs []string) {
	python := slices.Concat(sitePackages(), askPython())
	for _, p := range append(patternsBelow(toolkits(), "include"),
		patternsBelow(python, "nvidia/cu*/include", "nvidia/cuda_runtime/include")...) {
		dirs = append(dirs, Glob(p)...)
	}
	return dirs
}

// sitePackages lists patterns of folders in which Python packages are installed.
func sitePackages() []string {
	var roots []string
	if program, err := os.Executable(); err == nil { // pip puts NVRTC beside a wheel's
		roots = append(roots, filepath.Dir(filepath.Dir(program)))
	}
	for _, env := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(env); root != "" {
			roots = append(roots, root)
		}
	}
	if python, err := exec.LookPath("python3"); err == nil {
		roots = append(roots, filepath.Dir(filepath.Dir(python))) // a link in a virtual environment: not followed yet
		if real, err := filepath.EvalSymlinks(python); err == nil {
			roots = append(roots, filepath.Dir(filepath.Dir(real)))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	roots = append(roots, "/usr/local", "/usr", "/opt/conda", "/opt/venv", "/opt/*/.venv", "/opt/*/venv", "/opt/*")
	return append(patternsBelow(roots, "lib/python3*/site-packages", "lib/python3*/dist-packages"),
		"/usr/lib/python3/dist-packages")
}

// Python returns the python of the virtual environment that the program is installed in, "" if it is in
// none or another one is active.
func Python() string {
	program, err := os.Executable()
	if err != nil || os.Getenv("VIRTUAL_ENV") != "" {
		return ""
	}
	bin := filepath.Dir(program)
	if _, err := os.Stat(filepath.Join(filepath.Dir(bin), "pyvenv.cfg")); err != nil {
		return ""
	}
	return filepath.Join(bin, "python3")
}

// askPython asks python3 for its import path; nil if there is none.
func askPython() []string {
	out, err := exec.Command("python3", "-c", `import sys; print("\n".join(sys.path))`).Output()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(dir string) bool {
		return !filepath.IsAbs(dir)
	})
}

// Glob lists the files that match a pattern, the last in the order of names first, so that cuda-13.0
// comes before cuda-12.9. It lists none for a broken pattern, which a folder's name may make.
func Glob(pattern string) []string {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	slices.Reverse(files)
	return files
}
