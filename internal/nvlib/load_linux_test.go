//go:build linux && (amd64 || arm64) && !android

package nvlib

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	var abs func(int32) int32
	file, err := Load("C", "libc.so.6", map[string]any{"abs": &abs})
	if err != nil {
		t.Fatal(err)
	}
	if abs(-3) != 3 || !filepath.IsAbs(file) || !strings.Contains(filepath.Base(file), "libc") {
		t.Errorf("%d from %s", abs(-3), file)
	}
	if again, err := Load("C", file, map[string]any{"abs": &abs}); err != nil || again != file {
		t.Errorf("%s, %v", again, err)
	}
	for path, want := range map[string]string{
		"":                  "load C: empty path",
		"/proc/self/status": "load C: ",
		"/nowhere/libc.so":  "load C: ",
		"libc.so.6":         "load C: libc.so.6 has no nothing_of_that_name",
	} {
		var f func()
		if _, err := Load("C", path, map[string]any{"nothing_of_that_name": &f}); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", path, err)
		}
	}
	Preload(filepath.Join(t.TempDir(), "*.so")) // nothing there is no error
}
