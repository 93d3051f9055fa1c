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

// A RecordStore keeps runs and records and knows which it has already. AppendAll returns when its lines
// are durable; a kill leaves all of them or none. Several goroutines may call it.
type RecordStore interface {
	AppendAll(vs ...interface{ CheckValid() error }) error
	// Status is that of the last record with a key, and whether there is one.
	Status(key string) (kernels.Status, bool)
}

// RunOptions say how Run measures.
type RunOptions struct {
	Run record.Run // written before the first record; its Protocol says how times are taken
	// Sum, where set, has the totals of the Runs before this one, to which it adds. If there were any,
	// the store has the line of Run already.
	Sum         *Totals
	Seed        uint64 // of the inputs, of strategies and of the orders of rounds
	RetryFailed bool   // measure again what the store has as failed
	// Test, where set, tests the devices and notes its findings in the run. It is called once it is
	// known that something is left to measure.
	Test func(*record.Run) error
	// More, where set, opens further devices on the same GPUs, once it is known how many problems are
	// left. The caller closes them.
	More func(problems int) ([]kernels.Device, error)
	// Joining, where set, gives devices of the same kind that come later, until it is closed. Who gave
	// them closes them.
	Joining <-chan kernels.Device
	// Waiting, where set, is told of a device that was lost, and why, and is waited for. It returns what to
	// call at the end of that.
	Waiting func(what string, why error) (end func())
	// Search, where set, looks for each problem's winner instead of measuring all.
	Search *SearchOptions
	// RaceRounds, where above 0, measures the variants of each task against each other, in at most so many
	// rounds. After the check a round visits all in random order, FinalLaunches launches each. A variant that
	// is certainly slower than the fastest is dropped from later rounds. The race ends when the others are
	// tied. Its records are appended together, also of variants that the store has: their rounds are paired.
	RaceRounds int
	// Observe, where set, is told of every record. Calls do not overlap.
	Observe func(ProgressEvent)
	// Finished, where set, gets the records of each problem whose search or race is done, once
	// they are durable. Calls do not overlap. An error of it ends the run.
	Finished func([]*record.Record) error
}

// A ProgressEvent tells of one record in the course of a Run.
type ProgressEvent struct {
	Record *record.Record
	Median float64 // of the record's samples, microseconds; 0 where it failed
	Done   int     // records of variants so far; of a search, problems
	Total  int     // that the run will make, from its start
	Left   int     // variants of the record's problem still to come
}

// Totals count what one or several Runs did.
type Totals struct {
	Runs                      int
	Measured, Failed, Skipped int // variants; skipped ones were in the store
	// variants that the device refused, such as a replay without times of them; not in Failed
	Refused int
	Wall    time.Duration // from the first task to the last record
	// part of Wall in which a device was at work, averaged over the GPUs or other devices
	Busy time.Duration
	Each []time.Duration // Busy of each, in the order of the devices
	// problems searched, and those of them whose base alone spent their budget
	Problems, Short int
	Deaths          int      // answers that did not come, as the device died: it was asked again, or a variant was blamed
	Gone            []string // devices that did not come back, and why
}

// Run measures the tasks on the devices and appends a record for every variant to the store, in the
// order in which the devices get to them. It skips what the store has already. A variant that fails, or
// takes its device down, gets a record with that status, and the run goes on. Run ends early with ctx's
// error when ctx is done; all that was measured until then is in the store.
func Run(ctx context.Context, r *kernels.Registry, devices []kernels.Device, tasks []Task,
	store RecordStore, o RunOptions) (Totals, error) {
	info := devices[0].Info()
	for _, d := range devices[1:] {
		if id := d.Info().ID; id != info.ID {
			return Totals{}, hint.Errorf("sweep each kind of device by itself",
				"the devices differ: %s and %s", info.ID, id)
		}
	}
	run := &runState{registry: r, store: store, options: o, info: info, busy: map[*deviceLoop]bool{},
		totals: cmp.Or(o.Sum, &Totals{}), identity: families.NewIdentity(r, info.Kind),
		done: make(chan struct{})}
	run.change.L = &run.mu
	err := run.layOut(tasks)
	if err != nil || len(run.queue) == 0 {
		return *run.totals, err
	}
	if o.Test != nil {
		if err := o.Test(&run.options.Run); err != nil {
			return *run.totals, err
		}
		if s := run.options.Search; s != nil {
			s.Final.SelfTest, s.Final.FloorUS = run.options.Run.SelfTest, run.options.Run.FloorUS
		}
	}
	if o.More != nil {
		more, err := o.More(len(run.queue))
		if err != nil {
			return *run.totals, err
		}
		devices = slices.Concat(devices, more)
	}
	err = run.measure(ctx, devices)
	return *run.totals, err
}

