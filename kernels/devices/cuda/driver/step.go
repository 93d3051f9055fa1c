//go:build cuda

package driver

// #include "launch.h"
// #cgo noescape nb_enqueue
// #cgo nocallback nb_enqueue
import "C"

import (
	"fmt"
	"unsafe"
)

// A CommandKind is what a [Command] does.
type CommandKind uint32

const (
	CommandLaunch  CommandKind = C.NB_LAUNCH  // Func, Grid, Block, Shared, Args, Cluster, Programmatic
	CommandMemset8 CommandKind = C.NB_MEMSET8 // Ptr, Value (its low byte), Bytes
	CommandCopy    CommandKind = C.NB_COPY    // Ptr, Src, Bytes
	CommandRecord  CommandKind = C.NB_RECORD  // Event
)

var stepCalls = [...]string{"cuLaunchKernel", "cuMemsetD8Async", "cuMemcpyDtoDAsync", "cuEventRecord"}

// maxArgs is the most arguments of a launch.
const maxArgs = C.NB_MAX_ARGS

// A Command is one entry of a list for [Context.Enqueue]. The comments of the kinds say which fields count.
type Command struct {
	Kind   CommandKind
	Func   Function
	Grid   [3]int // blocks
	Block  [3]int // threads
	Shared int    // dynamic shared memory in bytes
	// Args has one 8-byte slot per argument of the kernel. Smaller ones are the low bytes: a
	// float is uint64(math.Float32bits(x)).
	Args []uint64
	// Firsts is where in Args each argument begins, of a kernel that takes a wider one: a struct.
	Firsts       []uint64
	Cluster      [3]int // blocks per cluster; zero for none. Needs compute capability 9.0
	Programmatic bool   // programmatic stream serialization: may start before the kernel ahead ends
	Event        Event
	Ptr, Src     Ptr
	Value        uint32
	Bytes        int64
}

// Enqueue puts steps into a stream, in order, with one call from Go to C, so that the host
// stays ahead of the device. It stops at the first step that fails and names it; the steps before
// it remain enqueued.
func (c *Context) Enqueue(s Stream, steps []Command) error {
	c.steps, c.args = c.steps[:0], c.args[:0]
	for i := range steps {
		st := &steps[i]
		if int(st.Kind) >= len(stepCalls) {
			return fmt.Errorf("step %d: unknown kind %d", i, st.Kind)
		}
		if n := st.count(); n > maxArgs {
			return fmt.Errorf("step %d: %d arguments, at most %d", i, n, maxArgs)
		}
		if st.Bytes < 0 {
			return fmt.Errorf("step %d: %d bytes", i, st.Bytes)
		}
		c.steps = append(c.steps, st.flat(len(c.args)))
		c.args = append(append(c.args, st.Args...), st.Firsts...)
	}
	r := int64(C.nb_enqueue(handle(s.s), unsafe.SliceData(c.steps), C.int(len(steps)),
		(*C.uint64_t)(unsafe.SliceData(c.args))))
	if r == 0 {
		return nil
	}
	i := int(r >> 32)
	call := stepCalls[steps[i].Kind]
	if steps[i].Cluster[0] != 0 || steps[i].Programmatic {
		call = "cuLaunchKernelEx"
	}
	return fmt.Errorf("step %d: %w", i, newError(call, int(uint32(r))))
}

// count returns the number of arguments of the kernel.
func (st *Command) count() int {
	if st.Firsts != nil {
		return len(st.Firsts)
	}
	return len(st.Args)
}

// flat converts the command to C's form. Its slots start at index first, and Firsts follows them.
func (st *Command) flat(first int) C.nb_step {
	firsts := 0
	if len(st.Firsts) > 0 {
		firsts = first + len(st.Args)
	}
	return C.nb_step{
		kind:         C.uint32_t(st.Kind),
		grid:         dims(st.Grid),
		block:        dims(st.Block),
		cluster:      dims(st.Cluster),
		shared:       C.uint32_t(st.Shared),
		programmatic: flag(st.Programmatic),
		nargs:        C.uint32_t(st.count()),
		value:        C.uint32_t(st.Value),
		args:         C.uint64_t(first),
		firsts:       C.uint64_t(firsts),
		_func:        handle(st.Func.f),
		event:        handle(st.Event.e),
		ptr:          C.uint64_t(st.Ptr),
		src:          C.uint64_t(st.Src),
		bytes:        C.uint64_t(st.Bytes),
	}
}

func dims(d [3]int) [3]C.uint32_t {
	return [3]C.uint32_t{C.uint32_t(d[0]), C.uint32_t(d[1]), C.uint32_t(d[2])}
}

func flag(b bool) C.uint32_t {
	if b {
		return 1
	}
	return 0
}
