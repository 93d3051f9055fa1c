//go:build linux && (amd64 || arm64) && !android

package nvlib

import (
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

func TestLoadFindsFunctionsOrSaysWhichIsMissing(t *testing.T) {
	var abs func(int32) int32
	file, err := Load("C", "libc.so.6", map[string]any{"abs": &abs})
	assert.NoError(t, err)
	assert.That(t, abs(-3) == 3 && filepath.IsAbs(file) &&
		strings.Contains(filepath.Base(file), "libc"), "%d from %s", abs(-3), file)
	again, err := Load("C", file, map[string]any{"abs": &abs})
	assert.That(t, err == nil && again == file, "%s, %v", again, err)
	for path, want := range map[string]string{
		"":                  "load C: empty path",
		"/proc/self/status": "load C: ",
		"/nowhere/libc.so":  "load C: ",
		"libc.so.6":         "load C: libc.so.6 has no nothing_of_that_name",
	} {
		var f func()
		_, err := Load("C", path, map[string]any{"nothing_of_that_name": &f})
		assert.That(t, err != nil && strings.HasPrefix(err.Error(), want) &&
			!strings.Contains(err.Error(), "\n"), "%q: %v", path, err)
	}
	Preload(filepath.Join(t.TempDir(), "*.so")) // nothing there is no error
}
