package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func writeFile(path, text string) error {
	return Place{Name: path}.WriteFrom(strings.NewReader(text))
}

func TestWriteReplacesAFileOrFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, text := range []string{"one", "two, longer"} {
		assert.NoError(t, writeFile(path, text))
		got, err := os.ReadFile(path)
		assert.That(t, err == nil && string(got) == text, "%q, %v", got, err)
	}
	st, err := os.Stat(path)
	assert.That(t, err == nil && st.Mode().Perm() == 0o644, "%v %v", st.Mode(), err)
	assert.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	err = writeFile(filepath.Join(dir, "folder"), "")
	assert.That(t, err != nil && !strings.Contains(Cause(err).Error(), ".tmp-"),
		"in place of a folder: %v", err)
	assert.That(t, writeFile(filepath.Join(dir, "none", "a.json"), "") != nil,
		"a file in no folder was written")
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	assert.That(t, len(left) == 0, "left behind: %q", left)
}

// What a killed writer left goes with the next write, old as it must be, and nothing else does.
func TestOldLeftoversOfKilledWritersGo(t *testing.T) {
	for name, write := range map[string]func(dir string) error{
		"write":      func(dir string) error { return writeFile(filepath.Join(dir, "a.json"), "x") },
		"MakeFolder": func(dir string) error { return MakeFolder(filepath.Split(dir)) },
	} {
		dir := t.TempDir()
		files := map[string]time.Duration{".a.json.tmp-12": -2 * staleAfter, // and their age
			".check.tmp-7": -2 * staleAfter, ".a.json.tmp-13": 0, ".a.json.tmp-x": -2 * staleAfter,
			"a.tmp-1": -2 * staleAfter}
		for file, age := range files {
			assert.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
			at := time.Now().Add(age)
			assert.NoError(t, os.Chtimes(filepath.Join(dir, file), at, at))
		}
		assert.NoError(t, write(dir))
		for file := range files {
			_, err := os.Lstat(filepath.Join(dir, file))
			gone := file == ".a.json.tmp-12" || file == ".check.tmp-7"
			assert.Equal(t, err != nil, gone, name, file, err)
		}
	}
}

