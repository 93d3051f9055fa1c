// Package cpu is the device that is always there: it runs a plan's host stages
// on goroutines, in pure Go. What it times is what it runs, so its numbers say
// something about this machine's caches and cores, and nothing about a GPU.
package cpu

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families/reference"
)

// A Device is the CPU as a kernels.Device: it runs CTAs on GOMAXPROCS goroutines.
type Device struct {
	registry *kernels.Registry
	info     kernels.DeviceInfo
	launch   LaunchFunc // nil for host stages
	flush    []uint64
}

// A LaunchFunc runs one launch on host memory, which has a buffer for each name among its arguments. A
// launch that fails returns a *kernels.Failure. run counts the runs of a check from 0.
type LaunchFunc func(ctx context.Context, l *kernels.Launch, mem map[string]*kernels.Memory, run int) error

// CacheVariable names the environment variable that sets the size of the last-level cache, in place of
// the one that New finds.
const CacheVariable = "NORMBENCH_CPU_CACHE"

// Open opens the CPU as New does, with the cache size of CacheVariable if it is set.
func Open(r *kernels.Registry) (*Device, error) {
	d, text := New(r), os.Getenv(CacheVariable)
	if text == "" {
		return d, nil
	}
	n := ParseSize(text)
	if n < 1<<20 {
		return nil, hint.Errorf("use a size of 1M or more, such as 32M", "%s is %q", CacheVariable, text)
	}
	return d.WithCache(n), nil
}

// New opens the CPU, with the cache and memory that the system reports.
func New(r *kernels.Registry) *Device {
	cores := runtime.GOMAXPROCS(0)
	model := modelName()
	return &Device{
		registry: r,
		info: kernels.DeviceInfo{
			ID:          fmt.Sprintf("cpu-%s-%dc", kernels.Slug(model), cores),
			Kind:        kernels.KindCPU,
			Name:        model,
			Arch:        runtime.GOARCH,
			SMs:         cores,
			Compiler:    runtime.Version(),
			CacheBytes:  min(lastLevelCache(), int64(cores)*cachePerCore),
			MemoryBytes: memoryBytes(),
		},
	}
}

// WithCache sets the size of the last-level cache to n bytes, and returns d.
func (d *Device) WithCache(n int64) *Device {
	d.info.CacheBytes = n
	return d
}

// As opens a device that stands for another one: plans are made for info, and launch does the work of
// their kernels. The emulator is one.
func As(r *kernels.Registry, info kernels.DeviceInfo, launch LaunchFunc) *Device {
	return &Device{registry: r, info: info, launch: launch}
}

// Info implements kernels.Device.
func (d *Device) Info() kernels.DeviceInfo { return d.info }

// Prefetch implements kernels.Device: host stages are compiled already.
func (d *Device) Prefetch(kernels.Problem, []kernels.Variant) {}

// Close implements kernels.Device.
func (d *Device) Close() error { return nil }

