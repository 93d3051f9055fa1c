package nvrtc

import (
	"os"
	"runtime"
	"syscall"
)

// yieldToParent makes this process the first that the kernel kills when memory runs out, and lowers its
// priority: a lost helper costs one compilation, its parent would cost the device. It locks the
// goroutine that compiles to its thread, as a priority is one thread's.
func yieldToParent() {
	// The process that drives the device goes first. With as many compilers as cores, it would wait
	// for a core. A priority is one thread's.
	runtime.LockOSThread()
	syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10)           //nolint:errcheck // likewise
	os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0) //nolint:errcheck // it may be forbidden
}
