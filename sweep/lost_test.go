package sweep

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/search"
)

// A queuedDevice is one that a scheduler gives: once lost it is away for a while.
type queuedDevice struct {
	*devicetest.Fake
	away  time.Duration // how long it takes to start again
	limit time.Duration // how long that is waited for

	mu    sync.Mutex
	until time.Time // when it is back
	waits int       // for it
}

// queued makes one that is lost with a variant where lose says so.
func queued(away, limit time.Duration, lose func(p kernels.Problem, v kernels.Variant) bool) *queuedDevice {
	d := &queuedDevice{Fake: fake(), away: away, limit: limit}
	d.Fake.Seconds = takes(0.01)
	var open kernels.Problem
	d.Fake.OpenError = func(p kernels.Problem, _ int) error {
		open = p
		return nil
	}
	d.Fake.Hook = func(_ context.Context, op string, v kernels.Variant) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case time.Now().Before(d.until):
			return &kernels.Failure{Status: kernels.StatusTimeout, Reason: "it has not started again", Broken: true, Before: true}
		case op == "check" && lose(open, v):
			d.until = time.Now().Add(d.away)
			return &kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker ended: preempted", Broken: true}
		}
		return nil
	}
	return d
}

func (d *queuedDevice) String() string { return `worker "srun"` }

func (d *queuedDevice) Away() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.until)
}

// Await waits as worker.Client does.
func (d *queuedDevice) Await(ctx context.Context) error {
	d.mu.Lock()
	left := time.Until(d.until)
	d.waits++
	d.mu.Unlock()
	late := left > d.limit
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(left, d.limit)):
	}
	if late {
		return &kernels.Failure{Status: kernels.StatusTimeout, Reason: "no answer within its limit", Broken: true, Before: true}
	}
	return nil
}

var queueWays = map[string]func() RunOptions{
	"grid":    func() RunOptions { return options(2) },
	"search":  func() RunOptions { return searching(search.Grid, search.Budget{}) },
	"contest": func() RunOptions { return contesting(4) },
}

// A device that a scheduler takes in the middle of a problem costs no record: the problem goes to another device
// meanwhile, or waits for this one, longer than a device may go on dying.
func TestLossToASchedulerCostsNoRecord(t *testing.T) {
	for name, o := range queueWays {
		for _, beside := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ts, lost := tasks(t, 6, pool[:3]...), false
				d := queued(10*time.Minute, time.Hour, func(kernels.Problem, kernels.Variant) bool {
					first := !lost
					lost = true
					return first
				})
				ds := []kernels.Device{d}
				if beside {
					f := fake()
					f.Seconds = takes(0.01)
					ds = append(ds, f)
				}
				sink, waited := &memorySink{}, 0
				o := o()
				o.Waiting = func(what string, why error) func() {
					assert.Error(t, why, `worker "srun" is gone: `)
					assert.Equal(t, what, `worker "srun" to start again`)
					return func() { waited++ }
				}
				start := time.Now()
				sum, err := Run(t.Context(), registry, ds, ts, sink, o)
				took := time.Since(start)
				assert.That(t, err == nil && len(sum.Gone) == 0 && waited == d.waits && waited == 1, "%s: %v, gone %q, waited %d of %d",
					name, err, sum.Gone, waited, d.waits)
				measured := map[string]int{}
				for _, r := range sink.variants() {
					measured[r.Key]++
					assert.Equal(t, r.Status, kernels.StatusOK, name, r.Reason)
				}
				want := 3 * 6
				if o.Search != nil {
					want = len(measured) // search and finals
				}
				assert.That(t, len(measured) == want && len(sink.variants()) == want, "%s: %d records of %d keys, want %d",
					name, len(sink.variants()), len(measured), want)
				// With another device nobody waits for this one.
				assert.That(t, took < 10*time.Minute == beside, "%s, beside another %v: it took %s", name, beside, took)
			})
		}
	}
}

