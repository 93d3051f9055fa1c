//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/kernels/devices/cuda/driver"
	"normbench/kernels/families/reference"
)

// Check implements kernels.Bench.
func (b *bench) Check(_ context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	r, err := b.prepareBound(v)
	if err != nil {
		return kernels.Check{}, err
	}
	c := kernels.Check{Repeats: max(repeats, 1), Unwritten: r.family.Unwritten,
		Unordered: r.family.BitsOf(r.config) == kernels.NotBitwise, Compile: r.compile}
	for _, l := range r.launches {
		if l.step.Kind != driver.CommandLaunch {
			continue
		}
		c.Resources = append(c.Resources, l.res)
	}
	err = b.d.call(func() error {
		start := time.Now()
		defer func() { c.Busy = time.Since(start).Seconds() }()
		return b.d.toFailure(b.check(r, &c))
	})
	return c, err
}

// HashRows implements kernels.RowHasher. The rows are few: the host hashes them.
func (b *bench) HashRows(_ context.Context, v kernels.Variant, rows int64) (kernels.RowHashes, error) {
	r, err := b.prepareBound(v)
	if err != nil {
		return nil, err
	}
	hashes := kernels.RowHashes{}
	err = b.d.call(func() error {
		steps := append(b.poison(r), b.restore(r)...)
		for _, l := range r.launches {
			steps = append(steps, l.step)
		}
		if err := b.d.ctx.Enqueue(b.d.stream, steps); err != nil {
			return b.d.toFailure(err)
		}
		for _, t := range b.p.RowOutputs() {
			if !r.family.Writes(t.Name) {
				continue
			}
			m := kernels.NewMemory(t.DType, min(rows, t.Rows)*t.Cols)
			if err := b.d.ctx.CopyFromDevice(m.Bytes, b.mem[t.Name]); err != nil {
				return b.d.toFailure(err)
			}
			hashes[t.Name] = m.HashRows(t.Cols, rows)
		}
		return nil
	})
	return hashes, err
}

// bandBytes is the size of the poisoned band behind each output and scratch buffer.
const bandBytes = 256

// The most inputs, outputs and scratch buffers of a plan that a check looks at.
const (
	maxInputs  = 16
	maxOutputs = 8
	maxBands   = 64
)

// A results says where the findings of a check lie in device memory, in bytes from the start.
type results struct {
	hashes, inputs, bands, differing, size int64
}

const resultsBytes = maxOutputs*(outcomeBytes+8) + 8*(maxInputs+maxBands) + 8

// layOutResults places the findings of a check of so many outputs, inputs and bands.
func layOutResults(outs, inputs, bands int) (l results) {
	l.hashes = int64(outs) * outcomeBytes
	l.inputs = l.hashes + 8*int64(outs)
	l.bands = l.inputs + 8*int64(inputs)
	l.differing = l.bands + 8*int64(bands)
	l.size = l.differing + 8
	return l
}