// Open implements kernels.Device.
func (d *Device) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	if err := p.CheckFits(d.info); err != nil {
		return nil, err
	}
	// The answers of a large problem take seconds and ask no context; who is stopped does not
	// wait for them.
	opened := make(chan *bench, 1)
	go func() { opened <- d.open(p, in) }()
	select {
	case b := <-opened:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open draws the inputs of p and computes its answers.
func (d *Device) open(p kernels.Problem, in kernels.Inputs) *bench {
	b := &bench{device: d, problem: p, in: in, mem: reference.Inputs(p, in), drawn: map[string]*kernels.Memory{}}
	b.want = reference.ComputeGroundTruth(p, b.mem)
	b.tol = map[string]reference.Tolerance{}
	for _, t := range p.Tensors() {
		if t.Role == kernels.Output {
			b.mem[t.Name] = kernels.NewMemory(t.DType, t.Elems())
			b.tol[t.Name] = reference.ToleranceFor(p, t)
			continue
		}
		if b.mem[t.Name] == nil { // a saved statistic
			m := kernels.NewMemory(t.DType, t.Elems())
			for i, v := range b.want.Values[t.Name] {
				m.Set(int64(i), float32(v))
			}
			b.mem[t.Name] = m
		}
		b.drawn[t.Name] = b.mem[t.Name].Clone()
	}
	return b
}

// A bench is a problem that the CPU has open.
type bench struct {
	device  *Device
	problem kernels.Problem
	in      kernels.Inputs
	mem     map[string]*kernels.Memory
	drawn   map[string]*kernels.Memory // the inputs once more, which no variant gets hold of
	want    reference.GroundTruth
	tol     map[string]reference.Tolerance
}

// restoreInputs finds the inputs that a run has changed, puts them back and returns their names in
// order.
func (b *bench) restoreInputs() (changed []string) {
	for name, drawn := range b.drawn {
		if !bytes.Equal(b.mem[name].Bytes, drawn.Bytes) {
			changed = append(changed, name)
			copy(b.mem[name].Bytes, drawn.Bytes)
		}
	}
	slices.Sort(changed)
	return changed
}

// A preparedVariant is a variant with its plan and its memory.
type preparedVariant struct {
	family *kernels.Family
	config kernels.Config
	plan   kernels.Plan
	launch LaunchFunc
	mem    map[string]*kernels.Memory
	runs   []*kernels.HostRun // one per goroutine
	turn   int                // the run of a check
}

// prepare makes a variant's plan and allocates its scratch.
func (b *bench) prepare(v kernels.Variant) (*preparedVariant, error) {
	f, v, plan, err := b.device.registry.Resolve(b.problem, v, b.device.info)
	if err != nil {
		return nil, kernels.Failf(kernels.StatusRefused, "%v", err)
	}
	b.makeSavedTensors(plan)
	r := &preparedVariant{family: f, config: v.Config, plan: plan, launch: b.device.launch,
		mem: map[string]*kernels.Memory{}}
	for name := range b.mem {
		r.mem[name] = b.mem[plan.Buffer(name)]
	}
	for _, s := range plan.Scratch {
		r.mem[s.Name] = kernels.NewMemory(s.DType, s.Elems)
		r.mem[s.Name].PoisonScratch()
	}
	for range b.device.info.SMs {
		r.runs = append(r.runs, &kernels.HostRun{Problem: b.problem, Mem: r.mem})
	}
	return r, nil
}

// makeSavedTensors computes the tensors that the forward has saved beside the inputs, if the plan takes
// them.
func (b *bench) makeSavedTensors(plan kernels.Plan) {
	if b.problem.Pass != kernels.Bwd || !plan.Takes("y") || b.mem["y"] != nil {
		return
	}
	if b.problem.Bias {
		b.mem["b"] = reference.BiasOf(b.problem).Fill(b.in)
		b.drawn["b"] = b.mem["b"].Clone()
	}
	b.mem["y"] = reference.SavedOutput(b.problem, b.mem, b.mem["b"])
	b.drawn["y"] = b.mem["y"].Clone()
}

// runLaunch runs one launch. It deals CTAs to the goroutines one by one, as a GPU deals them to its SMs.
func (r *preparedVariant) runLaunch(ctx context.Context, l *kernels.Launch) error {
	if l.Entry == kernels.Memset {
		clear(r.mem[l.Args[0].Name].Bytes[:l.Args[1].Int])
		return nil
	}
	if r.launch != nil {
		return r.launch(ctx, l, r.runs[0].Mem, r.turn)
	}
	stage := r.family.Host[l.Entry]
	if stage == nil {
		return fmt.Errorf("%s has no host stage for %s", r.family.Name, l.Entry)
	}
	ctas := int64(l.Grid[0] * l.Grid[1] * l.Grid[2])
	var next atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[kernels.Failure]
	for _, h := range r.runs[:min(int64(len(r.runs)), ctas)] {
		wg.Go(func() {
			defer func() {
				if e := recover(); e != nil {
					failed.Store(kernels.Failf(kernels.StatusCrash, "host stage %s: %v", l.Entry, e))
				}
			}()
			h.Launch = l
			for pid := next.Add(1) - 1; pid < ctas && failed.Load() == nil; pid = next.Add(1) - 1 {
				stage(h, int(pid))
			}
		})
	}
	wg.Wait()
	if f := failed.Load(); f != nil {
		return f
	}
	return nil
}

// runLaunches runs all launches of the plan in order.
func (r *preparedVariant) runLaunches(ctx context.Context) error {
	for i := range r.plan.Launches {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.runLaunch(ctx, &r.plan.Launches[i]); err != nil {
			return err
		}
	}
	return nil
}

// restore copies inputs into the outputs that the variant writes in their place.
func (b *bench) restore(r *preparedVariant) {
	for _, o := range r.plan.Inplace {
		copy(b.mem[o.Output].Bytes, b.mem[o.Input].Bytes)
	}
}

// poison fills outputs and scratch with NaN, so that what a variant does not write shows.
func (b *bench) poison(r *preparedVariant) {
	for name := range b.tol {
		r.mem[name].Poison()
	}
	for _, s := range r.plan.Scratch {
		r.mem[s.Name].PoisonScratch()
	}
}

// writtenTensors lists the outputs that have an answer and that the variant writes.
func (b *bench) writtenTensors(r *preparedVariant, want reference.GroundTruth) []kernels.Tensor {
	return slices.DeleteFunc(b.problem.Tensors(), func(t kernels.Tensor) bool {
		return t.Role != kernels.Output || want.Values[t.Name] == nil || !r.family.Writes(t.Name)
	})
}

// compare compares the outputs with their answers.
func (b *bench) compare(r *preparedVariant, want reference.GroundTruth) (checks []kernels.OutputCheck) {
	for _, t := range b.writtenTensors(r, want) {
		tol := b.tol[t.Name].Loosen(r.plan.Rounds, t.Name)
		checks = append(checks, reference.Compare(t, b.mem[t.Name], want.Values[t.Name], want.Scale[t.Name], tol,
			b.in.Draw))
	}
	return checks
}

// Check implements kernels.Bench.
func (b *bench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	start := time.Now()
	r, err := b.prepare(v)
	if err != nil {
		return kernels.Check{}, err
	}
	want := b.want
	if r.family.Stream {
		want = reference.ComputeStreamTruth(b.problem, b.mem)
	}
	c := kernels.Check{Repeats: max(repeats, 1), Unwritten: r.family.Unwritten,
		Unordered: r.family.BitsOf(r.config) == kernels.NotBitwise}
	first := map[string]*kernels.Memory{}
	for run := range c.Repeats {
		b.poison(r)
		b.restore(r)
		r.turn = run
		if err := r.runLaunches(ctx); err != nil {
			return kernels.Check{}, err
		}
		for _, t := range b.writtenTensors(r, want) {
			if got := b.mem[t.Name]; run > 0 {
				c.Differing += got.Differing(first[t.Name])
			} else if c.Digest += got.Digest() >> 11; c.Repeats > 1 { // whole in a JSON number, sums of nine too
				first[t.Name] = got.Clone()
			}
		}
		switch {
		case run == 0:
			c.Outputs = b.compare(r, want)
		case run == 1 && r.launch != nil: // its CTAs ran in another order
			for i, o := range b.compare(r, want) {
				if was := c.Outputs[i]; o.Bad > was.Bad || o.MaxErr > was.MaxErr {
					c.Outputs[i] = o
				}
			}
		}
		if c.Changed = b.restoreInputs(); c.Changed != nil {
			c.Repeats = run + 1
			break
		}
	}
	c.Busy = time.Since(start).Seconds()
	return c, nil
}

// HashRows implements kernels.RowHasher.
func (b *bench) HashRows(ctx context.Context, v kernels.Variant, rows int64) (kernels.RowHashes, error) {
	r, err := b.prepare(v)
	if err != nil {
		return nil, err
	}
	b.poison(r)
	b.restore(r)
	if err := r.runLaunches(ctx); err != nil {
		return nil, err
	}
	hashes := kernels.RowHashes{}
	for _, t := range b.problem.RowOutputs() {
		if r.family.Writes(t.Name) {
			hashes[t.Name] = b.mem[t.Name].HashRows(t.Cols, rows)
		}
	}
	return hashes, nil
}

// Time implements kernels.Bench.
func (b *bench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	r, err := b.prepare(v)
	if err != nil {
		return kernels.Timing{}, err
	}
	begin := time.Now()
	t := kernels.Timing{Seconds: make([]float64, o.Samples)}
	if o.Stages {
		t.By = kernels.ByExposed // launches run one after the other here
		for _, l := range r.plan.Launches {
			t.Stages = append(t.Stages, kernels.StageSeconds{Stage: l.Stage,
				Seconds: make([]float64, o.Samples)})
		}
	}
	checked := !r.family.Stream && r.plan.Writes(b.problem)
	for i := range o.Samples {
		if err := ctx.Err(); err != nil {
			return kernels.Timing{}, err
		}
		if i == o.Samples-1 && checked {
			b.poison(r)
		}
		b.restore(r)
		b.device.flushCache(o.Flush)
		start := time.Now()
		last := start
		for j := range r.plan.Launches {
			if err := r.runLaunch(ctx, &r.plan.Launches[j]); err != nil {
				return kernels.Timing{}, err
			}
			if o.Stages {
				now := time.Now()
				t.Stages[j].Seconds[i] = now.Sub(last).Seconds()
				last = now
			}
		}
		t.Seconds[i] = time.Since(start).Seconds()
	}
	if checked && o.Samples > 0 {
		// A kernel may remember its inputs, and do nothing for the same ones.
		c := kernels.Check{Outputs: b.compare(r, b.want)}
		if err := c.CheckTimed(o.Samples); err != nil {
			return kernels.Timing{}, err
		}
	}
	t.Busy = time.Since(begin).Seconds()
	return t, nil
}

// Close implements kernels.Bench.
func (b *bench) Close() error { return nil }

// flushCache writes n bytes, one word in each cache line, on all cores, so that nothing of the problem
// is left in the last-level cache.
func (d *Device) flushCache(n int64) {
	if int64(len(d.flush)) < n/8 {
		d.flush = make([]uint64, n/8)
	}
	buf := d.flush[:n/8]
	var wg sync.WaitGroup
	for u := range d.info.SMs {
		part := buf[len(buf)*u/d.info.SMs : len(buf)*(u+1)/d.info.SMs]
		wg.Go(func() {
			for i := 0; i < len(part); i += 8 {
				part[i]++
			}
		})
	}
	wg.Wait()
}
