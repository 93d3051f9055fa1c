//go:build cuda

package cuda

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/cuda/driver"
	"normbench/kernels/cuda/nvml"
	"normbench/kernels/nvrtc"
)

//go:embed support.cu
var supportSource string

// A Device is one GPU. All driver calls are made by one goroutine on one OS
// thread; compilation runs beside it on all cores.
type Device struct {
	registry *kernels.Registry
	info     kernels.DeviceInfo
	compile  *compiler

	monitor *nvml.Monitor // nil without NVML
	static  nvml.Static

	calls chan func()

	// Owned by the driver's thread:
	ctx     *driver.Context
	stream  driver.Stream
	support support
	events  []driver.Event
	gate    *driver.Event // behind the spin ahead of samples
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

// Open opens GPU ordinal and loads NVRTC. The errors are one line each: no
// driver, no such GPU, no NVRTC.
func Open(r *kernels.Registry, ordinal int) (*Device, error) {
	if _, err := driver.Count(); err != nil {
		return nil, hint.With(err, gpuHelp)
	}
	c, err := nvrtc.Find()
	if err != nil {
		return nil, hint.With(err, "install a CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or point $NORMBENCH_NVRTC at libnvrtc.so")
	}
	d := &Device{registry: r, calls: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range d.calls {
			f()
		}
	}()
	if err := d.on(func() error { return d.open(ordinal, c) }); err != nil {
		close(d.calls)
		return nil, err
	}
	d.watch()
	return d, nil
}

const gpuHelp = "check `nvidia-smi`, or use --device cpu"

// on runs f on the driver's thread.
func (d *Device) on(f func() error) error {
	done := make(chan error)
	d.calls <- func() { done <- f() }
	return <-done
}

func (d *Device) open(ordinal int, c *nvrtc.Compiler) error {
	ctx, err := driver.Open(ordinal)
	if err != nil {
		return hint.Errorf(gpuHelp, "cuda:%d: %w", ordinal, err)
	}
	d.ctx = ctx
	di := ctx.Info()
	major, minor := c.Version()
	d.info = kernels.DeviceInfo{
		ID:             strings.Join(strings.Fields(strings.ToLower(di.Name)), "-"),
		Kind:           kernels.KindCUDA,
		Name:           di.Name,
		UUID:           di.UUID,
		Arch:           fmt.Sprintf("sm_%d%d", di.Major, di.Minor),
		Units:          di.SMs,
		Driver:         fmt.Sprintf("%d.%d", di.DriverVersion/1000, di.DriverVersion%1000/10),
		Compiler:       fmt.Sprintf("nvrtc %d.%d", major, minor),
		CacheBytes:     int64(di.L2Bytes),
		MemoryBytes:    di.MemoryBytes,
		PeakRate:       peakRate(di),
		SharedPerBlock: di.SharedPerBlockOptin,
		RegsPerUnit:    di.RegsPerSM,
	}
	if arch := di.Major*10 + di.Minor; len(c.Archs()) > 0 && !slices.Contains(c.Archs(), arch) {
		return hint.Errorf("install the NVRTC of a newer CUDA, or point $NORMBENCH_NVRTC at it", "NVRTC %d.%d (%s) does not compile for sm_%d of %s", major, minor, c.Path(), arch, di.Name)
	}
	d.compile = newCompiler(d.registry, d.info, nvrtc.NewCache(nvrtc.DefaultCacheDir(), c))
	if d.stream, err = ctx.NewStream(); err != nil {
		return err
	}
	if err := d.loadSupport(); err != nil {
		return err
	}
	if d.info.Clusters, err = d.clusters(); err != nil {
		return err
	}
	d.compile.info = d.info
	return nil
}

// clusters asks how many clusters of each size run at once, of programs that leave
// no shared memory for another on their multiprocessor.
func (d *Device) clusters() (counts [4]int, err error) {
	if !d.hopper() {
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
		if counts[i], err = f.OccupancyClusters([3]int{size * d.info.Units, 1, 1}, 32, shared, size); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// peakRate is what the memory could move at most: two transfers per clock, over
// its whole width.
func peakRate(di driver.Info) int64 {
	return 2 * int64(di.MemClockKHz) * 1000 * int64(di.MemBusBits) / 8
}

// Info implements kernels.Device.
func (d *Device) Info() kernels.DeviceInfo { return d.info }

// Close implements kernels.Device.
func (d *Device) Close() error {
	err := d.on(func() error {
		if d.lost != nil {
			return nil // the context is gone already
		}
		return d.ctx.Close()
	})
	close(d.calls)
	d.compile.close()
	if d.monitor != nil {
		d.monitor.Close()
	}
	return err
}

// Prefetch implements kernels.Device: the compiler starts on the variants.
func (d *Device) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	for _, v := range vs {
		if _, _, plan, err := d.registry.Resolve(p, v, d.info); err == nil {
			d.compile.start(plan)
		}
	}
}

// fail turns a driver error into a Failure of the variant, and remembers when
// the context went with it.
func (d *Device) fail(err error) error {
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

// grow makes b at least bytes long, losing its content.
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

// tensors makes a buffer of bytes(t) for each of list, or none: what is half made would be taken
// for whole at the next visit.
func (d *Device) tensors(list []kernels.Tensor, bytes func(kernels.Tensor) int64) (map[string]driver.Ptr, error) {
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

func (d *Device) freeAll(mem map[string]driver.Ptr) {
	for _, p := range mem {
		d.ctx.Free(p)
	}
}

// A loaded launch is ready for the driver.
type loaded struct {
	step  driver.Step
	stage string
	res   kernels.Resource
}

// A compiler turns launches into cubins in the background, each unit once. The
// results stay until trim.
type compiler struct {
	registry *kernels.Registry
	info     kernels.DeviceInfo
	cache    *nvrtc.Cache
	unkept   sync.Once // says that the cache cannot be written

	mu      sync.Mutex
	wake    *sync.Cond
	pending []*unit // in the order announced
	units   map[string]*unit
	closed  bool
}

type unit struct {
	Unit
	ready  chan struct{}
	binary *nvrtc.Binary
	err    error
}

func newCompiler(r *kernels.Registry, info kernels.DeviceInfo, cache *nvrtc.Cache) *compiler {
	c := &compiler{registry: r, info: info, cache: cache, units: map[string]*unit{}}
	c.wake = sync.NewCond(&c.mu)
	for range runtime.GOMAXPROCS(0) {
		go c.work()
	}
	return c
}

func (c *compiler) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.pending) == 0 && !c.closed {
			c.wake.Wait()
		}
		if c.closed {
			return
		}
		u := c.pending[0]
		c.pending = c.pending[1:]
		c.mu.Unlock()
		u.binary, u.err = c.cache.Compile(u.Source, u.Options)
		close(u.ready)
		if err := c.cache.WriteError(); err != nil {
			c.unkept.Do(func() { // a worker's standard error is the user's
				fmt.Fprintf(os.Stderr, "normbench: cubins are not kept in %s, so the next run compiles them again: %v\n", c.cache.Dir(), err)
			})
		}
		c.mu.Lock()
	}
}

// start queues the launches of a plan.
func (c *compiler) start(plan kernels.Plan) {
	for i := range plan.Launches {
		if plan.Launches[i].IsKernel() {
			c.unit(&plan.Launches[i])
		}
	}
}

// unit queues a launch's unit, unless it is there already.
func (c *compiler) unit(l *kernels.Launch) *unit {
	made, err := NewUnit(c.registry, l, c.info.Arch)
	if err != nil {
		return &unit{err: err, ready: closedChannel}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := made.key()
	u, ok := c.units[key]
	if !ok {
		u = &unit{Unit: made, ready: make(chan struct{})}
		c.units[key] = u
		c.pending = append(c.pending, u)
		c.wake.Signal()
	}
	return u
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// binary waits for a launch's cubin.
func (c *compiler) binary(l *kernels.Launch) (*nvrtc.Binary, error) {
	u := c.unit(l)
	<-u.ready
	return u.binary, u.err
}

// trim drops finished units beyond a few thousand: they are on disk.
func (c *compiler) trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.units) < 4096 {
		return
	}
	for key, u := range c.units {
		select {
		case <-u.ready:
			delete(c.units, key)
		default:
		}
	}
}

func (c *compiler) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake.Broadcast()
}

// key identifies the unit within a process.
func (u Unit) key() string {
	var b strings.Builder
	b.WriteString(u.Source.Name)
	for _, d := range u.Options.Defines {
		b.WriteByte(' ')
		b.WriteString(d.Name + "=" + d.Value)
	}
	return b.String()
}
