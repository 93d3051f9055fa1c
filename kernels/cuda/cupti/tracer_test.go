//go:build cuda

package cupti

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/nvlib"
	"normbench/kernels/devicetest"
)

// fake compiles testdata/fakecupti.c under a name.
func fake(t *testing.T, dir, name string) string {
	t.Helper()
	assert.NoError(t, os.MkdirAll(dir, 0o777))
	return devicetest.Library(t, filepath.Join(dir, name), "testdata/fakecupti.c")
}

func TestFakeTracer(t *testing.T) {
	tracer, err := load(fake(t, t.TempDir(), "libcupti.so.13"))
	assert.NoError(t, err)
	_, err = tracer.Stop()
	assert.That(t, err != nil, "stopped without a start")
	run := func(samples int) ([]Activity, error) {
		t.Setenv("FAKE_CUPTI_SAMPLES", strconv.Itoa(samples))
		assert.NoError(t, tracer.Start())
		assert.That(t, tracer.Start() != nil, "started twice")
		return tracer.Stop()
	}
	// A real CUPTI in the same process, in TestGPU, may have kept some buffers.
	allBefore, heldBefore := buffers()
	launches := []string{"k1", "memset", "memcpy", "_Z2k2v"}
	for _, samples := range []int{1, 3, 20000, 20000, 7} { // 20000 are 17 MB
		acts, err := run(samples)
		assert.Must(t, err == nil && len(acts) == 5*samples, "%d activities of %d samples, %v",
			len(acts), samples, err)
		a := acts[len(acts)-5] // the last comes first
		assert.That(t, a.Name == "flush" && a.StreamID == 13 && a.CorrelationID == 0,
			"the first sample begins with %+v", a)
		stages, gaps, err := Stages(acts, launches, samples, "flush")
		assert.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%.1e %.1e", stages[3][samples-1], gaps[0]), "5.0e-07 2.1e-06")
	}
	// The buffers of the first long run served the second.
	all, held := buffers()
	assert.That(t, all-allBefore <= 8 && held == heldBefore, "%d buffers, %d held", all, held)
	acts, err := run(0)
	assert.That(t, err == nil && len(acts) == 0, "%d activities, %v", len(acts), err)
	for _, tt := range []struct{ variable, value, want string }{
		{"FAKE_CUPTI_DROPPED", "3", "CUPTI dropped 3 records"},
		{"FAKE_CUPTI_UNENDED", "1", "a broken activity record"},
		{"FAKE_CUPTI_FAIL", "flush", "cuptiActivityFlushAll: CUPTI error 15"},
		{"FAKE_CUPTI_FAIL", "next", "cuptiActivityGetNextRecord: CUPTI error 15"},
	} {
		t.Run(tt.value, func(t *testing.T) {
			t.Setenv(tt.variable, tt.value)
			acts, err := run(2)
			assert.That(t, acts == nil && err != nil && err.Error() == tt.want, "got %v, %v, want %s",
				acts, err, tt.want)
			_, held := buffers()
			assert.Equal(t, held, heldBefore, "buffers are held")
		})
	}
	t.Run("enable", func(t *testing.T) {
		t.Setenv("FAKE_CUPTI_FAIL", "enable")
		assert.Error(t, tracer.Start(), "cuptiActivityEnable: CUPTI error 15")
	})
	acts, err = run(1) // and it goes on
	assert.That(t, err == nil && len(acts) == 5, "%v, %v", acts, err)
}

// What is no CUPTI, or one of another age, is an error of one line.
func TestLoad(t *testing.T) {
	lib := fake(t, t.TempDir(), "libcupti.so")
	for _, tt := range []struct {
		path, version string
		ok            bool
	}{
		{lib, "17", false}, {lib, "18", true}, {lib, "28", true}, {lib, "130001", true},
		{lib, "130200", true}, {lib, "140000", false}, {"/nowhere/libcupti.so.13", "18", false},
		{"/proc/self/status", "18", false}, {"libc.so.6", "18", false},
	} {
		t.Setenv("FAKE_CUPTI_VERSION", tt.version)
		_, err := load(tt.path)
		assert.That(t, (err == nil) == tt.ok && (tt.ok || !strings.Contains(err.Error(), "\n")),
			"%s of version %s: %v", tt.path, tt.version, err)
	}
}

// CUPTI has a folder of its own in a toolkit.
func TestFind(t *testing.T) {
	root := t.TempDir()
	lib := fake(t, filepath.Join(root, "extras/CUPTI/lib64"), "libcupti.so.13")
	t.Setenv("CUDA_HOME", root)
	t.Setenv("NORMBENCH_CUPTI", "")
	tracer, err := nvlib.Find(where, func(path string) (*Tracer, error) {
		if path != lib { // as if there were no other
			return nil, errors.New("does not load")
		}
		return load(path)
	})
	assert.That(t, err == nil && tracer.path == lib, "%v, %v", tracer, err)
}
