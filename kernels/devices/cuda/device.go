//go:build cuda

package cuda

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cuda/driver"
	"normbench/kernels/devices/cuda/nvml"
)

//go:embed support.cu
var supportSource string

// A Device is one GPU. One goroutine at a time calls its driver; compilation runs beside it on all
// cores.
type Device struct {
	registry *kernels.Registry
	info     kernels.DeviceInfo
	compile  *compileQueue
	pool     *nvrtc.Pool // nil where this process compiles
	cache    *nvrtc.Cache
	triton   *triton.Service

	monitor *nvml.Monitor // nil without NVML

	calling sync.Mutex // guards what is below
	ctx     *driver.Context
	stream  driver.Stream
	support support
	events  []driver.Event
	spinEnd *driver.Event // behind the spin ahead of samples
	// enqueueNS is what the host is given for one operation: half as long again as it took.
	enqueueNS uint64
	flush     buffer // what flushes read; its last 256 bytes take the writes that never come
	scratch   buffer
	lost      error // the error that took the context with it
}

// A buffer is device memory that only grows.
type buffer struct {
	ptr   driver.Ptr
	bytes int64
}

// Open opens GPU ordinal and loads NVRTC. Errors are one line each: no driver, no such GPU, no NVRTC.
//
// step is how long a request of this process may take, 0 for no limit. helper is the command of a
// compile helper (nvrtc.ServeHelper), of which nvrtc.Compilers are started; without one this process
// compiles.
func Open(r *kernels.Registry, ordinal int, step time.Duration, helper ...string) (*Device, error) {
	processes, err := nvrtc.Compilers()
	if err != nil {
		return nil, err
	}
	if _, err := driver.Count(); err != nil {
		return nil, hint.With(err, gpuHelp)
	}
	c, err := nvrtc.Find()
	if err != nil {
		return nil, hint.With(err, "install a CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or point "+
			"$NORMBENCH_NVRTC at libnvrtc.so")
	}
	d := &Device{registry: r}
	d.triton = triton.NewService(step, func() triton.Target { return triton.TargetOf(d.info) })
	d.cache = nvrtc.NewCache(nvrtc.DefaultCacheDir(), c).UsePython(d.triton)
	if len(helper) > 0 && processes > 0 {
		d.pool = nvrtc.NewPool(processes, step, append(slices.Clone(helper), c.Path())...)
		d.cache.UsePool(d.pool)
	} else {
		processes = runtime.GOMAXPROCS(0)
	}
	d.compile = newCompileQueue(r, d.cache.Compile, processes)
	if err := d.call(func() error { return d.open(ordinal, c) }); err != nil {
		d.endCompilers()
		return nil, err
	}
	d.openMonitor()
	return d, nil
}

const gpuHelp = "check `nvidia-smi`, or use --device cpu"

// endCompilers ends all that compiles.
func (d *Device) endCompilers() {
	d.compile.close()
	if d.pool != nil {
		d.pool.Close()
	}
	d.triton.Close()
}

// CacheWarning implements kernels.CacheWarner.
func (d *Device) CacheWarning() string { return d.cache.Warning() }

// call runs f with the GPU's context current on its thread. Handing f to a thread of its own took
// two wakes of a thread for each call. On a virtual machine that was a third of a short visit.
func (d *Device) call(f func() error) error {
	d.calling.Lock()
	defer d.calling.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if d.ctx != nil {
		if err := d.ctx.MakeCurrent(); err != nil {
			return d.toFailure(err)
		}
	}
	return f()
}

// open creates the context on the GPU and reads what it is.
func (d *Device) open(ordinal int, c *nvrtc.Compiler) error {
	ctx, err := driver.Open(ordinal)
	if err != nil {
		return hint.Errorf(gpuHelp, "cuda:%d: %w", ordinal, err)
	}
	d.ctx = ctx
	// A driver that refuses keeps its default. selftest measures what is kept in any case.
	_ = ctx.SetPersistingL2(0)
	di := ctx.Info()
	major, minor := c.Version()
	d.info = kernels.DeviceInfo{
		ID:             kernels.Slug(di.Name),
		Kind:           kernels.KindCUDA,
		Name:           di.Name,
		UUID:           di.UUID,
		Arch:           fmt.Sprintf("sm_%d%d", di.Major, di.Minor),
		SMs:            di.SMs,
		Driver:         fmt.Sprintf("%d.%d", di.DriverVersion/1000, di.DriverVersion%1000/10),
		Compiler:       fmt.Sprintf("nvrtc %d.%d", major, minor),
		CacheBytes:     int64(di.L2Bytes),
		MemoryBytes:    di.MemoryBytes,
		PeakRate:       peakRate(di),
		SharedPerBlock: di.SharedPerBlockOptin,
		RegsPerSM:      di.RegsPerSM,
	}
	if arch := di.Major*10 + di.Minor; len(c.Archs()) > 0 && !slices.Contains(c.Archs(), arch) {
		return hint.Errorf("install the NVRTC of a newer CUDA, or point $NORMBENCH_NVRTC at it",
			"NVRTC %d.%d (%s) does not compile for sm_%d of %s", major, minor, c.Path(), arch,
			di.Name)
	}
	d.compile.arch = d.info.Arch
	if d.stream, err = ctx.NewStream(); err != nil {
		return err
	}
	if err := d.loadSupport(); err != nil {
		return err
	}
	if d.info.Clusters, err = d.countClusters(); err != nil {
		return err
	}
	return nil
}

