package manifest_test

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	. "normbench/kernels/families/manifest" // outside of it, as families import it
)

//go:embed testdata/triton.yaml
var tritonManifest string

//go:embed testdata/signatures.py
var tritonSource string

// fakeTriton has Python find a Triton, which is enough to probe.
func fakeTriton(t *testing.T) (dir string) {
	t.Helper()
	python, err := exec.Command("python3", "-c",
		"import sys; sys.stdlib_module_names; print(sys.executable, end='')").Output()
	if err != nil {
		t.Skip("no Python 3.10 or later")
	}
	dir = t.TempDir()
	for name, text := range map[string]string{
		"triton/__init__.py": "__version__ = '3.6.0'\nraise 1", "lib/__init__.py": "raise 1",
		"lib/kernels.py": "import lib.tools\n" + strings.Replace(tritonSource, ", helper", "",
			1), "lib/tools.py": "SIZE = 1\n"} {
		assert.Write(t, filepath.Join(dir, name), text)
	}
	t.Setenv(triton.PythonVariable, string(python))
	t.Setenv("PYTHONPATH", dir)
	return dir
}

// A plan tells Triton what its own launcher would: absent tensors, classes of numbers, literals:
// testdata/triton_plans.txt.
func TestTritonPlanSaysWhatALauncherWould(t *testing.T) {
	dir := fakeTriton(t)
	assert.Lines(t, "testdata/triton_plans.txt", func(input string) string {
		_, fs, err := Load(families.New(), folder(t, "t.yaml", tritonManifest, "k.py", tritonSource,
			"helper.py", "HELP = 1\n", "other.py", "NO = 1"))
		assert.NoError(t, err, hint.Of(err))
		p := devicetest.Problem(t, input)
		got := fs[0].Plan(p, fs[0].Base(p, devicetest.H200()), devicetest.H200()).String()
		got = regexp.MustCompile(`(triton=3.6.0) [0-9a-f]{12}`).ReplaceAllString(got, "$1 0")
		return strings.Join(fs[0].Files, " ") + " " + got
	})
	identity := func(help string) string {
		return sourceHash(t, folder(t, "t.yaml", tritonManifest, "k.py", tritonSource, "helper.py",
			help))
	}
	assert.That(t, identity("HELP = 1\n") != identity("HELP = 2\n"), "helper.py has no part in it")

	// Of an installed module its text counts, and those that it imports.
	module := strings.Replace(tritonManifest, "source: k.py", "module: lib.kernels", 1)
	version := func() string {
		r, fs, err := Load(families.New(), folder(t, "t.yaml", module))
		assert.NoError(t, err)
		text, err := r.File("user:python:lib.kernels")
		assert.That(t, err == nil && strings.Contains(text, "def fwd("),
			"its text is %.20q, %v", text, err)
		return fs[0].Version
	}
	first := version()
	assert.Write(t, filepath.Join(dir, "lib/tools.py"), "SIZE = 2\n")
	now := version()
	assert.That(t, now != first && strings.HasPrefix(now, "triton 3.6.0 "),
		"versions %s and %s", first, now)
}

