package durable

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"normbench/internal/hint"
)

func writeFile(path, text string) error { return Place{Name: path}.WriteFrom(strings.NewReader(text)) }

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, text := range []string{"one", "two, longer"} {
		if err := writeFile(path, text); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o644 {
		t.Error(st.Mode(), err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "folder"), ""); err == nil || strings.Contains(Cause(err).Error(), ".tmp-") {
		t.Errorf("in place of a folder: %v", err)
	}
	if err := writeFile(filepath.Join(dir, "none", "a.json"), ""); err == nil {
		t.Error("a file in no folder was written")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// What a killed writer left goes with the next write, old as it must be, and nothing else does.
func TestStale(t *testing.T) {
	for name, write := range map[string]func(dir string) error{
		"write":      func(dir string) error { return writeFile(filepath.Join(dir, "a.json"), "x") },
		"MakeFolder": func(dir string) error { return MakeFolder(filepath.Dir(dir), filepath.Base(dir)) },
	} {
		dir := t.TempDir()
		old := time.Now().Add(-2 * staleAfter)
		for file, at := range map[string]time.Time{".a.json.tmp-12": old, ".check.tmp-7": old, ".a.json.tmp-13": time.Now(), ".a.json.tmp-x": old, "a.tmp-1": old} {
			if err := errors.Join(os.WriteFile(filepath.Join(dir, file), nil, 0o600), os.Chtimes(filepath.Join(dir, file), at, at)); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]bool{".a.json.tmp-12": false, ".check.tmp-7": false, ".a.json.tmp-13": true, ".a.json.tmp-x": true, "a.tmp-1": true} {
			if _, err := os.Lstat(filepath.Join(dir, file)); (err == nil) != want {
				t.Errorf("%s: %s: %v", name, file, err)
			}
		}
	}
}

// A symbolic link stays, and what it leads to is replaced, also where that is
// not there yet.
func TestWriteFileThroughLink(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "a.json")
	if err := os.Symlink(filepath.Join("store", "b.json"), link); err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := writeFile(link, text); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(store, "b.json"))
		if err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
}

// What a folder holds stays in it: a link to elsewhere in it is followed, and one that leads out
// is refused, be it the file, its folder, or a path from the root of the file system.
func TestPlaceStaysBelow(t *testing.T) {
	top := t.TempDir()
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{in, out, filepath.Join(in, "store"), filepath.Join(in, "plain")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"inner": "store", "outer": "../out", "plain/file": "../store/file", "plain/leads": "../../out/file", "plain/rooted": filepath.Join(out, "file")} {
		if err := os.Symlink(to, filepath.Join(in, link)); err != nil {
			t.Skip(err)
		}
	}
	for name, ok := range map[string]bool{"plain/new": true, "plain/file": true, "inner/other": true, "plain/leads": false, "plain/rooted": false, "outer/file": false, "../out/file": false} {
		p := Place{Root: in, Name: name}
		err := p.WriteFrom(strings.NewReader(name))
		if got, _ := os.ReadFile(filepath.Join(in, name)); ok && (err != nil || string(got) != name) {
			t.Errorf("%s: %v, %q", p, err, got)
		}
		if !ok && (err == nil || !strings.Contains(Help(err), "leads out of the folder")) {
			t.Errorf("%s: %v, %s", p, err, Help(err))
		}
	}
	for _, below := range []string{"plain/deeper", "inner/deeper"} {
		if err := MakeFolder(in, below); err != nil {
			t.Errorf("%s: %v", below, err)
		}
	}
	for _, below := range []string{"outer", "outer/deeper", "../out"} {
		if err := MakeFolder(in, below); err == nil {
			t.Errorf("%s was made", below)
		}
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("out of the folder: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(in, "*", ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSeal(t *testing.T) {
	sealed := Seal([]byte(`{"a":[1,2.5],"b":"x"}`))
	if there, ok := Sealed(sealed); !there || !ok {
		t.Fatalf("%s: %v %v", sealed, there, ok)
	}
	for i := range sealed { // every flip of a bit
		for bit := range 8 {
			sealed[i] ^= 1 << bit
			if _, ok := Sealed(sealed); ok {
				t.Errorf("%s passes", sealed)
			}
			sealed[i] ^= 1 << bit
		}
	}
	if there, _ := Sealed([]byte(`{"a":1}`)); there {
		t.Error("a checksum where there is none")
	}
}

func TestVerify(t *testing.T) {
	data := SealText([]byte(`{
"n": 12, "s": "a <b> & \u003c", "l": [1e-7]}`))
	for name, text := range map[string][]byte{
		"as written": data,
		"line ends":  bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")),
		"layout":     bytes.ReplaceAll(data, []byte("  "), []byte("\t")),
		"no sum":     []byte(`{"n": 12}`),
		"not JSON":   []byte(`{"n": `),
	} {
		if err := Verify(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string][]byte{
		"a digit":  bytes.Replace(data, []byte("12"), []byte("13"), 1),
		"not last": []byte(`{"crc":"00000000","n":12}`),
	} {
		if err := Verify(text); err == nil || !strings.Contains(hint.Of(err), `"crc"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The hint names the cause, where it is not that one may not write.
func TestHelp(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "the disk is full",
		syscall.EMFILE: "too many files are open",
		syscall.ENOLCK: "cannot lock",
		syscall.EROFS:  "read-only",

		syscall.ENAMETOOLONG: "255 bytes",
		os.ErrPermission:     "that you may write to",
		errors.New("else"):   "that you may write to",
	} {
		if got := Help(&os.PathError{Op: "open", Path: "x", Err: err}); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// What is no file stays what it is, and is refused before there is anything to write.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{link: "a device", os.DevNull: "a device", dir: "a folder"} {
		for what, err := range map[string]error{"check": Place{Name: path}.Check(), "write": writeFile(path, "x")} {
			if err == nil || !strings.Contains(err.Error(), want) || hint.Of(err) == "" {
				t.Errorf("%s %s: %v", what, path, err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (Place{Root: dir, Name: "in"}).Check(); err == nil {
		t.Error("a folder below a folder passed")
	}
	for _, path := range []string{filepath.Join(dir, "new"), os.Args[0]} {
		if err := (Place{Name: path}).Check(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a check made the file")
	}
}

// A name may have as many bytes as the file system takes, also in the middle of a character.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("a", 228), strings.Repeat("a", 229), strings.Repeat("a", 255), "a" + strings.Repeat("ä", 127)} {
		path := filepath.Join(dir, name)
		if err := writeFile(path, "x"); err != nil {
			t.Errorf("%d bytes: %v", len(name), err)
		}
		if data, err := os.ReadFile(path); string(data) != "x" {
			t.Errorf("%d bytes: %q, %v", len(name), data, err)
		}
	}
	if err := writeFile(filepath.Join(dir, strings.Repeat("a", 256)), ""); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("256 bytes: %v", err)
	}
}

// Of two fields with one name encoding/json takes the last in silence.
func TestTwice(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":{"c":1,"c":2}}`:     "the field /b/c stands twice",
		`{"schema":1,"schema":2}`:       "the field /schema stands twice",
		`{"a":1,"b":[{"a":1},{"a":2}]}`: "",
		`{"a":`:                         "",
		`{"a":[1,NaN]}`:                 "/a/1 is NaN",
		`{"b":{"a":-Infinity}}`:         "/b/a is Infinity",
		`NaN`:                           "the text is NaN",
		"{\"a\\n\":1,\"a\\n\":2}":       `the field /a\n stands twice`,
	} {
		if err := Verify([]byte(text)); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
