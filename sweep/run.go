package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A Sink takes lines as they come and knows which it holds already. AppendAll
// returns when the lines are durable. A kill leaves all of them or none. Several
// goroutines may call it.
type Sink interface {
	AppendAll(vs ...interface{ CheckValid() error }) error
	Keys
}

// Keys tell the status of the last record with a key, and whether there is one.
type Keys interface {
	Status(key string) (kernels.Status, bool)
}

// Options say how Run measures.
type Options struct {
	Run         record.Run // written before the first record; its Protocol says how times are taken
	Seed        uint64     // of the inputs
	Repeats     int        // runs of each variant whose bits are compared
	Trace       bool       // time stages by CUPTI where the device has it
	RetryFailed bool       // measure again what the sink holds as failed
	// More, where set, is asked for companions of the devices once it is known how many problems
	// are left. The caller closes them.
	More func(problems int) ([]kernels.Device, error)
	// Search, where set, looks for each problem's winner instead of measuring all.
	Search *Searching
	// Contest, where set, measures the variants of a task in rounds, in place of each by itself.
	Contest *Contest
	// Observe, where set, is told of every record. Calls do not overlap.
	Observe func(Event)
	// Finished, where set, gets the records of each problem whose search or contest is done, once they
	// are durable. Calls do not overlap. An error of it ends the run.
	Finished func([]*record.Record) error
}

// An Event is one record in the course of a Run.
type Event struct {
	Record *record.Record
	Median float64 // of the record's samples, microseconds; 0 where it failed
	Done   int     // records of variants so far; of a search, problems
	Total  int     // that the run will make, from its start
	Left   int     // variants of the record's problem still to come
}

// A Summary is what came of a Run.
type Summary struct {
	Measured, Failed, Skipped int           // variants; skipped ones were in the sink
	Refused                   int           // by the device, beside Failed: a replay that has no times of it
	Wall                      time.Duration // from the first task to the last record
	Busy                      time.Duration // of it, at work on a device, averaged over the GPUs or other devices
	Held                      time.Duration // of it, in which a visitor had the device: Busy, and opening and loading
	Deciding                  time.Duration // in which strategies chose what to launch; beside the device's work where several visitors share it
	Writing                   time.Duration // in which records were written; beside the devices' work
	Pruned                    int           // variants that a search did not run, for a reason
	Problems, Short           int           // problems searched, and those of them whose base alone spent their budget
	Starved                   int           // problems whose finals had fewer variants or rounds than asked, for the budget
	Gone                      []string      // devices that did not come back, and why
}

