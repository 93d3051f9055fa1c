//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"time"

	"normbench/kernels"
	"normbench/kernels/cuda/driver"
	"normbench/kernels/reference"
)

// Check implements kernels.Bench.
func (b *bench) Check(_ context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	r, err := b.current(v)
	if err != nil {
		return kernels.Check{}, err
	}
	c := kernels.Check{Repeats: max(repeats, 1), Unwritten: r.family.Unwritten,
		Unordered: r.family.BitsOf(r.config) == kernels.NotBitwise, Compile: r.compile}
	for _, l := range r.launches {
		if l.step.Kind != driver.StepLaunch {
			continue
		}
		c.Resources = append(c.Resources, l.res)
	}
	err = b.d.call(func() error {
		start := time.Now()
		defer func() { c.Busy = time.Since(start).Seconds() }()
		return b.d.fail(b.check(r, &c))
	})
	return c, err
}

func (b *bench) check(r *program, c *kernels.Check) error {
	d := b.d
	outs, want, err := b.outputs(r)
	if err != nil {
		return err
	}
	hashes := len(outs) * outcomeBytes
	size := int64(hashes + 8*len(outs) + 16)
	steps := b.clearResults(len(outs), size)
	for run := range c.Repeats {
		steps = append(steps, b.poison(r)...)
		for _, l := range r.launches {
			steps = append(steps, l.step)
		}
		for i, t := range outs {
			n, elem, got := t.Elems(), uint64(t.DType.Size()), b.mem[t.Name]
			if run > 0 {
				steps = append(steps, d.over(d.support.differing, n, uint64(got),
					uint64(b.first[t.Name]), uint64(n), elem, uint64(b.results)+uint64(size)-16))
				continue
			}
			steps = append(steps, d.over(d.support.digest, n, uint64(got), uint64(n), elem,
				uint64(b.results)+uint64(size)-8), b.compare(r, t, b.mem, want, i),
				b.hash(t, b.mem, b.results+driver.Ptr(hashes+8*i)))
			if c.Repeats > 1 {
				steps = append(steps, driver.Step{Kind: driver.StepCopy, Ptr: b.first[t.Name],
					Src: got, Bytes: t.Bytes()})
			}
		}
	}
	raw := make([]byte, size)
	if err := b.read(steps, raw); err != nil {
		return err
	}
	c.Differing = int64(binary.LittleEndian.Uint64(raw[size-16:]))
	c.Digest = binary.LittleEndian.Uint64(raw[size-8:]) >> 11 // whole in a JSON number
	if c.Outputs, err = b.readOutcomes(raw, outs, b.mem, want); err == nil && c.OK() {
		r.hashes = raw[hashes : size-16]
	}
	return err
}

// clearResults clears so many bytes, which begin with the outcomes of some outputs.
func (b *bench) clearResults(outcomes int, size int64) []driver.Step {
	steps := []driver.Step{{Kind: driver.StepMemset8, Ptr: b.results, Bytes: size}}
	for i := range outcomes {
		steps = append(steps, driver.Step{Kind: driver.StepMemset8,
			Ptr: b.results + driver.Ptr(i*outcomeBytes+8), Value: 0xff, Bytes: 8}) // first
	}
	return steps
}

// hash adds up a hash of an output's bits, four bytes at a time where they are whole.
func (b *bench) hash(t kernels.Tensor, mem map[string]driver.Ptr, sum driver.Ptr) driver.Step {
	size := int64(4)
	if t.Bytes()%size != 0 {
		size = int64(t.DType.Size())
	}
	n := t.Bytes() / size
	return b.d.over(b.d.support.digest, n, uint64(mem[t.Name]), uint64(n), uint64(size), uint64(sum))
}

// compare holds output i against its answer, on the device.
func (b *bench) compare(r *program, t kernels.Tensor, mem, want map[string]driver.Ptr,
	i int) driver.Step {
	tol := b.tol[t.Name].Loosen(r.plan.Rounds, t.Name, b.scale[t.Name])
	return b.d.over(b.d.support.compare, t.Elems(), uint64(mem[t.Name]), uint64(want[t.Name]),
		uint64(t.Elems()), uint64(t.DType),
		double(tol.Rel), double(tol.Abs), double(reference.Limit(t.DType)),
		uint64(b.results)+uint64(i*outcomeBytes))
}

