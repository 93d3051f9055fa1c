package sweep

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// A Sink takes lines as they come and knows which it holds already. AppendAll
// returns when the lines are durable. A kill leaves all of them or none. Several
// goroutines may call it.
type Sink interface {
	AppendAll(vs ...interface{ CheckValid() error }) error
	// Status is that of the last record with a key, and whether there is one.
	Status(key string) (kernels.Status, bool)
}

// RunOptions say how Run measures.
type RunOptions struct {
	Run record.Run // written before the first record; its Protocol says how times are taken
	// Sum, where set, is what came of the Runs before this one, to which it adds: the sink has Run
	// already, if there were any.
	Sum         *Totals
	Seed        uint64 // of the inputs, of strategies and of the orders of rounds
	RetryFailed bool   // measure again what the sink holds as failed
	// Test, where set, tests the devices and notes in the run what it found, once it is known that
	// something is left to measure.
	Test func(*record.Run) error
	// More, where set, is asked for companions of the devices once it is known how many problems
	// are left. The caller closes them.
	More func(problems int) ([]kernels.Device, error)
	// Search, where set, looks for each problem's winner instead of measuring all.
	Search *SearchOptions
	// Contest, where above 0, measures the variants of each task against each other, in so many
	// rounds at most. After the check all are visited round by round in random order, FinalLaunches
	// launches each. One that is behind the fastest beyond doubt is left out of the rounds that
	// follow. A problem is done when what is left is tied. Its records are appended together, also
	// of variants that the sink holds: their rounds are paired.
	Contest int
	// Observe, where set, is told of every record. Calls do not overlap.
	Observe func(ProgressEvent)
	// Finished, where set, gets the records of each problem whose search or contest is done, once
	// they are durable. Calls do not overlap. An error of it ends the run.
	Finished func([]*record.Record) error
}

// A ProgressEvent is one record in the course of a Run.
type ProgressEvent struct {
	Record *record.Record
	Median float64 // of the record's samples, microseconds; 0 where it failed
	Done   int     // records of variants so far; of a search, problems
	Total  int     // that the run will make, from its start
	Left   int     // variants of the record's problem still to come
}

// Totals say what came of a Run, or of several.
type Totals struct {
	Runs                      int
	Measured, Failed, Skipped int // variants; skipped ones were in the sink
	// by the device, beside Failed: a replay that has no times of it
	Refused int
	Wall    time.Duration // from the first task to the last record
	// of it, at work on a device, averaged over the GPUs or other devices
	Busy time.Duration
	Each []time.Duration // Busy of each, in the order of the devices
	// problems searched, and those of them whose base alone spent their budget
	Problems, Short int
	Gone            []string // devices that did not come back, and why
}

// Run measures the tasks on the devices and appends a record for every variant,
// in whatever order the devices get to them. What the sink holds already is
// skipped. A variant that fails, or takes its device down, is a record with a
// status; the run goes on. Run ends early with ctx's error when ctx is done,
// with everything measured until then in the sink.
func Run(ctx context.Context, r *kernels.Registry, devices []kernels.Device, tasks []Task,
	sink Sink, o RunOptions) (Totals, error) {
	info := devices[0].Info()
	for _, d := range devices[1:] {
		if id := d.Info().ID; id != info.ID {
			return Totals{}, hint.Errorf("sweep each kind of device by itself",
				"the devices differ: %s and %s", info.ID, id)
		}
	}
	run := &runner{registry: r, sink: sink, o: o, info: info, busy: map[*visitor]bool{},
		sum: cmp.Or(o.Sum, &Totals{}), identity: families.NewIdentity(r, info.Kind)}
	run.change.L = &run.mu
	err := run.layOut(tasks)
	if err != nil || len(run.queue) == 0 {
		return *run.sum, err
	}
	if o.Test != nil {
		if err := o.Test(&run.o.Run); err != nil {
			return *run.sum, err
		}
		if s := run.o.Search; s != nil {
			s.Final.SelfTest, s.Final.FloorUS = run.o.Run.SelfTest, run.o.Run.FloorUS
		}
	}
	if o.More != nil {
		more, err := o.More(len(run.queue))
		if err != nil {
			return *run.sum, err
		}
		devices = slices.Concat(devices, more)
	}
	err = run.measure(ctx, devices)
	return *run.sum, err
}

