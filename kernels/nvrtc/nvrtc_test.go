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
func TestLogs(t *testing.T) {
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

func TestCompile(t *testing.T) {
	c := compiler(t)
	major, minor := c.Version()
	t.Logf("NVRTC %d.%d at %s, architectures %v", major, minor, c.Path(), c.Archs())
	assert.That(t, filepath.IsAbs(c.Path()), "path %q is not absolute", c.Path())
	for _, arch := range []string{"sm_80", "sm_90", "sm_100"} {
		t.Run(arch, func(t *testing.T) {
			if arch == "sm_100" && (major < 12 || major == 12 && minor < 8) {
				t.Skipf("NVRTC %d.%d does not know %s", major, minor, arch)
			}
			b, err := c.Compile(scale, Options{Arch: arch, Defines: []Define{{"BLOCK", "256"}}})
			assert.NoError(t, err)
			assert.That(t, strings.HasPrefix(string(b.Cubin), "\x7fELF"),
				"not an ELF image: %q", b.Cubin[:min(8, len(b.Cubin))])
			assert.That(t, len(b.Kernels) == 2 && b.Kernels["scale"].Registers != 0 &&
				b.Kernels["fill"].Registers != 0, "resource report: got %+v from log\n%s",
				b.Kernels, b.Log)
			assert.That(t, !b.Cached && b.CompileSeconds > 0,
				"cached %v, %g s", b.Cached, b.CompileSeconds)
			t.Logf("%d bytes, %.3f s, %+v", len(b.Cubin), b.CompileSeconds, b.Kernels)
		})
	}
}

func TestCompileFails(t *testing.T) {
	c := compiler(t)
	for _, tt := range []struct {
		name string
		src  Source
		opt  Options
		want string
	}{
		{"missing macro", scale, Options{Arch: "sm_90"},
			"compile scale.cu(3): catastrophic error: #error directive: BLOCK is not defined"},
		{"undefined name", Source{Name: "bad.cu", Text: "extern \"C\" __global__ void k(float* " +
			"y) {\n  y[0] = nothing;\n}\n"},
			Options{Arch: "sm_90"}, `compile bad.cu(2): error: identifier "nothing" is undefined`},
		{"missing header", Source{Name: "bad.cu", Text: "#include \"gone.cuh\"\n"},
			Options{Arch: "sm_90"}, "gone.cuh"},
		{"architecture", scale, Options{Arch: "sm_5"}, "invalid value for --gpu-architecture"},
		{"flag", scale, Options{Arch: "sm_90", Defines: []Define{{"BLOCK", "256"}},
			Extra: []string{"--no-such-flag"}}, "no-such-flag"},
		{"shared memory", scale, Options{Arch: "sm_90", Defines: []Define{{"BLOCK", "65536"}}},
			"too much shared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Compile(tt.src, tt.opt)
			assert.Must(t, err != nil, "it is compiled")
			var ce *CompileError
			assert.That(t, errors.As(err, &ce) && ce.Source == tt.src.Name && ce.Log != "",
				"not a CompileError with source and log: %#v", err)
			assert.That(t, strings.Contains(err.Error(), tt.want) &&
				!strings.Contains(err.Error(), "\n"), "got  %s\nwant one line with %s", err,
				tt.want)
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opt := range []Options{
		{},
		{Arch: "90"},
		{Arch: "compute_90"},
		{Arch: "sm_90", Defines: []Define{{"", "1"}}},
		{Arch: "sm_90", Defines: []Define{{"A", "1"}, {"B", "1"}, {"A", "2"}}},
	} {
		flags, err := opt.flags()
		assert.That(t, err != nil, "%+v gave %q, want an error", opt, flags)
	}
}