// checkTimed says what is wrong with what the last of some timed runs has left, before which the
// outputs were poisoned: a kernel may remember its inputs, and do nothing for the same ones. Bits
// that a check has found right are right: their hashes tell. Other bits are held against the
// answers, which reads five times as much.
func (b *bench) checkTimed(r *program, runs int) error {
	outs, want, err := b.outputs(r)
	if err != nil {
		return err
	}
	if r.hashes != nil && r.family.BitsOf(r.config) != kernels.NotBitwise {
		raw := make([]byte, len(r.hashes))
		steps := b.clearResults(0, int64(len(raw)))
		for i, t := range outs {
			steps = append(steps, b.hash(t, b.mem, b.results+driver.Ptr(8*i)))
		}
		if err := b.read(steps, raw); err != nil || bytes.Equal(raw, r.hashes) {
			return err
		}
	}
	raw := make([]byte, len(outs)*outcomeBytes)
	steps := b.clearResults(len(outs), int64(len(raw)))
	for i, t := range outs {
		steps = append(steps, b.compare(r, t, b.mem, want, i))
	}
	if err := b.read(steps, raw); err != nil {
		return err
	}
	var c kernels.Check
	if c.Outputs, err = b.readOutcomes(raw, outs, b.mem, want); err != nil {
		return err
	}
	return c.Timed(runs)
}

// read runs steps and reads what results then begin with.
func (b *bench) read(steps []driver.Step, raw []byte) error {
	if err := b.d.ctx.Enqueue(b.d.stream, steps); err != nil {
		return err
	}
	return b.d.ctx.CopyFromDevice(raw, b.results)
}

// readOutcomes reads what compare found.
func (b *bench) readOutcomes(raw []byte, outs []kernels.Tensor,
	mem, want map[string]driver.Ptr) (found []kernels.OutputCheck, err error) {
	for i, t := range outs {
		var o outcome
		if _, err := binary.Decode(raw[i*outcomeBytes:], binary.LittleEndian, &o); err != nil {
			return nil, err
		}
		oc := kernels.OutputCheck{Name: t.Name, Elems: t.Elems(), Bad: int64(o.Bad),
			MaxErr: min(o.Worst, math.MaxFloat32)}
		if o.Want2 > 0 {
			oc.RelL2 = min(math.Sqrt(o.Err2/o.Want2), math.MaxFloat32)
			if math.IsNaN(oc.RelL2) {
				oc.RelL2 = math.MaxFloat32
			}
		}
		if o.Bad > 0 {
			oc.First = int64(o.First)
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
func (b *bench) outputs(r *program) ([]kernels.Tensor, map[string]driver.Ptr, error) {
	if !r.family.Stream {
		var outs []kernels.Tensor
		for _, t := range b.p.Tensors() {
			if t.Role == kernels.Output && r.family.Writes(t.Name) {
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
		if err := b.d.each(b.d.support.moved, t.Elems(), in[0], in[1], in[2], uint64(moved[t.Name]),
			uint64(t.Elems()), uint64(b.p.DType), double(limit)); err != nil {
			b.d.freeAll(moved)
			return nil, nil, err
		}
	}
	b.moved = moved
	return outs, b.moved, nil
}

// poison fills outputs and scratch with NaN (all bits set).
func (b *bench) poison(r *program) (steps []driver.Step) {
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Output {
			steps = append(steps, driver.Step{Kind: driver.StepMemset8, Ptr: b.mem[t.Name],
				Value: 0xff, Bytes: t.Bytes()})
		}
	}
	if r.scratch > 0 {
		steps = append(steps, driver.Step{Kind: driver.StepMemset8, Ptr: b.d.scratch.ptr,
			Value: 0xff, Bytes: r.scratch})
	}
	return steps
}

// pair reads one element of an output and its answer.
func (b *bench) pair(t kernels.Tensor, mem, want driver.Ptr,
	i int64) (got, answer kernels.Number, err error) {
	m := kernels.NewMemory(t.DType, 1)
	if err := b.d.ctx.CopyFromDevice(m.Bytes, mem+driver.Ptr(i*t.DType.Size())); err != nil {
		return 0, 0, err
	}
	w, err := b.d.float64s(want+driver.Ptr(8*i), 1)
	if err != nil {
		return 0, 0, err
	}
	return kernels.Number(m.At(0)), kernels.Number(w[0]), nil
}
