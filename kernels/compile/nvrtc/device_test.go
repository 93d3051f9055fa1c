package nvrtc

import (
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

const hosted = `#include <iostream>
#include <torch/all.h>
#include "mine/helpers.h"
extern cudaDeviceProp deviceProp; // of the host
typedef struct { float v; } Value;
enum Kind { PLAIN, OTHER };
#define TWICE(x) (2 * twice(x))
namespace a { namespace b {
template <typename T, int N = (3 > 2)> struct Box { T v[N]; };
template <typename T> __device__ T twice(T v) {
#if N > 3
  if (v) {
#else
  if (!v) {
#endif
    v = v + v; }
  return v;
}
__device__ Value operator+(Value l, Value r) { return {l.v + r.v}; }
std::ostream &operator<<(std::ostream &to, Value v) { return to << "}{"; }
template <typename T>
__global__ void __launch_bounds__(128) k(Box<T> x) { Kind kind = OTHER; TWICE(x.v[0]); helper(); }
torch::Tensor run(torch::Tensor x) { k<float><<<1, 32>>>(x); return x; }
} }
float unused() { return rand(); }
int main(int argc, char **argv) { std::cout << a::b::run(argc); }
`

// Device code is what the entry reaches, in a file or in a folder of headers, on the lines where it stood.
func TestDeviceCodeIsWhatTheEntryReaches(t *testing.T) {
	dir := t.TempDir()
	assert.Write(t, filepath.Join(dir, "mine/helpers.h"), "#pragma once\n#include \"deeper.h\"\n"+
		"#include \"../../outside.h\"\n__device__ void helper() { deeper(); }\nvoid host() { exit(1); }\n")
	assert.Write(t, filepath.Join(dir, "mine/deeper.h"), "__device__ void deeper() {}\n")
	src := Source{Name: "user:k.cu", Text: hosted}
	assert.That(t, src.HasHostCode([]string{dir}), "a file that launches kernels has no host code")
	assert.That(t, !(Source{Name: "k.cu", Text: "__global__ void k() {} // <<<"}).HasHostCode(nil),
		"a file of a kernel has host code")
	got := src.DeviceCode("a::b::k<float>", []string{dir}, []string{"torch/all.h"}, nil).Text
	for _, kept := range []string{"struct Box", "T twice(T v)", "Value operator+", "enum Kind", "typedef struct",
		"k(Box<T> x)", "void helper()", "void deeper()", "#define TWICE", "#include <iostream>",
		`#include "../../outside.h"`} {
		assert.That(t, strings.Contains(got, kept), "%s is not kept:\n%s", kept, got)
	}
	for _, gone := range []string{"torch", "deviceProp", "operator<<", "<<<", "rand", "main(", "exit"} {
		assert.That(t, !strings.Contains(got, gone), "%s is kept:\n%s", gone, got)
	}
	// The kernel is on the line where it was: the file's first line follows the last mark of it.
	_, after, _ := strings.Cut(got, "#line 4 \"k.cu\"\n")
	for i, line := range strings.Split(hosted, "\n")[3:] {
		if strings.Contains(line, "void __launch_bounds__") {
			assert.That(t, strings.Contains(strings.Split(after, "\n")[i], "__launch_bounds__"), "line %d:\n%s", i+4, got)
		}
	}
}

// A header that a source is without is empty wherever it lies.
func TestDeviceCodeWithoutHeader(t *testing.T) {
	dir := t.TempDir()
	assert.Write(t, filepath.Join(dir, "mine/host.h"), "#include <torch/all.h>\nvoid helper();\n")
	src := Source{Name: "k.cu", Text: "#include <mine/host.h>\n__global__ void k() { helper(); }\n"}
	for _, without := range [][]string{nil, {"mine/host.h"}} {
		got := src.DeviceCode("k", []string{dir}, without, nil).Text
		assert.Equal(t, strings.Contains(got, "torch/all.h"), without == nil, got)
		assert.Equal(t, strings.Contains(got, "<mine/host.h>"), false, got)
	}
	storage := Source{Name: "k.cu", Text: "__global__ void k() { std::aligned_storage<4>::type v; }\n"}
	assert.That(t, strings.HasPrefix(storage.DeviceCode("k", nil, nil, nil).Text, "#include <type_traits>\n"),
		"what nvcc includes by itself is not there")
}

// A header of the source's own may have a name like CUDA's, in a folder like CUDA's. CUDA's own stay as they are included.
func TestOwnHeaderWithANameLikeCUDAs(t *testing.T) {
	dir, toolkit := t.TempDir(), t.TempDir()
	assert.Write(t, filepath.Join(dir, "cuda/helpers.h"), "#include <torch/all.h>\nint deep;\n")
	assert.Write(t, filepath.Join(toolkit, "cuda_runtime.h"), "int runtime;\n")
	assert.Write(t, filepath.Join(toolkit, "cuda_bf16.h"), "int bf16;\n")
	src := Source{Name: "k.cu", Headers: map[string]string{"cuda_utils.cuh": "int utils;\n"}, Text: "#include \"cuda_utils.cuh\"\n" +
		"#include \"cuda/helpers.h\"\n#include \"cuda_bf16.h\"\n#include <cuda/helpers.h>\n__global__ void k() { deep += utils; }\n"}
	got := src.DeviceCode("k", []string{dir, toolkit}, []string{"torch/all.h"}, nil).Text
	for _, kept := range []string{"int utils;", "int deep;", `#include "cuda_bf16.h"`, "#include <cuda/helpers.h>"} {
		assert.That(t, strings.Contains(got, kept), "%s is not kept:\n%s", kept, got)
	}
	assert.That(t, !strings.Contains(got, "torch"), "a header's own header is not left out:\n%s", got)
}

const made = `#define SPECIAL(T, OP, BODY, ARGS...) \
  template <ARGS>                             \
  struct Functor<T, OP> {                     \
    __device__ T operator()(T l, T r) BODY    \
  };
#define KERNEL(TYPE, NAME) extern "C" __global__ void NAME##_of(TYPE *y, const int n) { y[n] = Functor<TYPE, ADD>()(y[0], y[1]); }
#define LAUNCH(TYPE, NAME) void NAME(TYPE *y) { NAME##_of<<<1, 1>>>(y, 1); }
enum Kind { ADD, OTHER };
template <typename T, Kind OP> struct Functor;
SPECIAL(T, ADD, { return l + r; }, typename T)
SPECIAL(half, ADD, { return __hadd(l, r); })
#if __CUDA_ARCH__ >= 800
KERNEL(float, first)
KERNEL(double, second)
#endif
LAUNCH(float, first)
struct Last { int v; };
`

// What a macro's call declares is kept or left out as if it stood there. A kernel may be one.
func TestDeclarationsOfMacrosAreFound(t *testing.T) {
	src := Source{Name: "k.cu", Text: made}
	got := src.DeviceCode("first_of", nil, nil, nil).Text
	for _, kept := range []string{"SPECIAL(T, ADD, { return l + r; }, typename T)", "SPECIAL(half", "KERNEL(float, first)",
		"enum Kind", "struct Functor;"} {
		assert.That(t, strings.Contains(got, kept), "%s is not kept:\n%s", kept, got)
	}
	for _, gone := range []string{"KERNEL(double", "LAUNCH(float", "struct Last"} {
		assert.That(t, !strings.Contains(got, gone), "%s is kept:\n%s", gone, got)
	}
	all := src.Signatures()
	assert.Equal(t, len(all), 2, "kernels")
	assert.Same(t, all[1], Signature{Name: "second_of", Params: []CParam{{"double *", "y"}, {"const int", "n"}}})
}

// A header in an inactive branch is there in an active one too.
func TestHeaderOfAnInactiveBranchIsFound(t *testing.T) {
	dir := t.TempDir()
	assert.Write(t, filepath.Join(dir, "h.h"), "int h;\n")
	src := Source{Name: "k.cu", Text: "#ifdef A\n#include <h.h>\n#else\n#include <h.h>\n#endif\n#include <h.h>\n#include <h.h>\n"}
	assert.Equal(t, strings.Count(src.Joined([]string{dir}, nil), "int h;"), 3, "copies")
}

// Signatures say how a kernel is declared.
func TestSignaturesSayHowAKernelIsDeclared(t *testing.T) {
	all := Source{Text: hosted + "template <typename T, int N>\n__global__ void two(const T *__restrict__ x, float eps = 1e-5f, " +
		"unsigned int n) { extern __shared__ char s[]; }"}.Signatures()
	assert.Equal(t, len(all), 2, "kernels")
	assert.Equal(t, all[0].Name, "a::b::k", "name")
	assert.Same(t, all[1], Signature{Name: "two", Template: []string{"typename T", "int N"}, Shared: true,
		Params: []CParam{{"const T *", "x"}, {"float", "eps"}, {"unsigned int", "n"}}})
	assert.Equal(t, all[1].Parameters(), "(const T *x, float eps, unsigned int n)")
}

// Blanks and comments make no other parameters, types and names do.
func TestParametersAreCompared(t *testing.T) {
	of := func(list string) string {
		return Source{Text: `extern "C" __global__ void BOUNDS(T)` + "\nk(" + list + ") {}"}.Signatures()[0].Parameters()
	}
	for list, same := range map[string]bool{"const X *x, float **y, i64 rows": true, "const X* x, float * * y,\n  i64 rows /* all */": true,
		"const X *__restrict__ x, float **y, i64 rows": true, "const X *y, float **x, i64 rows": false,
		"const X *x, float **y, int rows": false, "const X *x, float **y": false} {
		assert.Equal(t, of(list) == "(const X *x, float **y, i64 rows)", same, list, of(list))
	}
}

// An entry is found by its symbol, by its name in C++, or listed with all kernels there are.
func TestEntryIsFoundByEachOfItsNames(t *testing.T) {
	b := &Binary{Cubin: []byte(".visible .entry _ZN3one4kernIfLi8EEEvPT_(\n.param .u64 a\n)\n" +
		".visible .entry _ZN3one4kernIfLi16EEEvPT_(\n)\n.entry plain(\n)\n.entry _Z5otherPfi(\n)\n")}
	for entry, want := range map[string]string{
		"plain": "plain", "other": "_Z5otherPfi", "_Z5otherPfi": "_Z5otherPfi",
		"one::kern<float, 8>": "_ZN3one4kernIfLi8EEEvPT_", "kern<float,16>": "_ZN3one4kernIfLi16EEEvPT_",
	} {
		got, err := b.Find(entry)
		assert.That(t, err == nil && got == want, "%s: %s, %v", entry, got, err)
	}
	_, err := b.Find("kern")
	assert.Error(t, err, "has 2 kernels kern, but _ZN3one4kernIfLi8EEEvPT_ (one::kern<float, 8>)")
	_, err = b.Find("er")
	assert.Error(t, err, "has no kernel er, but", "plain", "other")
}

// All missing headers are named at once, those of headers of the user's too.
func TestMissingHeadersAreNamedAtOnce(t *testing.T) {
	dir := t.TempDir()
	assert.Write(t, filepath.Join(dir, "mine.h"), "#include <third.h>\n")
	_, err := NewCache(t.TempDir(), compiler(t)).Compile(Source{Name: "k.cu", Text: "#include <first.h>\n#ifdef NEVER\n" +
		"#include <never.h>\n#endif\n#include \"second.h\"\n#include <mine.h>\nextern \"C\" __global__ void k() {}\n"},
		CompileOptions{Arch: "sm_90", Include: []string{dir}})
	assert.Error(t, err, "no header first.h, second.h, third.h")
}

// Standard headers of untouched files are there.
func TestStandardHeadersAreThere(t *testing.T) {
	c := compiler(t)
	if !Found(c.Includes(), "cuda/std/type_traits") {
		t.Skip("no headers of CUDA's C++ library")
	}
	b, err := NewCache(t.TempDir(), c).Compile(Source{Name: "k.cu", Text: `#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cub/cub.cuh>
#include <functional>
#include <limits>
#include <stdio.h>
#include <type_traits>
template <typename T> struct Negate : public std::unary_function<T, T> { __device__ T operator()(T v) { return -v; } };
template <typename T> struct Add : public std::binary_function<T, T, T> { __device__ T operator()(T l, T r) { return l + r; } };
template <typename T> __global__ void k(T *y, std::int64_t n) {
  y[1] = Add<T>()(Negate<T>()(y[1]), INFINITY);
  static_assert(std::is_same<T, float>::value && std::numeric_limits<T>::max() == FLT_MAX, "");
  __shared__ typename cub::BlockReduce<T, 128>::TempStorage s;
  T sum = cub::BlockReduce<T, 128>(s).Sum(y[std::min(n, (std::int64_t)INT_MAX)]);
  assert(sum > 0);
  printf("%f", std::sqrt(sum));
}
template __global__ void k<float>(float *, std::int64_t);
`}, CompileOptions{Arch: "sm_90", Names: []string{"k"}})
	assert.NoError(t, err)
	assert.Equal(t, b.Symbol("k"), "_Z1kIfEvPT_x", "symbol of the one kernel of that name")
}

// The numbers of math.h are there without a header, as nvcc has them.
func TestNumbersOfMathAreThere(t *testing.T) {
	src := Source{Name: "k.cu", Text: "__device__ constexpr float LEAST = -INFINITY;\n__global__ void k(float *y) { y[0] = LEAST; y[1] = NAN; }\n" +
		"int main() { k<<<1, 1>>>(nullptr); }\n"}
	_, err := NewCache(t.TempDir(), compiler(t)).Compile(src.DeviceCode("k", nil, nil, nil), CompileOptions{Arch: "sm_90", Names: []string{"k"}})
	assert.NoError(t, err)
}

// nvcc compiles a file with its host code, and makes the instance of a template that is asked for.
func TestNVCCCompilesHostCodeAndTemplates(t *testing.T) {
	nvcc, err := FindNVCC()
	assert.Needs(t, "NVCC", err)
	src := Source{Name: "k.cu", Text: "#include <cstdio>\n#include \"mine.h\"\ntemplate <int N> __global__ void k(float *y) { y[0] = N + MINE; }\n" +
		"int main() { k<3><<<1, 1>>>(nullptr); std::printf(\"host\"); }\n", Headers: map[string]string{"mine.h": "#define MINE 1\n"}}
	cache := NewCache(t.TempDir(), nil)
	for name, want := range map[string]string{"k<8>": "_Z1kILi8EEvPf", "k": "_Z1kILi3EEvPf"} {
		b, err := cache.Compile(src, CompileOptions{Arch: "sm_90", Names: []string{name}, NVCC: nvcc})
		assert.NoError(t, err)
		assert.Equal(t, b.Symbol(name), want, "symbol of", name)
	}
	_, err = cache.Compile(Source{Name: "k.cu", Text: "#include <a.h>\n#include <b.h>\n"}, CompileOptions{Arch: "sm_90", NVCC: nvcc})
	assert.Error(t, err, "no header a.h, b.h")
}

// Without nvcc the error says what to install.
func TestErrorWithoutNVCCSaysWhatToInstall(t *testing.T) {
	t.Setenv(NVCCVariable, filepath.Join(t.TempDir(), "nvcc"))
	_, err := findNVCC()
	assert.That(t, strings.Contains(assert.Refusal(t, err), "pip install nvidia-cuda-nvcc"), "%v", err)
}
