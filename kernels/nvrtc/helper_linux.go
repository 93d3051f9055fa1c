package nvrtc

import (
	"os"
	"runtime"
	"syscall"
)

// volunteer has the kernel end this process before others when memory runs out: a helper costs
// one unit, its parent the device. Its caller's goroutine goes on as the one that compiles.
func volunteer() {
	// The process that drives the device goes first. With as many compilers as cores, it would wait
	// for a core. A priority is one thread's.
	runtime.LockOSThread()
	syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10)           //nolint:errcheck // likewise
	os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0) //nolint:errcheck // it may be forbidden
}
