package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels/compile/nvrtc"
)

// A signal ends verify while NVRTC compiles, which sets handlers of its own: with code 130, a last line that
// says so, no trace of Go's runtime, and no helper left that holds standard error open, which Wait waits for.
func TestSignalEndsVerifyWhileNVRTCCompiles(t *testing.T) {
	_, err := nvrtc.Find()
	assert.Needs(t, "NVRTC", err)
	for i := range 8 {
		cmd := exec.Command("normbench", "verify", "--device", "cpu", "--kernels", "../../examples/kernels",
			"--all-configs", "--shapes", "64x256")
		cmd.Env = append(os.Environ(), "NORMBENCH_CACHE="+t.TempDir())
		var said bytes.Buffer
		cmd.Stderr = &said
		assert.NoError(t, cmd.Start())
		time.Sleep(time.Duration(400+200*i) * time.Millisecond)
		assert.NoError(t, cmd.Process.Signal([]os.Signal{syscall.SIGINT, syscall.SIGTERM}[i%2]))
		err := cmd.Wait()
		var exit *exec.ExitError
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		last := lines[len(lines)-1]
		assert.That(t, errors.As(err, &exit) && exit.ExitCode() == 130 && len(lines) < 5 &&
			strings.HasPrefix(last, "normbench: interrupted"), "try %d: %v\n%s", i, err, said.String())
	}
}