// measure has the devices measure what is queued, and keeps what they find.
func (r *runner) measure(ctx context.Context, devices []kernels.Device) error {
	start := time.Now()
	if r.sum.Runs++; r.sum.Runs == 1 {
		if err := r.sink.AppendAll(&r.o.Run); err != nil {
			return err
		}
	}
	if r.o.Search != nil {
		if err := r.sink.AppendAll(&r.o.Search.Final); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { r.markIdle(nil) })()
	records := make(chan batch, 64)
	var visitors []*visitor
	for _, d := range devices {
		visitors = append(visitors,
			&visitor{run: r, dev: d, out: records, ledger: newLedger(r.toCome)})
	}
	gates := gatesOf(visitors)
	r.visitors = len(visitors)
	for _, v := range visitors {
		g.Go(func() error {
			if err := v.work(ctx); err != nil {
				return cmp.Or(ctx.Err(), err) // an error of a device that is being stopped tells nothing new
			}
			return nil
		})
	}
	var devErr error // of the visitor that gave up first
	go func() {
		devErr = g.Wait()
		close(records)
	}()
	var sinkErr error
	for f := range records { // to the end, to let the visitors out
		if sinkErr == nil {
			if sinkErr = r.keep(f); sinkErr != nil {
				cancel()
			}
		}
	}
	r.sum.Wall += time.Since(start)
	for i, g := range gates {
		if i == len(r.sum.Each) {
			r.sum.Each = append(r.sum.Each, 0)
		}
		r.sum.Each[i] += g.busy
		r.sum.Busy += g.busy / time.Duration(len(gates))
	}
	return cmp.Or(sinkErr, devErr, r.leftError())
}

// A job is what is left to do of a task.
type job struct {
	Task
	left      []kernels.Variant
	announced *visitor         // whose device compiles it, nil for none
	returned  map[*visitor]int // how often it was given back
	why       error            // the last time
}

type runner struct {
	registry *kernels.Registry
	sink     Sink
	o        RunOptions
	info     kernels.DeviceInfo
	identity *families.Identity

	visitors int // that take part

	mu     sync.Mutex
	queue  []*job
	busy   map[*visitor]bool // that may give a job back
	change sync.Cond         // of busy, or the end of ctx
	total  int               // what ProgressEvent.Total says

	spent  search.Effort // by the searches so far
	toCome int           // variants of problems that are not done yet

	sum     *Totals // owned by Run's loop, as
	through int     // is: the problems of a search that are done
}

// layOut queues what the sink does not hold.
func (r *runner) layOut(tasks []Task) error {
	missing := r.missingVariants
	if s := r.o.Search; s != nil {
		if err := search.CheckName(s.Strategy); err != nil {
			return err
		}
		missing = r.unsearchedVariants
	}
	read := map[string]bool{}
	for _, t := range tasks {
		for _, v := range t.Variants {
			if read[v.Family] {
				continue
			}
			if _, err := r.code(t.Problem, v); err != nil {
				return err
			}
			read[v.Family] = true
		}
		if left := missing(t); len(left) > 0 {
			r.queue = append(r.queue, &job{Task: t, left: left})
			r.toCome += len(left)
		}
	}
	if r.total = r.toCome; r.o.Search != nil {
		r.total = len(r.queue)
	}
	return nil
}

// missingVariants lists the variants of a task that the sink does not hold yet. A contest compares its variants with
// each other, so if one of them is missing it lists all.
func (r *runner) missingVariants(t Task) (left []kernels.Variant) {
	for _, v := range t.Variants {
		if !r.hasRecord(r.key(&t, v, r.o.Run.Protocol)) {
			left = append(left, v)
		}
	}
	if len(left) > 0 && r.o.Contest > 0 {
		left = t.Variants
	}
	r.sum.Skipped += len(t.Variants) - len(left)
	return left
}

// hasRecord says whether the sink has a record that need not be made again.
func (r *runner) hasRecord(key string) bool {
	s, ok := r.sink.Status(key)
	return ok && (s == kernels.StatusOK || !r.o.RetryFailed)
}

// code identifies what a variant runs on the run's kind of device.
func (r *runner) code(p kernels.Problem, v kernels.Variant) (record.CodeHash, error) {
	return HashCode(r.registry, r.identity, p, v, r.info)
}

// key is that of a measurement of the run, whose code was read when it was laid out.
func (r *runner) key(t *Task, v kernels.Variant, pr record.Protocol) string {
	code, _ := r.code(t.Problem, v)
	return record.Key(t.Problem, v, r.info, code.String(), pr, t.BaseOf)
}

// takeJob removes v's next job from the queue: the one announced to v's device,
// else the first that was announced to none, else, as no device may idle while
// there is work, the first. Jobs that v has given back too often are for others.
// While others may still give theirs back it waits.
func (r *runner) takeJob(ctx context.Context, v *visitor) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	rank := func(j *job) int {
		switch {
		case j.returned[v] >= returns:
			return 0
		case j.announced == v:
			return 3
		case j.announced == nil:
			return 2
		}
		return 1
	}
	for {
		at, best := 0, 0
		for i, j := range r.queue {
			if n := rank(j); n > best {
				at, best = i, n
			}
		}
		if best > 0 {
			j := r.queue[at]
			r.queue = slices.Delete(r.queue, at, at+1)
			r.busy[v] = true
			return j
		}
		if len(r.busy) == 0 || ctx.Err() != nil {
			return nil
		}
		r.change.Wait()
	}
}