// check runs a variant, compares its outputs and looks for changed inputs and writes behind buffers.
func (b *bench) check(r *loadedVariant, c *kernels.Check) error {
	d := b.d
	outs, want, err := b.writtenTensors(r)
	if err != nil {
		return err
	}
	inputs, bands := b.inputTensors(), b.bands(r)
	if err := b.fingerprintInputs(inputs); err != nil {
		return err
	}
	at := layOutResults(len(outs), len(inputs), len(bands))
	steps := b.clearResults(len(outs), at.size)
	steps = append(steps, driver.Command{Kind: driver.CommandMemset8, Ptr: b.results + driver.Ptr(at.bands), Value: 0xff,
		Bytes: 8 * int64(len(bands))})
	for run := range c.Repeats {
		steps = append(append(steps, b.poison(r)...), b.restore(r)...)
		for _, l := range r.launches {
			steps = append(steps, l.step)
		}
		for i, t := range outs {
			got := b.mem[t.Name]
			if run > 0 {
				steps = append(steps, d.commandOver(d.support.differing, (t.Bytes()+15)/16, uint64(got),
					uint64(b.first[t.Name]), uint64(t.Bytes()), uint64(t.DType.Size()),
					uint64(b.results)+uint64(at.differing)))
				continue
			}
			steps = append(steps, b.compare(r, t, b.mem, want, i),
				b.fingerprint(t, b.results+driver.Ptr(at.hashes+8*int64(i))))
			if c.Repeats > 1 {
				steps = append(steps, driver.Command{Kind: driver.CommandCopy, Ptr: b.first[t.Name],
					Src: got, Bytes: t.Bytes()})
			}
		}
		for i, t := range inputs {
			steps = append(steps, b.fingerprint(t, b.results+driver.Ptr(at.inputs+8*int64(i))))
		}
		steps = append(steps, b.lookBehind(bands, b.results+driver.Ptr(at.bands))...)
	}
	raw := make([]byte, at.size)
	if err := b.runAndRead(steps, raw); err != nil {
		return err
	}
	number := func(off int64, i int) uint64 { return binary.LittleEndian.Uint64(raw[off+8*int64(i):]) }
	c.Differing = int64(number(at.differing, 0))
	for i := range outs {
		c.Digest = c.Digest*31 + number(at.hashes, i)
	}
	c.Digest >>= 11 // whole in a JSON number
	for i, t := range inputs {
		// Fingerprints of all runs are added up: one that puts its input back in the end is found, too.
		if number(at.inputs, i) != uint64(c.Repeats)*b.drawn[t.Name] {
			c.Changed = append(c.Changed, t.Name)
		}
	}
	for i, band := range bands {
		if first := number(at.bands, i); first < bandBytes && c.Beyond == "" {
			c.Beyond = fmt.Sprintf("it has written %d bytes behind the end of %s", first, band.name)
		}
	}
	if c.Changed != nil {
		if err := b.redraw(); err != nil {
			return err
		}
	}
	if c.Outputs, err = b.readOutcomes(raw, outs, b.mem, want); err == nil && c.OK() {
		r.hashes = raw[at.hashes:at.inputs]
	}
	return err
}

// inputTensors lists the problem's inputs.
func (b *bench) inputTensors() (list []kernels.Tensor) {
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Input {
			list = append(list, t)
		}
	}
	if b.p.Pass == kernels.Bwd {
		for _, t := range b.p.SavedTensors() {
			if b.mem[t.Name] != 0 && !slices.Contains(list, t) {
				list = append(list, t)
			}
		}
	}
	return list
}

// fingerprint makes the command that adds a tensor's fingerprint to sum.
func (b *bench) fingerprint(t kernels.Tensor, sum driver.Ptr) driver.Command {
	return b.d.commandOver(b.d.support.fingerprint, (t.Bytes()+15)/16, uint64(b.mem[t.Name]), uint64(t.Bytes()), uint64(sum))
}

// fingerprintInputs computes the fingerprints of the inputs as they were drawn, once.
func (b *bench) fingerprintInputs(inputs []kernels.Tensor) error {
	if b.drawn != nil {
		return nil
	}
	raw := make([]byte, 8*len(inputs))
	steps := b.clearResults(0, int64(len(raw)))
	for i, t := range inputs {
		steps = append(steps, b.fingerprint(t, b.results+driver.Ptr(8*i)))
	}
	if err := b.runAndRead(steps, raw); err != nil {
		return err
	}
	b.drawn = map[string]uint64{}
	for i, t := range inputs {
		b.drawn[t.Name] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return nil
}

// A guardBand is the poison behind the end of a buffer.
type guardBand struct {
	name string
	at   driver.Ptr
}

// bands lists the bands behind the outputs and the scratch buffers of a variant.
func (b *bench) bands(r *loadedVariant) (list []guardBand) {
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Output {
			list = append(list, guardBand{t.Name, b.mem[t.Name] + driver.Ptr(t.Bytes())})
		}
	}
	for _, s := range r.ends {
		list = append(list, guardBand{s.name, b.d.scratch.ptr + driver.Ptr(s.at)})
	}
	return list[:min(len(list), maxBands)]
}

