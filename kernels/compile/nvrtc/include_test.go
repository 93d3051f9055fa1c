package nvrtc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

// The folders are those of the variable, of a toolkit, and of wheels: testdata/folders.txt, by the
// library.
func TestIncludeFoldersAreThoseOfTheLibrary(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	for _, file := range []string{"cuda/targets/x/lib/libnvrtc.so.13.0.88",
		"cuda/targets/x/include/cuda_fp16.h", "cuda/targets/x/include/cccl/nv/target",
		"12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "12/nvidia/cuda_runtime/include/cuda_fp16.h",
		"12/nvidia/cuda_cccl/include/nv/target",
		"13/nvidia/cu13/lib/libnvrtc.so.13", "13/nvidia/cu13/include/cuda_fp16.h",
		"none/lib/libnvrtc.so.13", "none/include/stdio.h"} {
		assert.Write(t, at(file), "")
	}
	assert.NoError(t, os.Mkdir(at("cuda/lib64"), 0o777))
	assert.NoError(t,
		os.Symlink(at("cuda/targets/x/lib/libnvrtc.so.13.0.88"), at("cuda/lib64/libnvrtc.so.13")))
	assert.Lines(t, "testdata/folders.txt", func(file string) string {
		t.Setenv("NORMBENCH_INCLUDE", "")
		without := includeFolders(at(file), 0)
		t.Setenv("NORMBENCH_INCLUDE", "/a"+string(filepath.ListSeparator)+"/b")
		with := includeFolders(at(file), 0)
		assert.Same(t, with, append([]string{"/a", "/b"}, without...), file, "with NORMBENCH_INCLUDE")
		return strings.ReplaceAll(fmt.Sprint(without), root+string(filepath.Separator), "")
	})
}

// What the preprocessor takes for an inclusion is found, however it is written, and nothing else
// is.
func TestInclusionsAreThoseOfThePreprocessor(t *testing.T) {
	assert.Lines(t, "testdata/inclusions.txt", func(text string) string {
		x := inclusions(text)
		return fmt.Sprintf("%q %q %q", x.quoted, x.system, x.odd)
	})
	_, err := ReadSource(func(string) (string, error) { return "#import <a.h>", nil }, "a.cu")
	assert.That(t, err != nil && hint.Of(err) != "", "%v", err)
}

// Comments and blanks around lines leave a text, and what is in a literal stays.
func TestCodeLeavesOutCommentsAndBlanks(t *testing.T) {
	assert.Lines(t, "testdata/code.txt", func(in string) string { return strconv.Quote(StripComments(in)) })
}

// No text makes it fail, or take long.
func FuzzInclusions(f *testing.F) {
	f.Add("#include \"a.h\"\n# include <b.h> /* */ R\"x(\n)x\" '\\''")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range listIncludes(text) {
			assert.That(t, name != "" && !strings.Contains(name, "\n"), "%q", name)
		}
	})
}

// A cubin's key has the content of what comes from include folders, not their place; that of a
// source which needs none does not know them.
func TestCacheKeyHasContentOfIncludesNotTheirPlace(t *testing.T) {
	key := func(text, sub, first, second string) string {
		dir := filepath.Join(t.TempDir(), sub)
		assert.Write(t, filepath.Join(dir, "a.h"), first)
		assert.Write(t, filepath.Join(dir, "in/b.h"), second)
		s := &includeCache{folders: []string{dir}}
		return strings.Join(s.hashHeaders(Source{Text: `#include "k.cuh"`,
			Headers: map[string]string{"k.cuh": text, "beside.h": ""}}, nil), "\n")
	}
	const uses, nested = "# include <a.h>\n", "#include \"in/b.h\"\n#include <a.h>"
	base := key(uses, "x", nested, "1")
	assert.That(t, base != "" && key(uses, "y", nested, "1") == base,
		"the folder's name changes the key")
	assert.That(t, key(uses, "x", nested+" ", "1") != base && key(uses, "x", nested, "2") != base,
		"the content does not change the key")
	assert.That(t, key(`#include "a.h"`, "x", nested, "1") != "", "a header that does not lie beside the source")
	assert.Equal(t, key(`#include "beside.h"`, "x", nested, "1"), "",
		"a source of which all lies beside it", "in its key")
	assert.Equal(t, key("#include <gone.h>\n", "x", nested, "1"), "", "what is nowhere")
}

// NVRTC finds what is in the folders, and the cache notices a change.
func TestChangedIncludeIsCompiledAgain(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("NORMBENCH_INCLUDE", dir)
	c := compiler(t)
	src := Source{Name: "k.cu", Text: "#include <mine.h>\nextern \"C\" __global__ void k(float* " +
		"y) { y[0] = MINE; }\n"}
	cubins := t.TempDir()
	_, err := NewCache(cubins, c).Compile(src, fakeOptions)
	assert.That(t, errors.As(err, new(*CompileError)) && strings.Contains(err.Error(), "mine.h"),
		"without the header: %v", err)
	for _, value := range []string{"1.f", "2.f"} {
		assert.Write(t, filepath.Join(dir, "mine.h"), "#define MINE "+value+"\n")
		for _, cached := range []bool{false, true} {
			b, err := NewCache(cubins, c).Compile(src, fakeOptions)
			assert.That(t, err == nil && b.Cached == cached,
				"MINE %s: %+v, %v, want cached %v", value, b, err, cached)
		}
	}
}

// A source of Python has the files that its probe has found, and none without one.
func TestSourceOfPythonHasWhatItsProbeFound(t *testing.T) {
	files := map[string]string{"user:k.py": "from .tools import SIZE\n"}
	read := func(name string) (string, error) {
		if text, ok := files[name]; ok {
			return text, nil
		}
		return "", fs.ErrNotExist
	}
	src, err := ReadSource(read, "user:k.py")
	assert.That(t, err == nil && src.Package == "" && len(src.Headers) == 0, "%+v, %v", src, err)
	files[Imports("user:k.py")] = `{"Package": "lib.ops", "Files": ["lib/ops/tools.py"]}`
	_, err = ReadSource(read, "user:k.py")
	assert.That(t, errors.Is(err, fs.ErrNotExist), "without a file that it imports: %v", err)
	files["user:lib/ops/tools.py"] = "SIZE = 1\n"
	src, err = ReadSource(read, "user:k.py")
	assert.That(t, err == nil && src.Package == "lib.ops" && src.Headers["lib/ops/tools.py"] == "SIZE = 1\n",
		"%+v, %v", src, err)
}
