package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// Searching says how Run looks for winners.
type Searching struct {
	Strategy string
	Budget   search.Budget
	Seed     uint64     // of the strategy and of the finals' orders
	Final    record.Run // the run under which the winners are measured again
	Finals   int        // variants in the finals, beside the base and what a task keeps
	Rounds   int        // of the finals
	Known    *search.History
}

// FinalLaunches are those of a visit in the finals.
const FinalLaunches = 2

// SearchProtocols are a grid's protocol as a search and its finals take times.
func SearchProtocols(pr record.Protocol, strategy string, budget search.Budget, rounds int) (searching, final record.Protocol) {
	pr.Search = strings.TrimSpace(strategy + " " + budget.String())
	searching, final = pr, pr
	searching.Phase = record.PhaseSearch
	final.Phase, final.Samples = record.PhaseFinal, rounds*FinalLaunches
	return searching, final
}

// LeftToSearch counts the problems that a sink with these keys has no winner of,
// and their variants.
func LeftToSearch(r *kernels.Registry, d kernels.DeviceInfo, tasks []Task, o Options, keys Keys) (variants, problems int, err error) {
	run := &run{registry: r, sink: held{keys}, o: o, info: d, identity: families.NewIdentity(r, d.Kind)}
	err = run.layOut(tasks)
	return run.searched.toCome, len(run.queue), err
}

// searchState is what the searches of a run share. The run's mutex guards it.
type searchState struct {
	spent  search.Spent
	toCome int // variants of problems that are not searched yet
	code   map[string]kernels.Resource
}

// layOutSearch queues the problems whose base has no record of the finals, which
// is the last that a search writes.
func (r *run) layOutSearch(tasks []Task) error {
	s := r.o.Search
	if err := search.CheckName(s.Strategy); err != nil {
		return err
	}
	if s.Known == nil {
		s.Known = &search.History{}
	}
	r.searched.code = map[string]kernels.Resource{}
	for _, t := range tasks {
		for _, f := range r.registry.Serving(t.Problem) {
			if _, err := r.identity.Source(f); err != nil {
				return err
			}
		}
		key := r.finalKey(t.Problem, t.Base)
		if st, ok := r.sink.Status(key); ok && (st == kernels.StatusOK || !r.o.RetryFailed) {
			r.sum.Skipped += r.there(t)
			continue
		}
		r.queue = append(r.queue, &job{Task: t, left: t.Variants})
		r.searched.toCome += len(t.Variants)
	}
	r.total = len(r.queue)
	return CheckBudget(s.Budget, len(r.queue))
}

// CheckBudget refuses a budget that cannot measure the base of so many problems.
func CheckBudget(b search.Budget, problems int) error {
	least := ""
	switch {
	case b.Launches > 0 && b.Launches < 2*problems:
		least = fmt.Sprintf("%dx", 2*problems)
	case b.Configs > 0 && b.Configs < problems:
		least = strconv.Itoa(problems)
	}
	if least != "" {
		return hint.Errorf(fmt.Sprintf("give %s or more, or fewer --shapes", least), "budget %s is too small to measure the bases of %d problems", b, problems)
	}
	return nil
}

// there counts the records of a searched problem: of its search and of its finals.
func (r *run) there(t Task) (n int) {
	for _, v := range t.Variants {
		for _, key := range []string{r.searchKey(t.Problem, v), r.finalKey(t.Problem, v)} {
			if s, ok := r.sink.Status(key); ok && s != record.StatusPruned {
				n++
			}
		}
	}
	return n
}

func (r *run) searchKey(p kernels.Problem, v kernels.Variant) string {
	return r.key(p, v, r.o.Run.Protocol)
}

func (r *run) finalKey(p kernels.Problem, v kernels.Variant) string {
	return r.key(p, v, r.o.Search.Final.Protocol)
}

// prefetchSearch announces what is visited first whatever the strategy, and the
// winners of the problems nearby so far.
func (v *visitor) prefetchSearch(j *job) {
	vs := []kernels.Variant{{Family: v.run.registry.StreamOf(j.Problem)}, j.Base}
	vs = append(vs, j.Keep...)
	for _, i := range v.run.o.Search.Known.Winners(&search.Space{Problem: j.Problem, Variants: j.Variants}, 4) {
		vs = append(vs, j.Variants[i])
	}
	v.dev.Prefetch(j.Problem, vs)
}