// lookBehind makes the commands that look at bands: they write the place of the first byte of each that
// is not poison any more to first.
func (b *bench) lookBehind(bands []guardBand, first driver.Ptr) (steps []driver.Command) {
	const at = 8 // bands of one launch
	for lo := 0; lo < len(bands); lo += at {
		some := bands[lo:min(lo+at, len(bands))]
		args := []uint64{uint64(first) + uint64(8*lo), bandBytes}
		for i := range at {
			args = append(args, uint64(some[min(i, len(some)-1)].at))
		}
		steps = append(steps, supportStep(b.d.support.untouched, [3]int{len(some), 1, 1}, args))
	}
	return steps
}

// clearResults makes the commands that clear size bytes of results, which begin with the outcomes of
// some outputs.
func (b *bench) clearResults(outcomes int, size int64) []driver.Command {
	steps := []driver.Command{{Kind: driver.CommandMemset8, Ptr: b.results, Bytes: size}}
	for i := range outcomes {
		steps = append(steps, driver.Command{Kind: driver.CommandMemset8,
			Ptr: b.results + driver.Ptr(i*outcomeBytes+8), Value: 0xff, Bytes: 8}) // first
	}
	return steps
}

// compare makes the command that compares output i with its answer, on the device.
func (b *bench) compare(r *loadedVariant, t kernels.Tensor, mem, want map[string]driver.Ptr,
	i int) driver.Command {
	tol := b.tol[t.Name].Loosen(r.plan.Rounds, t.Name)
	scale, cols, one := b.scale.scaleOf(b.p, t, want)
	if r.family.Stream {
		scale, cols = b.moved[movedScale], b.p.N
	}
	onlyNaN := b.in.Draw == kernels.DrawNonFinite && reference.SumsRows(t.Name)
	return b.d.commandOver(b.d.support.compare, t.Elems(), uint64(mem[t.Name]), uint64(want[t.Name]),
		uint64(t.Elems()), uint64(t.DType), double(tol.Rel), double(tol.Terms), double(tol.Abs+tol.Terms*one),
		uint64(scale), uint64(cols), double(reference.Limit(t.DType)), boolArg(onlyNaN),
		uint64(b.results)+uint64(i*outcomeBytes))
}

// checkTimed checks the outputs of the last of some timed runs, before which they were poisoned: a
// kernel may remember its inputs, and do nothing for the same ones. Outputs whose hash a check has found
// right are right. Others are compared with the answers, which reads five times as much.
func (b *bench) checkTimed(r *loadedVariant, runs int) error {
	outs, want, err := b.writtenTensors(r)
	if err != nil {
		return err
	}
	if r.hashes != nil && r.family.BitsOf(r.config) != kernels.NotBitwise {
		raw := make([]byte, len(r.hashes))
		steps := b.clearResults(0, int64(len(raw)))
		for i, t := range outs {
			steps = append(steps, b.fingerprint(t, b.results+driver.Ptr(8*i)))
		}
		if err := b.runAndRead(steps, raw); err != nil || bytes.Equal(raw, r.hashes) {
			return err
		}
	}
	raw := make([]byte, len(outs)*outcomeBytes)
	steps := b.clearResults(len(outs), int64(len(raw)))
	for i, t := range outs {
		steps = append(steps, b.compare(r, t, b.mem, want, i))
	}
	if err := b.runAndRead(steps, raw); err != nil {
		return err
	}
	var c kernels.Check
	if c.Outputs, err = b.readOutcomes(raw, outs, b.mem, want); err != nil {
		return err
	}
	return c.CheckTimed(runs)
}

// runAndRead runs commands and reads the beginning of results into raw.
func (b *bench) runAndRead(steps []driver.Command, raw []byte) error {
	if err := b.d.ctx.Enqueue(b.d.stream, steps); err != nil {
		return err
	}
	return b.d.ctx.CopyFromDevice(raw, b.results)
}

