package nvrtc

import (
	"bytes"
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
	return func(src Source, opt Options) (*Binary, error) {
		*calls++
		if src.Text == "bad" {
			return nil, &CompileError{Source: src.Name, Log: "k.cu(1): error: bad\n"}
		}
		return &Binary{
			Cubin:          []byte("\x7fELF " + opt.Arch + "\n" + src.Text),
			Kernels:        map[string]Kernel{"k": {Registers: 32, StackBytes: 48}},
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

var fakeOptions = Options{Arch: "sm_90"}

// What another process has compiled is read. A comment, an indent, an empty line or another order of
// macros compiles nothing again, unless it reaches the cubin; whatever else is another does.
func TestCacheKey(t *testing.T) {
	const text = "#define F(x) x // one\nint a = F(1) + 2;\nchar c[] = \"a b\";"
	for what, tt := range map[string]struct {
		change func(s *Source, o *Options)
		hit    bool
	}{
		"comments": {func(s *Source, _ *Options) {
			s.Text = "/* other */ " + strings.ReplaceAll(s.Text, "// one\n", "\n\n// more\n  ")
			s.Headers["y.cuh"] += " // b"
		}, true},
		"order of macros": {func(_ *Source, o *Options) { slices.Reverse(o.Defines) }, true},
		"code":            {func(s *Source, _ *Options) { s.Text += "int c;" }, false},
		"a header's code": {func(s *Source, _ *Options) { s.Headers["y.cuh"] = "int c;" }, false},
		"a header's name": {func(s *Source, _ *Options) { s.Headers = map[string]string{"z.cuh": "int b;"} }, false},
		"name":            {func(s *Source, _ *Options) { s.Name = "l.cu" }, false},
		"lines":           {func(s *Source, _ *Options) { s.Text = strings.Replace(s.Text, "// one\n", "", 1) }, false},
		"a string":        {func(s *Source, _ *Options) { s.Text = strings.Replace(s.Text, "a b", "a  b", 1) }, false},
		"arch":            {func(_ *Source, o *Options) { o.Arch = "sm_90a" }, false},
		"macro value":     {func(_ *Source, o *Options) { o.Defines[0].Value = "3" }, false},
		"extra":           {func(_ *Source, o *Options) { o.Extra = []string{"-G"} }, false},
		"version":         {nil, false},
		"line info": {func(s *Source, o *Options) {
			s.Text, o.Extra = s.Text+"//", []string{"-lineinfo"} // brings comments into the cubin
		}, false},
	} {
		calls := 0
		first := fakeCache(filepath.Join(t.TempDir(), "cache"), &calls)
		second := fakeCache(first.dir, &calls)
		src := Source{"k.cu", text, map[string]string{"y.cuh": "int b;"}}
		opt := Options{Arch: "sm_90", Defines: []Define{{"B", "2"}, {"A", "1"}}}
		if what == "line info" {
			opt.Extra = []string{"-lineinfo"}
		}
		a, err1 := first.Compile(src, opt)
		assert.Equal(t, opt.Defines[0].Name, "B", "the caller's macros are sorted")
		if tt.change == nil {
			second.version = "12.9"
		} else {
			tt.change(&src, &opt)
		}
		b, err2 := second.Compile(src, opt)
		assert.Must(t, err1 == nil && err2 == nil && !a.Cached && b.Cached == tt.hit,
			"%s: cached %v, %v, %v", what, b.Cached, err1, err2)
		a.Cached = true
		assert.That(t, !tt.hit || calls == 1 && reflect.DeepEqual(a, b), "read %+v, wrote %+v", b, a)
		left, err := filepath.Glob(filepath.Join(first.dir, "*", ".*.tmp-*"))
		assert.That(t, err == nil && len(left) == 0, "temporary files left: %v, %v", left, err)
	}
}

// An entry under another's name, or that somebody else may have written, is compiled again, and the
// latter said.
func TestCachePlanted(t *testing.T) {
	calls := 0
	c := fakeCache(t.TempDir(), &calls)
	a, b := Source{Name: "a.cu", Text: "a"}, Source{Name: "b.cu", Text: "b"}
	file, data := entry(t, c, a)
	other, _ := entry(t, c, b)
	assert.Write(t, other, string(data))
	got, err := c.Compile(b, fakeOptions)
	assert.That(t, err == nil && !got.Cached && bytes.HasSuffix(got.Cubin, []byte("b")) &&
		c.Unkept() == "", "%+v, %v, %q", got, err, c.Unkept())
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
		!strings.Contains(c.Unkept(), "others may write it; NORMBENCH_CACHE_SHARED=1 trusts") {
		t.Errorf("%+v, %v, %q", got, err, c.Unkept())
	}
	os.Chmod(file, 0o666)
	t.Setenv(sharedVariable, "1")
	if got, err := c.Compile(a, fakeOptions); err != nil || !got.Cached {
		t.Errorf("shared: %+v, %v", got, err)
	}
}

// Whatever byte of an entry is another, and wherever it ends, its source is compiled again and the
// entry mended.
func TestCacheDamage(t *testing.T) {
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

func TestCacheErrors(t *testing.T) {
	calls := 0
	file := filepath.Join(t.TempDir(), "file")
	assert.Write(t, file, "")
	c := fakeCache(filepath.Join(file, "cache"), &calls)
	b, err := c.Compile(Source{Text: "text"}, fakeOptions)
	assert.That(t, err == nil && !b.Cached,
		"got %+v, %v, want a binary although the cache cannot be written", b, err)
	assert.That(t, c.Unkept() != "", "the write error was lost")

	c = fakeCache(t.TempDir(), &calls)
	for range 2 { // failures are not kept
		before := calls
		var ce *CompileError
		_, err := c.Compile(Source{Name: "k.cu", Text: "bad"}, fakeOptions)
		assert.That(t, errors.As(err, &ce) && calls == before+1,
			"got %v after %d compilations, want a CompileError", err, calls-before)
	}
	for _, opt := range []Options{{}, {Arch: "90"}, {Arch: "compute_90"},
		{Arch: "sm_90", Defines: []Define{{"", "1"}}},
		{Arch: "sm_90", Defines: []Define{{"A", "1"}, {"B", "1"}, {"A", "2"}}}} {
		_, err = c.Compile(Source{Name: "k.cu"}, opt)
		assert.That(t, err != nil && strings.HasPrefix(err.Error(), "compile k.cu: "), "%+v: %v", opt, err)
	}
}
