package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// A measurer measures a job on a visitor's device, and is the search.Bench of its search.
type measurer struct {
	*Session
	v       *visitor
	j       *job
	stream  float64 // microseconds
	checks  map[kernels.Variant]*kernels.Check
	begun   time.Time
	spent   search.Spent
	starved bool // the budget left the finals fewer variants or rounds than they should have
}

// begin puts the job's problem on the device and measures its stream. A second try is made where
// the device fails.
func (m *measurer) begin(ctx context.Context) error {
	for try := 0; ; try++ {
		m.Close()
		m.opened, m.lost = false, false // if it fails, it may be the problem or the device
		err := m.v.prepare(ctx, m.j.Problem, m.Stream())
		if err == nil {
			err = m.v.turn(ctx, func() error { return m.measureStream(ctx) })
		}
		if err == nil {
			m.v.stands(m.j.Problem)
			return nil
		}
		if f := FailureOf(err); f == nil || try > 0 || f.Status == kernels.StatusTimeout {
			return err
		}
	}
}

// measureStream opens the problem, and measures and records its stream. The first time it
// also warms the device up: clocks rise under load, so it repeats until two
// visits in a row agree within 1%, or for a second.
func (m *measurer) measureStream(ctx context.Context) error {
	v := m.v
	if err := m.open(ctx); err != nil {
		return err
	}
	_, variant, _, err := m.Registry.Resolve(m.j.Problem, m.Stream(), v.run.info)
	if err != nil {
		return err
	}
	start, before := time.Now(), m.Busy
	check, err := m.Check(ctx, variant, 1)
	if err != nil {
		return err
	}
	if !check.OK() {
		return fmt.Errorf("the stream of %s: %s", m.j.Problem, check.Reason())
	}
	pr := m.Protocol
	o := pr.TimeOptions(pr.Samples + pr.Discard)
	t, err := m.time(ctx, variant, o)
	for last := 0.0; err == nil && !v.warmed; {
		us := stats.Median(t.Seconds)
		v.warmed = settled(last, us) || time.Since(start) > time.Second
		last = us
		t, err = m.time(ctx, variant, o)
	}
	if err != nil {
		return err
	}
	us := record.Micros(t.Seconds[pr.Discard:])
	m.stream, m.checks[variant] = stats.Median(us), &check
	rec := m.record(variant, nil)
	rec.Family, rec.SamplesUS = record.Stream, us
	v.noise = stats.Spread(rec.SamplesUS) / 1.35 // of a normal distribution
	if s, ok := v.dev.(kernels.Sensor); ok {
		state, err := s.Sense(ctx)
		if err != nil {
			return err
		}
		if state.ClockMHz > 0 {
			rec.State = &state
		}
	}
	rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3
	v.out <- finished{recs: []*record.Record{rec}, busy: m.Busy - before, left: len(m.j.left), stream: true}
	return nil
}

// visit takes so many samples of a variant, in microseconds, once it is compiled and it is the
// visitor's turn on the device. Its answer is checked at its first visit; with no launches that is
// all.
func (m *measurer) visit(ctx context.Context, v kernels.Variant, launches int) ([]float64, error) {
	run := m.v.run
	plan, err := m.plan(v)
	if err != nil {
		return nil, kernels.Failf(kernels.StatusRefused, "%v", err)
	}
	if err = m.v.prepare(ctx, m.j.Problem, v); beside(err) && ctx.Err() == nil {
		err = m.v.prepare(ctx, m.j.Problem, v)
	}
	if err != nil {
		m.lose(err)
		return nil, err
	}
	var us []float64
	err = m.v.turn(ctx, func() (err error) {
		if m.checks[v] == nil {
			c, err := m.Check(ctx, v, Repeats)
			if err != nil {
				return err
			}
			m.checks[v] = &c
			run.remember(plan, &c)
		}
		if c := m.checks[v]; !c.OK() {
			return kernels.Failf(kernels.StatusWrong, "%s", c.Reason())
		}
		if launches > 0 {
			us, err = m.Fit(ctx, v, launches)
		}
		return err
	})
	return us, err
}

