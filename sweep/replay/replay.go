// Package replay is a device that serves measurements made before: it runs
// nothing, so that searches are compared and tested without a GPU. A sample is
// drawn at random, with a seed, from those that were recorded, so that its noise
// is that of the machine.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// Prefix stands before the ID of the device that was recorded, so that what is
// made by a replay is never taken for what the device did.
const Prefix = "replay-"

// A Device is a kernels.Device that replays records instead of running plans.
type Device struct {
	info     kernels.DeviceInfo
	seed     uint64
	problems map[kernels.Problem]map[kernels.Variant]*record.Record
	source   string
}

// New makes a device that replays the records of another one, whose info is given. source names the file
// in errors. Of two records of a variant the later counts. The record of the stream, whatever its
// config, answers for every family named OP_PASS/stream.
func New(info kernels.DeviceInfo, source string, seed uint64, rs []*record.Record) (*Device, error) {
	if len(rs) == 0 {
		return nil, hint.Errorf("a sweep writes some", "%s has nothing to replay", source)
	}
	if err := info.Validate(); err != nil { // its ID names a folder
		return nil, hint.Errorf("take the file from who measured it", "%s: %w", source, err)
	}
	if !strings.HasPrefix(info.ID, Prefix) {
		info.ID = Prefix + info.ID
		info.Name = "replay of " + info.Name
	}
	d := &Device{info: info, seed: seed, source: source,
		problems: map[kernels.Problem]map[kernels.Variant]*record.Record{}}
	for _, r := range rs {
		v := r.Variant()
		if v.Family == record.Stream {
			v.Config = kernels.Config{}
		}
		if d.problems[r.Problem] == nil {
			d.problems[r.Problem] = map[kernels.Variant]*record.Record{}
		}
		d.problems[r.Problem][v] = r
	}
	return d, nil
}

// Info implements kernels.Device.
func (d *Device) Info() kernels.DeviceInfo { return d.info }

// Prefetch implements kernels.Device: there is nothing to compile.
func (d *Device) Prefetch(kernels.Problem, []kernels.Variant) {}

// Close implements kernels.Device.
func (d *Device) Close() error { return nil }

// Problems lists the problems that have records, in no order.
func (d *Device) Problems() []kernels.Problem {
	return slices.Collect(maps.Keys(d.problems))
}

// Variants lists the variants that were measured on a problem, failed ones too, by family and config,
// without the stream. timed marks those that have times.
func (d *Device) Variants(p kernels.Problem) (vs []kernels.Variant, timed map[kernels.Variant]bool) {
	timed = map[kernels.Variant]bool{}
	for v, m := range d.problems[p] {
		if v.Family != record.Stream {
			vs = append(vs, v)
			timed[v] = m.Status == kernels.StatusOK
		}
	}
	slices.SortFunc(vs, func(a, b kernels.Variant) int { return cmp.Compare(a.String(), b.String()) })
	return vs, timed
}

// Open implements kernels.Device. The samples that the bench draws depend on the device's seed, the
// problem and the seed of the inputs.
func (d *Device) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	records, ok := d.problems[p]
	if !ok {
		return nil, kernels.Failf(kernels.StatusRefused, "the replay of %s lacks the problem %s", d.source, p)
	}
	h := fnv.New64a()
	fmt.Fprint(h, p.String(), " ", in.Seed)
	return &bench{device: d, problem: p, records: records, rng: rand.New(rand.NewPCG(d.seed, h.Sum64()))}, nil
}

type bench struct {
	device  *Device
	problem kernels.Problem
	records map[kernels.Variant]*record.Record
	rng     *rand.Rand
}

// find looks up the record of a variant. It fails where there is none, or with the failure that was
// recorded.
func (b *bench) find(ctx context.Context, v kernels.Variant) (*record.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, ok := b.records[v]
	if !ok && strings.HasSuffix(v.Family, "/"+record.Stream) {
		m, ok = b.records[kernels.Variant{Family: record.Stream}]
	}
	if !ok {
		return nil, kernels.Failf(kernels.StatusRefused, "the replay of %s lacks %s on %s",
			b.device.source, v, b.problem)
	}
	if m.Status != kernels.StatusOK && m.Status != kernels.StatusWrong {
		return nil, kernels.Failf(m.Status, "%s", m.Reason)
	}
	return m, nil
}

// Check implements kernels.Bench: it returns the recorded check.
func (b *bench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check, error) {
	m, err := b.find(ctx, v)
	if err != nil {
		return kernels.Check{}, err
	}
	if m.Check == nil {
		return kernels.Check{}, nil
	}
	return *m.Check, nil
}

// Time implements kernels.Bench: it draws from the recorded samples. Busy counts the time of a flush at
// the memory's peak rate, or at 4 TB/s where that is not known.
func (b *bench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	m, err := b.find(ctx, v)
	if err != nil {
		return kernels.Timing{}, err
	}
	if m.Status != kernels.StatusOK {
		return kernels.Timing{}, kernels.Failf(m.Status, "%s", m.Reason)
	}
	rate := 4e12
	if b.device.info.PeakRate > 0 {
		rate = float64(b.device.info.PeakRate)
	}
	t := kernels.Timing{Seconds: make([]float64, o.Samples)}
	for i := range t.Seconds {
		t.Seconds[i] = m.SamplesUS[b.rng.IntN(len(m.SamplesUS))] / 1e6
		t.Busy += t.Seconds[i] + float64(o.Flush)/rate
	}
	if o.Stages {
		t.By = m.StagesBy
		for _, s := range m.Stages {
			x := kernels.StageSeconds{Stage: s.Stage, Seconds: make([]float64, o.Samples)}
			for i := range x.Seconds {
				x.Seconds[i] = s.SamplesUS[b.rng.IntN(len(s.SamplesUS))] / 1e6
			}
			t.Stages = append(t.Stages, x)
		}
	}
	return t, nil
}

// Close implements kernels.Bench.
func (b *bench) Close() error { return nil }