// A variant with which two devices were lost gets a record with the reason, and no third.
func TestVariantWithTwoLossesGetsARecord(t *testing.T) {
	for name, o := range queueWays {
		synctest.Test(t, func(t *testing.T) {
			ts := tasks(t, 6, pool[:2]...)
			bad, losses := ts[0].Variants[3], 0
			lose := func(p kernels.Problem, v kernels.Variant) bool {
				if p != ts[0].Problem || v != bad {
					return false
				}
				losses++
				return true
			}
			sink := &memorySink{}
			_, err := Run(t.Context(), registry, []kernels.Device{queued(time.Minute, time.Hour, lose)}, ts, sink, o())
			assert.NoError(t, err, name)
			assert.Equal(t, losses, 2, name, "losses")
			failed := 0
			for _, r := range sink.variants() {
				if r.Problem != ts[0].Problem || r.Variant() != bad {
					assert.Equal(t, r.Status, kernels.StatusOK, name, r.Reason)
					continue
				}
				failed++
				assert.That(t, r.Status == kernels.StatusCrash && r.Reason ==
					"the worker ended: preempted (lost 2 devices, which did not come back at once)", "%s: %s: %s", name,
					r.Status, r.Reason)
			}
			assert.Equal(t, failed, 1, name, "records of it")
		})
	}
}

// A device that does not come back within its limit is retired, and what it has left is said.
func TestDeviceThatStaysAwayIsRetired(t *testing.T) {
	for name, o := range queueWays {
		synctest.Test(t, func(t *testing.T) {
			sink := &memorySink{}
			d := queued(10*time.Hour, time.Hour, func(kernels.Problem, kernels.Variant) bool { return true })
			start := time.Now()
			_, err := Run(t.Context(), registry, []kernels.Device{d}, tasks(t, 6, pool[:2]...), sink, o())
			var left *UnfinishedError
			assert.That(t, errors.As(err, &left) && hint.Of(err) != "" && strings.HasPrefix(err.Error(),
				`worker "srun" is gone: starting it again: no answer within its limit; `), "%s: %v", name, err)
			assert.That(t, len(sink.variants()) == 0 && time.Since(start) < 2*time.Hour, "%s: %d records after %s", name,
				len(sink.variants()), time.Since(start))
		})
	}
}

// Devices that come later take problems too; one that comes when all is done takes none. Without any that is
// there, the queue waits for them.
func TestDevicesJoinARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, sink := tasks(t, 6, pool[:3]...), &memorySink{}
		o := options(2)
		joining, opened := make(chan kernels.Device), map[int]int{}
		o.Joining = joining
		device := func(at int) kernels.Device {
			f := fake()
			f.Seconds = takes(0.5)
			var mu sync.Mutex
			f.OpenError = func(kernels.Problem, int) error {
				mu.Lock()
				defer mu.Unlock()
				opened[at]++
				return nil
			}
			return f
		}
		go func() {
			time.Sleep(5 * time.Second)
			joining <- device(1)
			time.Sleep(time.Hour)
			select {
			case joining <- device(2):
				t.Error("a device is taken after the end")
			case <-time.After(time.Second):
			}
			close(joining)
		}()
		dead := queued(10*time.Hour, time.Second, func(kernels.Problem, kernels.Variant) bool { return true })
		sum, err := Run(t.Context(), registry, []kernels.Device{dead}, ts, sink, o)
		assert.That(t, err == nil && len(sum.Gone) == 1, "%v, gone %q", err, sum.Gone)
		assert.That(t, opened[1] > 0, "it took no problem: %v", opened)
		assert.Equal(t, len(sink.variants()), 18)
		time.Sleep(2 * time.Hour)
	})
}

// A device's time in a queue is none in which it dies.
func TestTimeInAQueueIsNoDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		l.forgive(time.Hour)
		assert.That(t, l.dying.IsZero(), "it never died")
		l.die()
		time.Sleep(2 * patience)
		l.forgive(patience + time.Second)
		assert.That(t, !l.isHopeless(&devicetest.Fake{}), "its wait counts")
		time.Sleep(2 * time.Second)
		assert.That(t, l.isHopeless(&devicetest.Fake{}), "its deaths do not")
	})
}
