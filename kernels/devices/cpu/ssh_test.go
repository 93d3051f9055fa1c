//go:build unix

package cpu_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
)

// A worker behind a real sshd does all that a device does, and survives what its kernels do.
func TestWorkerBehindSSHDoesAllThatADeviceDoes(t *testing.T) {
	ssh, _ := devicetest.StartSSH(t)
	self, err := filepath.Abs(os.Args[0])
	assert.NoError(t, err)
	open := func(t *testing.T, limit time.Duration) kernels.Device {
		command := slices.Concat(ssh, []string{"env", "NORMBENCH_TEST_WORKER=cpu", "GORACE=atexit_sleep_ms=0", self})
		c, err := worker.Start(t.Context(), worker.ClientOptions{Command: command, Timeout: limit, Start: time.Minute,
			Program: worker.Program{Kernels: "test"}})
		assert.NoError(t, err)
		return c
	}
	t.Run("Conformance", func(t *testing.T) {
		devicetest.Run(t, func(t *testing.T) kernels.Device { return open(t, time.Minute) },
			devicetest.Registry(families.New()))
	})
	t.Run("Survives", func(t *testing.T) { devicetest.Survive(t, open) })
}