// grid measures each variant of the job by itself, until one takes the problem away. The record of
// that one counts once the device stands again; else the device is to blame.
func (m *measurer) grid(ctx context.Context) (suspect *finished, err error) {
	j := m.j
	for len(j.left) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start, before := time.Now(), m.Busy
		us, err := m.visit(ctx, j.left[0], m.Protocol.Samples)
		if err != nil && (FailureOf(err) == nil || ctx.Err() != nil) {
			// Whatever it says, it may be the stopping that did it: a record of
			// that would keep the variant from ever being measured.
			return nil, err
		}
		rec := m.record(j.left[0], FailureOf(err))
		if rec.SamplesUS = us; err == nil {
			err := m.v.turn(ctx, func() error { return m.stages(ctx, rec) })
			if err != nil && (FailureOf(err) == nil || ctx.Err() != nil) {
				return nil, err
			}
		}
		rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3
		done := &finished{recs: []*record.Record{rec}, busy: m.Busy - before, left: len(j.left) - 1}
		if m.lost {
			return done, nil
		}
		m.v.out <- *done
		j.left = j.left[1:]
	}
	return nil, nil
}

// unopened sends the records of a job whose problem cannot be put on the device.
func (m *measurer) unopened(f *kernels.Failure) {
	f = kernels.Failf(f.Status, "opening the problem: %s", f.Reason)
	if m.v.run.o.Search != nil {
		rec := m.record(m.j.Base, f)
		m.final(rec)
		m.v.out <- finished{recs: []*record.Record{rec}}
		return
	}
	for i, variant := range m.j.left {
		m.v.out <- finished{recs: []*record.Record{m.record(variant, f)}, left: len(m.j.left) - i - 1}
	}
}

// record is a variant's record with what all of the problem have. f is how it failed, or nil.
func (m *measurer) record(variant kernels.Variant, f *kernels.Failure) *record.Record {
	run, p := m.v.run, m.j.Problem
	code, _ := run.code(p, variant) // what cannot be read was told when the job was laid out
	rec := &record.Record{
		Run:      run.o.Run.ID,
		Key:      record.Key(p, variant, run.info, code.String(), run.o.Run.Protocol),
		Time:     time.Now().UTC().Truncate(time.Millisecond),
		Problem:  p,
		Family:   variant.Family,
		Config:   variant.Config,
		Base:     variant == m.j.Base,
		Status:   kernels.StatusOK,
		Source:   code.Source,
		Launch:   code.Launch,
		Seed:     run.o.Seed,
		Bytes:    p.Bytes(),
		Check:    m.checks[variant],
		StreamUS: m.stream,
	}
	if f != nil {
		// A record without a reason is refused.
		rec.Status, rec.Reason = f.Status, cmp.Or(f.Reason, "no reason given")
	}
	if plan, err := m.plan(variant); err == nil {
		rec.ScratchBytes = plan.ScratchBytes()
	}
	return rec
}

// plan is what a variant launches on the problem.
func (m *measurer) plan(v kernels.Variant) (kernels.Plan, error) {
	_, _, plan, err := m.Registry.Resolve(m.j.Problem, v, m.v.run.info)
	return plan, err
}

// stages adds the times of the stages to a record, where there are several.
func (m *measurer) stages(ctx context.Context, rec *record.Record) error {
	plan, err := m.plan(rec.Variant())
	if err != nil || len(plan.Launches) < 2 || m.Protocol.StageSamples == 0 {
		return nil
	}
	s, err := m.Stages(ctx, rec.Variant(), m.v.run.o.Trace)
	rec.StagesBy, rec.Stages, rec.GapUS = s.By, s.Of, s.GapUS
	return err
}