// search looks for one problem's winner and measures it again.
func (v *visitor) search(ctx context.Context, j *job) error {
	o := v.run.o.Search
	m := &measurer{v: v, j: j, checks: map[kernels.Variant]*kernels.Check{}}
	defer m.close()
	begun := time.Now()
	var spent search.Spent
	defer func() { // also of a problem that could not be opened, whose share is then for others
		v.run.mu.Lock()
		defer v.run.mu.Unlock()
		all := &v.run.searched
		all.spent.Seconds += spent.Seconds
		all.spent.Launches += spent.Launches
		all.spent.Configs += spent.Configs
		all.toCome -= len(j.Variants)
	}()
	var err error
	if m.bench, m.stream, err = v.open(ctx, j, len(j.Variants)); err != nil {
		var f *kernels.Failure
		if !errors.As(err, &f) || ctx.Err() != nil {
			return err
		}
		j.failure = f
		failed := func() {
			rec := v.failed(j, j.Base, kernels.Failf(f.Status, "opening the problem: %s", f.Reason))
			m.final(rec)
			v.out <- finished{recs: []*record.Record{rec}}
		}
		if doubtful(err) != nil {
			return v.doubt(&uncertain{j, failed}, f)
		}
		failed()
		return nil
	}
	space, allow := v.space(j)
	strategy, err := search.New(o.Strategy, space)
	if err != nil {
		return err
	}
	board := search.NewBoard(space, v.noise, m.stream)
	start := time.Now()
	share := allow.Seconds
	allow.Seconds *= searchShare
	log, err := search.Drive(ctx, strategy, board, allow, m)
	if ctx.Err() != nil {
		return ctx.Err() // what it says may be of the stopping
	}
	if err != nil {
		return err
	}
	v.dev.Prefetch(j.Problem, nil) // what was foreseen and not begun is wanted no more
	recs := m.records(board, &log)
	for _, rec := range recs {
		rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3 / float64(len(recs))
	}
	left := math.Inf(1)
	if share > 0 {
		left = share - max(m.busy, time.Since(begun).Seconds())
	}
	finals, err := m.finals(ctx, board, left, log.Short)
	var f *kernels.Failure
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f): // the problem cannot be opened again
		rec := v.failed(j, j.Base, kernels.Failf(f.Status, "in the finals: %s", f.Reason))
		m.final(rec)
		finals = []*record.Record{rec}
	case err != nil:
		return err
	}
	o.Known.Add(board, m.stream)
	spent = board.Spent()
	spent.Seconds = max(m.busy, time.Since(begun).Seconds()) // a replay takes less than it tells
	for _, rec := range finals {
		rec.Finals = len(finals)
	}
	recs = append(recs, finals...)
	v.out <- finished{recs: recs, busy: m.busy, searched: true, short: log.Short, starved: m.starved, deciding: log.Deciding}
	return nil
}

// searchShare is what the search has of a problem's share of a budget of time. The rest is for its finals.
const searchShare = 0.6

// space is what the strategy gets to see of a job, and what it may use.
func (v *visitor) space(j *job) (*search.Space, search.Allowance) {
	o := v.run.o.Search
	s := &search.Space{Problem: j.Problem, SMs: v.run.info.SMs, Variants: j.Variants, Known: o.Known,
		Full: v.run.o.Run.Protocol.Samples, Seed: o.Seed}
	for _, k := range append([]kernels.Variant{j.Base}, j.Keep...) {
		s.Keep = append(s.Keep, slices.Index(j.Variants, k))
	}
	v.run.mu.Lock()
	defer v.run.mu.Unlock()
	b := o.Budget
	b.Time *= time.Duration(v.run.visitors) // who waits, waits for all of them at once
	a := b.Allow(len(j.Variants), v.run.searched.toCome, v.run.searched.spent)
	s.Limit = a.Configs
	return s, a
}

// A measurer is a search.Bench on a visitor's device.
type measurer struct {
	v      *visitor
	j      *job
	bench  kernels.Bench
	stream float64
	checks map[kernels.Variant]*kernels.Check
	busy   float64 // seconds of the device, in all
	lost   bool    // a failure took the problem away, and the device has not shown that it stands
	// starved says that the budget left the finals fewer variants or rounds than they should have.
	starved bool
}

func (m *measurer) close() {
	if m.bench != nil {
		m.bench.Close()
		m.bench = nil
	}
}

