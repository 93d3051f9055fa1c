package nvrtc

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// What a log of the compiler says of kernels, and the one line that an error with it has.
func TestLogOfACompilerIsReadByKernel(t *testing.T) {
	read := func(log string) string {
		var b strings.Builder
		kernels := parseLog(log + "\n")
		for _, name := range slices.Sorted(maps.Keys(kernels)) {
			fmt.Fprintf(&b, "%s: %+v\n", name, kernels[name])
		}
		err := &CompileError{Source: "k.cu", Result: "NVRTC_ERROR_COMPILATION", Log: log}
		return b.String() + err.Error()
	}
	assert.Cases(t, "testdata/logs.txt", read)
	assert.Equal(t, read(""), "compile k.cu: NVRTC_ERROR_COMPILATION")
}

// compiler finds NVRTC.
func compiler(t testing.TB) *Compiler {
	t.Helper()
	c, err := Find()
	assert.That(t, err == nil || errors.Is(err, ErrNotFound) && !strings.Contains(err.Error(), "\n"),
		"error of Find is not one line around ErrNotFound: %q", err)
	assert.Needs(t, "NVRTC", err)
	return c
}

//go:embed testdata/scale.cu
var scaleSource string

var scale = Source{
	Name: "scale.cu",
	Text: scaleSource,
	Headers: map[string]string{"scale.cuh": "__device__ inline float times(float a, float b) { " +
		"return a * b; }\n"},
}

func TestCompileGivesACubinForEachArch(t *testing.T) {
	c := compiler(t)
	major, minor := c.Version()
	t.Logf("NVRTC %d.%d at %s, architectures %v", major, minor, c.Path(), c.Archs())
	assert.That(t, filepath.IsAbs(c.Path()), "path %q is not absolute", c.Path())
	for _, arch := range []string{"sm_80", "sm_90", "sm_100"} {
		if arch == "sm_100" && (major < 12 || major == 12 && minor < 8) {
			t.Skipf("NVRTC %d.%d does not know %s", major, minor, arch)
		}
		b, err := c.Compile(scale, CompileOptions{Arch: arch, Defines: []Macro{{"BLOCK", "256"}}})
		assert.NoError(t, err)
		assert.That(t, strings.HasPrefix(string(b.Cubin), "\x7fELF") && len(b.Kernels) == 2 &&
			b.Kernels["scale"].Registers != 0 && b.Kernels["fill"].Registers != 0 && !b.Cached &&
			b.CompileSeconds > 0, "%s: %+v from log\n%s", arch, b.Kernels, b.Log)
	}
}

func TestErrorOfACompilerHasFileAndLine(t *testing.T) {
	c := compiler(t)
	block := func(n string, extra ...string) CompileOptions {
		return CompileOptions{Arch: "sm_90", Defines: []Macro{{"BLOCK", n}}, Extra: extra}
	}
	for _, tt := range []struct {
		src  Source
		opt  CompileOptions
		want string
	}{
		{scale, CompileOptions{Arch: "sm_90"},
			"compile scale.cu(3): catastrophic error: #error directive: BLOCK is not defined"},
		{Source{Name: "bad.cu", Text: "extern \"C\" __global__ void k(float* y) {\n  y[0] = nothing;\n}\n"},
			fakeOptions, `compile bad.cu(2): error: identifier "nothing" is undefined`},
		{Source{Name: "bad.cu", Text: "#include \"gone.cuh\"\n"}, fakeOptions, "gone.cuh"},
		{scale, CompileOptions{Arch: "sm_5"}, "invalid value for --gpu-architecture"},
		{scale, block("256", "--no-such-flag"), "no-such-flag"},
		{scale, block("65536"), "too much shared"},
	} {
		_, err := c.Compile(tt.src, tt.opt)
		var ce *CompileError
		assert.That(t, errors.As(err, &ce) && ce.Source == tt.src.Name && ce.Log != "" &&
			strings.Contains(err.Error(), tt.want) && !strings.Contains(err.Error(), "\n"),
			"got  %v\nwant one line with %s", err, tt.want)
	}
}
