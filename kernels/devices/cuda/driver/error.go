//go:build cuda

package driver

// #include "launch.h"
// #include "trampoline.h"
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// ErrNoDriver is wrapped by the errors of [Count] and [Open] when libcuda could not be loaded.
var ErrNoDriver = errors.New("no CUDA driver")

// An Error is a driver call that failed. Launches and copies report the failure of earlier
// asynchronous work too, so Call need not be the cause of a sticky error.
type Error struct {
	Call string // such as "cuMemAlloc"
	Code int    // the CUresult
	Name string // such as "CUDA_ERROR_OUT_OF_MEMORY"; empty if the driver does not know the code
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
}

// Codes of CUresult that callers ask for.
const (
	CodeOutOfMemory = 2 // CUDA_ERROR_OUT_OF_MEMORY
	// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many registers or too much shared memory
	CodeOutOfResources = 701
)

// sticky codes leave the context unusable; cuda.h says of each that the process must be
// terminated and relaunched, or that the context is gone.
var sticky = map[int]bool{
	4:   true, // DEINITIALIZED
	201: true, // INVALID_CONTEXT
	214: true, // ECC_UNCORRECTABLE
	220: true, // NVLINK_UNCORRECTABLE
	226: true, // CONTAINED
	700: true, // ILLEGAL_ADDRESS
	702: true, // LAUNCH_TIMEOUT
	709: true, // CONTEXT_IS_DESTROYED
	710: true, // ASSERT
	714: true, // HARDWARE_STACK_ERROR
	715: true, // ILLEGAL_INSTRUCTION
	716: true, // MISALIGNED_ADDRESS
	717: true, // INVALID_ADDRESS_SPACE
	718: true, // INVALID_PC
	719: true, // LAUNCH_FAILED
	721: true, // TENSOR_MEMORY_LEAK
	999: true, // UNKNOWN: cannot be told to be harmless
}

// IsSticky reports whether err says that the context is lost: every later call will fail, and
// only a new process can use the device again.
func IsSticky(err error) bool {
	var e *Error
	return errors.As(err, &e) && sticky[e.Code]
}

// newError makes the error of a CUresult, nil for success.
func newError(call string, code int) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: code}
	if name := C.nb_error_name(C.int(code)); name != nil {
		e.Name = C.GoString(name)
	}
	return e
}

// wrap turns an error of cu into ours. cu's type for a CUresult is an integer that is not exported.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return newError(call, int(v.Int()))
	}
	return fmt.Errorf("%s: %w", call, err)
}

// load loads the driver, once.
var load = sync.OnceValue(func() error {
	var result C.int
	why := C.nb_load(&result)
	switch {
	case why == nil:
		return newError("cuInit", int(result))
	case C.GoString(why) == "":
		return fmt.Errorf("%w (libcuda.so.1 not found)", ErrNoDriver)
	}
	return fmt.Errorf("%w (%s)", ErrNoDriver, strings.Join(strings.Fields(C.GoString(why)), " "))
})