// The published kernels compile from where they are installed. Their library's own launch is the
// base wherever it is served: no constraint refuses it. PyTorch, which their modules import, is a
// stub.
func TestTritonKernelsOfLibrariesCompileInPlace(t *testing.T) {
	torch, err := filepath.Abs("testdata")
	assert.NoError(t, err)
	t.Setenv("PYTHONPATH", torch+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"))
	t.Setenv("NORMBENCH_CACHE", t.TempDir())
	for _, dir := range []string{"liger", "fast-llm"} {
		r, fs, err := Load(families.New(), "../../../examples/public/"+dir)
		if err != nil {
			assert.That(t, dir != "liger" || os.Getenv("NORMBENCH_REQUIRE_TRITON") == "", "%v", err)
			t.Logf("not tested: %v", err)
			continue
		}
		for _, f := range fs {
			bias := map[kernels.Op]string{kernels.LayerNorm: "+bias"}[f.Op]
			for _, text := range []string{"4096x4096/bf16", "1x541/fp16", "65536x128/bf16", "7x1/fp32",
				"9x16384/bf16", "512x32768/fp16"} {
				p, d := devicetest.Problem(t, fmt.Sprint(f.Op, "/", f.Pass, "/", text, bias)), devicetest.H200()
				assert.NoError(t, f.CheckServes(p))
				assert.NoError(t, f.Refuse(p, f.Base(p, d), d), f.Name, p, "the base is refused")
			}
			compile(t, newChecker(t, r, "sm_90"), []*kernels.Family{f}, false, "4096x4096/bf16"+bias,
				"1x541/fp16"+bias, "65536x128/bf16"+bias, "7x1/fp32"+bias)
		}
	}
}

// What is wrong with a manifest of Triton's is an error with its place when it is read.
func TestTritonMistakesHaveTheirPlace(t *testing.T) {
	fakeTriton(t)
	assert.Cases(t, "testdata/triton_errors.txt", func(input string) string {
		dir := folder(t, "t.yaml", assert.Edited(t, tritonManifest, strings.Split(input, "\n")), "k.py",
			tritonSource)
		_, _, err := Load(families.New(), dir)
		return strings.NewReplacer(dir+"/", "", os.Getenv(triton.PythonVariable), "PYTHON").Replace(
			assert.Refusal(t, err))
	})
	for _, test := range []struct{ text, want string }{
		{"def fwd(:\n", "k.py:1: "},
		{strings.Replace(tritonSource, "@triton.jit\ndef fwd", "def fwd", 1), "fwd has no @triton.jit"},
	} {
		_, _, err := Load(families.New(), folder(t, "t.yaml", tritonManifest, "k.py", test.text))
		assert.Error(t, err, test.want)
	}
	described := regexp.MustCompile(`(?s)args:.*`).ReplaceAllString(strings.Replace(tritonManifest,
		"function: fwd", "function: described", 1), "args: {X: x, desc: y}\n")
	_, _, err := Load(families.New(), folder(t, "t.yaml", described, "k.py", tritonSource))
	assert.Error(t, err, "desc of described (k.py:12) is a tensor descriptor")
}

// The examples compile for each arch, and their launches fit the cubins. A kernel that raises is an
// error with file and line.
func TestTritonExamplesCompileForEachArch(t *testing.T) {
	r, fs, err := Load(families.New(), "../../../examples/triton")
	assert.Needs(t, "TRITON", err) // scripts/triton-env.sh
	t.Setenv("NORMBENCH_CACHE", t.TempDir())
	for _, arch := range []string{"sm_80", "sm_90", "sm_100"} {
		c := newChecker(t, r, arch)
		compile(t, c, fs, false, "4096x4096/bf16", "1x541/fp16")
		compile(t, c, fs, arch == "sm_90", "7x8/fp32")
		assert.That(t, c.Kernels() >= 6, "%d kernels", c.Kernels())
	}
	example := assert.File(t, "../../../examples/triton/rms.py")
	manifest := assert.File(t, "../../../examples/triton/rms_forward.yaml")
	for old, test := range map[string]struct{ text, want string }{
		"tl.sqrt_rn(": {"tl.static_assert(n is None)(",
			"compile user:rms.py:14: error: "},
		"import triton.language": {"1 / 0\nimport triton.language",
			"compile user:rms.py:4: error: importing it raises ZeroDivisionError: division by zero"},
		"rstd = 1.0": {"tl.static_assert(BLOCK < 2, 'too wide')\n    rstd = 1.0",
			"compile user:rms.py:14: error: "},
		"tl.store(RSTD + row, rstd)": {"tl.store(RSTD + row, rstd)\n    print('hello')", ""},
		"y = x * rstd\n":             {"import os; os._exit(3)\n", "compile user:rms.py"},
	} {
		source := strings.Replace(string(example), old, test.text, 1)
		r, fs, err := Load(families.New(), folder(t, "t.yaml", string(manifest), "rms.py", source))
		assert.NoError(t, err)
		_, err = newChecker(t, r, "sm_90").Check(fs[0], devicetest.Problem(t, "rmsnorm/fwd/64x256/bf16"),
			false)
		got := fmt.Sprint(err)
		assert.That(t, strings.HasPrefix(got, test.want) && (err == nil) == (test.want == "") &&
			!strings.Contains(got, "\n"), "%s: %s", test.text, got)
		assert.Equal(t, strings.Contains(hint.Of(err), "install what it imports"),
			strings.Contains(got, "importing it raises"), "hint of "+got)
	}
	assert.That(t, (nvrtc.Source{Name: "baseline:user:python:a.b"}).IsPython() &&
		!(nvrtc.Source{Name: "user:python.cu"}).IsPython(), "names of Python")
}
