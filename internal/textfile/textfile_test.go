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
		zipped("abc"): "abc", bzipped: strings.Repeat("a line\n", 3)} {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		got, err := Read(path, 64)
		assert.That(t, err == nil && string(got) == want, "%q: %q, %v", text, got, err)
	}
	for name, text := range map[string]string{"torn": zipped("abc")[:12],
		"torn at once": zipped("abc")[:5], "torn, bzip2": bzipped[:30], "torn at once, bzip2": bzipped[:5], "a bomb": zipped(strings.Repeat("a", 1000))} {
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

// bzipped is three lines packed by bzip2, which Go's library reads only.
const bzipped = "BZh91AY&SY\xac\xfc\xa5\xaf\x00\x00\x04\x51\x00\x00\x10\x40\x00\x22\x25\x20\x00\x22\x3d\x46\x8f\x50\x86\x02" +
	"\x10\xc1\x13\x84\xf1\x77\x24\x53\x85\x09\x0a\xcf\xca\x5a\xf0"

func TestFindPackedPrefersThePlainFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	assert.Equal(t, FindPacked(path), path, "found where there is none")
	for _, name := range []string{path + ".bz2", path + ".gz", path} {
		assert.NoError(t, os.WriteFile(name, nil, 0o666))
		assert.Equal(t, FindPacked(path), name, "found")
	}
	assert.Equal(t, Ext("a.csv.bz2"), ".csv", "extension")
	assert.Equal(t, Ext("a.gz"), "", "extension of a packed file without one")
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
