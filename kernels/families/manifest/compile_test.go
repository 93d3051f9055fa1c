package manifest_test

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/cuda"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	. "normbench/kernels/families/manifest" // outside of it, as families import it
	"normbench/kernels/families/manifest/check"
)

// newChecker is for an H200 of another arch.
func newChecker(t *testing.T, r *kernels.Registry, arch string) *check.Inspector {
	d := devicetest.H200()
	d.Arch = arch
	c := check.New(r, d, 0)
	t.Cleanup(c.Close)
	return c
}

// needNVRTC is newChecker for an sm_90, or skips without NVRTC.
func needNVRTC(t *testing.T, r *kernels.Registry) *check.Inspector {
	t.Helper()
	c := newChecker(t, r, "sm_90")
	assert.Needs(t, "NVRTC", c.NoNVRTC)
	return c
}

// compile has families compiled at problems of their op and pass, as far as they serve them: their
// base, or all configs.
func compile(t *testing.T, c *check.Inspector, fs []*kernels.Family, all bool, problems ...string) {
	t.Helper()
	for _, f := range fs {
		for _, text := range problems {
			p, err := kernels.ParseProblem(fmt.Sprint(f.Op, "/", f.Pass, "/", text))
			if err != nil || f.CheckServes(p) != nil {
				continue
			}
			n, err := c.Check(f, p, all)
			assert.That(t, err == nil && n != 0, "%s on %s: %d configs, %v", f.Name, p, n, err)
		}
	}
	assert.That(t, c.Kernels() >= len(fs), "%d kernels", c.Kernels())
}

// The example's whole space compiles for every arch that we support.
func TestExampleCompilesForEveryArch(t *testing.T) {
	r, fs, err := Load(families.New(), "../../../examples/kernels")
	assert.NoError(t, err)
	needNVRTC(t, r)
	for _, arch := range []string{"sm_80", "sm_90", "sm_100"} {
		compile(t, newChecker(t, r, arch), fs, arch == "sm_90", "4096x4096/bf16", "33x541/fp16-wfp32+zc",
			"64x256/fp32+noweight")
	}
}

// A source that does not compile, or whose kernel has another name when it is
// compiled, is an error; so is a Fault anywhere in the space.
func TestCheckFindsSourcesThatDoNotCompile(t *testing.T) {
	p := devicetest.Problem(t, "layernorm/bwd/4096x4096/bf16")
	for _, test := range []struct{ manifest, source, want, help string }{
		{good, strings.Replace(goodSource, "const X *x", "const Q *x", 1), "mine.cu(2)", "stands under defines:"},
		{good, strings.Replace(goodSource, "const X *x", "const X *COLS", 1), "mine.cu(2)", "macros that hold the launch's values: COLS; "},
		{good, "#include <nosuch.h>\n" + goodSource, "no header nosuch.h", "under include:"},
		{good, strings.Replace(goodSource, "i64 rows", "int rows", 1),
			"user:mine.cu: first takes 13 parameters of [8 8 8 8 8 8 8 8 8 8 8 4 4] bytes, and " +
				"is given 13 of [8 8 8 8 8 8 8 8 8 8 8 8 4]", "in their order"},
		{strings.Replace(good, "entry: first", "entry: first<4>", 1), goodSource, "mine.cu", "W_TYPE, "},
		{strings.Replace(good, "elems: M}", `elems: "M / (8 - w)"}`, 1), goodSource,
			"scratch[1].elems divides by zero for layernorm/bwd/4096x4096/bf16 with w8.v0.k", ""},
	} {
		r, fs, err := Load(families.New(), folder(t, "mine.yaml", test.manifest, "mine.cu",
			test.source))
		assert.NoError(t, err)
		_, err = needNVRTC(t, r).Check(fs[0], p, false)
		assert.That(t, err != nil && strings.Contains(err.Error(), test.want) &&
			hint.Of(err) != "" && strings.Contains(hint.Of(err), test.help),
			"%v (%s), want %q", err, hint.Of(err), test.want)
	}
}

// plain is a forward as people write it: CUDA's own headers, a template, an int, a knob of its own,
// no rstd.
//
//go:embed testdata/plain.yaml
var plain string

//go:embed testdata/plain.cu
var plainSource string

