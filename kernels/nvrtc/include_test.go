package nvrtc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	assert.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o666))
}

// The folders are those of the variable, of a toolkit, and of wheels.
func TestIncludeFolders(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	for _, file := range []string{"cuda/targets/x/lib/libnvrtc.so.13.0.88",
		"cuda/targets/x/include/cuda_fp16.h", "cuda/targets/x/include/cccl/nv/target",
		"12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "12/nvidia/cuda_runtime/include/cuda_fp16.h",
		"12/nvidia/cuda_cccl/include/nv/target",
		"13/nvidia/cu13/lib/libnvrtc.so.13", "13/nvidia/cu13/include/cuda_fp16.h",
		"none/lib/libnvrtc.so.13", "none/include/stdio.h"} {
		write(t, at(file), "")
	}
	assert.NoError(t, os.Mkdir(at("cuda/lib64"), 0o777))
	assert.NoError(t,
		os.Symlink(at("cuda/targets/x/lib/libnvrtc.so.13.0.88"), at("cuda/lib64/libnvrtc.so.13")))
	for file, want := range map[string][]string{
		"cuda/lib64/libnvrtc.so.13": {"cuda/targets/x/include",
			"cuda/targets/x/include/cccl"},
		"12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12": {"12/nvidia/cuda_runtime/include",
			"12/nvidia/cuda_cccl/include"},
		"13/nvidia/cu13/lib/libnvrtc.so.13": {"13/nvidia/cu13/include"},
		"none/lib/libnvrtc.so.13":           nil,
	} {
		var paths []string
		for _, name := range want {
			paths = append(paths, at(name))
		}
		t.Setenv("NORMBENCH_INCLUDE", "")
		assert.Same(t, includeFolders(at(file), 0), paths, file)
		t.Setenv("NORMBENCH_INCLUDE", "/a"+string(filepath.ListSeparator)+"/b")
		assert.Same(t, includeFolders(at(file), 0), append([]string{"/a", "/b"}, paths...),
			file, "with NORMBENCH_INCLUDE")
	}
}

// What the preprocessor takes for an inclusion is found, however it is written, and nothing else
// is.
func TestInclusions(t *testing.T) {
	for text, want := range map[string]string{
		"#include \"a.h\"\n \t# include\t<b.h> // <c.h>\r\n":              "a.h <b.h>",
		"#inc\\\nlude \"a.h\"\n#include \\\r\n \"b.h\"":                   "a.h b.h",
		"/* x\n*/ #include \"a.h\"\n# /**/ include/* \n */<b.h>":          "a.h <b.h>",
		"// \\\n#include \"a.h\"\n/*\n#include \"b.h\"\n*/":               "",
		"x #include \"a.h\"\nint include; #include":                       "",
		"s = \"/*\"; c = '\\''; d = '\"'; n = 1'000;\n#include \"a.h\"\n": "a.h",
		"s = \"\\\"/*\";\n#include \"a.h\"":                               "a.h",
		"#if 0\n#include \"a.h\"\n#endif\n#includes \"b.h\"":              "a.h",
		"#include A_H\n#include \"b.h\"":                                  "b.h; #include A_H",
		"#import \"a.h\"\n":                                               "; #import \"a.h\"",
		"#include_next <a.h>\n":                                           "; #include_next <a.h>",
		"#include \"a.h\n":                                                "; #include \"a.h",
		"#include":                                                        "; #include",
		"\"\\":                                                            "",
		"/* #include \"a.h\"":                                             "",
	} {
		x := inclusions(text)
		names := slices.Clone(x.quoted)
		for _, name := range x.system {
			names = append(names, "<"+name+">")
		}
		got := strings.Join(names, " ")
		if x.odd != "" {
			got += "; " + x.odd
		}
		assert.Equal(t, got, want, text)
	}
	_, err := Includes("#import <a.h>")
	assert.That(t, err != nil && hint.Of(err) != "", "%v", err)
}

// Comments and blanks around lines leave a text, and what is in a literal stays.
func TestCode(t *testing.T) {
	for in, want := range map[string]string{
		"a // b\n\n\tc \r\n":              "a\nc",
		"a /* b\n c */ d":                 "a   d",
		"// all":                          "",
		"a // b \\\r\n still\r\nc":        "a\nc",
		"x = \"// \\\"/*\"; // yes":       `x = "// \"/*";`,
		"c = '\"'; // yes\nd = '\\''; //": "c = '\"';\nd = '\\'';",
		"n = 1'000; // yes":               "n = 1'000;",
		"n = a / b; open /* for ever":     "n = a / b; open",
		"wo\\\nrd":                        "word",
		"R\"x( // )x\" // and this":       "R\"x( // )x\" // and this",
		"{\"R\", 1} // gone":              `{"R", 1}`,
	} {
		assert.Equal(t, Code(in), want, in)
	}
}

// No text makes it fail, or take long.
func FuzzInclusions(f *testing.F) {
	f.Add("#include \"a.h\"\n# include <b.h> /* */ R\"x(\n)x\" '\\''")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range included(text) {
			assert.That(t, name != "" && !strings.Contains(name, "\n"), "%q", name)
		}
	})
}

// A cubin's key has the content of what comes from include folders, not their place; that of a
// source which needs none does not know them.
func TestIncludeKey(t *testing.T) {
	key := func(text, sub, first, second string) string {
		dir := filepath.Join(t.TempDir(), sub)
		write(t, filepath.Join(dir, "a.h"), first)
		write(t, filepath.Join(dir, "in/b.h"), second)
		s := &shelf{folders: []string{dir}}
		return strings.Join(s.sums(Source{Text: `#include "k.cuh"`,
			Headers: map[string]string{"k.cuh": text}}, nil), "\n")
	}
	const uses, nested = "# include <a.h>\n", "#include \"in/b.h\"\n#include <a.h>"
	base := key(uses, "x", nested, "1")
	assert.That(t, base != "" && key(uses, "y", nested, "1") == base,
		"the folder's name changes the key")
	assert.That(t, key(uses, "x", nested+" ", "1") != base && key(uses, "x", nested, "2") != base,
		"the content does not change the key")
	assert.Equal(t, key(`#include "a.h"`, "x", nested, "1"), "",
		"a source without <...>", "in its key")
	assert.Equal(t, key("#include <gone.h>\n", "x", nested, "1"), "", "what is nowhere")
}

// NVRTC finds what is in the folders, and the cache notices a change.
func TestIncludeCompiles(t *testing.T) {
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
		write(t, filepath.Join(dir, "mine.h"), "#define MINE "+value+"\n")
		for _, cached := range []bool{false, true} {
			b, err := NewCache(cubins, c).Compile(src, fakeOptions)
			assert.That(t, err == nil && b.Cached == cached,
				"MINE %s: %+v, %v, want cached %v", value, b, err, cached)
		}
	}
}
