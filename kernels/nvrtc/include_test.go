package nvrtc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/hint"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// The folders are those of the variable, of a toolkit, and of wheels.
func TestIncludeFolders(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	for _, file := range []string{"cuda/targets/x/lib/libnvrtc.so.13.0.88", "cuda/targets/x/include/cuda_fp16.h", "cuda/targets/x/include/cccl/nv/target",
		"12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "12/nvidia/cuda_runtime/include/cuda_fp16.h", "12/nvidia/cuda_cccl/include/nv/target",
		"13/nvidia/cu13/lib/libnvrtc.so.13", "13/nvidia/cu13/include/cuda_fp16.h", "none/lib/libnvrtc.so.13", "none/include/stdio.h"} {
		write(t, at(file), "")
	}
	if err := os.Mkdir(at("cuda/lib64"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("cuda/targets/x/lib/libnvrtc.so.13.0.88"), at("cuda/lib64/libnvrtc.so.13")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"cuda/lib64/libnvrtc.so.13":               {"cuda/targets/x/include", "cuda/targets/x/include/cccl"},
		"12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12": {"12/nvidia/cuda_runtime/include", "12/nvidia/cuda_cccl/include"},
		"13/nvidia/cu13/lib/libnvrtc.so.13":       {"13/nvidia/cu13/include"},
		"none/lib/libnvrtc.so.13":                 nil,
	} {
		var paths []string
		for _, name := range want {
			paths = append(paths, at(name))
		}
		t.Setenv("NORMBENCH_INCLUDE", "")
		if got := includeFolders(at(file), 0); !slices.Equal(got, paths) {
			t.Errorf("%s: %q, want %q", file, got, paths)
		}
		t.Setenv("NORMBENCH_INCLUDE", "/a"+string(filepath.ListSeparator)+"/b")
		if got := includeFolders(at(file), 0); !slices.Equal(got, append([]string{"/a", "/b"}, paths...)) {
			t.Errorf("%s: %q with NORMBENCH_INCLUDE", file, got)
		}
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
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if _, err := Includes("#import <a.h>"); err == nil || hint.Of(err) == "" {
		t.Error(err)
	}
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
		if got := Code(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// No text makes it fail, or take long.
func FuzzInclusions(f *testing.F) {
	f.Add("#include \"a.h\"\n# include <b.h> /* */ R\"x(\n)x\" '\\''")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range included(text) {
			if name == "" || strings.Contains(name, "\n") {
				t.Errorf("%q", name)
			}
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
		return strings.Join(s.sums(Source{Text: `#include "k.cuh"`, Headers: map[string]string{"k.cuh": text}}, nil), "\n")
	}
	const uses, nested = "# include <a.h>\n", "#include \"in/b.h\"\n#include <a.h>"
	base := key(uses, "x", nested, "1")
	if base == "" || key(uses, "y", nested, "1") != base {
		t.Error("the folder's name changes the key")
	}
	if key(uses, "x", nested+" ", "1") == base || key(uses, "x", nested, "2") == base {
		t.Error("the content does not change the key")
	}
	if got := key(`#include "a.h"`, "x", nested, "1"); got != "" {
		t.Errorf("a source without <...> has %q in its key", got)
	}
	if got := key("#include <gone.h>\n", "x", nested, "1"); got != "" {
		t.Errorf("what is nowhere is %q", got)
	}
}

// NVRTC finds what is in the folders, and the cache notices a change.
func TestIncludeCompiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("NORMBENCH_INCLUDE", dir)
	c := compiler(t)
	src := Source{Name: "k.cu", Text: "#include <mine.h>\nextern \"C\" __global__ void k(float* y) { y[0] = MINE; }\n"}
	cubins := t.TempDir()
	if _, err := NewCache(cubins, c).Compile(src, fakeOptions); !errors.As(err, new(*CompileError)) || !strings.Contains(err.Error(), "mine.h") {
		t.Errorf("without the header: %v", err)
	}
	for _, value := range []string{"1.f", "2.f"} {
		write(t, filepath.Join(dir, "mine.h"), "#define MINE "+value+"\n")
		for _, cached := range []bool{false, true} {
			if b, err := NewCache(cubins, c).Compile(src, fakeOptions); err != nil || b.Cached != cached {
				t.Errorf("MINE %s: %+v, %v, want cached %v", value, b, err, cached)
			}
		}
	}
}
