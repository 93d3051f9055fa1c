package nvrtc

import (
	"bytes"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// fakeCache is a cache of what fake compiles.
func fakeCache(dir string, calls *int) *Cache {
	return &Cache{dir: dir, version: "13.0", compile: fake(calls)}
}

// fake is a compile function that counts.
func fake(calls *int) CompileFunc {
	return func(src Source, opt CompileOptions) (*Binary, error) {
		*calls++
		if src.Text == "bad" {
			return nil, &CompileError{Source: src.Name, Log: "k.cu(1): error: bad\n"}
		}
		return &Binary{
			Cubin:          []byte("\x7fELF " + opt.Arch + "\n" + src.Text),
			Kernels:        map[string]EntryReport{"k": {Registers: 32, StackBytes: 48}},
			Log:            "ptxas info\n",
			CompileSeconds: 0.25,
		}, nil
	}
}

// entry compiles a source and returns the file that keeps it, and what is there.
func entry(t *testing.T, c *Cache, src Source) (file string, data []byte) {
	t.Helper()
	_, err := c.Compile(src, fakeOptions)
	assert.Must(t, err == nil, "%v", err)
	k, err := c.key(src, fakeOptions)
	assert.NoError(t, err)
	data = assert.File(t, filepath.Join(c.dir, entryFile(k)))
	return filepath.Join(c.dir, entryFile(k)), data
}

var fakeOptions = CompileOptions{Arch: "sm_90"}

// A unit is a source with all that its key holds.
//
//go:embed testdata/unit.json
var unit string

// What another process has compiled is read. A comment, an indent, an empty line or another order of
// macros compiles nothing again, unless it reaches the cubin; whatever else is another does:
// testdata/keys.txt, by an edit of testdata/unit.json. -lineinfo brings comments into the cubin.
func TestCacheKeyChangesWithTheCubinOnly(t *testing.T) {
	assert.Lines(t, "testdata/keys.txt", func(input string) string {
		edit, lines := strings.CutPrefix(input, "-lineinfo: ")
		text := unit
		if lines {
			text = strings.Replace(text, `"Extra":[]`, `"Extra":["-lineinfo"]`, 1)
		}
		old, now, _ := strings.Cut(edit, " becomes ")
		assert.That(t, strings.Contains(text, old), "no %s", old)
		dir, calls := filepath.Join(t.TempDir(), "cache"), 0
		var made [2]*Binary
		for i, text := range []string{text, strings.Replace(text, old, now, 1)} {
			x := assert.Value[struct {
				Source
				CompileOptions
				Version string
			}](t, text)
			c, first := fakeCache(dir, &calls), x.Defines[0]
			c.version = x.Version
			var err error
			made[i], err = c.Compile(x.Source, x.CompileOptions)
			assert.That(t, err == nil && x.Defines[0] == first, "%v, or the caller's macros are sorted", err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*", ".*.tmp-*"))
		assert.That(t, err == nil && len(left) == 0 && !made[0].Cached, "temporary files left: %v, %v", left, err)
		made[0].Cached = true
		assert.That(t, made[1].Cached == (calls == 1) && (calls > 1 || reflect.DeepEqual(made[0], made[1])),
			"read %+v, wrote %+v", made[1], made[0])
		return map[bool]string{true: "the same", false: "another"}[made[1].Cached]
	})
}

// An entry under another's name, or that somebody else may have written, is compiled again, and the
// latter said.
func TestPlantedEntriesAreCompiledAgain(t *testing.T) {
	calls := 0
	c := fakeCache(t.TempDir(), &calls)
	a, b := Source{Name: "a.cu", Text: "a"}, Source{Name: "b.cu", Text: "b"}
	file, data := entry(t, c, a)
	other, _ := entry(t, c, b)
	assert.Write(t, other, string(data))
	got, err := c.Compile(b, fakeOptions)
	assert.That(t, err == nil && !got.Cached && bytes.HasSuffix(got.Cubin, []byte("b")) &&
		c.Warning() == "", "%+v, %v, %q", got, err, c.Warning())
	for _, plant := range []func() error{
		func() error { return os.Symlink(file, other) },
		func() error { return os.Mkdir(other, 0o755) },
	} {
		if err := errors.Join(os.RemoveAll(other), plant()); err != nil {
			t.Skip(err)
		}
		// says by itself that it cannot keep the other
		fresh := fakeCache(c.dir, &calls)
		got, err := fresh.Compile(b, fakeOptions)
		assert.That(t, err == nil && bytes.HasSuffix(got.Cubin, []byte("b")),
			"a link or a folder in its place: %+v, %v", got, err)
	}
	if err := os.Chmod(file, 0o666); err != nil || runtime.GOOS == "windows" {
		t.Skip(err)
	}
	if got, err := c.Compile(a, fakeOptions); err != nil || got.Cached ||
		!strings.Contains(c.Warning(), "others may write it; NORMBENCH_CACHE_SHARED=1 trusts") {
		t.Errorf("%+v, %v, %q", got, err, c.Warning())
	}
	os.Chmod(file, 0o666)
	t.Setenv(sharedVariable, "1")
	if got, err := c.Compile(a, fakeOptions); err != nil || !got.Cached {
		t.Errorf("shared: %+v, %v", got, err)
	}
}

// Whatever byte of an entry is another, and wherever it ends, its source is compiled again and the
// entry mended.
func TestDamagedEntriesAreMended(t *testing.T) {
	calls := 0
	c := fakeCache(t.TempDir(), &calls)
	src := Source{Name: "k.cu", Text: "text"}
	file, data := entry(t, c, src)
	damaged := [][]byte{append(slices.Clone(data), 'x'), make([]byte, len(data)),
		bytes.Replace(data, []byte(formatVersion), []byte("normbench-cubin 0"), 1)}
	for i := range data {
		b := slices.Clone(data)
		b[i] ^= 1
		damaged = append(damaged, b, data[:i])
	}
	for _, b := range damaged {
		assert.Write(t, file, string(b))
		before := calls
		got, err := c.Compile(src, fakeOptions)
		now := assert.File(t, file)
		assert.Must(t, err == nil && !got.Cached && bytes.HasSuffix(got.Cubin, []byte("text")) &&
			calls == before+1 && bytes.Equal(now, data), "%q for %q: %+v, %v, then %q", b, data, got,
			err, now)
	}
}

func TestCacheThatCannotWriteStillCompiles(t *testing.T) {
	calls := 0
	file := filepath.Join(t.TempDir(), "file")
	assert.Write(t, file, "")
	c := fakeCache(filepath.Join(file, "cache"), &calls)
	b, err := c.Compile(Source{Text: "text"}, fakeOptions)
	assert.That(t, err == nil && !b.Cached,
		"got %+v, %v, want a binary although the cache cannot be written", b, err)
	assert.That(t, c.Warning() != "", "the write error was lost")

	c = fakeCache(t.TempDir(), &calls)
	for range 2 { // failures are not kept
		before := calls
		var ce *CompileError
		_, err := c.Compile(Source{Name: "k.cu", Text: "bad"}, fakeOptions)
		assert.That(t, errors.As(err, &ce) && calls == before+1,
			"got %v after %d compilations, want a CompileError", err, calls-before)
	}
	for _, opt := range []CompileOptions{{}, {Arch: "90"}, {Arch: "compute_90"},
		{Arch: "sm_90", Defines: []Macro{{"", "1"}}},
		{Arch: "sm_90", Defines: []Macro{{"A", "1"}, {"B", "1"}, {"A", "2"}}}} {
		_, err = c.Compile(Source{Name: "k.cu"}, opt)
		assert.That(t, err != nil && strings.HasPrefix(err.Error(), "compile k.cu: "), "%+v: %v", opt, err)
	}
}
