//go:build cuda

package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/cuda/driver"
	"normbench/kernels/nvrtc"
	"normbench/kernels/reference"
)

// bench is a problem on the GPU.
type bench struct {
	d       *Device
	p       kernels.Problem
	seed    uint64
	mem     map[string]driver.Ptr // tensors
	want    map[string]driver.Ptr // float64 answers
	tol     map[string]reference.Tolerance
	scale   map[string]float64    // of the answers' terms; see reference.Answer
	first   map[string]driver.Ptr // outputs of a first run, for comparing bits
	results driver.Ptr            // outcomes of compare, a count of differing elements, a digest
	moved   map[string]driver.Ptr // answers of the stream, once asked for
	ready   map[kernels.Variant]*ready
	modules []*driver.Module
	sets    []map[string]driver.Ptr // copies of the tensors for TimeOptions.Rotate, mem first; made when asked for
}

// Open implements kernels.Device. Inputs and answers are made on the GPU; the
// conformance suite holds them against package reference.
func (d *Device) Open(_ context.Context, p kernels.Problem, seed uint64) (kernels.Bench, error) {
	if err := p.CheckFits(d.info); err != nil {
		return nil, err
	}
	var b *bench
	err := d.on(func() error {
		for {
			b = &bench{d: d, p: p, seed: seed, mem: map[string]driver.Ptr{}, want: map[string]driver.Ptr{}, first: map[string]driver.Ptr{},
				tol: map[string]reference.Tolerance{}, ready: map[kernels.Variant]*ready{}}
			err := b.open(seed)
			if err == nil {
				return nil
			}
			b.free()
			var de *driver.Error
			if !errors.As(err, &de) || de.Code != driver.CodeOutOfMemory {
				return d.fail(err)
			}
			if d.scratch.ptr == 0 {
				return hint.Errorf("choose smaller shapes, or free the GPU's memory", "%s does not fit in the free memory of %s", p, d.info.Name)
			}
			// Once more without what variants of an earlier problem needed.
			if err := d.ctx.Free(d.scratch.ptr); err != nil {
				return d.fail(err)
			}
			d.scratch = buffer{}
		}
	})
	if err != nil {
		return nil, err
	}
	d.compile.trim()
	return b, nil
}

func (b *bench) open(seed uint64) error {
	d, p := b.d, b.p
	alloc := func(m map[string]driver.Ptr, name string, bytes int64) error {
		ptr, err := d.ctx.Alloc(bytes)
		m[name] = ptr
		return err
	}
	for _, t := range p.Tensors() {
		if err := alloc(b.mem, t.Name, t.Bytes()); err != nil {
			return err
		}
		if t.Role == kernels.Output {
			if err := alloc(b.first, t.Name, t.Bytes()); err != nil {
				return err
			}
		}
		if t.Role == kernels.Output || slices.Contains(p.Op.Spec().Saved, t.Name) {
			if err := alloc(b.want, t.Name, 8*t.Elems()); err != nil {
				return err
			}
		}
	}
	var err error
	if b.results, err = d.ctx.Alloc(maxOutputs*outcomeBytes + 16); err != nil {
		return err
	}
	if err := d.inputs(p, seed, b.mem); err != nil {
		return err
	}
	scale, err := d.answers(p, b.mem, b.want)
	if err != nil {
		return err
	}
	b.scale = scale
	for _, t := range p.Tensors() {
		if t.Role == kernels.Output {
			b.tol[t.Name] = reference.ToleranceFor(p, t, scale[t.Name])
		} else if b.want[t.Name] != 0 { // a saved statistic
			n := t.Elems()
			if err := d.each(d.support.roundTo, n, uint64(b.mem[t.Name]), uint64(b.want[t.Name]), uint64(n), uint64(t.DType)); err != nil {
				return err
			}
		}
	}
	return d.stream.Synchronize()
}