// What a folder holds stays in it: a link to elsewhere in it stays and is followed, also where
// nothing is there yet, and one that leads out is refused, be it the file, its folder, or a path from the root of the file system.
func TestPlaceStaysBelow(t *testing.T) {
	top := t.TempDir()
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for _, dir := range []string{in, out, filepath.Join(in, "store"), filepath.Join(in, "plain")} {
		assert.NoError(t, os.Mkdir(dir, 0o755))
	}
	for link, to := range map[string]string{"inner": "store", "outer": "../out",
		"plain/file": "../store/file", "plain/leads": "../../out/file",
		"plain/rooted": filepath.Join(out, "file")} {
		if err := os.Symlink(to, filepath.Join(in, link)); err != nil {
			t.Skip(err)
		}
	}
	for name, ok := range map[string]bool{"plain/new": true, "plain/file": true,
		"inner/other": true, "plain/leads": false, "plain/rooted": false, "outer/file": false,
		"../out/file": false} {
		p := Place{Root: in, Name: name}
		err := p.WriteFrom(strings.NewReader(name))
		got, _ := os.ReadFile(filepath.Join(in, name))
		assert.That(t, !ok || err == nil && string(got) == name, "%s: %v, %q", p, err, got)
		assert.That(t, ok || err != nil && strings.Contains(Help(err), "leads out of the folder"),
			"%s: %v, %s", p, err, Help(err))
	}
	st, err := os.Lstat(filepath.Join(in, "plain/file"))
	assert.That(t, err == nil && st.Mode()&os.ModeSymlink != 0, "the link is gone: %v", err)
	for _, below := range []string{"plain/deeper", "inner/deeper"} {
		assert.NoError(t, MakeFolder(in, below), below)
	}
	for _, below := range []string{"outer", "outer/deeper", "../out"} {
		assert.That(t, MakeFolder(in, below) != nil, "%s was made", below)
	}
	left, _ := os.ReadDir(out)
	assert.That(t, len(left) == 0, "out of the folder: %v", left)
	if left, _ := filepath.Glob(filepath.Join(in, "*", ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestChangedTextFailsItsSeal(t *testing.T) {
	data := SealText([]byte(`{
"n": 12, "s": "a <b> & \u003c", "l": [1e-7]}`))
	change := func(from, to string) []byte { return bytes.ReplaceAll(data, []byte(from), []byte(to)) }
	for name, text := range map[string][]byte{"as written": data, "line ends": change("\n", "\r\n"),
		"layout": change("  ", "\t"), "no sum": []byte(`{"n": 12}`), "not JSON": []byte(`{"n": `)} {
		assert.NoError(t, Verify(text), name)
	}
	for name, text := range map[string][]byte{"a digit": change("12", "13"),
		"not last": []byte(`{"crc":"00000000","n":12}`)} {
		err := Verify(text)
		assert.That(t, err != nil && strings.Contains(hint.Of(err), `"crc"`), "%s: %v", name, err)
	}
	// Of two fields with one name encoding/json takes the last in silence.
	assert.Lines(t, "testdata/json.txt", func(text string) string {
		return fmt.Sprint(Verify([]byte(text)))
	})
}

// Each digit of a checksum counts.
func TestEachDigitOfASealCounts(t *testing.T) {
	sealed := Seal([]byte(`{"n":12}`))
	for k := range 8 {
		other := bytes.Clone(sealed)
		digit := &other[len(other)-len(sealClose)-8+k]
		if *digit++; *digit == '9'+1 || *digit == 'f'+1 {
			*digit = '0'
		}
		there, ok := CheckSeal(other)
		assert.That(t, there && !ok, "digit %d of %s: %v, %v", k, other, there, ok)
	}
	_, ok := CheckSeal(sealed)
	assert.That(t, ok, "%s", sealed)
}

// The hint names the cause, where it is not that one may not write.
func TestHintNamesTheCause(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "the disk is full",
		syscall.EMFILE: "too many files are open",
		syscall.ENOLCK: "cannot lock",
		syscall.EROFS:  "read-only",
		syscall.EIO:    "the disk failed",
		syscall.ESTALE: "the file's server has lost it",
		syscall.EFBIG:  "`ulimit -f`",
		syscall.EPERM:  "does not permit it",
		syscall.EACCES: "that you may write to",

		syscall.ENAMETOOLONG: "255 bytes",
		os.ErrPermission:     "that you may write to",
		errors.New("else"):   "that you may write to",
	} {
		got := Help(&os.PathError{Op: "open", Path: "x", Err: err})
		assert.That(t, strings.Contains(got, want), "%v: %q, want %q", err, got, want)
	}
}

// What is no file stays what it is, and is refused before there is anything to write.
func TestOnlyFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{link: "a device", os.DevNull: "a device",
		dir: "a folder"} {
		for what, err := range map[string]error{"check": Place{Name: path}.Check(),
			"write": writeFile(path, "x")} {
			assert.Refused(t, err, want, what, path)
		}
	}
	assert.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
	assert.That(t, (Place{Root: dir, Name: "in"}).Check() != nil, "a folder below a folder passed")
	for _, path := range []string{filepath.Join(dir, "new"), os.Args[0]} {
		assert.NoError(t, (Place{Name: path}).Check(), path)
	}
	_, err := os.Stat(filepath.Join(dir, "new"))
	assert.That(t, err != nil, "a check made the file")
}

// A name may have as many bytes as the file system takes, also in the middle of a character.
func TestNamesOfFullLengthAreWritten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("a", 228), strings.Repeat("a", 229),
		strings.Repeat("a", 255), "a" + strings.Repeat("ä", 127)} {
		path := filepath.Join(dir, name)
		assert.NoError(t, writeFile(path, "x"), len(name), "bytes")
		data, err := os.ReadFile(path)
		assert.Equal(t, string(data), "x", len(name), "bytes", data, err)
	}
	err := writeFile(filepath.Join(dir, strings.Repeat("a", 256)), "")
	assert.That(t, errors.Is(err, syscall.ENAMETOOLONG), "256 bytes: %v", err)
}
