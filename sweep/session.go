package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// A Session is a problem on a device. It opens the problem when it is needed, and again after a failure.
// One goroutine uses it.
type Session struct {
	Device   kernels.Device
	Registry *kernels.Registry
	Problem  kernels.Problem
	Protocol record.Protocol
	Seed     uint64       // of the inputs; close the session to change it
	Draw     kernels.Draw // of the inputs, likewise
	From     int64        // the first row of the draw, likewise
	Busy     float64      // seconds that the device was at work

	// an empty launch less a step of the timer, microseconds; 0 where not known
	EmptyUS  float64
	streamUS float64         // the last time of the stream
	Base     kernels.Variant // of the problem, by which the device is known; may be zero
	ledger   *ledger         // of the device

	// the variant with which the device was lost, and how, where it was not back at once; nil for none
	lostWith *kernels.Variant
	lostBy   *kernels.Failure
	away     bool // the device was not there when it was last asked to open the problem

	bench  kernels.Bench
	lost   bool      // a failure took the problem away, and the device has not shown that it stands
	sensed time.Time // when the device last said that it is fit
}

// Close closes the problem on the device.
func (s *Session) Close() {
	if s.bench != nil {
		s.bench.Close()
		s.bench = nil
	}
}

// Stream returns the variant that copies the problem's tensors.
func (s *Session) Stream() kernels.Variant {
	return kernels.Variant{Family: s.Registry.StreamOf(s.Problem)}
}

