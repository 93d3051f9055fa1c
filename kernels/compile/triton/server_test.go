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
	c = NewService(0)
	cache := nvrtc.NewCache(nvrtc.DefaultCacheDir(), nil).UsePython(c.Compile)
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
func TestServer(t *testing.T) {
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
func TestServerKilled(t *testing.T) {
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

// Nothing of it lives on where who started it is killed, and ends nobody.
func TestServerOrphans(t *testing.T) {
	_, dir, _ := double(t)
	home := t.TempDir()
	args := command("serve", home)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	assert.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	assert.NoError(t, err)
	enc := json.NewEncoder(stdin)
	assert.NoError(t, enc.Encode(nvrtc.Source{Name: "user:k.py", Text: kernel}))
	line, err := bufio.NewReader(stdout).ReadString('\n')
	assert.Must(t, line == "{}\n", "%q, %v", line, err)
	assert.NoError(t,
		enc.Encode(compileRequest{ID: 1, Seconds: 60, Options: nvrtc.CompileOptions{Arch: "sm_90",
			Names: []string{"f"}, Extra: []string{"triton=3.6.0", "how='waits'"}}}))
	worker := told(t, dir, "waits")
	cmd.Process.Kill()
	devicetest.WaitForEnd(t, worker)
	cmd.Wait() //nolint:errcheck // it was killed
}

// A source that does not import is wrong where it raises. Else it is no kernel's fault, and the
// error has a hint: testdata/imports.txt.
func TestServerImports(t *testing.T) {
	assert.Lines(t, "testdata/imports.txt", func(text string) string {
		c, _, compile := double(t)
		defer c.Close()
		c.step = 4 * time.Second
		err := compile(text, "")
		failed := errors.As(err, new(*nvrtc.CompileError))
		assert.That(t, err != nil && failed == (hint.Of(err) == ""), "%q: %v (%s)", text, err, hint.Of(err))
		return err.Error()
	})
}
