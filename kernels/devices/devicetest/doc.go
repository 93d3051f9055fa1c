// Package devicetest holds what devices are tested with: one conformance suite
// that every device passes (Run, and Survive for those in processes of their
// own), kernels that misbehave on purpose (Registry), a scripted device for
// tests of what uses devices (Fake), and fixed device infos for goldens.
package devicetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
)

// H200 is a GPU that launch rules can be asked about without having one.
func H200() kernels.DeviceInfo {
	return kernels.DeviceInfo{
		ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200", Arch: "sm_90", SMs: 132,
		Driver: "580.0", Compiler: "nvrtc 13.0",
		CacheBytes: 60 << 20, MemoryBytes: 141e9, SharedPerBlock: 232448, RegsPerSM: 65536,
	}
}

// CPU is a machine of two cores, whatever this one has.
func CPU() kernels.DeviceInfo {
	return kernels.DeviceInfo{
		ID: "cpu-two-2c", Kind: kernels.KindCPU, Name: "two cores", Arch: "amd64", SMs: 2,
		Compiler: "go1.26.0", CacheBytes: 32 << 20, MemoryBytes: 8 << 30,
	}
}

// Problem reads a problem that is right.
func Problem(t testing.TB, text string) kernels.Problem {
	return parseRight(t, text, kernels.ParseProblem)
}

// Draw is a random problem, of sides with so many bits and any options: half have whole vectors.
func Draw(r *rand.Rand, mBits, nBits int) kernels.Problem {
	coin := func(of int) bool { return r.IntN(of) == 0 }
	types := []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP32}
	for {
		side := func(bits int) int64 { return 1<<r.IntN(bits) + r.Int64N(1<<r.IntN(bits)) }
		p := kernels.Problem{Op: kernels.Ops()[r.IntN(len(kernels.Ops()))].Op, Pass: kernels.Fwd,
			M: side(mBits), N: side(nBits), DType: types[r.IntN(3)], Weight: types[r.IntN(3)]}
		if coin(2) {
			p.Pass = kernels.Bwd
		}
		if coin(2) {
			p.N = max(p.N/128*128, min(p.N, 64))
		}
		if coin(4) {
			p.M = (p.M + 15) / 16 * 16
		}
		for _, o := range kernels.Options() {
			if coin(4) {
				o.Set(&p)
			}
		}
		if p.NoWeight {
			p.Weight = p.DType
		}
		if p.Validate() == nil {
			return p
		}
	}
}

// Variant reads a variant that is right.
func Variant(t testing.TB, text string) kernels.Variant {
	return parseRight(t, text, kernels.ParseVariant)
}

// Config reads a config that is right.
func Config(t testing.TB, text string) kernels.Config {
	return parseRight(t, text, kernels.ParseConfig)
}

func parseRight[T any](t testing.TB, text string, parse func(string) (T, error)) T {
	t.Helper()
	v, err := parse(text)
	assert.NoError(t, err)
	return v
}

// WaitForEnd waits until a process has ended, or fails the test and ends it.
func WaitForEnd(t testing.TB, pid int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // dead and not waited for
			return
		}
	}
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
	}
	t.Errorf("process %d lives on", pid)
}

// Library compiles a C file to a shared library, or skips the test where there is no compiler.
func Library(t testing.TB, lib, source string) string {
	t.Helper()
	compiler := "gcc"
	if cc := os.Getenv("CC"); cc != "" {
		compiler = cc
	}
	args := []string{"-shared", "-fPIC", "-O1", "-w", "-pthread", "-o", lib, source}
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Skipf("cannot compile the fake library: %v: %s", err, out)
	}
	return lib
}

// RunWithLibrary runs tests of this binary, by their names with bars, in a process that finds the library
// of a C file under a name, with more in its environment.
func RunWithLibrary(t testing.TB, name, source, tests string, env ...string) {
	t.Helper()
	dir := t.TempDir()
	Library(t, filepath.Join(dir, name), source)
	cmd := exec.Command(os.Args[0], "-test.run=^("+tests+")$", "-test.v")
	cmd.Env = slices.Concat(os.Environ(), env, []string{"LD_LIBRARY_PATH=" + dir})
	out, err := cmd.CombinedOutput()
	assert.That(t, err == nil &&
		strings.Count(string(out), "--- PASS") == len(strings.Split(tests, "|")), "%v\n%s", err,
		out)
}
