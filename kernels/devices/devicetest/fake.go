package devicetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"normbench/kernels"
)

// A Fake is a scripted kernels.Device: it runs nothing, and its times, answers
// and failures are what the test says. Its zero value is an H200 on which
// everything is right. Everything it does is a function of its script, so tests
// that use it are as exact as goldens.
//
// It panics where its caller breaks the contract of kernels.Device: two
// goroutines at once, two problems open, a Bench used after it was closed.
type Fake struct {
	DeviceInfo kernels.DeviceInfo // H200() where its ID is ""
	// Registry, where set, resolves variants: the fake then refuses what a
	// device would refuse, script functions see complete configs, and stages
	// have the plan's names. Else any variant runs, in one stage "k1".
	Registry *kernels.Registry

	// Seconds scripts a sample's time. sample counts the samples of v on p from
	// 0 over all calls. nil is Typical.
	Seconds func(p kernels.Problem, v kernels.Variant, sample int) float64
	// Warm scales the samples of problems of 1 MiB and more that fit the cache
	// when it is not flushed; 0 is 1, a cache that makes no
	// difference.
	Warm float64
	// Fail scripts how v fails on p; nil, or a nil result, is not at all.
	// StatusWrong is a Check with a wrong element, every other status is the
	// error of Check and Time. A Failure with Broken, and every crash and
	// timeout, leaves the Bench dead until the problem is opened again.
	Fail func(p kernels.Problem, v kernels.Variant) *kernels.Failure
	// FailIn, where set, is what Fail is of alone: "time", or "stages", passes that time those.
	FailIn string
	// Rows scripts the bits of v's rows on p: equal numbers for equal bits. nil gives all the same.
	Rows func(p kernels.Problem, v kernels.Variant) uint64
	// OpenError scripts the error of the attempt-th Open of p, counted from 0.
	OpenError func(p kernels.Problem, attempt int) error
	// Hook, where set, is called within every open, check and time; its error is theirs.
	Hook func(ctx context.Context, op string, v kernels.Variant) error

	busy atomic.Bool // a method is running

	mu      sync.Mutex
	calls   []FakeCall
	opens   map[kernels.Problem]int
	samples map[failedJob]int
	bench   *fakeBench // the open one
	closed  bool
}

type failedJob struct {
	p kernels.Problem
	v kernels.Variant
}

// A FakeCall is one call of a method of a Fake or its Benches.
type FakeCall struct {
	// "prefetch", "open", "check", "time", "close" (of a Bench), "end" (of the device)
	Op       string
	Problem  kernels.Problem
	Variants []kernels.Variant // as they were given
	Inputs   kernels.Inputs
	Repeats  int
	Options  kernels.TimeOptions
}

// String writes the call as "check rmsnorm/fwd/8x8/bf16 family@label".
func (c FakeCall) String() string {
	s := c.Op
	if c.Problem != (kernels.Problem{}) {
		s += " " + c.Problem.String()
	}
	for _, v := range c.Variants {
		s += " " + v.String()
	}
	return s
}

// Calls are the calls so far, of the ops given, or of all.
func (f *Fake) Calls(ops ...string) []FakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []FakeCall
	for _, c := range f.calls {
		if len(ops) == 0 || strings.Contains(" "+strings.Join(ops, " ")+" ", " "+c.Op+" ") {
			calls = append(calls, c)
		}
	}
	return calls
}

// enter logs a call; the result ends it.
func (f *Fake) enter(c FakeCall) func() {
	if !f.busy.CompareAndSwap(false, true) {
		panic("devicetest: " + c.Op + " while another call of the device is running")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		panic("devicetest: " + c.Op + " on a closed device")
	}
	f.calls = append(f.calls, c)
	return func() { f.busy.Store(false) }
}

// Info implements kernels.Device.
func (f *Fake) Info() kernels.DeviceInfo {
	if f.DeviceInfo.ID == "" {
		return H200()
	}
	return f.DeviceInfo
}

// Prefetch implements kernels.Device.
func (f *Fake) Prefetch(p kernels.Problem, vs []kernels.Variant) {
	defer f.enter(FakeCall{Op: "prefetch", Problem: p, Variants: append([]kernels.Variant(nil),
		vs...)})()
}

