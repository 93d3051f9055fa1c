package nvrtc

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// codeOf is that of k.cu with headers.
func codeOf(t *testing.T, text string, headers map[string]string) Code {
	t.Helper()
	c, err := NewReader(func(name string) (string, error) {
		if name == "k.cu" {
			return text, nil
		}
		return headers[name], nil
	}).Code("k.cu")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLex(t *testing.T) {
	for in, want := range map[string]string{
		"a // b\nc":                                       "a c",
		"a /* b\n c */ d":                                 "a d",
		"// all":                                          "",
		"a // b \\\n still\nc":                            "a c",
		"a // b \\\r\n still\r\nc":                        "a c",
		"x = \"// no\"; // yes":                           `x = "// no" ;`,
		"x = \"\\\"//\"; // yes":                          `x = "\"//" ;`,
		"c = '\"'; // yes":                                `c = '"' ;`,
		"n = 1'000'000 + 0x1p-3f; // yes '":               "n = 1'000'000 + 0x1p-3f ;",
		"r = u8R\"x( // no )\" )x\"; // y":                `r = u8R"x( // no )" )x" ;`,
		"open /* never closed":                            "open",
		"a+ ++b>>c->d<=>e.*f":                             "a + ++ b >> c -> d <=> e .* f",
		"wo\\\nrd":                                        "word",
		" #  define A 1 /* one\n */ + 2 // b\nint":        "#define A 1 + 2 int",
		"#define F(x)x\n#define G (x)":                    "#define F( x ) x #define G ( x )",
		"#if 0\nit's\n#if A\n#endif\n#else\nb\n#endif\nc": "b c",
		"#if 0\na\n#elif B\nb\n#endif":                    "#if B b #endif",
		"#if 0\n#if 0\na\n#else\nb\n#endif\n#endif\nc":    "c",
		"#if 00\na\n#endif":                               "#if 00 a #endif",
	} {
		if got := strings.TrimSpace(strings.ReplaceAll(textOf(in).text, "\n", " ")); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// What a kernel reaches stays, whatever it is; what it does not reach goes, unless nobody can tell.
func TestCode(t *testing.T) {
	const kernel = "\nextern \"C\" __global__ void k(float *p) { use(p); }\n"
	for _, tt := range []struct{ code, kept string }{ // kept: "all", "none", or some text
		{"__device__ int use(float *p) { return 1; }", "all"},
		{"__device__ int idle(float *p) { return 1; }", "none"},
		{"__device__ int idle();\n__device__ int use();", "use ( ) ;"},
		{"template <int N = 1, bool = (N > 2)> struct A { int a; };\n__device__ int use() { return A<1>().a; }", "all"},
		{"template <int N> struct A { int a; };\ntemplate <> struct A<3> { int b; } a3;", "none"},
		{"template <int N> struct A;\ntemplate <> struct A<3> { void use(); };\nvoid A<3>::use() {}", "all"},
		{"namespace n { int idle() { return 1; } inline namespace m { int use(); } }", "namespace n { inline namespace m { int use ( ) ; } }"},
		{"extern \"C\" { __device__ int idle(); __device__ int use(); }", `extern "C" { __device__ int use ( ) ; }`},
		{"constexpr int A = 1, B = A < 2 ? use : 3, D = 4;", "none"},
		{"constexpr int A = f<1, 2>(3), use = 4;", "all"},
		{"constexpr auto use = [](int a) { return a; };", "all"},
		{"enum { A, use };", "all"},
		{"enum class E : int { A, B };", "none"},
		{"typedef void (*use)(int);", "all"},
		{"typedef struct { int a; } use;", "all"},
		{"using use = int;\nusing other = int;", "using use = int ;"},
		{"using namespace n;", "all"},
		{"int variable;", "all"},
		{"__device__ float table[3] = {1, 2, 3};", "all"},
		{"const int table[] = {1, 2, 3};", "none"},
		{"static_assert(sizeof(int) == 4, \"\");", "all"},
		{"struct S { int a; };\n__device__ S operator+(S, S);", "all"},
		{"struct It { int a; };\n__device__ It begin(int);", "all"},
		{"int const_() { return 1; } struct R ret() { return {}; } void use();", "ret ( ) { return { } ; } void use ( ) ;"},
		// The preprocessor.
		{"#define use(p) f(p)\nvoid f(float *);", "all"},
		{"#define idle(p) f(p)\nvoid f(float *);", "none"},
		{"#define HIDDEN __global__\nHIDDEN void other() {}", "all"},
		{"#define NAME use\nvoid NAME(float *) {}", "all"},
		{"#define SPEC __device__ __forceinline__\nSPEC void idle(float *) {}", "none"},
		{"#define MAKE(n) void n(float *) {}\nMAKE(use)\nvoid idle() {}", "all"},
		{"#if A\nvoid idle();\n#else\nvoid use();\n#endif", "#if A\n#else\nvoid use();\n#endif"},
		{"void idle()\n#if A\n{ a(); }\n#else\n{ b(); }\n#endif\n", "all"},
		{"void idle() {\n#if A\n if (a) {\n#else\n {\n#endif\n } }", "none"},
		{"void idle() {\n#if A\n if (a) {\n#endif\n }", "all"},
		{"void idle() {\n#define use f\n}\nvoid f();", "all"},
		{"#pragma once", "all"},
		{"#define S(x) #x\nvoid idle();", "all"},
		{"#define J(a, b) a##b\nvoid idle();", "all"},
		{"#include <a.h>\nvoid idle();", "all"},
		{"#include HEADER\nvoid idle();", "all"},
		{"%:define use(p) f(p)\nvoid idle();", "#define use(p) f(p)"},
		{"void idle() { int l = __LINE__; }", "all"},
		{"__device__ int used;\n__device__ void use() { asm(\"ld %0, [other];\"); }\nconst int other = 1;", "all"},
		{"void idle( {\n", "all"},
	} {
		all := strings.TrimSpace(textOf(tt.code + kernel).text)
		want, whole := strings.TrimSpace(textOf(tt.kept+kernel).text), tt.kept == "all"
		if tt.kept == "none" {
			want = strings.TrimSpace(textOf(kernel).text)
		}
		got := strings.TrimSpace(codeOf(t, tt.code+kernel, nil).Text)
		if exact := textOf(tt.code).exact; exact && got != strings.TrimSpace(tt.code+kernel) || !exact && (whole && got != all || !whole && !strings.Contains(got, want)) || !whole && got == all {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.code, got, want)
		}
	}
}

// Included files count where they are included; a name of them is as good as one of the file.
func TestCodeOfHeaders(t *testing.T) {
	const text = "#include \"a.cuh\"\nextern \"C\" __global__ void k() { f(); }"
	plain := codeOf(t, text, map[string]string{"a.cuh": "void f() { g(); }", "b.cuh": "void g();"})
	for what, tt := range map[string]struct {
		a, b string
		same bool
	}{
		"unused header": {"#include \"b.cuh\"\nvoid f() { g(); }", "void h();", true},
		"used header":   {"#include \"b.cuh\"\nvoid f() { g(); }", "void g();", false},
		"circle":        {"#include \"b.cuh\"\nvoid f() { g(); }", "#include \"a.cuh\"", false},
		"twice":         {"void f() { g(); }\n#include \"b.cuh\"\n#include \"b.cuh\"", "", false},
		"moved":         {"#include \"b.cuh\"", "void f() { g(); }", true},
		"edited":        {"void f() { g(1); }", "", false},
		"macro":         {"#include \"b.cuh\"\nvoid f() { g(); }", "#define g() 1", false},
	} {
		if got := codeOf(t, text, map[string]string{"a.cuh": tt.a, "b.cuh": tt.b}); (got.Text == plain.Text) != tt.same {
			t.Errorf("%s: %q", what, got.Text)
		}
	}
	if !plain.Words["g"] || plain.Words["h"] {
		t.Errorf("words %v", plain.Words)
	}
	if _, err := NewReader(func(string) (string, error) { return "", os.ErrNotExist }).Code("k.cu"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Any text is split, and what is kept of it is part of it.
func FuzzCode(f *testing.F) {
	for _, s := range []string{"#if 0\n#elif A\n#else\n#endif", "template<int N>struct A{}a;namespace{}", "R\"(", "#define\n#include\n#", "void f(){}}", "a\\\n'\"/*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := NewReader(func(string) (string, error) { return text, nil })
		c, err := r.Code("k.cu")
		if err != nil {
			t.Fatal(err)
		}
		for w := range c.Words {
			if !strings.Contains(strings.NewReplacer("\r\n", "\n", "\\\r\n", "", "\\\n", "").Replace(text), w) {
				t.Errorf("%q is not in %q", w, text)
			}
		}
	})
}

func BenchmarkCode(b *testing.B) {
	for b.Loop() {
		files, err := os.ReadDir("../families")
		if err != nil {
			b.Fatal(err)
		}
		r := NewReader(func(name string) (string, error) {
			text, err := os.ReadFile("../families/" + name)
			return string(text), err
		})
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".cu") {
				if _, err := r.Code(f.Name()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