// free gives everything back.
func (b *bench) free() {
	for _, m := range b.modules {
		m.Unload()
	}
	for _, mem := range []map[string]driver.Ptr{b.mem, b.want, b.first, b.moved, {"results": b.results}} {
		b.d.freeAll(mem)
	}
	b.freeSets()
}

// freeSets gives back the copies of the tensors.
func (b *bench) freeSets() {
	for i, set := range b.sets {
		if i > 0 { // the first is mem
			b.d.freeAll(set)
		}
	}
	b.sets = nil
}

// Close implements kernels.Bench.
func (b *bench) Close() error {
	return b.d.on(func() error {
		if b.d.lost == nil {
			b.free()
		}
		return nil
	})
}

// A ready variant is compiled and loaded.
type ready struct {
	family   *kernels.Family
	config   kernels.Config
	launches []loaded
	plan     kernels.Plan
	offsets  map[string]int64 // of scratch buffers in the device's scratch
	scratch  int64            // bytes
	compile  float64          // seconds, of all its units
}

// prepare makes a variant ready. It waits for its compilation off the driver's
// thread.
func (b *bench) prepare(v kernels.Variant) (*ready, error) {
	if r, ok := b.ready[v]; ok {
		return r, nil
	}
	f, full, plan, err := b.d.registry.Resolve(b.p, v, b.d.info)
	if err != nil {
		return nil, kernels.Failf(kernels.StatusRefused, "%v", err)
	}
	b.d.compile.start(plan)
	if err := b.d.on(func() error { return b.d.fail(b.saved(plan)) }); err != nil {
		return nil, err
	}
	r := &ready{family: f, config: full.Config, plan: plan, offsets: map[string]int64{}}
	for _, s := range plan.Scratch {
		r.offsets[s.Name] = r.scratch
		r.scratch += (s.Bytes() + 255) &^ 255
	}
	counted := map[*nvrtc.Binary]bool{} // launches may share a unit
	for i := range plan.Launches {
		l := &plan.Launches[i]
		if l.Entry == kernels.Memcpy {
			r.launches = append(r.launches, loaded{stage: l.Stage, step: driver.Step{Kind: driver.StepCopy, Args: make([]uint64, len(l.Args))}})
			continue
		}
		if l.Entry == kernels.Memset {
			r.launches = append(r.launches, loaded{stage: l.Stage, step: driver.Step{Kind: driver.StepMemset8, Args: make([]uint64, len(l.Args))}})
			continue
		}
		binary, err := b.d.compile.binary(l)
		if err != nil {
			return nil, kernels.Failf(kernels.StatusCompile, "%v", err)
		}
		if !counted[binary] {
			counted[binary] = true
			r.compile += binary.CompileSeconds
		}
		err = b.d.on(func() error {
			m, err := b.d.ctx.LoadModule(binary.Cubin)
			if err != nil {
				return b.d.fail(err)
			}
			b.modules = append(b.modules, m)
			fn, err := m.Function(l.Entry)
			if err != nil {
				return b.d.fail(err)
			}
			l := b.d.placed(l)
			ld := loaded{stage: l.Stage, step: driver.Step{Kind: driver.StepLaunch, Func: fn, Grid: l.Grid, Block: [3]int{l.Block, 1, 1},
				Shared: l.Shared, Programmatic: l.Early && b.d.hopper()}}
			if l.Cluster > 1 {
				ld.step.Cluster = [3]int{l.Cluster, 1, 1}
			}
			if ld.res, err = b.d.resources(fn, l); err != nil {
				return b.d.fail(err)
			}
			ld.res.Spill = binary.Kernels[l.Entry].SpillStoreBytes
			ld.step.Args = make([]uint64, len(l.Args))
			r.launches = append(r.launches, ld)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	b.ready[v] = r
	return r, nil
}

// placed is the launch with the shared memory that keeps its CTAs apart.
func (d *Device) placed(l *kernels.Launch) *kernels.Launch {
	if !l.Apart {
		return l
	}
	apart := *l
	apart.Shared = max(l.Shared, d.info.SharedPerBlock/2+1<<10)
	return &apart
}

// resources reads what a launch takes, and refuses what cannot run at all.
func (d *Device) resources(f driver.Function, l *kernels.Launch) (kernels.Resource, error) {
	res := kernels.Resource{Stage: l.Stage, Threads: l.Block, CTAs: l.Grid[0] * l.Grid[1] * l.Grid[2]}
	regs, local, shared, maxThreads, err := f.Attributes()
	if err != nil {
		return res, err
	}
	res.Registers, res.Local, res.Shared = regs, local, shared+l.Shared
	if l.Block > maxThreads {
		return res, kernels.Failf(kernels.StatusResource, "%s: %d threads with %d registers each do not fit", l.Stage, l.Block, regs)
	}
	// The limit without asking is for static and dynamic shared memory together.
	if shared+l.Shared > 48<<10 {
		if err := f.SetMaxDynamicShared(l.Shared); err != nil {
			return res, kernels.Failf(kernels.StatusResource, "%s: %d bytes of shared memory: %v", l.Stage, l.Shared, err)
		}
	}
	if res.Occupancy, err = f.Occupancy(l.Block, l.Shared); err != nil {
		return res, err
	}
	if res.Occupancy == 0 {
		return res, kernels.Failf(kernels.StatusResource, "%s: not one CTA fits on an SM", l.Stage)
	}
	at := res.Occupancy * d.info.SMs // CTAs on the device at once
	if l.Cluster > 1 {
		if l.Cluster > portableCluster {
			if err := f.AllowLargeClusters(); err != nil {
				return res, kernels.Failf(kernels.StatusResource, "%s: clusters of %d: %v", l.Stage, l.Cluster, err)
			}
		}
		clusters, err := f.OccupancyClusters(l.Grid, l.Block, l.Shared, l.Cluster)
		if err != nil {
			return res, err
		}
		if clusters == 0 {
			return res, kernels.Failf(kernels.StatusResource, "%s: not one cluster of %d CTAs fits on the device", l.Stage, l.Cluster)
		}
		at = min(at, clusters*l.Cluster)
	}
	// CTAs that wait for one that has not started wait for ever.
	if l.Resident && res.CTAs > at {
		return res, kernels.Failf(kernels.StatusResource, "%s: %d CTAs wait for each other, and only %d fit on the device at once", l.Stage, res.CTAs, at)
	}
	return res, nil
}

// hopper says whether the device is of compute capability 9.0 or later.
func (d *Device) hopper() bool { return d.ctx.Info().Major >= 9 }

// portableCluster is the largest cluster that every device with clusters runs.
const portableCluster = 8

// saved makes what else the forward has saved, if the plan asks for it.
func (b *bench) saved(plan kernels.Plan) error {
	asks := slices.ContainsFunc(plan.Launches, func(l kernels.Launch) bool {
		return slices.ContainsFunc(l.Args, func(a kernels.Arg) bool { return a.Kind == kernels.ArgBuffer && a.Name == "y" })
	})
	if b.p.Pass != kernels.Bwd || !asks || b.mem["y"] != 0 {
		return nil
	}
	mem := maps.Clone(b.mem)
	made, err := b.d.tensors(b.p.Saved(), func(t kernels.Tensor) int64 { return t.Bytes() })
	if err != nil {
		return err
	}
	maps.Copy(mem, made)
	if err := b.d.savedOutput(b.p, b.seed, mem); err != nil {
		b.d.freeAll(made)
		return err
	}
	maps.Copy(b.mem, made)
	b.freeSets() // they have none of these
	return nil
}

// bind points the arguments of launch i at a set of tensors.
func (b *bench) bind(r *ready, i int, step *driver.Step, mem map[string]driver.Ptr) {
	for j, a := range r.plan.Launches[i].Args {
		step.Args[j] = b.slot(a, r.offsets, mem)
	}
	if step.Kind == driver.StepCopy {
		step.Src, step.Ptr, step.Bytes = driver.Ptr(step.Args[0]), driver.Ptr(step.Args[1]), int64(step.Args[2])
	}
	if step.Kind == driver.StepMemset8 {
		step.Ptr, step.Bytes = driver.Ptr(step.Args[0]), int64(step.Args[1])
	}
}

// slot is the 8-byte form of an argument.
func (b *bench) slot(a kernels.Arg, scratch map[string]int64, mem map[string]driver.Ptr) uint64 {
	switch a.Kind {
	case kernels.ArgInt64:
		return uint64(a.Int)
	case kernels.ArgFloat32:
		return float(a.Float)
	}
	if off, ok := scratch[a.Name]; ok {
		return uint64(b.d.scratch.ptr) + uint64(off)
	}
	return uint64(mem[a.Name]) // 0 for the null pointer ""
}

// rotation is copies of the tensors that together are three times the L2, the
// problem's own first: by the time a copy comes round again the others have
// pushed it out.
func (b *bench) rotation() ([]map[string]driver.Ptr, error) {
	if b.sets == nil {
		b.sets = []map[string]driver.Ptr{b.mem}
	}
	for int64(len(b.sets))*b.p.Bytes() < 3*b.d.info.CacheBytes && len(b.sets) < kernels.MaxRotation {
		var list []kernels.Tensor
		for _, t := range slices.Concat(b.p.Tensors(), b.p.Saved()) {
			if b.mem[t.Name] != 0 { // else not asked for
				list = append(list, t)
			}
		}
		set, err := b.d.tensors(list, func(t kernels.Tensor) int64 { return t.Bytes() })
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if err := b.d.ctx.CopyDtoD(b.d.stream, set[t.Name], b.mem[t.Name], t.Bytes()); err != nil {
				b.d.freeAll(set)
				return nil, err
			}
		}
		b.sets = append(b.sets, set)
	}
	return b.sets, nil
}

// current is prepare, for a context that still stands. Arguments are bound at each visit: to make
// room for another variant the scratch may have moved since the last, also where that variant
// then could not run.
func (b *bench) current(v kernels.Variant) (*ready, error) {
	if b.d.lost != nil {
		return nil, &kernels.Failure{Status: kernels.StatusLaunch, Reason: "the GPU's context was lost: " + b.d.lost.Error(), Broken: true}
	}
	r, err := b.prepare(v)
	if err != nil {
		return nil, err
	}
	err = b.d.on(func() error { return b.d.fail(b.d.grow(&b.d.scratch, r.scratch)) })
	if err != nil {
		return nil, err
	}
	for i := range r.launches {
		b.bind(r, i, &r.launches[i].step, b.mem)
	}
	return r, nil
}

// Check implements kernels.Bench.
func (b *bench) Check(_ context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	r, err := b.current(v)
	if err != nil {
		return kernels.Check{}, err
	}
	c := kernels.Check{Repeats: max(repeats, 1), Unordered: r.family.BitsOf(r.config) == kernels.NotBitwise, Compile: r.compile}
	for _, l := range r.launches {
		if l.step.Kind != driver.StepLaunch {
			continue
		}
		c.Resources = append(c.Resources, l.res)
	}
	err = b.d.on(func() error {
		start := time.Now()
		defer func() { c.Busy = time.Since(start).Seconds() }()
		return b.d.fail(b.check(r, &c))
	})
	return c, err
}

func (b *bench) check(r *ready, c *kernels.Check) error {
	d := b.d
	outs, want, err := b.outputs(r)
	if err != nil {
		return err
	}
	size := int64(len(outs)*outcomeBytes + 16)
	if err := b.clearResults(outs); err != nil {
		return err
	}
	for run := range c.Repeats {
		if err := b.poisoned(r); err != nil {
			return err
		}
		for i, t := range outs {
			n, got := t.Elems(), b.mem[t.Name]
			if run > 0 {
				if err := d.each(d.support.differing, n, uint64(got), uint64(b.first[t.Name]), uint64(n), uint64(t.DType.Size()), uint64(b.results)+uint64(size)-16); err != nil {
					return err
				}
				continue
			}
			if err := d.each(d.support.digest, n, uint64(got), uint64(n), uint64(t.DType.Size()), uint64(b.results)+uint64(size)-8); err != nil {
				return err
			}
			if err := b.compare(r, t, b.mem, want, i); err != nil {
				return err
			}
			if c.Repeats > 1 {
				if err := d.ctx.CopyDtoD(d.stream, b.first[t.Name], got, t.Bytes()); err != nil {
					return err
				}
			}
		}
	}
	raw := make([]byte, size)
	if err := d.ctx.CopyFromDevice(raw, b.results); err != nil {
		return err
	}
	c.Differing = int64(binary.LittleEndian.Uint64(raw[size-16:]))
	c.Digest = binary.LittleEndian.Uint64(raw[size-8:]) >> 11 // whole in a JSON number
	c.Outputs, err = b.found(raw, outs, b.mem, want)
	return err
}

// clearResults makes room for the outcomes of some outputs.
func (b *bench) clearResults(outs []kernels.Tensor) error {
	init := make([]byte, len(outs)*outcomeBytes+16)
	for i := range outs {
		binary.LittleEndian.PutUint64(init[i*outcomeBytes+8:], math.MaxUint64) // first
	}
	return b.d.ctx.CopyToDevice(b.results, init)
}

// compare holds output i against its answer, on the device.
func (b *bench) compare(r *ready, t kernels.Tensor, mem, want map[string]driver.Ptr, i int) error {
	tol := b.tol[t.Name].Loosen(r.plan.Rounds, t.Name, b.scale[t.Name])
	return b.d.each(b.d.support.compare, t.Elems(), uint64(mem[t.Name]), uint64(want[t.Name]), uint64(t.Elems()), uint64(t.DType),
		double(tol.Rel), double(tol.Abs), double(reference.Limit(t.DType)), uint64(b.results)+uint64(i*outcomeBytes))
}

// timed says what is wrong with what the last of some timed runs has left, before which the
// outputs were poisoned: a kernel may remember its inputs, and do nothing for the same ones.
func (b *bench) timed(r *ready, mem map[string]driver.Ptr, runs int) error {
	outs, want, err := b.outputs(r)
	if err == nil {
		err = b.clearResults(outs)
	}
	if err != nil {
		return err
	}
	for i, t := range outs {
		if err := b.compare(r, t, mem, want, i); err != nil {
			return err
		}
	}
	raw := make([]byte, len(outs)*outcomeBytes)
	if err := b.d.ctx.CopyFromDevice(raw, b.results); err != nil {
		return err
	}
	var c kernels.Check
	if c.Outputs, err = b.found(raw, outs, mem, want); err != nil {
		return err
	}
	return c.Timed(runs)
}

// found are the outcomes of compare.
func (b *bench) found(raw []byte, outs []kernels.Tensor, mem, want map[string]driver.Ptr) (found []kernels.OutputCheck, err error) {
	for i, t := range outs {
		var o outcome
		o.decode(raw[i*outcomeBytes:])
		oc := kernels.OutputCheck{Name: t.Name, Elems: t.Elems(), Bad: int64(o.bad),
			MaxErr: min(math.Float64frombits(o.worst), math.MaxFloat32)}
		if o.want2 > 0 {
			oc.RelL2 = min(math.Sqrt(o.err2/o.want2), math.MaxFloat32)
			if math.IsNaN(oc.RelL2) {
				oc.RelL2 = math.MaxFloat32
			}
		}
		if o.bad > 0 {
			oc.First = int64(o.first)
			if oc.Got, oc.Want, err = b.pair(t, mem[t.Name], want[t.Name], oc.First); err != nil {
				return nil, err
			}
		}
		found = append(found, oc)
	}
	return found, nil
}

// maxOutputs is the most outputs of a problem: y, yt, resout, rstd, mean, amax
// and scale_inv.
const maxOutputs = 8

// outputs lists the outputs that a family writes, with their answers.
func (b *bench) outputs(r *ready) ([]kernels.Tensor, map[string]driver.Ptr, error) {
	if !r.family.Stream {
		var outs []kernels.Tensor
		for _, t := range b.p.Tensors() {
			if t.Role == kernels.Output {
				outs = append(outs, t)
			}
		}
		return outs, b.want, nil
	}
	outs := b.p.Full(kernels.Output)
	if b.moved != nil {
		return outs, b.moved, nil
	}
	var in [3]uint64
	for i, t := range b.p.Full(kernels.Input) {
		in[i] = uint64(b.mem[t.Name])
	}
	moved, err := b.d.tensors(outs, func(t kernels.Tensor) int64 { return 8 * t.Elems() })
	if err != nil {
		return nil, nil, err
	}
	for _, t := range outs {
		limit := math.Inf(1)
		if t.DType == kernels.E4M3 {
			limit = kernels.MaxE4M3
		}
		if err := b.d.each(b.d.support.moved, t.Elems(), in[0], in[1], in[2], uint64(moved[t.Name]), uint64(t.Elems()), uint64(b.p.DType), double(limit)); err != nil {
			b.d.freeAll(moved)
			return nil, nil, err
		}
	}
	b.moved = moved
	return outs, b.moved, nil
}

// poison fills outputs and scratch with NaN (all bits set).
func (b *bench) poison(r *ready, mem map[string]driver.Ptr) (steps []driver.Step) {
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Output {
			steps = append(steps, driver.Step{Kind: driver.StepMemset8, Ptr: mem[t.Name], Value: 0xff, Bytes: t.Bytes()})
		}
	}
	if r.scratch > 0 {
		steps = append(steps, driver.Step{Kind: driver.StepMemset8, Ptr: b.d.scratch.ptr, Value: 0xff, Bytes: r.scratch})
	}
	return steps
}

// poisoned runs the plan on poisoned outputs and scratch.
func (b *bench) poisoned(r *ready) error {
	d := b.d
	steps := b.poison(r, b.mem)
	for _, l := range r.launches {
		steps = append(steps, l.step)
	}
	if err := d.ctx.Enqueue(d.stream, steps); err != nil {
		return err
	}
	return d.stream.Synchronize()
}

// pair reads one element of an output and its answer.
func (b *bench) pair(t kernels.Tensor, mem, want driver.Ptr, i int64) (got, answer kernels.Number, err error) {
	raw := make([]byte, t.DType.Size())
	if err := b.d.ctx.CopyFromDevice(raw, mem+driver.Ptr(i*t.DType.Size())); err != nil {
		return 0, 0, err
	}
	m := kernels.NewMemory(t.DType, 1)
	switch t.DType {
	case kernels.FP32:
		m.F32[0] = math.Float32frombits(binary.LittleEndian.Uint32(raw))
	case kernels.E4M3:
		m.F8[0] = raw[0]
	default:
		m.Bits[0] = binary.LittleEndian.Uint16(raw)
	}
	w, err := b.d.float64s(want+driver.Ptr(8*i), 1)
	if err != nil {
		return 0, 0, err
	}
	return kernels.Number(m.At(0)), kernels.Number(w[0]), nil
}

// start asks for the launches of a plan: they go ahead of all that is only announced.
func (c *compiler) start(plan kernels.Plan) {
	for i := range plan.Launches {
		if plan.Launches[i].IsKernel() {
			c.ask(&plan.Launches[i])
		}
	}
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