// Open opens the problem if it is not open, and tries again with pauses if the device fails. If the
// device dies each time the error is a *kernels.DeviceLoss.
func (s *Session) Open(ctx context.Context) error {
	for try := 0; ; try++ {
		err := s.open(ctx)
		f := FailureOf(err)
		s.away = f != nil && f.Before
		switch {
		case f == nil || ctx.Err() != nil || !tookDevice(f) && try > 0:
			return err
		case try == len(pauses) || f.Status == kernels.StatusTimeout && try > 0:
			return goneError(s.Device, fmt.Sprintf("opening %s", s.Problem), f)
		}
		select {
		case <-time.After(pauses[try]):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open tries once to open the problem. After a failure that closed the problem the device must also run
// its stream.
func (s *Session) open(ctx context.Context) (err error) {
	if s.bench != nil {
		return nil
	}
	if s.ledger == nil {
		s.ledger = newLedger(0)
	}
	if s.bench, err = s.Device.Open(ctx, s.Problem, kernels.Inputs{Seed: s.Seed, Draw: s.Draw, From: s.From}); err != nil {
		s.bench = nil
	} else if s.lost {
		err = s.proveDevice(ctx)
	}
	if err != nil {
		s.Close()
		return err
	}
	s.lost = false
	return nil
}

// proveDevice checks and times the stream, to see whether the device works at all. A device that fails
// now and then may pass once by luck. So it repeats this while the ledger cannot tell: as long as the
// stream was never seen to fail, and has not passed often.
func (s *Session) proveDevice(ctx context.Context) error {
	for n := 0; ; n++ {
		op, err := requestCheck, error(nil)
		if n%2 == 0 {
			_, err = s.bench.Check(ctx, s.Stream(), 1)
		} else {
			op = requestTime
			_, err = s.bench.Time(ctx, s.Stream(), kernels.TimeOptions{Samples: 1})
		}
		if f := FailureOf(err); f == nil || f.Broken {
			s.noteAnswer(s.Stream(), op, f != nil)
		}
		if all := s.ledger.own[requestCheck].plus(s.ledger.own[requestTime]); err != nil || n > 0 &&
			(n == proofs || all.deaths > 0 || all.answers >= proven) {
			return err
		}
	}
}

// noteAnswer counts an answer or a death of a variant in the ledger; see ledger.noteAnswer.
func (s *Session) noteAnswer(v kernels.Variant, op requestKind, died bool) (guilty bool, why string) {
	return s.ledger.noteAnswer(failureKey{s.Problem, v, op}, v == s.Stream(), v == s.Base, died)
}

// closeLost closes the problem if err says that the device lost it, and returns whether it did.
func (s *Session) closeLost(err error) bool {
	f := FailureOf(err)
	if f == nil || !f.Broken {
		return false
	}
	s.Close()
	s.lost = true
	return true
}

// runUntilBlamed opens the problem, runs what on a variant, and repeats it where the device dies, until
// the variant answers or is to blame. If the variant is not to blame in the end, the error is a
// *kernels.DeviceLoss.
//
// Before it repeats a variant on which the device died, it runs the stream in the variant's place half
// of the time, chosen by a coin: a device that dies now and then, whatever it runs, then dies of the
// stream as often.
func (s *Session) runUntilBlamed(ctx context.Context, v kernels.Variant, op requestKind,
	what func(kernels.Bench, kernels.Variant) error) error {
	var died *kernels.Failure // of the variant
	for try := 1; ; try++ {
		err := s.Open(ctx)
		if err != nil && s.away && died != nil && ctx.Err() == nil {
			s.lostWith, s.lostBy = &v, died
			return goneError(s.Device, fmt.Sprintf("%s of %s", v, s.Problem), died)
		}
		if f := FailureOf(err); f != nil && ctx.Err() == nil {
			return goneError(s.Device, fmt.Sprintf("opening %s", s.Problem), f)
		} else if err != nil {
			return err
		}
		variant := v
		if s.ledger.suspects(s.Problem, v) && rand.IntN(2) == 0 {
			variant = s.Stream()
		}
		err = what(s.bench, variant)
		f, lost := FailureOf(err), s.closeLost(err)
		switch {
		case err != nil && (f == nil || ctx.Err() != nil):
			return err
		case !lost:
			s.noteAnswer(variant, op, false)
			if variant == v {
				return err
			}
			try--
			continue
		case !f.Before:
			if variant == v {
				died = f
			}
			if guilty, why := s.noteAnswer(variant, op, true); guilty {
				blamed := *f
				blamed.Reason += why
				return &blamed
			}
		}
		if v == s.Stream() && try == ownTries {
			s.ledger.unfit = true
		}
		if try == tries || s.ledger.isHopeless(s.Device) {
			return goneError(s.Device, fmt.Sprintf("%s of %s, %d times in a row", v, s.Problem, try), f)
		}
	}
}

// Sense reads the device's sensors; a device without sensors has a zero Reading. A device that dies of
// it is asked again, and retired if it goes on dying: it cannot be trusted, and no variant is to blame.
func (s *Session) Sense(ctx context.Context) (r kernels.Reading, err error) {
	sensor, ok := s.Device.(kernels.Sensor)
	if !ok {
		return r, nil
	}
	for range ownTries {
		if r, err = sensor.Sense(ctx); ctx.Err() != nil || !s.closeLost(err) {
			return r, err
		}
	}
	if s.ledger != nil {
		s.ledger.unfit = true
	}
	return r, goneError(s.Device, "sensors", FailureOf(err))
}

// Repeats is how often a check runs a variant, to compare the bits of its outputs.
const Repeats = 2

// Check runs a variant so many times and compares its outputs with the reference. A wrong answer is in
// the check; it is no error.
func (s *Session) Check(ctx context.Context, v kernels.Variant, repeats int) (c kernels.Check,
	err error) {
	err = s.runUntilBlamed(ctx, v, requestCheck, func(b kernels.Bench, v kernels.Variant) error {
		c, err = b.Check(ctx, v, repeats)
		s.Busy += c.Busy
		return err
	})
	return c, err
}

// HashRows runs a variant once and hashes the first rows of its outputs; see kernels.RowHasher.
func (s *Session) HashRows(ctx context.Context, v kernels.Variant, rows int64) (hashes kernels.RowHashes, err error) {
	err = s.runUntilBlamed(ctx, v, requestCheck, func(b kernels.Bench, v kernels.Variant) error {
		hashes, err = kernels.HashRows(ctx, b, v, rows)
		return err
	})
	return hashes, err
}

// Time takes so many samples of a variant in one visit, in microseconds, behind those that the protocol
// discards. A time that cannot be true is a failure.
func (s *Session) Time(ctx context.Context, v kernels.Variant, launches int) ([]float64, error) {
	pr := s.Protocol
	t, err := s.time(ctx, v, pr.TimeOptions(launches+pr.Discard))
	if err != nil {
		return nil, err
	}
	us := record.Micros(t.Seconds[pr.Discard:])
	median := stats.Median(us)
	if why := Impossible(s.Problem, s.Device.Info(), pr, s.EmptyUS, s.streamUS, median); why != "" {
		return nil, kernels.Failf(kernels.StatusUnfit, "%s", why)
	}
	if v == s.Stream() {
		s.streamUS = median
	}
	return us, nil
}

// time takes samples as the options say.
func (s *Session) time(ctx context.Context, v kernels.Variant,
	o kernels.TimeOptions) (t kernels.Timing, err error) {
	err = s.runUntilBlamed(ctx, v, requestTime, func(b kernels.Bench, v kernels.Variant) error {
		t, err = b.Time(ctx, v, o)
		s.Busy += t.Busy
		return err
	})
	return t, err
}

// MinClock is the fraction of its full clock below which a device's times are rejected, as nvbench does.
const MinClock = 0.75

// fitFor is how long a device counts as fit after a reading: a reading takes as long as a short visit.
const fitFor = 50 * time.Millisecond

// wasFitJustNow says whether a reading within fitFor found the device fit.
func (s *Session) wasFitJustNow() bool { return time.Since(s.sensed) < fitFor }

// noteReading says why the device is not fit by a reading, "" if it is; then it notes the time.
func (s *Session) noteReading(r kernels.Reading) (why string) {
	if why = r.Unfit(MinClock); why == "" {
		s.sensed = time.Now()
	}
	return why
}

// TimeFit is Time, repeated where the device was not fit: shared, throttled, or at a low clock. After a
// few tries the variant's failure is unfit.
func (s *Session) TimeFit(ctx context.Context, v kernels.Variant, launches int) ([]float64, error) {
	const tries = 5
	why := ""
	for range tries {
		us, err := s.Time(ctx, v, launches)
		if err != nil || s.wasFitJustNow() {
			return us, err
		}
		state, err := s.Sense(ctx)
		if err != nil {
			return nil, err
		}
		if why = s.noteReading(state); why == "" {
			return us, nil
		}
	}
	return nil, kernels.Failf(kernels.StatusUnfit, "rejected %d times: %s", tries, why)
}

// FailureOf returns the *kernels.Failure in an error's chain, or nil.
func FailureOf(err error) (f *kernels.Failure) {
	errors.As(err, &f)
	return f
}

// StageTimes are the times of each launch of a plan, taken in a pass of their own.
type StageTimes struct {
	By     string // such as kernels.ByExposed
	Stages []record.Stage
	GapUS  float64 // median time between them; 0 where it is not known
}

// Stages measures what each launch of a variant adds to its time (kernels.ByExposed).
func (s *Session) Stages(ctx context.Context, v kernels.Variant) (StageTimes, error) {
	pr := s.Protocol
	o := pr.TimeOptions(pr.StageSamples + pr.Discard)
	o.Stages = true
	t, err := s.time(ctx, v, o)
	if err != nil {
		return StageTimes{}, err
	}
	x := StageTimes{By: t.By}
	if len(t.Gaps) > 0 {
		x.GapUS = stats.Median(record.Micros(t.Gaps[pr.Discard:]))
	}
	for _, stage := range t.Stages {
		us := record.Micros(stage.Seconds[pr.Discard:])
		x.Stages = append(x.Stages, record.Stage{Stage: stage.Stage, SamplesUS: us})
	}
	return x, nil
}

// WarmUp repeats a visit until two in a row agree within 1%, but 20 times or for a second at most, as
// clocks rise under load.
func WarmUp(visit func() (us []float64, err error)) error {
	start, last := time.Now(), 0.0
	for range 20 {
		us, err := visit()
		median := stats.Median(us)
		if err != nil || median > 0.99*last && median < 1.01*last || time.Since(start) > time.Second {
			return err
		}
		last = median
	}
	return nil
}
