package record

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What is read again by its place is what Read gives, of a plain file and of a packed one, whose copy has no name
// while it is open: a kill leaves nothing.
func TestIndex(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	packed := "../../results/nvidia-h200/records.jsonl.gz"
	want, runs, notes, err := readAll(packed)
	if err != nil || len(want) < 1000 {
		t.Fatal(len(want), err)
	}
	f, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{packed, writeFile(t, string(text))} {
		var places []Place
		l, told, err := Index(path, func(r *Record) string { return r.Key }, func(key string, at Place) error {
			if i := len(places); want[i].Key != key || runs[i].ID != at.Run.ID {
				t.Fatalf("record %d is %s of %s", i, key, at.Run.ID)
			}
			places = append(places, at)
			return nil
		})
		if err != nil || len(told) != len(notes) {
			t.Fatal(told, err)
		}
		copies := func() []string {
			left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*.jsonl"))
			return left
		}
		if left := copies(); len(left) > 0 && runtime.GOOS != "windows" {
			t.Errorf("%q can be left behind", left)
		}
		got, err := l.Records(places)
		if diff := cmp.Diff(want, got, cmpOpts, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s: %v\n%.2000s", path, err, diff)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if left := copies(); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	}
}
