package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// TestHelperYields: what a helper compiles takes the time of a thread that yields to the process
// that drives the device. A priority is one thread's, and goroutines move between threads.
func TestHelperYields(t *testing.T) {
	c := compiler(t)
	p := NewPool(1, 0, os.Args[0], "compile-helper", c.Path())
	t.Cleanup(p.Close)
	for i := range 20 {
		src := Source{Name: "k.cu", Text: fmt.Sprintf(`extern "C" __global__ void k(float* x) { x[%d] = 1; }`, i)}
		_, err := p.Compile(src, Options{Arch: "sm_90"})
		assert.Must(t, err == nil, "%v", err)
	}
	h, _, err := p.take()
	assert.Must(t, err == nil, "%v", err)
	defer h.Kill()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.PID()))
	assert.Must(t, err == nil && len(threads) > 0, "%v", err)
	var yields, all int
	for _, file := range threads {
		text := string(assert.File(t, file))
		var ticks, nice int
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:]) // from the third on
		fmt.Sscan(fields[11], &ticks)
		fmt.Sscan(fields[16], &nice)
		if all += ticks; nice > 0 {
			yields += ticks
		}
	}
	assert.That(t, all > 0 && 10*yields >= 9*all, "%d of %d ticks are of threads that yield", yields, all)
}