// Run measures the tasks on the devices and appends a record for every variant,
// in whatever order the devices get to them. What the sink holds already is
// skipped. A variant that fails, or takes its device down, is a record with a
// status; the run goes on. Run ends early with ctx's error when ctx is done,
// with everything measured until then in the sink.
func Run(ctx context.Context, r *kernels.Registry, devices []kernels.Device, tasks []Task, sink Sink, o Options) (Summary, error) {
	run := &run{registry: r, sink: sink, o: o, info: devices[0].Info(), identity: families.NewIdentity(r, devices[0].Info().Kind), busy: map[*visitor]bool{}}
	run.change.L = &run.mu
	for _, d := range devices[1:] {
		if d.Info().ID != run.info.ID {
			return Summary{}, hint.Errorf("sweep each kind of device by itself", "the devices differ: %s and %s", run.info.ID, d.Info().ID)
		}
	}
	if err := run.layOut(tasks); err != nil {
		return Summary{}, err
	}
	if len(run.queue) == 0 {
		return run.sum, nil
	}
	if o.More != nil {
		more, err := o.More(len(run.queue))
		if err != nil {
			return run.sum, err
		}
		devices = slices.Concat(devices, more)
	}
	start := time.Now()
	if err := sink.AppendAll(&o.Run); err != nil {
		return run.sum, err
	}
	if o.Search != nil {
		if err := sink.AppendAll(&o.Search.Final); err != nil {
			return run.sum, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { run.idle(nil) })()
	records := make(chan finished, 64)
	var wg sync.WaitGroup
	var first sync.Once
	var devErr error // of the visitor that gave up first
	var visitors []*visitor
	for _, d := range devices {
		visitors = append(visitors, &visitor{run: run, dev: d, out: records})
	}
	gates := gatesOf(visitors)
	run.visitors = len(visitors)
	for _, v := range visitors {
		wg.Go(func() {
			if err := v.work(ctx); err != nil {
				// An error of a device that is being stopped tells nothing new.
				first.Do(func() { devErr = cmp.Or(ctx.Err(), err) })
				cancel()
			}
		})
	}
	go func() {
		wg.Wait()
		close(records)
	}()
	var sinkErr error
	for f := range records { // to the end, to let the visitors out
		if sinkErr == nil {
			if sinkErr = run.keep(f); sinkErr != nil {
				cancel()
			}
		}
	}
	run.sum.Wall = time.Since(start)
	for _, g := range gates {
		run.sum.Held += g.held
	}
	run.sum.Busy /= time.Duration(len(gates))
	run.sum.Held /= time.Duration(len(gates))
	run.sum.Deciding /= time.Duration(len(devices))
	return run.sum, cmp.Or(sinkErr, devErr, run.unfinished())
}

// Left counts the variants of tasks that a sink with these keys does not hold.
func Left(r *kernels.Registry, d kernels.DeviceInfo, tasks []Task, pr record.Protocol, keys Keys) (int, error) {
	run := &run{registry: r, sink: held{keys}, o: Options{Run: record.Run{Protocol: pr}}, info: d, identity: families.NewIdentity(r, d.Kind)}
	err := run.layOut(tasks)
	return run.total, err
}

// held is a Sink that only knows what it holds.
type held struct{ Keys }

func (held) AppendAll(...interface{ CheckValid() error }) error { return nil }

// A job is what is left to do of a task.
type job struct {
	Task
	left      []kernels.Variant
	announced *visitor         // whose device compiles it, nil for none
	failure   *kernels.Failure // of opening it
	again     bool             // it was given back after that
}

type run struct {
	registry *kernels.Registry
	sink     Sink
	o        Options
	info     kernels.DeviceInfo
	identity *families.Identity

	visitors int // that take part

	mu     sync.Mutex
	queue  []*job
	busy   map[*visitor]bool // that may give a job back
	change sync.Cond         // of busy, or the end of ctx
	total  int               // what Event.Total says

	searched searchState

	sum     Summary // owned by Run's loop, as
	through int     // is: the problems of a search that are done
}

// layOut queues what the sink does not hold.
func (r *run) layOut(tasks []Task) error {
	if r.o.Search != nil {
		return r.layOutSearch(tasks)
	}
	for _, t := range tasks {
		j := &job{Task: t}
		for _, v := range t.Variants {
			code, err := r.code(t.Problem, v)
			if err != nil {
				return err
			}
			key := record.Key(t.Problem, v, r.info, code.String(), r.o.Run.Protocol)
			if s, ok := r.sink.Status(key); ok && (s == kernels.StatusOK || !r.o.RetryFailed) {
				r.sum.Skipped++
				continue
			}
			j.left = append(j.left, v)
		}
		if len(j.left) > 0 && r.o.Contest != nil {
			r.sum.Skipped -= len(j.Variants) - len(j.left)
			j.left = j.Variants
		}
		if len(j.left) > 0 {
			r.queue = append(r.queue, j)
			r.total += len(j.left)
		}
	}
	return nil
}

// code identifies what a variant runs on the run's kind of device.
func (r *run) code(p kernels.Problem, v kernels.Variant) (record.Code, error) {
	return Code(r.registry, r.identity, p, v, r.info)
}

// key is that of a measurement of the run. Of code that cannot be read it is none of a
// record's; laying out has told of that.
func (r *run) key(p kernels.Problem, v kernels.Variant, pr record.Protocol) string {
	code, _ := r.code(p, v)
	return record.Key(p, v, r.info, code.String(), pr)
}

// take removes v's next job from the queue: the one announced to v's device,
// else the first that was announced to none, else, as no device may idle while
// there is work, the first. While others may still give theirs back it waits.
func (r *run) take(ctx context.Context, v *visitor) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && v.held == nil && len(r.busy) > 0 && ctx.Err() == nil {
		r.change.Wait()
	}
	if len(r.queue) > 0 {
		r.busy[v] = true
	}
	for _, announced := range []*visitor{v, nil} {
		for i, j := range r.queue {
			if j.announced == announced {
				r.queue = slices.Delete(r.queue, i, i+1)
				return j
			}
		}
	}
	if len(r.queue) == 0 {
		return nil
	}
	j := r.queue[0]
	r.queue = r.queue[1:]
	return j
}

