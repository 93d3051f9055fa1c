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

// A searchMeasurer measures a job on a loop's device. In a search it is the search.Measurer.
type searchMeasurer struct {
	*Session
	loop   *deviceLoop
	job    *job
	stream float64 // microseconds
	checks map[kernels.Variant]*kernels.Check
	begun  time.Time
	spent  search.Effort
}

// begin opens the job's problem on the device and measures its stream.
func (m *searchMeasurer) begin(ctx context.Context) error {
	if err := m.loop.prepare(ctx, m.job.Problem, m.Stream()); err != nil && !m.closeLost(err) {
		return err
	}
	return m.loop.takeTurn(ctx, func() error {
		if err := m.Open(ctx); err != nil {
			return err
		}
		return m.measureStream(ctx)
	})
}

// refuse sends a refused record for each variant of a job whose problem the device refuses.
func (m *searchMeasurer) refuse(f *kernels.Failure) {
	f = kernels.Failf(f.Status, "opening the problem: %s", f.Reason)
	if m.loop.run.options.Search != nil {
		rec := m.record(&m.loop.run.options.Search.Final, m.job.Base, f)
		m.loop.send(batch{recs: []*record.Record{rec}})
		return
	}
	for i, variant := range m.job.left {
		rec := m.record(&m.loop.run.options.Run, variant, f)
		m.loop.send(batch{recs: []*record.Record{rec}, left: len(m.job.left) - i - 1})
	}
}

// measureStream checks, measures and records the stream, and keeps its noise for the search. The first
// time it also warms the device up.
func (m *searchMeasurer) measureStream(ctx context.Context) error {
	v := m.loop
	_, variant, _, err := m.Registry.Resolve(m.job.Problem, m.Stream(), v.run.info)
	if err != nil {
		return err
	}
	start, before := time.Now(), m.Busy
	check, err := m.Check(ctx, variant, 1)
	if err != nil {
		return err
	}
	if !check.OK() {
		return fmt.Errorf("the stream of %s: %s", m.job.Problem, check.Reason())
	}
	visit := func() ([]float64, error) { return m.Time(ctx, m.Stream(), m.Protocol.Samples) }
	if !v.warmed {
		if err := WarmUp(visit); err != nil {
			return err
		}
		v.warmed = true
	}
	us, err := visit()
	if err != nil {
		return err
	}
	m.stream, m.checks[variant] = stats.Median(us), &check
	rec := m.record(&v.run.options.Run, variant, nil)
	rec.Family, rec.SamplesUS = record.Stream, us
	v.noise = stats.Spread(rec.SamplesUS) / 1.35 // of a normal distribution
	state, err := m.Sense(ctx)
	if err != nil {
		return err
	}
	if state.ClockMHz > 0 {
		rec.State = &state
	}
	rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3
	v.send(batch{recs: []*record.Record{rec}, busy: m.Busy - before, left: len(m.job.left),
		stream: true})
	return nil
}

// visit compiles a variant, waits for the loop's turn on the device and takes so many samples, in
// microseconds. At the first visit it checks the answer; with no launches it does only that.
func (m *searchMeasurer) visit(ctx context.Context, v kernels.Variant, launches int) ([]float64, error) {
	if f := m.job.blame(v); f != nil {
		return nil, f
	}
	// A death in it shows again in the check, where it counts.
	if err := m.loop.prepare(ctx, m.job.Problem, v); err != nil && (!m.closeLost(err) || ctx.Err() != nil) {
		return nil, err
	}
	var us []float64
	err := m.loop.takeTurn(ctx, func() (err error) {
		if m.checks[v] == nil {
			c, err := m.Check(ctx, v, Repeats)
			if err != nil {
				return err
			}
			m.checks[v] = &c
		}
		if c := m.checks[v]; !c.OK() {
			return kernels.Failf(kernels.StatusWrong, "%s", c.Reason())
		}
		if launches > 0 {
			us, err = m.TimeFit(ctx, v, launches)
		}
		return err
	})
	return us, err
}

// grid measures each variant of the job by itself.
func (m *searchMeasurer) grid(ctx context.Context) error {
	j := m.job
	for len(j.left) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, before := time.Now(), m.Busy
		us, err := m.visit(ctx, j.left[0], m.Protocol.Samples)
		if err != nil && (FailureOf(err) == nil || ctx.Err() != nil) {
			// Whatever it says, it may be the stopping that did it: a record of
			// that would keep the variant from ever being measured.
			return err
		}
		rec := m.record(&m.loop.run.options.Run, j.left[0], FailureOf(err))
		if rec.SamplesUS = us; err == nil {
			err := m.loop.takeTurn(ctx, func() error { return m.stages(ctx, rec) })
			if err != nil && (FailureOf(err) == nil || ctx.Err() != nil) {
				return err
			}
		}
		rec.WallMS = float64(time.Since(start).Microseconds()) / 1e3
		m.loop.send(batch{recs: []*record.Record{rec}, busy: m.Busy - before, left: len(j.left) - 1})
		j.left = j.left[1:]
	}
	return nil
}

// record makes a variant's record with all but its samples. f says how it failed, nil if it did not.
func (m *searchMeasurer) record(in *record.Run, variant kernels.Variant,
	f *kernels.Failure) *record.Record {
	run, p := m.loop.run, m.job.Problem
	code, _ := run.code(p, variant) // what cannot be read was told when the job was laid out
	rec := &record.Record{
		Run:      in.ID,
		Key:      record.Key(p, variant, run.info, code.String(), in.Protocol, m.job.BaseOf),
		Time:     time.Now().UTC().Truncate(time.Millisecond),
		Problem:  p,
		Family:   variant.Family,
		Config:   variant.Config,
		Base:     variant == m.job.Base,
		BaseOf:   m.job.BaseOf,
		Default:  variant == m.job.Default,
		Status:   kernels.StatusOK,
		Source:   code.Source,
		Launch:   code.Launch,
		Seed:     run.options.Seed,
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

// plan computes what a variant launches on the problem.
func (m *searchMeasurer) plan(v kernels.Variant) (kernels.Plan, error) {
	_, _, plan, err := m.Registry.Resolve(m.job.Problem, v, m.loop.run.info)
	return plan, err
}

// stages measures the stages of a plan with several launches, and adds their times to the record.
func (m *searchMeasurer) stages(ctx context.Context, rec *record.Record) error {
	plan, err := m.plan(rec.Variant())
	if err != nil || len(plan.Launches) < 2 || m.Protocol.StageSamples == 0 {
		return nil
	}
	s, err := m.Stages(ctx, rec.Variant())
	rec.StagesBy, rec.Stages, rec.GapUS = s.By, s.Stages, s.GapUS
	return err
}
