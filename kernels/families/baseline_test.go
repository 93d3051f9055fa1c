package families

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"normbench/internal/assert"
)

// The kernels of another checkout may be a pull request's: what is no file of a source's size, and
// what a link leads to elsewhere, is refused before it is read.
func TestBaselineRefusesForeignFilesAndLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	dir := filepath.Join(t.TempDir(), "families")
	assert.NoError(t, os.CopyFS(dir, os.DirFS(".")))
	_, err := WithBaseline(New(), dir)
	assert.NoError(t, err, "of this checkout")
	path := filepath.Join(dir, "bwd_coop.cu")
	text := assert.File(t, path)
	for _, x := range []struct {
		name, want string
		put        func() error
	}{
		{"a link out", "path escapes from parent", func() error { return os.Symlink("/dev/zero", path) }},
		{"a link to itself", "too many", func() error { return os.Symlink("bwd_coop.cu", path) }},
		{"a folder", "it is no file", func() error { return os.Mkdir(path, 0o755) }},
		{"a large file", "it has 1.0 MiB, more than 1.0 MiB",
			func() error { return os.WriteFile(path, bytes.Repeat([]byte(" "), maxSource+1), 0o644) }},
		{"none", "has no ", func() error { return nil }},
	} {
		assert.NoError(t, os.RemoveAll(path))
		assert.NoError(t, x.put(), x.name)
		_, err := WithBaseline(New(), dir)
		assert.Refused(t, err, x.want, x.name)
	}
	assert.NoError(t, os.Symlink("coop.txt", path)) // a link to a file of the folder is one
	assert.Write(t, filepath.Join(dir, "coop.txt"), string(text))
	_, err = WithBaseline(New(), dir)
	assert.NoError(t, err, "a link in the folder")
	for name, want := range map[string]string{filepath.Join(dir, "nosuch"): "there is no such folder",
		filepath.Join(dir, "coop.txt"): "not a directory"} {
		_, err := WithBaseline(New(), name)
		assert.Refused(t, err, want, name)
	}
}
