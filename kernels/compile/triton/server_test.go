package triton

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/devicetest"
)

// kernel has a compiler that does what it is told. A file counts how often it is imported.
//
//go:embed testdata/kernel.py
var kernel string

var card = Target{Name: "a card", Arch: "sm_90", SMs: 132, Shared: 232448, Registers: 65536, Memory: 1 << 30}

// double has python3 find what stands for Triton. Its function compiles a source of that text.
func double(t *testing.T) (c *Service, dir string, compile func(text, how string) error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: there is no python3 here, and triton.py is Python")
	}
	stub, err := filepath.Abs("testdata")
	assert.NoError(t, err)
	dir = t.TempDir()
	for name, value := range map[string]string{PythonVariable: python, "PYTHONPATH": stub,
		"NORMBENCH_CACHE":    t.TempDir(),
		"NORMBENCH_TEST_DIR": dir, "TMPDIR": t.TempDir()} {
		t.Setenv(name, value)
	}
	c = NewService(0, func() Target { return card })
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), nil).UsePython(c)
	t.Cleanup(func() {
		c.Close()
		left, err := os.ReadDir(os.TempDir())
		assert.That(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
	})
	return c, dir, func(text, how string) error {
		b, err := cache.Compile(nvrtc.Source{Name: "user:k.py", Text: text,
			Headers: map[string]string{"beside.py": "SIZE = 1\n"}},
			nvrtc.CompileOptions{Arch: "sm_90", Names: []string{"f"}, Extra: []string{"triton=3.6.0 0",
				fmt.Sprintf("how='%s'", how)}})
		if err == nil && string(b.Cubin) != "\x7fELF "+how {
			return fmt.Errorf("the cubin is %q", b.Cubin)
		}
		return err
	}
}

// told is the process that a kernel has told, once it has.
func told(t *testing.T, dir, name string) int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10e6) {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		if pid, err := strconv.Atoi(string(text)); err == nil {
			return pid
		}
	}
	t.Fatalf("nobody told %s", name)
	return 0
}

// Whatever a kernel does to its compiler costs that kernel alone, while others compile beside it,
// of one import.
func TestKernelThatFailsCostsItselfAlone(t *testing.T) {
	c, dir, compile := double(t)
	c.step = 9 * time.Second
	start := time.Now()
	var all sync.WaitGroup
	for how, want := range map[string]string{
		"": "", "one": "", "slow": "", "two": "",
		"exits":  "compile user:k.py: the compiler ended: exit status 3",
		"faults": "compile user:k.py: the compiler ended: signal: segmentation fault",
		"raises": "compile user:k.py:1: error: no such layout",
		"hangs":  "compile user:k.py: the compiler was killed: no answer within 3s",
	} {
		all.Go(func() {
			err := compile(kernel, how)
			assert.That(t, (want != "" || err == nil) &&
				(want == "" || err != nil && err.Error() == want) && hint.Of(err) == "",
				"%s: %v, want %s", how, err, want)
		})
	}
	all.Wait()
	took := time.Since(start)
	assert.That(t, took <= 8*time.Second, "it took %s", took)
	devicetest.WaitForEnd(t, told(t, dir, "assembler"))
	// by one that has compiled before
	for _, how := range []string{"exits", "three", "exits once"} {
		err := compile(kernel, how)
		assert.Equal(t, (err != nil), (how == "exits"), how, err)
	}
	imports, err := os.ReadFile(filepath.Join(dir, "imports"))
	assert.That(t, err == nil && len(imports) == 1, "imported %d times, %v", len(imports), err)
}

// A process that is killed takes its workers with it, and another goes on with what it was at.
func TestAnotherServerGoesOnAfterAKill(t *testing.T) {
	c, dir, compile := double(t)
	done := make(chan error)
	go func() { done <- compile(kernel, "waits") }()
	worker := told(t, dir, "waits")
	assert.NoError(t, compile(kernel, "kills"))
	devicetest.WaitForEnd(t, told(t, dir, "kills"))
	devicetest.WaitForEnd(t, worker)
	assert.NoError(t, <-done)
	// Close ends what is at work.
	go func() { done <- compile(kernel, "waits again") }()
	worker = told(t, dir, "waits again")
	c.Close()
	devicetest.WaitForEnd(t, worker)
	assert.That(t, <-done != nil, "it was compiled behind Close")
}

