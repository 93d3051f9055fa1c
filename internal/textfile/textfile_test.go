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

	"normbench/internal/hint"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for text, want := range map[string]string{"abc": "abc", "\xef\xbb\xbfabc": "abc", "": "", zipped("abc"): "abc"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 64); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for name, text := range map[string]string{"torn": zipped("abc")[:12], "torn at once": zipped("abc")[:5], "a bomb": zipped(strings.Repeat("a", 1000))} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 64); err == nil {
			t.Errorf("%s: %q", name, got)
		} else if torn := hint.Of(err) == PackedHelp; torn != (name != "a bomb") {
			t.Errorf("%s: the hint of %v is %q", name, err, hint.Of(err))
		}
	}
	if err := os.Truncate(path, Small+1); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, "/dev/zero"} {
		if _, err := Read(p, Small); err == nil || err.Error() != "it has more than 4 MiB" {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := Read(path+"x", Small); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

// A packed file that unpacks to a thousand times its size is refused long before its end.
func TestBomb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	for range 200 {
		z.Write(make([]byte, 1<<20))
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	in, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if n, err := io.Copy(io.Discard, in); err == nil || hint.Of(err) == "" || n > free {
		t.Errorf("%d MiB are read, %v", n>>20, err)
	}
}
