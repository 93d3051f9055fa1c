package textfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func TestReadUnpacksAndRefusesTornFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for text, want := range map[string]string{"abc": "abc", "\xef\xbb\xbfabc": "abc", "": "",
		zipped("abc"): "abc"} {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		got, err := Read(path, 64)
		assert.That(t, err == nil && string(got) == want, "%q: %q, %v", text, got, err)
	}
	for name, text := range map[string]string{"torn": zipped("abc")[:12],
		"torn at once": zipped("abc")[:5], "a bomb": zipped(strings.Repeat("a", 1000))} {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		if got, err := Read(path, 64); err == nil {
			t.Errorf("%s: %q", name, got)
		} else if torn := hint.Of(err) == PackedHelp; torn != (name != "a bomb") {
			t.Errorf("%s: the hint of %v is %q", name, err, hint.Of(err))
		}
	}
	assert.NoError(t, os.Truncate(path, Small+1))
	for _, p := range []string{path, "/dev/zero"} {
		_, err := Read(p, Small)
		assert.That(t, err != nil && err.Error() == "it has more than 4 MiB", "%s: %v", p, err)
	}
	_, err := Read(path+"x", Small)
	assert.That(t, os.IsNotExist(err), "no file: %v", err)
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

// A packed file that unpacks to a thousand times its size is refused long before its end.
func TestBombIsRefusedBeforeItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.gz")
	f, err := os.Create(path)
	assert.NoError(t, err)
	z := gzip.NewWriter(f)
	for range 80 {
		z.Write(make([]byte, 1<<20))
	}
	assert.NoError(t, errors.Join(z.Close(), f.Close()))
	in, err := Open(path)
	assert.NoError(t, err)
	defer in.Close()
	n, err := io.Copy(io.Discard, in)
	assert.That(t, err != nil && hint.Of(err) != "" && n <= free, "%d MiB are read, %v", n>>20, err)
}