// announceLimit says how many problems a device's compiler knows of beside the one that is measured: it
// compiles their first variants while a search waits for its last one, or decides. Where several
// visitors share a GPU each has one, as then the others' work fills the machine.
func (v *visitor) announceLimit() int {
	if v.shares() {
		return 1
	}
	return 2
}

// announce marks a job that v shall take later, and leaves it in the queue. It is nil where every
// job has a device already, or v has enough. What it returns is a copy, as another visitor may take
// the job meanwhile.
func (r *runner) announce(v *visitor) *job {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, j := range r.queue {
		if j.announced == v {
			n++
		}
	}
	if n >= v.announceLimit() {
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

// batch are records on their way to the sink, as one append.
type batch struct {
	gate   *gate // of the visitor
	recs   []*record.Record
	busy   float64
	left   int // variants of the problem after them
	stream bool
	// searched ends a problem's search; short says that its base spent the budget.
	searched, short bool
}

// keep appends records, counts them and tells the observer.
func (r *runner) keep(f batch) error {
	var lines []interface{ CheckValid() error }
	for _, rec := range f.recs {
		lines = append(lines, rec)
	}
	if err := r.sink.AppendAll(lines...); err != nil {
		return err
	}
	if f.searched && r.o.Finished != nil {
		if err := r.o.Finished(f.recs); err != nil {
			return err
		}
	}
	f.gate.busy += time.Duration(f.busy * float64(time.Second))
	if f.searched {
		r.sum.Problems++
	}
	if f.short {
		r.sum.Short++
	}
	done := &r.sum.Measured
	if r.o.Search != nil { // how many variants it will measure, nobody knows
		if done = &r.through; !f.stream {
			r.through++
		}
	}
	for i, rec := range f.recs {
		if !f.stream {
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
			e := ProgressEvent{Record: rec, Done: *done, Total: r.total, Left: f.left + len(f.recs) - i - 1}
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
	gate          *gate
	run           *runner
	dev           kernels.Device
	out           chan<- batch // read until all visitors are done, so a send gets through
	warmed        bool
	waited        time.Duration // for its turns
	noise         float64       // relative standard deviation of a launch of the last stream
	ledger        *ledger
	diedPreparing int
}

// send sends what is finished to who keeps it.
func (v *visitor) send(f batch) {
	f.gate = v.gate
	v.out <- f
}

// work takes jobs until none is left. The next one is announced to the device
// before the current one is measured, so that it compiles meanwhile.
func (v *visitor) work(ctx context.Context) error {
	defer v.run.markIdle(v)
	for {
		j := v.run.takeJob(ctx, v)
		if j == nil {
			return nil
		}
		if j.announced != v {
			v.prefetch(j)
		}
		for next := v.run.announce(v); next != nil; next = v.run.announce(v) {
			v.prefetch(next)
		}
		err := v.do(ctx, j)
		switch gone := (*kernels.DeviceLoss)(nil); {
		case errors.As(err, &gone) && ctx.Err() == nil:
			if v.run.giveBack(v, j, err) {
				return nil
			}
		case err != nil:
			return err
		}
		v.run.markIdle(v)
	}
}

// prefetch announces what a job visits first: all of a grid's variants, of a search what is visited
// whatever the strategy, and the winners of the problems nearby so far.
func (v *visitor) prefetch(j *job) {
	vs := []kernels.Variant{{Family: v.run.registry.StreamOf(j.Problem)}}
	if o := v.run.o.Search; o != nil {
		vs = append(append(vs, j.Base), j.Keep...)
		for _, i := range o.Known.Winners(&search.Candidates{Problem: j.Problem, Variants: j.Variants}, 4) {
			vs = append(vs, j.Variants[i])
		}
	} else {
		vs = append(vs, j.left...)
	}
	v.dev.Prefetch(j.Problem, vs)
}

// do measures one job. What keeps it from that is nobody's result.
func (v *visitor) do(ctx context.Context, j *job) error {
	m := &searchMeasurer{v: v, j: j, checks: map[kernels.Variant]*kernels.Check{}, begun: time.Now(),
		Session: &Session{Device: v.dev, Registry: v.run.registry, Problem: j.Problem, Base: j.Base,
			Protocol: v.run.o.Run.Protocol, Seed: v.run.o.Seed, ledger: v.ledger,
			EmptyUS: v.run.o.Run.EmptyUS()}}
	defer m.Close()
	defer m.spend()
	err := m.begin(ctx)
	switch o := v.run.o; {
	case err != nil:
	case o.Search != nil:
		err = m.search(ctx)
	case o.Contest > 0:
		err = m.contest(ctx)
	default:
		err = m.grid(ctx)
	}
	switch f := FailureOf(err); {
	case f == nil || ctx.Err() != nil:
	case f.Status == kernels.StatusRefused:
		m.refuse(f)
		return nil
	default:
		return goneError(v.dev, j.Problem.String(), f)
	}
	return err
}