// startByHand starts a process of a mode as this package does, for a test that kills it. ask sends a request, and holds
// the answer to what is wanted; without that it does not wait for one.
func startByHand(t *testing.T, mode string) (cmd *exec.Cmd, ask func(request any, answer string)) {
	t.Helper()
	args := command("", mode, t.TempDir())
	cmd = exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	assert.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	assert.NoError(t, err)
	enc, lines := json.NewEncoder(stdin), bufio.NewReader(stdout)
	return cmd, func(request any, answer string) {
		t.Helper()
		assert.NoError(t, enc.Encode(request))
		if answer != "" {
			line, err := lines.ReadString('\n')
			assert.Must(t, line == answer, "%q, %v", line, err)
		}
	}
}

// Nothing of it lives on where who started it is killed, and ends nobody.
func TestKilledParentLeavesNoOrphans(t *testing.T) {
	_, dir, _ := double(t)
	cmd, ask := startByHand(t, "serve")
	ask(card, "{}\n")
	ask(serverRequest{ID: 1, Of: "k.py", Seconds: 60, Source: &nvrtc.Source{Name: "user:k.py", Text: kernel}},
		"{\"ID\": 1, \"Value\": {}}\n")
	ask(serverRequest{ID: 2, Of: "k.py", Seconds: 60, Options: nvrtc.CompileOptions{Arch: "sm_90",
		Names: []string{"f"}, Extra: []string{"triton=3.6.0", "how='waits'"}}}, "")
	worker := told(t, dir, "waits")
	cmd.Process.Kill()
	devicetest.WaitForEnd(t, worker)
	cmd.Wait() //nolint:errcheck // it was killed
}

// A source that does not import is wrong where it raises. Else it is no kernel's fault, and the
// error has a hint: testdata/imports.txt.
func TestSourceThatDoesNotImportSaysWhere(t *testing.T) {
	assert.Lines(t, "testdata/imports.txt", func(text string) string {
		c, _, compile := double(t)
		defer c.Close()
		c.step = 10 * time.Second
		err := compile(text, "")
		failed := errors.As(err, new(*nvrtc.CompileError))
		assert.That(t, err != nil && failed == (hint.Of(err) == ""), "%q: %v (%s)", text, err, hint.Of(err))
		return err.Error()
	})
}

