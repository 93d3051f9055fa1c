package manifest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
)

// A Loader has what the kernels of a folder are compiled with, beside what its manifests name, and what a command
// asks of them.
type Loader struct {
	Include []string // folders of headers, before those of $NORMBENCH_INCLUDE
	Python  string   // that has Triton, as triton.Python reads it
	// Named, if set, says whether a command names a family. Where it names some, others whose Python cannot be read,
	// such as those of a package that is not there, are left out: Leave is told why.
	Named func(family string) bool
	Leave func(family string, why error)
	// leaveManifest, if set, is told of a manifest that cannot be loaded, in place of an error.
	leaveManifest func(manifest string, why error)
}

// AddFolders adds folders of headers, those of --include, which must be there.
func (from *Loader) AddFolders(folders ...string) error {
	for _, folder := range folders {
		abs, err := filepath.Abs(folder)
		if st, bad := os.Stat(folder); err != nil || bad != nil || !st.IsDir() ||
			strings.ContainsRune(folder, filepath.ListSeparator) {
			return hint.Errorf("name a folder of headers",
				"--include %s is no folder, or has a %c in its name", folder, filepath.ListSeparator)
		}
		from.Include = append(from.Include, abs)
	}
	return nil
}

// CheckEnvironment refuses what the environment says of compiling where it means nothing.
func CheckEnvironment() error {
	for _, folder := range nvrtc.UserFolders() {
		if st, err := os.Stat(folder); err != nil || !st.IsDir() {
			return hint.Errorf("point it at folders of headers, or unset it", "%s: %s is no folder",
				nvrtc.IncludeVariable, folder)
		}
	}
	_, err := nvrtc.Compilers()
	return err
}

// Env returns what another process, such as a worker, compiles the same kernels with, for its environment.
func (from *Loader) Env() (env []string) {
	if len(from.Include) > 0 {
		folders := slices.Concat(from.Include, nvrtc.UserFolders())
		env = append(env, nvrtc.IncludeVariable+"="+strings.Join(folders, string(filepath.ListSeparator)))
	}
	if from.Python != "" {
		env = append(env, triton.PythonVariable+"="+from.Python)
	}
	return env
}

// Program returns the Python that has Triton.
func (from *Loader) Program() string { return triton.Python(from.Python) }

// UsesPython says whether any of a user's families is Triton's.
func UsesPython(fs []*kernels.Family) bool {
	python := func(name string) bool { return (nvrtc.Source{Name: name}).IsPython() }
	return slices.ContainsFunc(fs, func(f *kernels.Family) bool { return slices.ContainsFunc(f.Files, python) })
}