// measure starts a loop for each device, which take the queued jobs, and appends the records that they
// send.
func (r *runState) measure(ctx context.Context, devices []kernels.Device) error {
	start := time.Now()
	if r.totals.Runs++; r.totals.Runs == 1 {
		if err := r.store.AppendAll(&r.options.Run); err != nil {
			return err
		}
	}
	if r.options.Search != nil {
		if err := r.store.AppendAll(&r.options.Search.Final); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { r.markIdle(nil) })()
	batches := make(chan batch, 64)
	launch := func(v *deviceLoop) {
		g.Go(func() error {
			if err := v.work(ctx); err != nil {
				return cmp.Or(ctx.Err(), err) // an error of a device that is being stopped tells nothing new
			}
			return nil
		})
	}
	var loops []*deviceLoop
	for _, d := range devices { // all are there before the first one works: they share its time
		loops = append(loops, r.addLoop(d, batches))
	}
	for _, v := range loops {
		launch(v)
	}
	g.Go(func() error {
		for d := r.nextJoining(ctx); d != nil; d = r.nextJoining(ctx) {
			launch(r.addLoop(d, batches))
		}
		return nil
	})
	var devErr error // of the loop that gave up first
	go func() {
		devErr = g.Wait()
		close(batches)
	}()
	var storeErr error
	for b := range batches { // to the end, to let the loops out
		if storeErr == nil {
			if storeErr = r.appendBatch(b); storeErr != nil {
				cancel()
			}
		}
	}
	r.totals.Wall += time.Since(start)
	for i, g := range r.gpus {
		if i == len(r.totals.Each) {
			r.totals.Each = append(r.totals.Each, 0)
		}
		r.totals.Each[i] += g.busy
		r.totals.Busy += g.busy / time.Duration(len(r.gpus))
		for _, v := range g.sharers() {
			r.totals.Deaths += v.ledger.deaths
		}
	}
	return cmp.Or(storeErr, devErr, r.checkFinished())
}

// A job is the part of a task that is left to do.
type job struct {
	Task
	left      []kernels.Variant
	announced *deviceLoop         // whose device compiles it, nil for none
	returned  map[*deviceLoop]int // how often it was given back
	why       error               // the last time
	losses    map[kernels.Variant]*loss
}

type runState struct {
	registry *kernels.Registry
	store    RecordStore
	options  RunOptions
	info     kernels.DeviceInfo
	identity *families.Identity

	mu     sync.Mutex
	loops  int // that take part
	gpus   []*gpuLock
	done   chan struct{} // closed once no job is left,
	over   bool          // then
	queue  []*job
	busy   map[*deviceLoop]bool // that may give a job back
	change sync.Cond            // of busy, or the end of ctx
	total  int                  // what ProgressEvent.Total says

	spent  search.Effort // by the searches so far
	toCome int           // variants of problems that are not done yet

	totals   *Totals // owned by Run's loop, as is
	searched int     // problems whose search is done
}

