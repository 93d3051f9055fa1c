//go:build cuda && cgo && linux && (amd64 || arm64)

package cupti

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fake compiles testdata/fakecupti.c under a name.
func fake(t *testing.T, dir, name string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(dir, name)
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-pthread", "-o", lib, "testdata/fakecupti.c").CombinedOutput(); err != nil {
		t.Skipf("cannot compile the fake library: %v: %s", err, out)
	}
	return lib
}

func TestFakeTracer(t *testing.T) {
	tracer, err := load(fake(t, t.TempDir(), "libcupti.so.13"))
	if err != nil {
		t.Fatal(err)
	}
	if tracer.Version() != 130001 {
		t.Errorf("version %d", tracer.Version())
	}
	if _, err := tracer.Stop(); err == nil {
		t.Error("stopped without a start")
	}
	run := func(samples int) ([]Activity, error) {
		t.Setenv("FAKE_CUPTI_SAMPLES", strconv.Itoa(samples))
		if err := tracer.Start(); err != nil {
			t.Fatal(err)
		}
		if err := tracer.Start(); err == nil {
			t.Error("started twice")
		}
		return tracer.Stop()
	}
	// A real CUPTI in the same process, in TestGPU, may have kept some buffers.
	allBefore, heldBefore := buffers()
	launches := []string{"k1", "memset", "memcpy", "k2"}
	skip := func(name string) bool { return name == "flush" }
	for _, samples := range []int{1, 3, 20000, 20000, 7} { // 20000 are 17 MB
		acts, err := run(samples)
		if err != nil || len(acts) != 5*samples {
			t.Fatalf("%d activities of %d samples, %v", len(acts), samples, err)
		}
		if acts[0].Name != "flush" || acts[0].StreamID != 13 || acts[4].Name != "_Z2k2v" || acts[4].CorrelationID != 4 {
			t.Errorf("begins with %+v", acts[:5])
		}
		stages, gaps, err := Stages(acts, launches, samples, skip)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.1e %.1e", stages[3][samples-1], gaps[0][0]); got != "5.0e-07 8.0e-07" {
			t.Errorf("got %s", got)
		}
	}
	// The buffers of the first long run served the second.
	if all, held := buffers(); all-allBefore > 8 || held != heldBefore {
		t.Errorf("%d buffers, %d held", all, held)
	}
	if acts, err := run(0); err != nil || len(acts) != 0 {
		t.Errorf("%d activities, %v", len(acts), err)
	}
	for _, tt := range []struct{ variable, value, want string }{
		{"FAKE_CUPTI_DROPPED", "3", "CUPTI dropped 3 records"},
		{"FAKE_CUPTI_UNENDED", "1", "no times for memset"},
		{"FAKE_CUPTI_FAIL", "flush", "cuptiActivityFlushAll: FAKE_ERROR (15)"},
		{"FAKE_CUPTI_FAIL", "next", "cuptiActivityGetNextRecord: FAKE_ERROR (15)"},
	} {
		t.Run(tt.value, func(t *testing.T) {
			t.Setenv(tt.variable, tt.value)
			acts, err := run(2)
			if acts != nil || err == nil || err.Error() != tt.want {
				t.Errorf("%s=%s: got %v, %v, want %s", tt.variable, tt.value, acts, err, tt.want)
			}
			if _, held := buffers(); held != heldBefore {
				t.Errorf("%d buffers are held", held)
			}
		})
	}
	t.Run("enable", func(t *testing.T) {
		t.Setenv("FAKE_CUPTI_FAIL", "enable")
		if err := tracer.Start(); err == nil || err.Error() != "cuptiActivityEnable: FAKE_ERROR (15)" {
			t.Errorf("got %v", err)
		}
	})
	if acts, err := run(1); err != nil || len(acts) != 5 { // and it goes on
		t.Errorf("%v, %v", acts, err)
	}
}

func TestFakeVersions(t *testing.T) {
	lib := fake(t, t.TempDir(), "libcupti.so")
	for _, tt := range []struct {
		version int
		ok      bool
	}{{17, false}, {18, true}, {28, true}, {130001, true}, {130200, true}, {140000, false}} {
		t.Setenv("FAKE_CUPTI_VERSION", strconv.Itoa(tt.version))
		if _, err := load(lib); (err == nil) != tt.ok {
			t.Errorf("version %d: %v", tt.version, err)
		}
	}
}

func TestFakeFind(t *testing.T) {
	lib := fake(t, filepath.Join(t.TempDir(), "extras/CUPTI/lib64"), "libcupti.so.13")
	t.Setenv("CUDA_HOME", filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(lib)))))
	t.Setenv("NORMBENCH_CUPTI", "")
	tracer, err := find(func(path string) (*Tracer, error) {
		if path != lib { // as if there were no other
			return nil, errors.New("does not load")
		}
		return load(path)
	})
	if err != nil || tracer.Path() != lib {
		t.Errorf("%v, %v", tracer, err)
	}
	t.Setenv("NORMBENCH_CUPTI", "/nowhere/libcupti.so")
	if _, err := find(load); !errors.Is(err, ErrNotFound) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// A library that is none is an error of one line.
func TestNoDevice(t *testing.T) {
	for _, path := range []string{"/nowhere/libcupti.so.13", "/proc/self/status", "libc.so.6"} {
		if _, err := load(path); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
