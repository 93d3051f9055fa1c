//go:build cuda

package driver

// #include <cuda.h>
// #include "launch.h"
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// Count returns the number of devices that the driver offers, as CUDA_VISIBLE_DEVICES leaves them. The
// error wraps [ErrNoDriver] without a driver, and is an [*Error] with a driver but no device.
func Count() (int, error) {
	if err := load(); err != nil {
		return 0, err
	}
	n, err := cu.NumDevices()
	return n, wrap("cuDeviceGetCount", err)
}

// Info describes a device.
type Info struct {
	Name                string // "NVIDIA H200"
	UUID                string // "GPU-…", as nvidia-smi prints it
	Major, Minor        int    // compute capability
	SMs                 int
	L2Bytes             int
	PersistingL2Bytes   int // most that SetPersistingL2 allows; 0 if the driver does not say
	RegsPerSM           int // 32-bit registers
	SharedPerBlockOptin int // bytes, after SetMaxDynamicShared
	MemoryBytes         int64
	DriverVersion       int // CUDA version of the driver: 13000 is 13.0
	MemClockKHz         int // peak; 0 if the driver does not say
	MemBusBits          int // width of the memory's bus; 0 if the driver does not say
}

// A Context is an open device. See the package comment for the rules about threads.
type Context struct {
	ctx  cu.CUContext
	info Info

	steps []C.nb_step // kept between calls of Enqueue
	args  []uint64
}

// A Ptr is an address in device memory.
type Ptr uint64

// Open creates a context on a device and makes it current on the calling thread, which the
// caller has locked with runtime.LockOSThread. The errors are those of [Count].
func Open(ordinal int) (*Context, error) {
	n, err := Count()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("no CUDA device %d: the driver offers %d", ordinal, n)
	}
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return nil, wrap("cuDeviceGet", err)
	}
	c := &Context{}
	if c.info, err = deviceInfo(dev); err != nil {
		return nil, err
	}
	if c.ctx, err = dev.MakeContext(cu.SchedAuto); err != nil {
		return nil, wrap("cuCtxCreate", err)
	}
	return c, nil
}

func deviceInfo(dev cu.Device) (Info, error) {
	info := Info{DriverVersion: cu.Version()}
	var err error
	if info.Name, err = dev.Name(); err != nil {
		return Info{}, wrap("cuDeviceGetName", err)
	}
	uuid, err := dev.UUID()
	if err != nil {
		return Info{}, wrap("cuDeviceGetUuid", err)
	}
	info.UUID = "GPU-" + uuid.String()
	if info.MemoryBytes, err = dev.TotalMem(); err != nil {
		return Info{}, wrap("cuDeviceTotalMem", err)
	}
	for _, a := range []struct {
		attribute int
		value     *int
		optional  bool
	}{
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info.Major, false},
		{C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info.Minor, false},
		{C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info.SMs, false},
		{C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &info.L2Bytes, false},
		{C.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, &info.PersistingL2Bytes, true},
		{C.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, &info.RegsPerSM, false},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &info.SharedPerBlockOptin, false},
		{C.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &info.MemClockKHz, true},
		{C.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &info.MemBusBits, true},
	} {
		if *a.value, err = dev.Attribute(cu.DeviceAttribute(a.attribute)); err != nil && !a.optional {
			return Info{}, wrap(fmt.Sprintf("cuDeviceGetAttribute %d", a.attribute), err)
		}
	}
	return info, nil
}

// MakeCurrent makes c the context of the calling thread, which the caller has locked.
func (c *Context) MakeCurrent() error { return wrap("cuCtxSetCurrent", cu.SetCurrentContext(c.ctx)) }

// Info describes the device.
func (c *Context) Info() Info { return c.info }

// Close destroys the context with all memory, modules, streams and events in it.
func (c *Context) Close() error { return wrap("cuCtxDestroy", c.ctx.Destroy()) }

// Synchronize waits for all work in the context.
func (c *Context) Synchronize() error { return wrap("cuCtxSynchronize", cu.Synchronize()) }

// SetPersistingL2 sets how many bytes of the L2 may hold persisting lines in this context; the
// driver may round. The driver's default is 3/16 of the L2 on H100 and H200. Drivers and devices
// that know no such limit return an error.
func (c *Context) SetPersistingL2(bytes int64) error {
	return wrap("cuCtxSetLimit", cu.SetLimit(C.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, bytes))
}

// ResetPersistingL2 makes all persisting lines of the L2 normal ones.
func (c *Context) ResetPersistingL2() error {
	return wrap("cuCtxResetPersistingL2Cache", c.ctx.ResetL2Cache())
}

// Alloc allocates device memory, aligned to 256 bytes at least. Its content is undefined.
func (c *Context) Alloc(bytes int64) (Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("cuMemAlloc: %d bytes", bytes)
	}
	p, err := cu.MemAlloc(bytes)
	return Ptr(p), wrap("cuMemAlloc", err)
}

// Free frees device memory. It waits for work that may use it. Freeing 0 does nothing.
func (c *Context) Free(p Ptr) error {
	if p == 0 {
		return nil
	}
	return wrap("cuMemFree", cu.MemFree(cu.DevicePtr(p)))
}

