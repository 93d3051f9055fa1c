//go:build linux && (amd64 || arm64) && !android

package nvlib

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"
)

// Load loads a library from a file, or from a soname that the dynamic loader resolves, and sets
// functions, which are pointers to variables of function types by their symbols. It returns the file
// that was loaded. name is the library's in errors, which are one line. A loaded library stays loaded
// unless a symbol is missing.
func Load(name, path string, functions map[string]any) (file string, err error) {
	if path == "" {
		return "", fmt.Errorf("load %s: empty path", name)
	}
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return "", fmt.Errorf("load %s: %s", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	for symbol, f := range functions {
		at, err := purego.Dlsym(h, symbol)
		if err != nil {
			purego.Dlclose(h) //nolint:errcheck // nothing to do about it
			return "", fmt.Errorf("load %s: %s has no %s", name, path, symbol)
		}
		purego.RegisterFunc(f, at)
	}
	if !filepath.IsAbs(path) {
		if file := mappedPath(filepath.Base(path)); file != "" {
			return file, nil
		}
	}
	return path, nil
}

// Preload loads the first file that matches a pattern and can be loaded: a library that another will ask
// for by its soname alone.
func Preload(pattern string) {
	for _, file := range Glob(pattern) {
		if _, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
			return
		}
	}
}

// mappedPath returns the absolute path of a library of this soname in the process, or "".
func mappedPath(soname string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	// The mapped file is what a link led to: libnvrtc.so.12 may be libnvrtc.so.12.9.86.
	stem, _, _ := strings.Cut(soname, ".so")
	for _, prefix := range []string{soname, stem + ".so."} {
		for line := range strings.Lines(string(maps)) {
			i := max(strings.IndexByte(line, '/'), 0)
			if strings.HasPrefix(filepath.Base(line[i:]), prefix) {
				return strings.TrimSpace(line[i:])
			}
		}
	}
	return ""
}
