package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// A variant that takes its device down is a result. A device that does not come back is no
// variant's result: its jobs go back to the queue. A failure that may be either is held until the
// device has run its stream again. A device that fails in this way twice in a row is retired.

// uncertain is a job with a failure whose cause, the variant or the device, is not known yet.
type uncertain struct {
	job     *job
	opening *kernels.Failure // of its problem; nil where a variant failed
	believe func()           // sends its records
}

// doubtful is the failure in err that a lost device would have caused too, or nil.
func doubtful(err error) *kernels.Failure {
	var f *kernels.Failure
	if errors.As(err, &f) && (f.Broken || f.Status == kernels.StatusCrash || f.Status == kernels.StatusTimeout) {
		return f
	}
	return nil
}

// doubt holds a job that the device could not open. Where it is the second in a row the
// error is a *kernels.Gone.
func (v *visitor) doubt(h uncertain) error {
	if v.held != nil {
		return gone(v.dev, h.job.Problem, h.opening)
	}
	v.held = &h
	return nil
}

// stands says that the device has just run the stream of a problem. A job that it hung on
// opening has another try; one that it died of had two.
func (v *visitor) stands(p kernels.Problem) {
	v.good = &p
	if h := v.held; h != nil {
		v.held = nil
		if f := h.opening; f != nil && f.Status == kernels.StatusTimeout && !h.job.again {
			h.job.again = true
			v.run.giveBack(h.job)
			return
		}
		h.believe()
	}
}

// prove runs the stream of the last problem that went well. No other problem is left that could
// show whether the device works.
func (v *visitor) prove(ctx context.Context) error {
	if v.good == nil {
		return gone(v.dev, v.held.job.Problem, v.held.opening)
	}
	s := v.session(*v.good)
	s.opened, s.lost = true, true
	defer s.Close()
	err := v.turn(ctx, func() error { return s.Open(ctx) })
	if err == nil {
		v.stands(*v.good)
	}
	return err
}

// gone is the error of a device that opens a problem no more.
func gone(dev kernels.Device, p kernels.Problem, f *kernels.Failure) error {
	g := &kernels.Gone{Device: dev.Info().Name, Reason: fmt.Sprintf("opening %s: %s", p, f.Reason)}
	if s, ok := dev.(fmt.Stringer); ok {
		g.Device = s.String()
	}
	return g
}

// giveBack puts what is left of a job at the end of the queue.
func (r *run) giveBack(j *job) {
	if len(j.left) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	j.announced = nil
	r.queue = append(r.queue, j)
	r.change.Broadcast()
	r.searched.toCome += len(j.Variants)
}

// retire takes note of a device that is gone, with err, and of what it was at.
func (r *run) retire(v *visitor, j *job, err error) {
	if j != nil {
		r.giveBack(j)
	}
	if v.held != nil && v.held.job != j {
		r.giveBack(v.held.job)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Gone = append(r.sum.Gone, err.Error())
}

// unfinished is the error of a run whose devices are gone before the queue is empty.
func (r *run) unfinished() error {
	left := 0
	for _, j := range r.queue {
		left += len(j.left)
	}
	if left == 0 || len(r.sum.Gone) == 0 {
		return nil
	}
	what := fmt.Sprintf("%d variants are left", left)
	if r.o.Search != nil {
		what = fmt.Sprintf("%d problems are left to search", len(r.queue))
	}
	return hint.Errorf("mend it or leave it out; the same command goes on from there", "%s; %s", strings.Join(r.sum.Gone, "; "), what)
}

// idle says that v has nothing that it could give back, and wakes who waits for that.
func (r *run) idle(v *visitor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, v)
	r.change.Broadcast()
}
