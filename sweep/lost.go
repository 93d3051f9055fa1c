package sweep

import (
	"context"
	"errors"
	"slices"
	"time"

	"normbench/kernels"
)

// A scheduler takes devices in the middle of a problem, and gives others after a while. The problem goes back
// into the queue, and the loop waits for its device without one.

// maxPause is the longest time between two tries to start a lost device.
const maxPause = 30 * time.Second

// mostLosses are how many devices may be lost with a variant before it gets a record instead of another one.
const mostLosses = 2

// A loss counts the devices that were lost with a variant and did not come back at once.
type loss struct {
	times int
	last  *kernels.Failure
}

// noteLoss counts a device that was lost with a variant of the job.
func (m *searchMeasurer) noteLoss() {
	if m.lostWith == nil {
		return
	}
	j := m.job
	if j.losses == nil {
		j.losses = map[kernels.Variant]*loss{}
	}
	l := j.losses[*m.lostWith]
	if l == nil {
		l = &loss{}
		j.losses[*m.lostWith] = l
	}
	l.times++
	l.last = m.lostBy
}

// blame returns how a variant failed with which too many devices were lost, nil for another. Each loss costs the
// wait for a device, so there are too few of them to compare with the device's own deaths.
func (j *job) blame(v kernels.Variant) *kernels.Failure {
	l := j.losses[v]
	if l == nil || l.times < mostLosses {
		return nil
	}
	return kernels.Failf(l.last.Status, "%s (lost %d devices, which did not come back at once)", l.last.Reason, l.times)
}

// awaitDevice waits until a device that was lost is back, without a job: it may be in a scheduler's queue. It
// says whether it is; else there is nothing left to do, or the device is retired.
func (v *deviceLoop) awaitDevice(ctx context.Context, why error) (back bool, err error) {
	d, ok := v.dev.(interface {
		Away() bool
		Await(context.Context) error
	})
	if !ok || !d.Away() {
		return true, nil
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-v.run.done:
			stop()
		case <-waiting.Done():
		}
	}()
	if tell := v.run.options.Waiting; tell != nil {
		defer tell(nameOf(v.dev)+" to start again", why)()
	}
	for pause := time.Second; ; pause = min(2*pause, maxPause) {
		start := time.Now()
		err := d.Await(waiting)
		v.ledger.forgive(time.Since(start)) // it does not die meanwhile
		f := FailureOf(err)
		switch gone := (*kernels.DeviceLoss)(nil); {
		case waiting.Err() != nil:
			return false, ctx.Err()
		case err == nil:
			return true, nil
		case errors.As(err, &gone):
			v.run.retire(err)
			return false, nil
		case f == nil:
			return false, err
		case f.Status == kernels.StatusTimeout || v.ledger.isHopeless(v.dev):
			v.run.retire(goneError(v.dev, "starting it again", f))
			return false, nil
		}
		select {
		case <-time.After(pause):
		case <-waiting.Done():
			return false, ctx.Err()
		}
	}
}

// forgive leaves a time out of account in which the device was not there to die.
func (l *ledger) forgive(d time.Duration) {
	if !l.dying.IsZero() {
		l.dying = l.dying.Add(d)
	}
}

// retire gives up a device that does not come back.
func (r *runState) retire(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteGone(why)
}

// noteGone notes why a device answers nothing any more. The caller holds mu.
func (r *runState) noteGone(why error) {
	if !slices.Contains(r.totals.Gone, why.Error()) {
		r.totals.Gone = append(r.totals.Gone, why.Error())
	}
}

// nextJoining waits for a device that comes later, nil where none will or no job is left.
func (r *runState) nextJoining(ctx context.Context) kernels.Device {
	if r.options.Joining == nil {
		return nil
	}
	select {
	case d := <-r.options.Joining:
		return d
	case <-r.done:
	case <-ctx.Done():
	}
	return nil
}