// Open implements kernels.Device.
func (f *Fake) Open(ctx context.Context, p kernels.Problem, in kernels.Inputs) (kernels.Bench, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was opened, so nothing will be closed
	}
	defer f.enter(FakeCall{Op: "open", Problem: p, Inputs: in})()
	if f.bench != nil {
		panic("devicetest: open while a problem is open")
	}
	if f.opens == nil {
		f.opens, f.samples = map[kernels.Problem]int{}, map[failedJob]int{}
	}
	attempt := f.opens[p]
	f.opens[p]++
	if err := p.CheckFits(f.Info()); err != nil {
		return nil, err
	}
	if f.OpenError != nil {
		if err := f.OpenError(p, attempt); err != nil {
			return nil, err
		}
	}
	if f.Hook != nil {
		if err := f.Hook(ctx, "open", kernels.Variant{}); err != nil {
			return nil, err
		}
	}
	f.bench = &fakeBench{f: f, p: p, in: in}
	return f.bench, nil
}

// Close implements kernels.Device.
func (f *Fake) Close() error {
	defer f.enter(FakeCall{Op: "end"})()
	f.closed = true
	return nil
}

// A SensorFake is a Fake with scripted readings of its sensors, by the number of the call from 0. It
// remembers which processes belong beside it.
type SensorFake struct {
	*Fake
	Reading func(call int) kernels.Reading
	PIDs    []int
	calls   int
}

// IgnoreProcesses implements kernels.Sensor.
func (s *SensorFake) IgnoreProcesses(pids ...int) { s.PIDs = pids }

// Sense implements kernels.Sensor.
func (s *SensorFake) Sense(context.Context) (kernels.Reading, error) {
	s.calls++
	return s.Reading(s.calls - 1), nil
}

type fakeBench struct {
	f      *Fake
	p      kernels.Problem
	in     kernels.Inputs
	broken bool
	closed bool
}

// begin is what Check and Time share: it completes v and plays its failure, where it may fail.
func (b *fakeBench) begin(ctx context.Context, op string, v kernels.Variant, may bool) (
	kernels.Variant, []string, error) {
	if b.closed {
		panic("devicetest: " + op + " on a closed bench")
	}
	if b.broken {
		return v, nil, &kernels.Failure{Status: kernels.StatusCrash,
			Reason: "the device has lost the problem", Broken: true}
	}
	if err := ctx.Err(); err != nil {
		return v, nil, err
	}
	if b.f.Hook != nil {
		if err := b.f.Hook(ctx, op, v); err != nil {
			return v, nil, err
		}
	}
	stages := []string{"k1"}
	if r := b.f.Registry; r != nil {
		_, full, plan, err := r.Resolve(b.p, v, b.f.Info())
		if err != nil {
			return v, nil, kernels.Failf(kernels.StatusRefused, "%v", err)
		}
		v, stages = full, nil
		for _, l := range plan.Launches {
			stages = append(stages, l.Stage)
		}
	}
	if b.f.Fail == nil || !may {
		return v, stages, nil
	}
	if failure := b.f.Fail(b.p, v); failure != nil && (failure.Status != kernels.StatusWrong ||
		op == "time") {
		c := *failure
		c.Broken = c.Broken || c.Status == kernels.StatusCrash || c.Status == kernels.StatusTimeout
		b.broken = c.Broken
		return v, nil, &c
	}
	return v, stages, nil
}

// Check implements kernels.Bench.
func (b *fakeBench) Check(ctx context.Context, v kernels.Variant, repeats int) (kernels.Check,
	error) {
	defer b.f.enter(FakeCall{Op: "check", Problem: b.p, Variants: []kernels.Variant{v},
		Repeats: repeats})()
	v, stages, err := b.begin(ctx, "check", v, b.f.FailIn == "")
	if err != nil {
		return kernels.Check{}, err
	}
	c := kernels.Check{Repeats: max(repeats, 1), Busy: 1e-3, Compile: 0.25}
	for _, t := range b.p.Tensors() {
		if t.Role == kernels.Output {
			c.Outputs = append(c.Outputs, kernels.OutputCheck{Name: t.Name, Elems: t.Elems(),
				MaxErr: 0.5, RelL2: t.DType.Epsilon() / 4})
		}
	}
	for _, s := range stages {
		c.Resources = append(c.Resources, kernels.Resource{Stage: s, Registers: 64, Occupancy: 2,
			Threads: 256, CTAs: 264})
	}
	if b.f.Fail != nil && b.f.FailIn == "" {
		if failure := b.f.Fail(b.p, v); failure != nil { // StatusWrong: the others are out already
			o := &c.Outputs[0]
			o.Bad, o.First, o.Got, o.Want, o.MaxErr = 1, o.Elems-1, kernels.Number(math.NaN()), 1,
				math.MaxFloat32
		}
	}
	return c, nil
}

