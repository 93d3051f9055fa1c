package nvlib

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"normbench/internal/assert"
)

var probe = LibraryQuery{Name: "PROBE", Variable: "NORMBENCH_PROBE", Sonames: []string{"libprobe.so.13",
	"libprobe.so.12"},
	Folders: []string{"extras/PROBE/lib64", "targets/*/lib"}}

// A place that comes earlier is tried earlier, and in it the better soname.
func TestEarlierPlaceOfALibraryWins(t *testing.T) {
	home, venv := t.TempDir(), t.TempDir()
	files := []string{
		filepath.Join(home, "extras/PROBE/lib64/libprobe.so.13"),
		filepath.Join(home, "targets/y-linux/lib/libprobe.so.13"),
		filepath.Join(home, "targets/x-linux/lib/libprobe.so.13"),
		filepath.Join(home, "extras/PROBE/lib64/libprobe.so.12"),
		filepath.Join(venv, "lib/python3.12/site-packages/nvidia/cu13/lib/libprobe.so.13"),
	}
	for _, file := range files {
		assert.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		assert.NoError(t, os.WriteFile(file, nil, 0o666))
	}
	for name, value := range map[string]string{"CUDA_HOME": home, "CUDA_PATH": "", "VIRTUAL_ENV": venv,
		"CONDA_PREFIX": "", "NORMBENCH_PROBE": ""} {
		t.Setenv(name, value)
	}
	want := append(slices.Clone(probe.Sonames), files...)
	for good := range len(want) + 1 { // which one loads, none at the end
		var tried []string
		got, err := Find(probe, func(path string) (string, error) {
			tried = append(tried, path)
			if len(tried) == good+1 && good < len(want) {
				return path, nil
			}
			return "", errors.New(path + " does not load")
		})
		if good < len(want) {
			assert.That(t, err == nil && got == want[good], "got %q, %v, want %q", got, err, want[good])
			continue
		}
		// What is there and broken says more than that nothing was found.
		assert.Error(t, err, "libprobe.so.13 does not load")
		tried = slices.DeleteFunc(tried, func(p string) bool { return !slices.Contains(want, p) })
		assert.Same(t, tried, want)
	}
}

// A variable that is set is the only place.
func TestVariableOfALibraryIsItsOnlyPlace(t *testing.T) {
	t.Setenv("NORMBENCH_PROBE", "/nowhere/libprobe.so")
	tried := 0
	_, err := Find(probe, func(path string) (int, error) {
		tried++
		return 0, errors.New("no " + path)
	})
	assert.Error(t, err, "NORMBENCH_PROBE: no /nowhere/libprobe.so")
	assert.Equal(t, tried, 1, "tries")
}