// ahead is how many problems a device's compiler knows of beside the one that is measured: it
// compiles their first variants while a search waits for its last one, or decides. Where several
// visitors share a GPU each has one, as then the others' work fills the machine.
func (v *visitor) ahead() int {
	if v.shares() {
		return 1
	}
	return 2
}

// announce marks a job that v shall take later, and leaves it in the queue. It
// is nil where every job has a device already, or v has enough. What it returns is a copy, as another
// visitor may take the job meanwhile.
func (r *run) announce(v *visitor) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, j := range r.queue {
		if j.announced == v {
			n++
		}
	}
	if n >= v.ahead() {
		return nil
	}
	for _, j := range r.queue {
		if j.announced == nil {
			j.announced = v
			told := *j
			return &told
		}
	}
	return nil
}

// finished are records on their way to the sink, as one append.
type finished struct {
	recs   []*record.Record
	busy   float64
	left   int // variants of the problem after them
	stream bool
	// searched ends a problem's search; short says that its base spent the budget, starved that its finals were cut.
	searched, short, starved bool
	deciding                 time.Duration
}

// keep appends records, counts them and tells the observer.
func (r *run) keep(f finished) error {
	var lines []interface{ CheckValid() error }
	for _, rec := range f.recs {
		lines = append(lines, rec)
	}
	start := time.Now()
	if err := r.sink.AppendAll(lines...); err != nil {
		return err
	}
	if f.searched && r.o.Finished != nil {
		if err := r.o.Finished(f.recs); err != nil {
			return err
		}
	}
	r.sum.Writing += time.Since(start)
	r.sum.Deciding += f.deciding
	r.sum.Busy += time.Duration(f.busy * float64(time.Second))
	if f.searched {
		r.sum.Problems++
	}
	if f.short {
		r.sum.Short++
	} else if f.starved {
		r.sum.Starved++
	}
	done := &r.sum.Measured
	if r.o.Search != nil { // how many variants it will measure, nobody knows
		if done = &r.through; !f.stream {
			r.through++
		}
	}
	for i, rec := range f.recs {
		switch {
		case f.stream:
		case rec.Status == record.StatusPruned:
			r.sum.Pruned++
		default:
			r.sum.Measured++
			switch rec.Status {
			case kernels.StatusOK:
			case kernels.StatusRefused:
				r.sum.Refused++
			default:
				r.sum.Failed++
			}
		}
		if r.o.Observe != nil {
			e := Event{Record: rec, Done: *done, Total: r.total, Left: f.left + len(f.recs) - i - 1}
			if len(rec.SamplesUS) > 0 {
				e.Median = stats.Median(rec.SamplesUS)
			}
			r.o.Observe(e)
		}
	}
	return nil
}

// A visitor drives one device. Several may drive one GPU, each by a process of its own.
type visitor struct {
	gate   *gate
	run    *run
	dev    kernels.Device
	out    chan<- finished // read until all visitors are done, so a send gets through
	warmed bool
	sensed time.Time        // when the device last said that it is fit
	noise  float64          // relative standard deviation of a launch of the last stream
	held   *uncertain       // what failed last, until the device has shown that it stands
	good   *kernels.Problem // whose stream ran last
}

// work takes jobs until none is left. The next one is announced to the device
// before the current one is measured, so that it compiles meanwhile.
func (v *visitor) work(ctx context.Context) error {
	defer v.run.idle(v)
	for {
		j := v.run.take(ctx, v)
		var err error
		switch {
		case j != nil:
			if j.announced != v {
				v.prefetch(j)
			}
			for next := v.run.announce(v); next != nil; next = v.run.announce(v) {
				v.prefetch(next)
			}
			err = v.do(ctx, j)
		case v.held != nil:
			err = v.prove(ctx)
		default:
			return nil
		}
		var gone *kernels.Gone
		if errors.As(err, &gone) && ctx.Err() == nil {
			v.run.retire(v, j, err)
			return nil
		}
		if err != nil {
			return err
		}
		if v.held == nil {
			v.run.idle(v)
		}
	}
}

