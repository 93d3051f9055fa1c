package textfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for text, want := range map[string]string{"abc": "abc", "\xef\xbb\xbfabc": "abc", "": ""} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 6); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
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