// open opens the problem where it is not, with the inputs of a seed.
func (m *measurer) open(ctx context.Context, seed uint64) (err error) {
	for try := 0; m.bench == nil; try++ {
		if m.bench, err = openTwice(ctx, m.v.dev, m.j.Problem, seed); err == nil && m.lost {
			_, err = m.bench.Check(ctx, kernels.Variant{Family: m.v.run.registry.StreamOf(m.j.Problem)}, 1)
		}
		if err == nil {
			m.lost = false
			return nil
		}
		if m.bench != nil {
			m.close()
		}
		f := doubtful(err)
		if f == nil || ctx.Err() != nil {
			return err
		}
		if m.lost = true; try > 0 || f.Status == kernels.StatusTimeout {
			return m.v.gone(m.j.Problem, f) // it was opened before
		}
	}
	return nil
}

// broken closes the problem where a failure has taken it away.
func (m *measurer) broken(err error) {
	var f *kernels.Failure
	if errors.As(err, &f) && f.Broken {
		m.close()
		m.lost = true
	}
}

// Announce implements search.Bench. What may come later is a guess, of use where nothing
// else is there to compile.
func (m *measurer) Announce(now, later []kernels.Variant) {
	if m.v.shares() {
		later = nil
	}
	m.v.dev.Prefetch(m.j.Problem, append(slices.Clone(now), later...))
}

// Visit implements search.Bench.
func (m *measurer) Visit(ctx context.Context, v kernels.Variant, launches int) (us []float64, busy float64, err error) {
	us, busy, err = m.visit(ctx, v, launches)
	if beside(err) && ctx.Err() == nil {
		return m.visit(ctx, v, launches)
	}
	return us, busy, err
}

func (m *measurer) visit(ctx context.Context, v kernels.Variant, launches int) (us []float64, busy float64, err error) {
	run := m.v.run
	start, waiting := time.Now(), time.Duration(0)
	defer func() {
		m.busy += busy
		busy = max(busy, (time.Since(start) - waiting).Seconds()) // compiling counts for who waits
	}()
	if err := m.v.prepare(ctx, m.j.Problem, v); err != nil {
		m.broken(err)
		return nil, 0, err
	}
	compiled := time.Now()
	leave, err := m.v.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	waiting = time.Since(compiled)
	if err := m.open(ctx, run.o.Seed); err != nil {
		return nil, 0, err
	}
	if m.checks[v] == nil {
		c, err := m.bench.Check(ctx, v, run.o.Repeats)
		if err != nil {
			m.broken(err)
			return nil, 0, err
		}
		busy = c.Busy
		m.checks[v] = &c
		m.remember(v, &c)
		if !c.OK() {
			return nil, busy, kernels.Failf(kernels.StatusWrong, "%s", c.Reason())
		}
	}
	pr := run.o.Run.Protocol
	t, err := m.v.fitTime(ctx, m.bench, v, pr.TimeOptions(launches+pr.Discard))
	if err != nil {
		m.broken(err)
		return nil, busy, err
	}
	us = record.Micros(t.Seconds[pr.Discard:])
	if why := tooFast(m.j.Problem, run.info, pr, stats.Median(us)); why != "" {
		return nil, busy + t.Busy, kernels.Failf(kernels.StatusUnfit, "%s", why)
	}
	return us, busy + t.Busy, nil
}

// records are what the search saw, in the order in which it came to it.
func (m *measurer) records(b *search.Board, log *search.Log) []*record.Record {
	var recs []*record.Record
	for _, i := range b.Order() {
		variant := m.j.Variants[i]
		var rec *record.Record
		if f := log.Failed[i]; f != nil {
			rec = m.v.failed(m.j, variant, f)
		} else {
			rec = m.v.record(m.j, variant, kernels.StatusOK)
			rec.SamplesUS = b.Samples(i)
			if n := b.Visits(i); len(n) > 1 {
				rec.Visits = n
			}
		}
		rec.Check = m.checks[variant]
		m.common(rec)
		recs = append(recs, rec)
	}
	for i, v := range m.j.Variants {
		if why := log.Refused[i]; why != "" {
			rec := m.v.record(m.j, v, record.StatusPruned)
			rec.Reason = why
			m.common(rec)
			recs = append(recs, rec)
		}
	}
	return recs
}

// common fills in what every record of the problem has.
func (m *measurer) common(rec *record.Record) {
	rec.StreamUS = m.stream
	if _, _, plan, err := m.v.run.registry.Resolve(m.j.Problem, rec.Variant(), m.v.run.info); err == nil {
		rec.ScratchBytes = plan.ScratchBytes()
	}
}

// final makes a record one of the finals.
func (m *measurer) final(rec *record.Record) {
	rec.Run = m.v.run.o.Search.Final.ID
	rec.Key = m.v.run.finalKey(rec.Problem, rec.Variant())
}