func (v *visitor) prefetch(j *job) {
	if v.run.o.Search != nil {
		v.prefetchSearch(j)
		return
	}
	v.dev.Prefetch(j.Problem, append([]kernels.Variant{{Family: v.run.registry.StreamOf(j.Problem)}}, j.left...))
}

// do measures one job, opening its problem again whenever a variant has taken
// the device's state with it.
func (v *visitor) do(ctx context.Context, j *job) error {
	switch {
	case v.run.o.Search != nil:
		return v.search(ctx, j)
	case v.run.o.Contest != nil:
		return v.contest(ctx, j)
	}
	var bench kernels.Bench
	defer func() {
		if bench != nil {
			bench.Close()
		}
	}()
	var stream float64
	var suspect *finished     // a record that counts once the device stands again
	var again kernels.Variant // has its second try, as the first failed beside it
	for len(j.left) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if bench == nil {
			var err error
			bench, stream, err = v.open(ctx, j, len(j.left))
			f := doubtful(err)
			switch {
			case err == nil:
			case f == nil || ctx.Err() != nil:
				if !errors.As(err, &f) || ctx.Err() != nil {
					return err
				}
				v.unopened(j, nil, f)
				return nil
			case f.Status == kernels.StatusTimeout && suspect != nil && suspect.recs[0].Status == f.Status:
				return v.gone(j.Problem, f)
			default:
				j.failure = f
				return v.doubt(&uncertain{j, func() { v.unopened(j, suspect, f) }}, f)
			}
			if suspect != nil {
				v.out <- *suspect
				suspect, j.left = nil, j.left[1:]
				continue
			}
		}
		start := time.Now()
		rec, busy, err := v.measure(ctx, bench, j, j.left[0])
		doubted := false
		var f *kernels.Failure
		switch {
		case err != nil && ctx.Err() != nil:
			// Whatever it says, it may be the stopping that did it: a record of
			// that would keep the variant from ever being measured.
			return err
		case beside(err) && again != j.left[0]:
			again = j.left[0]
			bench.Close()
			bench = nil
			continue
		case errors.As(err, &f):
			if rec == nil {
				rec, doubted = v.failed(j, j.left[0], f), doubtful(err) != nil
			}
			if f.Broken {
				bench.Close()
				bench = nil
			}
		case err != nil:
			return err
		}
		rec.StreamUS = stream
		rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3
		done := finished{recs: []*record.Record{rec}, busy: busy, left: len(j.left) - 1}
		switch {
		case !doubted || bench != nil:
			v.out <- done
			j.left = j.left[1:]
		case done.left > 0:
			suspect = &done
		default: // the next job will show, or prove
			v.held = &uncertain{j, func() { v.out <- done }}
			return nil
		}
	}
	return nil
}

// unopened sends the records of a job whose problem cannot be put on the device: all that
// is left of it fails, but for the first where it has a record of its own.
func (v *visitor) unopened(j *job, first *finished, f *kernels.Failure) {
	for i, variant := range j.left {
		if i == 0 && first != nil {
			v.out <- *first
			continue
		}
		rec := v.failed(j, variant, kernels.Failf(f.Status, "opening the problem: %s", f.Reason))
		v.out <- finished{recs: []*record.Record{rec}, left: len(j.left) - i - 1}
	}
}

// open puts the job's problem on the device and measures its stream, in
// microseconds, with left variants still to come. A second try is made where the
// device fails.
func (v *visitor) open(ctx context.Context, j *job, left int) (kernels.Bench, float64, error) {
	for try := 0; ; try++ {
		bench, stream, err := v.tryOpen(ctx, j, left)
		if err == nil {
			v.stands(j.Problem)
			return bench, stream, nil
		}
		var f *kernels.Failure
		if !errors.As(err, &f) || try > 0 || f.Status == kernels.StatusTimeout {
			return nil, 0, err
		}
	}
}

func (v *visitor) tryOpen(ctx context.Context, j *job, left int) (kernels.Bench, float64, error) {
	if err := v.prepare(ctx, j.Problem, kernels.Variant{Family: v.run.registry.StreamOf(j.Problem)}); err != nil {
		return nil, 0, err
	}
	leave, err := v.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	bench, err := openTwice(ctx, v.dev, j.Problem, v.run.o.Seed)
	if err != nil {
		return nil, 0, err
	}
	stream, err := v.stream(ctx, bench, j, left)
	if err != nil {
		bench.Close()
		return nil, 0, err
	}
	return bench, stream, nil
}