// HashRows implements kernels.RowHasher. A row has the same hash wherever it stands, but where Rows says otherwise.
func (b *fakeBench) HashRows(_ context.Context, v kernels.Variant, rows int64) (kernels.RowHashes, error) {
	hashes := kernels.RowHashes{}
	for _, t := range b.p.RowOutputs() {
		for r := range min(rows, b.p.M) {
			h := uint64(b.in.From + r)
			if b.f.Rows != nil {
				h += b.f.Rows(b.p, v) << 32
			}
			hashes[t.Name] = append(hashes[t.Name], h)
		}
	}
	return hashes, nil
}

// Time implements kernels.Bench. Of several stages, the first takes three
// quarters of a sample.
func (b *fakeBench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (
	kernels.Timing, error) {
	defer b.f.enter(FakeCall{Op: "time", Problem: b.p, Variants: []kernels.Variant{v}, Options: o})()
	v, stages, err := b.begin(ctx, "time", v, b.f.FailIn != "stages" || o.Stages)
	if err != nil {
		return kernels.Timing{}, err
	}
	seconds := b.f.Seconds
	if seconds == nil {
		seconds = Typical
	}
	var t kernels.Timing
	if o.Stages {
		for _, s := range stages {
			t.Stages = append(t.Stages, kernels.StageSeconds{Stage: s})
		}
	}
	for range o.Samples {
		s := seconds(b.p, v, b.f.samples[failedJob{b.p, v}])
		b.f.samples[failedJob{b.p, v}]++
		if b.f.Warm > 0 && o.Flush == 0 && b.p.Bytes() > 1<<20 &&
			b.p.Bytes() < b.f.Info().CacheBytes {
			s *= b.f.Warm
		}
		t.Seconds = append(t.Seconds, s)
		t.Busy += s + float64(o.Flush)/4e12
		for i := range t.Stages {
			share := 1.0
			if len(t.Stages) > 1 {
				if share = 0.75; i > 0 {
					share = 0.25 / float64(len(t.Stages)-1)
				}
			}
			t.Stages[i].Seconds = append(t.Stages[i].Seconds, s*share)
		}
	}
	return t, nil
}

// Close implements kernels.Bench.
func (b *fakeBench) Close() error {
	defer b.f.enter(FakeCall{Op: "close", Problem: b.p})()
	if b.closed {
		panic("devicetest: a bench closed twice")
	}
	b.closed = true
	b.f.bench = nil
	return nil
}

// Always is a Fake's Seconds that are the same for all.
func Always(seconds float64) func(kernels.Problem, kernels.Variant, int) float64 {
	return func(kernels.Problem, kernels.Variant, int) float64 { return seconds }
}

// FailVariants makes a Fake's Fail that fails some variants.
func FailVariants(s kernels.Status, vs ...kernels.Variant) func(kernels.Problem,
	kernels.Variant) *kernels.Failure {
	return func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
		if slices.Contains(vs, v) {
			return kernels.Failf(s, "as asked")
		}
		return nil
	}
}

// Typical is a time such as an H200 might take: 2 us and the problem's bytes at
// 4.8 TB/s, times a factor between 1.1 and 2 that belongs to the variant (1 for
// a stream), with 1% of noise.
func Typical(p kernels.Problem, v kernels.Variant, sample int) float64 {
	factor := 1.0
	if !strings.HasSuffix(v.Family, "/stream") {
		factor = 1.1 + 0.9*unit(v)
	}
	return (2e-6 + float64(p.Bytes())/4.8e12*factor) * (1 + 0.01*(unit(p, v, sample)-0.5))
}

// unit is a number in [0, 1) that belongs to what it is given.
func unit(parts ...any) float64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	z := h.Sum64() * 0x9e3779b97f4a7c15 // fnv's high bits alone are too alike
	return float64((z^z>>32)*0xd6e8feb86659fd93>>11) / (1 << 53)
}