// countClusters asks the driver how many clusters of each size run at once, if each CTA leaves no shared
// memory for another on its SM.
func (d *Device) countClusters() (counts [4]int, err error) {
	if !d.isHopper() {
		return counts, nil
	}
	f := d.support.spin
	shared := d.info.SharedPerBlock - 1<<10
	if err := f.SetMaxDynamicShared(shared); err != nil {
		return counts, err
	}
	if err := f.AllowLargeClusters(); err != nil {
		return counts, err
	}
	for i := range counts {
		size := 2 << i
		if counts[i], err = f.OccupancyClusters([3]int{size * d.info.SMs, 1, 1}, 32, shared,
			size); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// peakRate computes the most bytes per second that the memory can move: two transfers per clock, over
// its whole width.
func peakRate(di driver.Info) int64 {
	return 2 * int64(di.MemClockKHz) * 1000 * int64(di.MemBusBits) / 8
}

// Info implements kernels.Device.
func (d *Device) Info() kernels.DeviceInfo { return d.info }

// Close implements kernels.Device.
func (d *Device) Close() error {
	err := d.call(func() error {
		if d.lost != nil {
			return nil // the context is gone already
		}
		return d.ctx.Close()
	})
	d.endCompilers()
	if d.monitor != nil {
		d.monitor.Close()
	}
	return err
}

// Prefetch implements kernels.Device: the compiler starts on the variants, and forgets those that were
// announced of the problem before and are not begun.
func (d *Device) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	var plans []kernels.Plan
	for _, v := range vs {
		if _, _, plan, err := d.registry.Resolve(p, v, d.info); err == nil {
			plans = append(plans, plan)
		}
	}
	d.compile.announce(p, plans)
}

// Prepare implements kernels.Preparer.
func (d *Device) Prepare(_ context.Context, p kernels.Problem, v kernels.Variant) error {
	_, _, plan, err := d.registry.Resolve(p, v, d.info)
	if err != nil {
		return nil //nolint:nilerr // Check meets it again
	}
	d.compile.start(plan)
	for i := range plan.Launches {
		if l := &plan.Launches[i]; l.IsKernel() {
			d.compile.binary(l) //nolint:errcheck // Check meets it again
		}
	}
	return nil
}

// Sense implements kernels.Sensor with NVML, which only reads. Without NVML the reading is zero.
func (d *Device) Sense(context.Context) (kernels.Reading, error) {
	if d.monitor == nil {
		return kernels.Reading{}, nil
	}
	return d.monitor.Sample()
}

// IgnoreProcesses implements kernels.ProcessIgnorer.
func (d *Device) IgnoreProcesses(pids ...int) {
	if d.monitor != nil {
		d.monitor.IgnoreProcesses(pids...)
	}
}

// openMonitor opens NVML for the GPU, if it is there.
func (d *Device) openMonitor() {
	m, err := nvml.Open(d.info.UUID)
	if err != nil {
		return
	}
	d.monitor = m
	d.info.DriverVersion = m.DriverVersion()
}

// toFailure makes a Failure of a driver's error, and notes whether the error has destroyed the context.
func (d *Device) toFailure(err error) error {
	if err == nil {
		return nil
	}
	var f *kernels.Failure
	if errors.As(err, &f) {
		return err
	}
	status := kernels.StatusLaunch
	var de *driver.Error
	if errors.As(err, &de) && (de.Code == driver.CodeOutOfResources || de.Code == driver.CodeOutOfMemory) {
		status = kernels.StatusResource
	}
	f = kernels.Failf(status, "%v", err)
	if driver.IsSticky(err) {
		d.lost = err
		f.Broken = true
	}
	return f
}

// grow makes b at least bytes long; its content is lost.
func (d *Device) grow(b *buffer, bytes int64) error {
	if b.bytes >= bytes {
		return nil
	}
	if b.ptr != 0 {
		if err := d.ctx.Free(b.ptr); err != nil {
			return err
		}
		*b = buffer{}
	}
	p, err := d.ctx.Alloc(bytes)
	if err != nil {
		return err
	}
	*b = buffer{p, bytes}
	return nil
}

// allocTensors allocates bytes(t) for each tensor of list, all or none: a half-made problem would be
// taken for a whole one at the next visit.
func (d *Device) allocTensors(list []kernels.Tensor, bytes func(kernels.Tensor) int64) (
	map[string]driver.Ptr, error) {
	mem := map[string]driver.Ptr{}
	for _, t := range list {
		p, err := d.ctx.Alloc(bytes(t))
		if err != nil {
			d.freeAll(mem)
			return nil, err
		}
		mem[t.Name] = p
	}
	return mem, nil
}

// freeAll frees the memory of some tensors.
func (d *Device) freeAll(mem map[string]driver.Ptr) {
	for _, p := range mem {
		d.ctx.Free(p)
	}
}

// A loadedLaunch is a launch as a command for the driver, with its code loaded.
type loadedLaunch struct {
	step   driver.Command
	stage  string
	symbol string // of a kernel
	res    kernels.Resource
}

// start asks for the launches of a plan without waiting: they go ahead of all that is only announced.
func (c *compileQueue) start(plan kernels.Plan) {
	for i := range plan.Launches {
		if plan.Launches[i].IsKernel() {
			c.ask(&plan.Launches[i])
		}
	}
}

// trim drops finished units beyond a few thousand, as they are on disk, and those that nobody waits for:
// one that is still announced is made again when it is asked for.
func (c *compileQueue) trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.units) < 4096 {
		return
	}
	maps.DeleteFunc(c.units, func(_ string, u *unitState) bool {
		select {
		case <-u.ready:
			return true
		default:
			return !u.begun && !u.used
		}
	})
}
