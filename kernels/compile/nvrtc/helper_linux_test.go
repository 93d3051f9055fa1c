package nvrtc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// TestHelperYields: what a helper compiles takes the time of threads that yield to the process that
// drives the device.
func TestHelperYields(t *testing.T) {
	p := NewPool(1, 0, os.Args[0], "compile-helper", compiler(t).Path())
	defer p.Close()
	for i := range 20 {
		_, err := p.Compile(scale, CompileOptions{Arch: "sm_90", Defines: []Macro{{"BLOCK", fmt.Sprint(32 + i)}}})
		assert.NoError(t, err)
	}
	h := <-p.idle
	defer h.Kill()
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.PID()))
	yield, all := 0, 0
	for _, file := range threads {
		_, fields, _ := strings.Cut(string(assert.File(t, file)), ") ") // from the third on
		var ticks int
		fmt.Sscan(strings.Fields(fields)[11], &ticks)
		if all += ticks; strings.Fields(fields)[16] == "10" {
			yield += ticks
		}
	}
	assert.That(t, all > 0 && 10*yield >= 9*all, "%d of %d ticks", yield, all)
}