// A source imports as it stands: by the name that it has in its package, whose __init__.py files run for those who
// want names of them, with what lies beside it, and with the figures of the card. What raises below a function is
// no fault of it. Sources of one name do not meet, and one that hangs costs itself.
func TestSourceImportsByItsNameInItsPackage(t *testing.T) {
	c, dir, _ := double(t)
	c.step = 9 * time.Second
	assert.Write(t, filepath.Join(dir, "torch.py"), "class cuda:\n    is_available = lambda: False\n")
	t.Setenv("PYTHONPATH", os.Getenv("PYTHONPATH")+string(os.PathListSeparator)+dir)
	compile := func(src nvrtc.Source) error {
		src.Text += "\n" + kernel
		_, err := c.Compile(src, nvrtc.CompileOptions{Arch: "sm_90", Names: []string{"f"},
			Extra: []string{"triton=3.6.0 0", "how=''"}})
		return err
	}
	assert.Write(t, filepath.Join(dir, "lib/ops/figures.json"), "{}")
	assert.Write(t, filepath.Join(dir, "lib/ops/tools.py"), "SIZE = 0 # of another time")
	inPackage := nvrtc.Source{Name: "user:norm.py", Package: "lib.ops", Root: dir, Text: "from .tools import SIZE\n" +
		"import os; assert os.path.exists(os.path.join(os.path.dirname(__file__), 'figures.json'))\n" +
		"from ..more import MORE\nfrom lib.ops import tools\nimport beside\nassert __name__ == 'lib.ops.norm'\n" +
		"assert (SIZE, MORE, beside.SIZE, tools.SIZE) == (1, 2, 3, 1)\n" +
		"from .. import __version__; assert __version__ == '1.2'",
		Headers: map[string]string{"lib/__init__.py": "__version__ = '1.2'\nraise 1\n", "lib/ops/tools.py": "SIZE = 1\n", "lib/more/__init__.py": "MORE = 2\n",
			"lib/ops/beside.py": "SIZE = 3\n"}}
	assert.NoError(t, compile(inPackage))
	assert.NoError(t, compile(nvrtc.Source{Name: "user:05-norm.py"}))
	assert.NoError(t, compile(nvrtc.Source{Name: "user:random.py", Text: "import random; random.random()"}))
	assert.NoError(t, compile(nvrtc.Source{Name: "user:card.py", Text: `
import torch, triton.runtime
assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count == 132
active = triton.runtime.driver.active
assert active.utils.get_device_properties(active.get_current_device())["max_shared_mem"] == 232448
`}))
	assert.NoError(t, compile(nvrtc.Source{Name: "baseline:user:norm.py", Text: "raised = 1"}))
	src := nvrtc.Source{Name: "user:low.py", Text: kernel + "\nraise RuntimeError('no GPU')"}
	_, err := c.Compile(src, nvrtc.CompileOptions{Arch: "sm_90", Names: []string{"f"}, Extra: []string{"triton=3.6.0 0", "how=''"}})
	assert.NoError(t, err)
	assert.Write(t, filepath.Join(dir, "low/__init__.py"), "__version__ = '1.2'\nraise 1\n")
	assert.Write(t, filepath.Join(dir, "low/listed/__init__.py"), "__path__ = list(__path__)\n__all__ = ['one']\n")
	assert.Write(t, filepath.Join(dir, "low/05-norm.py"), "from . import __version__; assert __version__ == '1.2'\n"+
		"from low.listed import __all__; assert __all__ == ['one']\n"+src.Text)
	_, err = c.Compile(nvrtc.Source{Name: "user:python:low.05-norm"}, nvrtc.CompileOptions{Arch: "sm_90", Names: []string{"f"},
		Extra: []string{"triton=3.6.0 0", "how=''"}})
	assert.NoError(t, err, "of a module")
	assert.Write(t, filepath.Join(dir, "ring/__init__.py"), "SIZE = 3\nfrom ring.norm import f\n")
	assert.Write(t, filepath.Join(dir, "ring/norm.py"), "from ring import SIZE\n"+kernel)
	_, err = c.Compile(nvrtc.Source{Name: "user:python:ring.norm"}, nvrtc.CompileOptions{Arch: "sm_90", Names: []string{"f"},
		Extra: []string{"triton=3.6.0 0", "how=''"}})
	assert.NoError(t, err, "of a module that its package imports, and that imports its package")
	assert.NoError(t, compile(nvrtc.Source{Name: "user:norm.py", Package: "rings.ops", Root: dir, Text: "from rings import sizes # a ring\n",
		Headers: map[string]string{"rings/__init__.py": "from rings import sizes\nfrom rings.ops import *\n", "rings/sizes.py": "",
			"rings/ops/__init__.py": "from rings.ops.norm import f\n__all__ = ['f']\n"}}), "of such a file")
	_, err = c.Compile(src, nvrtc.CompileOptions{Arch: "sm_90", Names: []string{"g"}, Extra: []string{"triton=3.6.0 0", "how=''"}})
	assert.Error(t, err, "compile user:low.py:")
	assert.Error(t, err, "importing it raises RuntimeError: no GPU")

	var all sync.WaitGroup
	start := time.Now()
	all.Go(func() {
		assert.Error(t, compile(nvrtc.Source{Name: "user:hangs.py", Text: "import time; time.sleep(60)"}),
			"compile user:hangs.py: Triton's process was killed: no answer within 5.4s")
	})
	assert.NoError(t, compile(nvrtc.Source{Name: "user:other.py"}))
	assert.That(t, time.Since(start) < 5*time.Second, "another waited for it %s", time.Since(start))
	all.Wait()
}
