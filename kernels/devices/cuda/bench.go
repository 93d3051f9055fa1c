//go:build cuda

package cuda

import (
	"context"
	"errors"
	"maps"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cuda/driver"
	"normbench/kernels/families/reference"
)

// A bench is a problem that the GPU has open.
type bench struct {
	d       *Device
	p       kernels.Problem
	in      kernels.Inputs
	mem     map[string]driver.Ptr // tensors; a band follows each output
	want    map[string]driver.Ptr // float64 answers
	tol     map[string]reference.Tolerance
	scale   scales                // of the answers' terms
	first   map[string]driver.Ptr // outputs of a first run, for comparing bits
	results driver.Ptr            // what a check finds: see results
	drawn   map[string]uint64     // fingerprints of the inputs as they were drawn, once asked for
	moved   map[string]driver.Ptr // answers of the stream, once asked for, and the scale of their rows
	loaded  map[kernels.Variant]*loadedVariant
	modules []*driver.Module
}

// Open implements kernels.Device. Inputs and answers are made on the GPU; the conformance suite compares
// them with package reference.
func (d *Device) Open(_ context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	if err := p.CheckFits(d.info); err != nil {
		return nil, err
	}
	var b *bench
	err := d.call(func() error {
		for {
			b = &bench{d: d, p: p, in: in, mem: map[string]driver.Ptr{},
				want: map[string]driver.Ptr{}, first: map[string]driver.Ptr{},
				tol: map[string]reference.Tolerance{}, loaded: map[kernels.Variant]*loadedVariant{}}
			err := b.open()
			if err == nil {
				return nil
			}
			b.free()
			var de *driver.Error
			if !errors.As(err, &de) || de.Code != driver.CodeOutOfMemory {
				return d.toFailure(err)
			}
			if d.scratch.ptr == 0 {
				return hint.Errorf("choose smaller shapes, or free the GPU's memory",
					"%s does not fit in the free memory of %s", p, d.info.Name)
			}
			// Once more without what variants of an earlier problem needed.
			if err := d.ctx.Free(d.scratch.ptr); err != nil {
				return d.toFailure(err)
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

// open allocates the problem's tensors, draws its inputs and computes its answers.
func (b *bench) open() error {
	d, p := b.d, b.p
	alloc := func(m map[string]driver.Ptr, name string, bytes int64) error {
		ptr, err := d.ctx.Alloc(bytes)
		m[name] = ptr
		return err
	}
	for _, t := range p.Tensors() {
		behind := int64(0)
		if t.Role == kernels.Output {
			behind = bandBytes
		}
		if err := alloc(b.mem, t.Name, t.Bytes()+behind); err != nil {
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
	if b.results, err = d.ctx.Alloc(resultsBytes); err != nil {
		return err
	}
	if b.scale, err = d.newScales(p.M); err != nil {
		return err
	}
	for _, t := range p.Tensors() {
		if t.Role == kernels.Output {
			b.tol[t.Name] = reference.ToleranceFor(p, t)
		}
	}
	if err := d.drawInputs(p, b.in, b.mem); err != nil {
		return err
	}
	if err := d.computeAnswers(p, b.mem, b.want, &b.scale); err != nil {
		return err
	}
	if err := b.saveStatistics(); err != nil {
		return err
	}
	return d.stream.Synchronize()
}

// saveStatistics rounds the statistics that a forward saves to fp32, as inputs of a backward.
func (b *bench) saveStatistics() error {
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Output || b.want[t.Name] == 0 {
			continue
		}
		n := t.Elems()
		if err := b.d.launchOver(b.d.support.roundTo, n, uint64(b.mem[t.Name]), uint64(b.want[t.Name]), uint64(n),
			uint64(t.DType)); err != nil {
			return err
		}
	}
	return nil
}

// redraw fills all inputs anew, after a run has changed one.
func (b *bench) redraw() error {
	if err := b.d.drawInputs(b.p, b.in, b.mem); err != nil {
		return err
	}
	if err := b.saveStatistics(); err != nil || b.mem["y"] == 0 || b.p.Pass != kernels.Bwd {
		return err
	}
	return b.d.savedOutput(b.p, b.in, b.mem)
}

// free frees all memory and modules of the problem.
func (b *bench) free() {
	for _, m := range b.modules {
		m.Unload()
	}
	for _, mem := range []map[string]driver.Ptr{b.mem, b.want, b.first, b.moved,
		{"results": b.results, "scale": b.scale.sums}} {
		b.d.freeAll(mem)
	}
}

// Close implements kernels.Bench.
func (b *bench) Close() error {
	return b.d.call(func() error {
		if b.d.lost == nil {
			b.free()
		}
		return nil
	})
}

// A loadedVariant is a variant whose code is compiled and loaded.
type loadedVariant struct {
	family   *kernels.Family
	config   kernels.Config
	launches []loadedLaunch
	plan     kernels.Plan
	offsets  map[string]int64 // of scratch buffers in the device's scratch
	ends     []scratchEnd
	scratch  int64   // bytes
	compile  float64 // seconds, of all its units
	hashes   []byte  // of its outputs, 8 bytes each, once they were found right
}

// prepare compiles and loads a variant, or returns the loaded one. It waits for the compiler off the
// driver's thread.
func (b *bench) prepare(v kernels.Variant) (*loadedVariant, error) {
	if r, ok := b.loaded[v]; ok {
		return r, nil
	}
	f, full, plan, err := b.d.registry.Resolve(b.p, v, b.d.info)
	if err != nil {
		return nil, kernels.Failf(kernels.StatusRefused, "%v", err)
	}
	b.d.compile.start(plan)
	if err := b.d.call(func() error { return b.d.toFailure(b.makeSaved(plan)) }); err != nil {
		return nil, err
	}
	plan.Launches = slices.Clone(plan.Launches)
	r := &loadedVariant{family: f, config: full.Config, plan: plan, offsets: map[string]int64{}}
	r.placeScratch(plan.Scratch)
	counted := map[*nvrtc.Binary]bool{} // launches may share a unit
	for i := range plan.Launches {
		l := &plan.Launches[i]
		if !l.IsKernel() {
			kind := driver.CommandCopy
			if l.Entry == kernels.Memset {
				kind = driver.CommandMemset8
			}
			r.launches = append(r.launches, loadedLaunch{stage: l.Stage,
				step: driver.Command{Kind: kind, Args: make([]uint64, len(l.Args))}})
			continue
		}
		binary, err := b.d.compile.binary(l)
		if hint.Of(err) != "" { // it is not the kernel's
			return nil, err
		}
		if err != nil {
			return nil, kernels.Failf(kernels.StatusCompile, "%v", err)
		}
		if !counted[binary] {
			counted[binary] = true
			r.compile += binary.CompileSeconds
		}
		if err := r.completeLaunch(binary, l); err != nil {
			return nil, kernels.Failf(kernels.StatusCompile, "%v", err)
		}
		err = b.d.call(func() error {
			ld, err := b.load(binary, b.d.keepApart(l))
			r.launches = append(r.launches, ld)
			return b.d.toFailure(err)
		})
		if err != nil {
			return nil, err
		}
	}
	b.loaded[v] = r
	return r, nil
}

// load loads the code of one launch and checks that the device can run it.
func (b *bench) load(binary *nvrtc.Binary, l *kernels.Launch) (loadedLaunch, error) {
	ld := loadedLaunch{stage: l.Stage, symbol: binary.Symbol(l.Entry)}
	m, err := b.d.ctx.LoadModule(binary.Cubin)
	if err != nil {
		return ld, err
	}
	b.modules = append(b.modules, m)
	fn, err := m.Function(ld.symbol)
	if err != nil {
		return ld, err
	}
	ld.step = driver.Command{Kind: driver.CommandLaunch, Func: fn, Grid: l.Grid,
		Block: l.Threads(), Shared: l.Shared, Programmatic: l.Early && b.d.isHopper()}
	ld.step.Args, ld.step.Firsts = kernels.SlotsOf(l.Args)
	if l.Cluster > 1 {
		ld.step.Cluster = [3]int{l.Cluster, 1, 1}
	}
	ld.res, err = b.d.checkResources(fn, l)
	ld.res.Spill = binary.Kernels[ld.symbol].SpillStoreBytes
	return ld, err
}

// A scratchEnd is the place where a buffer ends in the device's scratch.
type scratchEnd struct {
	name string
	at   int64
}

// placeScratch gives each scratch buffer a place in the device's scratch, with a band behind it.
func (r *loadedVariant) placeScratch(scratch []kernels.Scratch) {
	for _, s := range scratch {
		r.offsets[s.Name] = r.scratch
		r.ends = append(r.ends, scratchEnd{s.Name, r.scratch + s.Bytes()})
		r.scratch += (s.Bytes() + bandBytes + 255) &^ 255
	}
}

// completeLaunch sets what a compiled Triton kernel says of its own launch, and checks the arguments of
// others.
func (r *loadedVariant) completeLaunch(b *nvrtc.Binary, l *kernels.Launch) error {
	if b.Meta == nil {
		return CheckArgs(b, l)
	}
	whole, scratch, err := triton.Complete(b, *l)
	if err == nil {
		*l = whole
		r.placeScratch(scratch)
	}
	return err
}

// keepApart returns the launch with so much shared memory that no two of its CTAs are on one SM, if it
// asks for that.
func (d *Device) keepApart(l *kernels.Launch) *kernels.Launch {
	if !l.Apart {
		return l
	}
	apart := *l
	apart.Shared = max(l.Shared, d.info.SharedPerBlock/2+1<<10)
	return &apart
}

// checkResources reads the resources that a launch takes, and refuses one that cannot run at all.
func (d *Device) checkResources(f driver.Function, l *kernels.Launch) (kernels.Resource, error) {
	res := kernels.Resource{Stage: l.Stage, Threads: l.Block, CTAs: l.Grid[0] * l.Grid[1] * l.Grid[2]}
	regs, local, shared, maxThreads, err := f.Attributes()
	if err != nil {
		return res, err
	}
	res.Registers, res.Local, res.Shared = regs, local, shared+l.Shared
	if l.Block > maxThreads {
		return res, kernels.Failf(kernels.StatusResource,
			"%s: %d threads with %d registers each do not fit", l.Stage, l.Block, regs)
	}
	// The limit without asking is for static and dynamic shared memory together.
	if shared+l.Shared > 48<<10 {
		if err := f.SetMaxDynamicShared(l.Shared); err != nil {
			return res, kernels.Failf(kernels.StatusResource, "%s: %d bytes of shared memory: %v",
				l.Stage, l.Shared, err)
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
				return res, kernels.Failf(kernels.StatusResource, "%s: clusters of %d: %v", l.Stage,
					l.Cluster, err)
			}
		}
		clusters, err := f.OccupancyClusters(l.Grid, l.Block, l.Shared, l.Cluster)
		if err != nil {
			return res, err
		}
		if clusters == 0 {
			return res, kernels.Failf(kernels.StatusResource,
				"%s: not one cluster of %d CTAs fits on the device", l.Stage, l.Cluster)
		}
		at = min(at, clusters*l.Cluster)
	}
	// CTAs that wait for one that has not started wait for ever.
	if l.Resident && res.CTAs > at {
		return res, kernels.Failf(kernels.StatusResource,
			"%s: %d CTAs wait for each other, and only %d fit on the device at once", l.Stage,
			res.CTAs, at)
	}
	return res, nil
}

// isHopper says whether the device is of compute capability 9.0 or later.
func (d *Device) isHopper() bool { return d.ctx.Info().Major >= 9 }

// portableCluster is the largest cluster that every device with clusters runs.
const portableCluster = 8

// makeSaved computes the tensors that the forward has saved beside the inputs, if the plan takes them.
func (b *bench) makeSaved(plan kernels.Plan) error {
	if b.p.Pass != kernels.Bwd || !plan.Takes("y") || b.mem["y"] != 0 {
		return nil
	}
	mem := maps.Clone(b.mem)
	made, err := b.d.allocTensors(b.p.SavedTensors(), func(t kernels.Tensor) int64 { return t.Bytes() })
	if err != nil {
		return err
	}
	maps.Copy(mem, made)
	if err := b.d.savedOutput(b.p, b.in, mem); err != nil {
		b.d.freeAll(made)
		return err
	}
	maps.Copy(b.mem, made)
	b.drawn = nil // there are more inputs now
	return nil
}

// bind sets the arguments of launch i to the addresses of its buffers.
func (b *bench) bind(r *loadedVariant, i int, step *driver.Command) {
	address := func(buffer string) uint64 { return b.address(r.plan.Buffer(buffer), r.offsets) }
	slots := step.Args
	for _, a := range r.plan.Launches[i].Args {
		n := a.Slots()
		a.Put(slots[:n], address)
		slots = slots[n:]
	}
	if step.Kind == driver.CommandCopy {
		step.Src, step.Ptr, step.Bytes = driver.Ptr(step.Args[0]), driver.Ptr(step.Args[1]),
			int64(step.Args[2])
	}
	if step.Kind == driver.CommandMemset8 {
		step.Ptr, step.Bytes = driver.Ptr(step.Args[0]), int64(step.Args[1])
	}
}

// address returns the address of a buffer, 0 for the null pointer "".
func (b *bench) address(buffer string, scratch map[string]int64) uint64 {
	if off, ok := scratch[buffer]; ok {
		return uint64(b.d.scratch.ptr) + uint64(off)
	}
	return uint64(b.mem[buffer])
}

// prepareBound prepares a variant and binds its arguments, if the context is not lost. It binds at each
// visit, as the scratch may have moved since the last, to make room for another variant.
func (b *bench) prepareBound(v kernels.Variant) (*loadedVariant, error) {
	if b.d.lost != nil {
		return nil, &kernels.Failure{Status: kernels.StatusLaunch,
			Reason: "the GPU's context was lost: " + b.d.lost.Error(), Broken: true}
	}
	r, err := b.prepare(v)
	if err != nil {
		return nil, err
	}
	err = b.d.call(func() error { return b.d.toFailure(b.d.grow(&b.d.scratch, r.scratch)) })
	if err != nil {
		return nil, err
	}
	for i := range r.launches {
		b.bind(r, i, &r.launches[i].step)
	}
	return r, nil
}