// Memset8 enqueues filling bytes bytes with a value.
func (c *Context) Memset8(s Stream, p Ptr, value byte, bytes int64) error {
	return wrap("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(p), value, bytes, s.s))
}

// CopyFromDevice waits for all work in the context and copies from the device.
func (c *Context) CopyFromDevice(dst []byte, src Ptr) error {
	if err := c.Synchronize(); err != nil || len(dst) == 0 {
		return err
	}
	return wrap("cuMemcpyDtoH", cu.MemcpyDtoH(unsafe.Pointer(&dst[0]), cu.DevicePtr(src), int64(len(dst))))
}

// A Stream is a queue of work on the device. The zero Stream is the default stream.
type Stream struct{ s cu.Stream }

// NewStream makes a stream that does not synchronize with the default stream.
func (c *Context) NewStream() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return Stream{s}, wrap("cuStreamCreate", err)
}

// Synchronize waits for the work in the stream, and returns its error if some failed.
func (s Stream) Synchronize() error { return wrap("cuStreamSynchronize", s.s.Synchronize()) }

// An Event is a point in a stream with a time.
type Event struct{ e cu.Event }

// NewEvent makes an event that takes times.
func (c *Context) NewEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return Event{e}, wrap("cuEventCreate", err)
}

// Reached says whether the stream has reached the event's last recording. The driver says so, too, of an
// event that was never recorded.
func (e Event) Reached() (bool, error) {
	err := e.e.Query()
	if err == cu.NotReady {
		return false, nil
	}
	return err == nil, wrap("cuEventQuery", err)
}

// Elapsed returns the seconds from an earlier event to this one. Both must have been reached.
// The driver's clock ticks in 32 ns or coarser, and it returns milliseconds in 32 bits.
func (e Event) Elapsed(earlier Event) (seconds float64, err error) {
	ms, err := earlier.e.Elapsed(e.e)
	return ms * 1e-3, wrap("cuEventElapsedTime", err)
}

// A Module is loaded code.
type Module struct{ m cu.Module }

// LoadModule loads a cubin. It fails if it was made for another architecture.
func (c *Context) LoadModule(cubin []byte) (*Module, error) {
	if len(cubin) == 0 {
		return nil, fmt.Errorf("cuModuleLoadData: empty cubin")
	}
	m, err := cu.LoadData(string(cubin))
	if err != nil {
		return nil, wrap("cuModuleLoadData", err)
	}
	return &Module{m}, nil
}

// Unload unloads the code. Its functions must not be used any more.
func (m *Module) Unload() error { return wrap("cuModuleUnload", m.m.Unload()) }

// Function returns an entry function by name.
func (m *Module) Function(name string) (Function, error) {
	f, err := m.m.Function(name)
	return Function{f}, wrap("cuModuleGetFunction "+name, err)
}

// A Function is an entry function of a module.
type Function struct{ f cu.Function }

// handle returns the CUfunction, CUevent or CUstream inside a value of cu, which keeps it in its only
// field; TestTrampolinesReachTheDriver checks that.
func handle[T cu.Function | cu.Event | cu.Stream](v T) C.uint64_t {
	return C.uint64_t(*(*uintptr)(unsafe.Pointer(&v)))
}

// Attributes returns what the loaded code uses: registers per thread, local memory per thread in
// bytes (stack and spills), static shared memory per block in bytes, and the most threads per
// block that those allow.
func (f Function) Attributes() (registers, localBytes, staticShared, maxThreads int, err error) {
	for _, a := range []struct {
		attribute int
		value     *int
	}{
		{C.CU_FUNC_ATTRIBUTE_NUM_REGS, &registers},
		{C.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &localBytes},
		{C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &staticShared},
		{C.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &maxThreads},
	} {
		if *a.value, err = f.f.Attribute(cu.FunctionAttribute(a.attribute)); err != nil {
			return 0, 0, 0, 0, wrap("cuFuncGetAttribute", err)
		}
	}
	return registers, localBytes, staticShared, maxThreads, nil
}

// SetMaxDynamicShared allows launches with up to so many bytes of dynamic shared memory. Needed
// above 48 KiB; the limit is Info.SharedPerBlockOptin less the static shared memory.
func (f Function) SetMaxDynamicShared(bytes int) error {
	return f.set(C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)
}

// Occupancy returns the number of blocks that fit on one SM at once.
func (f Function) Occupancy(blockThreads, dynShared int) (blocksPerSM int, err error) {
	n, err := f.f.MaxActiveBlocksPerMultiProcessor(blockThreads, int64(dynShared))
	return n, wrap("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}

// AllowLargeClusters allows launches with clusters of more than eight blocks, which not every
// device runs.
func (f Function) AllowLargeClusters() error {
	return f.set(C.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
}

func (f Function) set(attribute C.int, value int) error {
	return newError("cuFuncSetAttribute", int(C.nb_func_set(handle(f.f), attribute, C.int(value))))
}

// OccupancyClusters returns the number of clusters of a launch that fit on the device at once.
func (f Function) OccupancyClusters(grid [3]int, blockThreads, dynShared, cluster int) (int, error) {
	var n C.int
	g := dims(grid)
	code := C.nb_max_active_clusters(&n, handle(f.f), &g[0], C.uint32_t(blockThreads),
		C.uint32_t(dynShared), C.uint32_t(cluster))
	return int(n), newError("cuOccupancyMaxActiveClusters", int(code))
}