// stream measures and records the stream on an open problem. The first time it
// also warms the device up: clocks rise under load, so it repeats until two
// visits in a row agree within 1%, or for a second.
func (v *visitor) stream(ctx context.Context, bench kernels.Bench, j *job, left int) (float64, error) {
	variant := kernels.Variant{Family: v.run.registry.StreamOf(j.Problem)}
	_, variant, _, err := v.run.registry.Resolve(j.Problem, variant, v.run.info)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	check, err := bench.Check(ctx, variant, 1)
	if err != nil {
		return 0, err
	}
	if !check.OK() {
		return 0, fmt.Errorf("the stream of %s: %s", j.Problem, check.Reason())
	}
	pr := v.run.o.Run.Protocol
	o := pr.TimeOptions(pr.Samples + pr.Discard)
	t, err := bench.Time(ctx, variant, o)
	busy := t.Busy
	for last := 0.0; err == nil && !v.warmed; {
		m := stats.Median(t.Seconds)
		v.warmed = settled(last, m) || time.Since(start) > time.Second
		last = m
		t, err = bench.Time(ctx, variant, o)
		busy += t.Busy
	}
	if err != nil {
		return 0, err
	}
	rec := v.record(j, variant, kernels.StatusOK)
	rec.Family = record.Stream
	rec.Check = &check
	rec.SamplesUS = record.Micros(t.Seconds[pr.Discard:])
	us := stats.Median(rec.SamplesUS)
	rec.StreamUS = us
	v.noise = stats.Spread(rec.SamplesUS) / 1.35 // of a normal distribution
	if s, ok := v.dev.(kernels.Sensor); ok {
		state, err := s.Sense(ctx)
		if err != nil {
			return 0, err
		}
		if state.ClockMHz > 0 {
			rec.State = &state
		}
	}
	rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3
	v.out <- finished{recs: []*record.Record{rec}, busy: busy + check.Busy, left: left, stream: true}
	return us, nil
}

// measure checks a variant and, if it is right, times it. A record beside a *kernels.Failure lacks
// the times of its stages only.
func (v *visitor) measure(ctx context.Context, bench kernels.Bench, j *job, variant kernels.Variant) (*record.Record, float64, error) {
	_, _, plan, err := v.run.registry.Resolve(j.Problem, variant, v.run.info)
	if err != nil {
		return nil, 0, kernels.Failf(kernels.StatusRefused, "%v", err)
	}
	if err := v.prepare(ctx, j.Problem, variant); err != nil {
		return nil, 0, err
	}
	leave, err := v.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	check, err := bench.Check(ctx, variant, v.run.o.Repeats)
	if err != nil {
		return nil, 0, err
	}
	busy := check.Busy
	rec := v.record(j, variant, kernels.StatusOK)
	rec.Check = &check
	rec.ScratchBytes = plan.ScratchBytes()
	if !check.OK() {
		rec.Status, rec.Reason = kernels.StatusWrong, check.Reason()
		return rec, busy, nil
	}
	pr := v.run.o.Run.Protocol
	t, err := v.fitTime(ctx, bench, variant, pr.TimeOptions(pr.Samples+pr.Discard))
	if err != nil {
		return nil, 0, err
	}
	busy += t.Busy
	rec.SamplesUS = record.Micros(t.Seconds[pr.Discard:])
	if why := tooFast(j.Problem, v.run.info, pr, stats.Median(rec.SamplesUS)); why != "" {
		rec.SamplesUS = nil
		rec.Status, rec.Reason = kernels.StatusUnfit, why
		return rec, busy, nil
	}
	if len(plan.Launches) > 1 && pr.StageSamples > 0 {
		o := stageOptions(pr)
		o.Trace = v.run.o.Trace
		s, err := bench.Time(ctx, variant, o)
		if err != nil {
			return rec, busy, err
		}
		busy += s.Busy
		rec.StagesBy = s.By
		if len(s.Gaps) > 0 {
			rec.GapUS = stats.Median(record.Micros(s.Gaps[pr.Discard:]))
		}
		for _, stage := range s.Stages {
			rec.Stages = append(rec.Stages, record.Stage{Stage: stage.Stage, SamplesUS: record.Micros(stage.Seconds[pr.Discard:])})
		}
	}
	return rec, busy, nil
}