// readOutcomes decodes the outcomes that compare has written.
func (b *bench) readOutcomes(raw []byte, outs []kernels.Tensor,
	mem, want map[string]driver.Ptr) (found []kernels.OutputCheck, err error) {
	for i, t := range outs {
		var o outcome
		if _, err := binary.Decode(raw[i*outcomeBytes:], binary.LittleEndian, &o); err != nil {
			return nil, err
		}
		oc := kernels.OutputCheck{Name: t.Name, Elems: t.Elems(), Bad: int64(o.Bad),
			MaxErr: min(o.Worst, math.MaxFloat32), Unwritten: int64(o.Unwritten),
			Void: reference.ProvesNothing(b.in.Draw, int64(o.Finite), t.Elems())}
		if o.Want2 > 0 {
			oc.RelL2 = min(math.Sqrt(o.Err2/o.Want2), math.MaxFloat32)
			if math.IsNaN(oc.RelL2) {
				oc.RelL2 = math.MaxFloat32
			}
		}
		if o.Bad > 0 {
			oc.First = int64(o.First)
			if oc.Got, oc.Want, err = b.readPair(t, mem[t.Name], want[t.Name], oc.First); err != nil {
				return nil, err
			}
		}
		found = append(found, oc)
	}
	return found, nil
}

// movedScale is the name of the scale of the stream's rows among its answers.
const movedScale = "scale"

// writtenTensors lists the outputs that a family writes, with their answers; for a stream it computes
// these first.
func (b *bench) writtenTensors(r *loadedVariant) ([]kernels.Tensor, map[string]driver.Ptr, error) {
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
	made := append(slices.Clone(outs), kernels.Tensor{Name: movedScale, Rows: b.p.M, Cols: 1})
	moved, err := b.d.allocTensors(made, func(t kernels.Tensor) int64 { return 8 * t.Elems() })
	if err != nil {
		return nil, nil, err
	}
	for _, t := range outs {
		limit := math.Inf(1)
		if t.DType == kernels.E4M3 {
			limit = kernels.MaxE4M3
		}
		blocks := int(min(b.p.M, int64(b.d.info.SMs)*8))
		if err := b.d.launch(b.d.support.moved, [3]int{blocks, 1, 1}, []uint64{in[0], in[1], in[2],
			uint64(moved[t.Name]), uint64(moved[movedScale]), uint64(b.p.M), uint64(b.p.N), uint64(b.p.DType),
			double(limit)}); err != nil {
			b.d.freeAll(moved)
			return nil, nil, err
		}
	}
	b.moved = moved
	return outs, b.moved, nil
}

// poison makes the commands that fill outputs, scratch and the bands behind them with NaN (all bits
// set).
func (b *bench) poison(r *loadedVariant) (steps []driver.Command) {
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Output {
			steps = append(steps, driver.Command{Kind: driver.CommandMemset8, Ptr: b.mem[t.Name],
				Value: 0xff, Bytes: t.Bytes() + bandBytes})
		}
	}
	if r.scratch > 0 {
		steps = append(steps, driver.Command{Kind: driver.CommandMemset8, Ptr: b.d.scratch.ptr,
			Value: 0xff, Bytes: r.scratch})
	}
	return steps
}

// restore makes the commands that copy inputs into the outputs that the variant writes in their place.
func (b *bench) restore(r *loadedVariant) (steps []driver.Command) {
	for _, o := range r.plan.Inplace {
		for _, t := range b.p.Tensors() {
			if t.Name == o.Input {
				steps = append(steps, driver.Command{Kind: driver.CommandCopy, Ptr: b.mem[o.Output], Src: b.mem[o.Input],
					Bytes: t.Bytes()})
			}
		}
	}
	return steps
}

// readPair reads one element of an output and its answer.
func (b *bench) readPair(t kernels.Tensor, mem, want driver.Ptr,
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