// layOut queues a job for each task with variants that the store does not have.
func (r *runState) layOut(tasks []Task) error {
	missing := r.missingVariants
	if s := r.options.Search; s != nil {
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
	if r.total = r.toCome; r.options.Search != nil {
		r.total = len(r.queue)
	}
	return nil
}

// missingVariants lists the variants of a task that the store does not have yet, and counts the others
// as skipped. A race compares its variants with each other, so if one of them is missing it lists all.
func (r *runState) missingVariants(t Task) (left []kernels.Variant) {
	for _, v := range t.Variants {
		if !r.hasRecord(r.key(&t, v, r.options.Run.Protocol)) {
			left = append(left, v)
		}
	}
	if len(left) > 0 && r.options.RaceRounds > 0 {
		left = t.Variants
	}
	r.totals.Skipped += len(t.Variants) - len(left)
	return left
}

// hasRecord says whether the store has a record that need not be made again.
func (r *runState) hasRecord(key string) bool {
	s, ok := r.store.Status(key)
	return ok && (s == kernels.StatusOK || !r.options.RetryFailed)
}

// code identifies the code that a variant runs on the run's kind of device.
func (r *runState) code(p kernels.Problem, v kernels.Variant) (record.CodeHash, error) {
	return HashCode(r.registry, r.identity, p, v, r.info)
}

// key computes the key of a variant's record in this run; layOut has read its code.
func (r *runState) key(t *Task, v kernels.Variant, pr record.Protocol) string {
	code, _ := r.code(t.Problem, v)
	return record.Key(t.Problem, v, r.info, code.String(), pr, t.BaseOf)
}

// takeJob removes v's next job from the queue: the one announced to v's device, else the first that was
// announced to none, else the first, as no device may idle while there is work. It leaves jobs that v
// has given back too often to others. While other loops may still give theirs back it waits. It returns
// nil when no job is left for v.
func (r *runState) takeJob(ctx context.Context, v *deviceLoop) *job {
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

// announceLimit returns how many jobs are announced to a device's compiler beside the one that is
// measured. The compiler works on them while a search decides or waits for its last variant. Where
// several loops share a GPU each has one, as the others' work fills the machine.
func (v *deviceLoop) announceLimit() int {
	if v.shares() {
		return 1
	}
	return 2
}

// announce marks a job that v shall take later, leaves it in the queue and returns a copy, as another
// loop may take the job meanwhile. It returns nil where every job is announced already, or v has enough.
func (r *runState) announce(v *deviceLoop) *job {
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

// A batch is records on their way to the store, as one append.
type batch struct {
	gpu    *gpuLock // of the loop that made it
	recs   []*record.Record
	busy   float64
	left   int // variants of the problem after them
	stream bool
	// searched ends a problem's search; short says that its base spent the budget.
	searched, short bool
}

// appendBatch appends a batch to the store, counts its records and tells the observer.
func (r *runState) appendBatch(b batch) error {
	var lines []interface{ CheckValid() error }
	for _, rec := range b.recs {
		lines = append(lines, rec)
	}
	if err := r.store.AppendAll(lines...); err != nil {
		return err
	}
	if b.searched && r.options.Finished != nil {
		if err := r.options.Finished(b.recs); err != nil {
			return err
		}
	}
	b.gpu.busy += time.Duration(b.busy * float64(time.Second))
	if b.searched {
		r.totals.Problems++
	}
	if b.short {
		r.totals.Short++
	}
	done := &r.totals.Measured
	if r.options.Search != nil { // how many variants it will measure, nobody knows
		if done = &r.searched; !b.stream {
			r.searched++
		}
	}
	for i, rec := range b.recs {
		if !b.stream {
			r.totals.Measured++
			switch rec.Status {
			case kernels.StatusOK:
			case kernels.StatusRefused:
				r.totals.Refused++
			default:
				r.totals.Failed++
			}
		}
		if r.options.Observe != nil {
			e := ProgressEvent{Record: rec, Done: *done, Total: r.total, Left: b.left + len(b.recs) - i - 1}
			if len(rec.SamplesUS) > 0 {
				e.Median = stats.Median(rec.SamplesUS)
			}
			r.options.Observe(e)
		}
	}
	return nil
}

// A deviceLoop takes jobs and measures them on one device, in a goroutine. Several may drive one GPU,
// each through a process of its own.
type deviceLoop struct {
	gpu           *gpuLock
	run           *runState
	dev           kernels.Device
	out           chan<- batch // read until all loops are done, so a send gets through
	warmed        bool
	waited        time.Duration // for its turns
	noise         float64       // relative standard deviation of a launch of the last stream
	ledger        *ledger
	diedPreparing int
}

// send sends finished records to Run's loop, which appends them.
func (v *deviceLoop) send(b batch) {
	b.gpu = v.gpu
	v.out <- b
}

// work takes jobs until none is left. Before it measures a job it announces the next one to the device,
// so that its variants compile meanwhile.
func (v *deviceLoop) work(ctx context.Context) error {
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
		err := v.measureJob(ctx, j)
		switch gone := (*kernels.DeviceLoss)(nil); {
		case errors.As(err, &gone) && ctx.Err() == nil:
			if v.run.giveBack(v, j, err) {
				return nil
			}
			v.run.markIdle(v)
			if back, err := v.awaitDevice(ctx, err); !back {
				return err
			}
		case err != nil:
			return err
		}
		v.run.markIdle(v)
	}
}

// prefetch announces to the device's compiler the variants that a job visits first: all of a grid's; for
// a search the stream, the base, those to keep, and the winners of nearby problems so far.
func (v *deviceLoop) prefetch(j *job) {
	vs := []kernels.Variant{{Family: v.run.registry.StreamOf(j.Problem)}}
	if o := v.run.options.Search; o != nil {
		vs = append(append(vs, j.Base), j.Keep...)
		for _, i := range o.Known.Winners(&search.Candidates{Problem: j.Problem, Variants: j.Variants}, 4) {
			vs = append(vs, j.Variants[i])
		}
	} else {
		vs = append(vs, j.left...)
	}
	v.dev.Prefetch(j.Problem, vs)
}

// measureJob measures one job: a search, a race or a grid. Where the device is lost the error is a
// kernels.DeviceLoss.
func (v *deviceLoop) measureJob(ctx context.Context, j *job) error {
	m := &searchMeasurer{loop: v, job: j, checks: map[kernels.Variant]*kernels.Check{}, begun: time.Now(),
		Session: &Session{Device: v.dev, Registry: v.run.registry, Problem: j.Problem, Base: j.Base,
			Protocol: v.run.options.Run.Protocol, Seed: v.run.options.Seed, ledger: v.ledger,
			EmptyUS: v.run.options.Run.EmptyUS()}}
	defer m.Close()
	defer m.noteSpent()
	defer m.noteLoss()
	err := m.begin(ctx)
	switch o := v.run.options; {
	case err != nil:
	case o.Search != nil:
		err = m.search(ctx)
	case o.RaceRounds > 0:
		err = m.race(ctx)
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