func TestAPlainManifestIsEnough(t *testing.T) {
	dir := folder(t, "plain.yaml", plain, "plain.cu", plainSource)
	r, fs, err := Load(families.New(), dir)
	assert.NoError(t, err)
	f, p, d := fs[0], devicetest.Problem(t, "rmsnorm/fwd/64x4096/bf16"), devicetest.H200()
	err = f.CheckServes(p)
	assert.That(t, err == nil && slices.Equal(f.Unwritten, []string{"rstd"}),
		"%v, unwritten %q", err, f.Unwritten)
	c, err := kernels.ParseConfig("TPB128")
	assert.Must(t, err == nil && f.Base(p, d).String() == "TPB256" && f.Refuse(p, c, d) == nil,
		"%v, base %s", err, f.Base(p, d))
	l := f.Plan(p, c, d).Launches[0]
	assert.That(t, l.Block == 128 && l.Mangled && l.Define("TPB") == 128 &&
		l.Args[3].Kind == kernels.ArgInt32 && len(l.Options) == 2, "%+v", l)
	checker := needNVRTC(t, r)
	n, err := nvrtc.Find()
	assert.NoError(t, err)
	for _, file := range []string{"cuda_bf16.h", "cub/block/block_reduce.cuh"} {
		in := func(dir string) bool { _, err := os.Stat(filepath.Join(dir, file)); return err == nil }
		if !slices.ContainsFunc(n.Includes(), in) {
			t.Skipf("no %s", file)
		}
	}
	_, err = checker.Check(f, p, true)
	assert.Must(t, err == nil && checker.Kernels() == 2, "%d kernels, %v", checker.Kernels(), err)
	// Compiled by others: the same kernel from its cubin.
	u, err := cuda.NewUnit(r, &l, "sm_90")
	assert.NoError(t, err)
	b, err := nvrtc.NewCache(nvrtc.DefaultCacheDir(), n).Compile(u.Source, u.Options)
	assert.NoError(t, err)
	compiled := strings.NewReplacer("source: plain.cu", "cubin: plain.cubin",
		"mine::norm<TPB, __nv_bfloat16>", b.Symbol(l.Entry)).Replace(plain)
	symbol := b.Symbol(l.Entry)
	ptx := ".visible .entry " + symbol + "(\n\t.param .u64 .ptr .global .align 1 x,\n" +
		"\t.param .u64 w,\n\t.param .align 4 .b8 y[8],\n\t.param .u32 n,\n\t.param .f32 eps\n)\n{ ret; }\n"
	const wide = "takes 5 parameters of [8 8 8 4 4] bytes, and is given 5 of [8 8 8 8 4]"
	whole, fromPTX := string(b.Cubin), strings.Replace(compiled, "cubin: plain.cubin", "ptx: plain.ptx", 1)
	for _, test := range []struct{ manifest, code, want string }{
		{compiled, whole, ""},
		{strings.Replace(compiled, "int32:", "int64:", 1), whole, wide},
		{strings.Replace(compiled, "entry: ", "entry: x", 1), whole, "plain.cubin has no kernel x_Z"},
		{compiled, whole[:len(whole)/2] + ptx, "plain.cubin has no kernel " + symbol},
		{fromPTX, ptx, ""},
		{strings.Replace(fromPTX, "int32:", "int64:", 1), ptx, wide},
		{fromPTX, strings.Replace(ptx, symbol, "other", 1), "plain.ptx has no kernel " + symbol},
	} {
		r, fs, err := Load(families.New(), folder(t, "plain.yaml", test.manifest, "plain.cubin",
			test.code, "plain.ptx", test.code))
		if err == nil {
			assert.That(t, fs[0].Version != "", "the code is no part of the version")
			_, err = needNVRTC(t, r).Check(fs[0], p, true)
		}
		assert.That(t, (err == nil) == (test.want == "") && strings.Contains(fmt.Sprint(err), test.want),
			"%v, want %q", err, test.want)
	}
}

// A template parameter of GPU code that a knob's macro replaces is named, before a compiler says what it saw.
func TestTemplateParameterIsNoMacro(t *testing.T) {
	for edit, want := range map[string]string{
		"template <int THREADS, typename T>":                                    "",
		"template <int TPB, typename T>":                                        "plain.cu has a template parameter TPB, which is also a macro",
		"template <typename T, int TPB = 4>":                                    "plain.cu has a template parameter TPB, which is also a macro",
		"template <int TPB> void host() {}\ntemplate <int THREADS, typename T>": "",
		"template <int X = TPB, typename T>":                                    "",
	} {
		source := strings.Replace(plainSource, "template <int THREADS, typename T>", edit, 1)
		_, _, err := Load(families.New(), folder(t, "plain.yaml", plain, "plain.cu", source))
		assert.That(t, (err == nil) == (want == "") && strings.Contains(fmt.Sprint(err), want), "%s: %v", edit, err)
	}
}

// An earlier folder's kernels stand beside the present ones, with their own sources and base.
func TestBaselineStandsBesideThePresentKernels(t *testing.T) {
	r, _, err := Load(families.New(), folder(t, "plain.yaml", plain, "plain.cu", plainSource))
	assert.NoError(t, err)
	older := strings.NewReplacer("tpb:", "lanes:", "TPB", "LANES", "block: tpb",
		"block: lanes").Replace(plain)
	old, fs, err := Load(families.New(), folder(t, "plain.yaml", older, "plain.cu", plainSource+
		"#include \"near.h\"\n", "near.h", "int near;\n"))
	assert.NoError(t, err)
	r, err = families.WithBaselineOf(r, fs, old.File)
	assert.Must(t, err == nil, "%v", err)
	f, err := r.Lookup(families.Baseline + "plain")
	assert.NoError(t, err)
	p, d := devicetest.Problem(t, "rmsnorm/fwd/64x4096/bf16"), devicetest.H200()
	c := f.Base(p, d)
	l := f.Plan(p, c, d).Launches[0]
	u, err := cuda.NewUnit(r, &l, "sm_90")
	assert.That(t, err == nil && c.String() == "LANES256" &&
		u.Source.Headers["near.h"] == "int near;\n", "%v, base %s, headers %q", err, c,
		u.Source.Headers)
	id := families.NewIdentity(r, kernels.KindCUDA)
	now, err1 := r.Lookup("plain")
	was, err2 := id.Source(f)
	is, err3 := id.Source(now)
	assert.That(t, err1 == nil && err2 == nil && err3 == nil && was != is,
		"hashes %s and %s (%v, %v, %v)", was, is, err1, err2, err3)
	// A macro that only the entry names is part of what a launch is.
	seen := map[string]bool{}
	for _, label := range []string{"TPB128", "TPB256"} {
		c := devicetest.Config(t, label)
		plan := now.Plan(p, c, d)
		plan.Launches[0].Block = 128
		seen[families.Launches(plan)] = true
	}
	assert.Equal(t, len(seen), 2, "two instances of a template are one launch")
}