// MinClock is the share of its full clock below which a device's times are
// rejected, as nvbench does.
const MinClock = 0.75

// A sensing is what sensors failed with behind a variant that was timed: no fault of the
// variant, which gets another try.
type sensing struct{ error }

func (s *sensing) Unwrap() error { return s.error }

// beside says whether an error says nothing about the variant that was to run.
func beside(err error) bool {
	var f *kernels.Failure
	return errors.As(err, new(*sensing)) || errors.As(err, &f) && f.Before
}

// fitFor is how long a device counts as fit. Each round of the finals asks anew.
const fitFor = 50 * time.Millisecond

// fitTime is bench.Time, again where the device was not fit for it: shared,
// throttled, or at a low clock. After a few tries the variant is unfit. Asking takes as long
// as a short visit, so a device that was fit a moment ago is not asked again.
func (v *visitor) fitTime(ctx context.Context, bench kernels.Bench, variant kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	const tries = 5
	sensor, ok := v.dev.(kernels.Sensor)
	why := ""
	for range tries {
		t, err := bench.Time(ctx, variant, o)
		if err != nil || !ok || time.Since(v.sensed) < fitFor {
			return t, err
		}
		state, err := sensor.Sense(ctx)
		if err != nil {
			return t, &sensing{err}
		}
		if why = state.Unfit(MinClock); why == "" {
			v.sensed = time.Now()
			return t, nil
		}
	}
	return kernels.Timing{}, kernels.Failf(kernels.StatusUnfit, "rejected %d times: %s", tries, why)
}

func (v *visitor) record(j *job, variant kernels.Variant, s kernels.Status) *record.Record {
	code, _ := v.run.code(j.Problem, variant) // what cannot be read was told when the job was laid out
	return &record.Record{
		Run:     v.run.o.Run.ID,
		Key:     record.Key(j.Problem, variant, v.run.info, code.String(), v.run.o.Run.Protocol),
		Time:    time.Now().UTC().Truncate(time.Millisecond),
		Problem: j.Problem,
		Family:  variant.Family,
		Config:  variant.Config,
		Base:    variant == j.Base,
		Status:  s,
		Source:  code.Source,
		Launch:  code.Launch,
		Seed:    v.run.o.Seed,
		Bytes:   j.Problem.Bytes(),
	}
}

func (v *visitor) failed(j *job, variant kernels.Variant, f *kernels.Failure) *record.Record {
	rec := v.record(j, variant, f.Status)
	rec.Reason = cmp.Or(f.Reason, "no reason given") // a record without one is refused
	return rec
}

// stageOptions are the protocol's for the pass that times every launch.
func stageOptions(pr record.Protocol) kernels.TimeOptions {
	o := pr.TimeOptions(pr.StageSamples + pr.Discard)
	o.Stages = true
	return o
}

// tooFast says why a cold time, in microseconds, cannot be true, or is "": the
// inputs alone would have been read faster than the memory goes. (Outputs do not
// count: they may still be in the cache when the time is taken.)
func tooFast(p kernels.Problem, d kernels.DeviceInfo, pr record.Protocol, us float64) string {
	if !pr.Cold || d.PeakRate == 0 {
		return ""
	}
	var read int64
	for _, t := range p.Tensors() {
		if t.Role == kernels.Input {
			read += t.Bytes()
		}
	}
	if pr.Rotate && kernels.MaxRotation*p.Bytes() < 3*d.CacheBytes {
		return "" // too small to be cold by rotation
	}
	if rate := float64(read) / us * 1e6; rate > float64(d.PeakRate) {
		return fmt.Sprintf("it would have read %.0f GB/s, and the memory's peak is %.0f: warm, or miscounted", rate/1e9, float64(d.PeakRate)/1e9)
	}
	return ""
}

// settled says whether two visits in a row agree within 1%, which ends every
// warm-up: clocks rise under load. There is no visit before the first, whose
// last is 0.
func settled(last, median float64) bool { return median > 0.99*last && median < 1.01*last }
