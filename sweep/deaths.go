package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/mathext"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
)

// A variant that takes its device down is a result, and one of a device that dies by itself is
// nobody's. Both look alike, so a variant is blamed only where its deaths are implausible at the
// rate at which the device dies on the stream and the base. All else is tried again, goes back into
// the queue, and is unmeasured in the end.

const (
	// blame is the chance that a sweep blames any variant for what its device does by itself.
	blame = 1e-6
	// tries are how often a variant may take its device down until it is put back.
	tries = 24
	// ownTries are how often in a row a device may die of its stream or its sensors, for which no
	// variant is to blame, until it is retired.
	ownTries = 4
	// leastVariants is the size of a sweep whose size is not known.
	leastVariants = 1000
	// proven answers of the stream are enough; after a death up to proofs more are asked for.
	proven, proofs = 1024, 300
	// returns are how often a device may give a job back until it gets it no more.
	returns = 3
)

// patience is how long a device may do nothing but die before it is retired, where it does not say so
// itself.
const patience = 3 * time.Minute

// pauses are waited between the tries to open a problem on a device that dies of it.
var pauses = []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second}

// A deathCount counts answers, and requests that the device died of.
type deathCount struct{ answers, deaths int }

// note counts one answer or one death.
func (t *deathCount) note(died bool) {
	if died {
		t.deaths++
	} else {
		t.answers++
	}
}

func (t deathCount) plus(o deathCount) deathCount {
	return deathCount{t.answers + o.answers, t.deaths + o.deaths}
}

func (t deathCount) minus(o deathCount) deathCount {
	return deathCount{t.answers - o.answers, t.deaths - o.deaths}
}

// A requestKind is what a device is asked for: a check or a time. Deaths are counted for each, as one
// may do the device more harm.
type requestKind int

const (
	requestCheck requestKind = iota
	requestTime
	requestKinds
)

type failureKey struct {
	kernels.Problem
	kernels.Variant
	requestKind
}

// A ledger counts what a device answered and what it died of, to tell whom to blame. One goroutine uses
// it.
type ledger struct {
	variants int                      // of the sweep, each of which may be blamed
	own      [requestKinds]deathCount // of the stream
	base     [requestKinds]deathCount // of all bases that were not blamed
	counts   map[failureKey]*deathCount
	// dying is when the device first died since it last took a time, or a variant was blamed; zero if
	// it did not.
	dying time.Time
	// unfit says that it dies of its own stream or sensors again and again.
	unfit  bool
	deaths int // answers that did not come, in all
}

// newLedger makes the ledger of a sweep of so many variants.
func newLedger(variants int) *ledger {
	return &ledger{variants: max(variants, leastVariants), counts: map[failureKey]*deathCount{}}
}

// noteAnswer counts an answer or a death of a variant. It returns whether the variant is to blame for
// all of its deaths so far, and the evidence: they are implausible at the rate at which the device dies
// of the stream and the base.
func (l *ledger) noteAnswer(c failureKey, stream, base, died bool) (guilty bool, why string) {
	if died {
		l.die()
		l.deaths++
	} else if c.requestKind == requestTime {
		l.dying = time.Time{}
	}
	if stream {
		l.own[c.requestKind].note(died)
		return false, ""
	}
	if base {
		l.base[c.requestKind].note(died)
	}
	t := l.counts[c]
	if t == nil {
		t = &deathCount{}
		l.counts[c] = t
	}
	if t.note(died); !died {
		return false, ""
	}
	own, other := l.own[c.requestKind].plus(l.base[c.requestKind]), l.own[1-c.requestKind].plus(l.base[1-c.requestKind])
	if base {
		own = own.minus(*t)
	}
	if own.deaths+other.deaths == 0 {
		own = own.plus(other)
	}
	if deathChance(*t, own) > blame/float64(l.variants*tries) {
		return false, ""
	}
	if base {
		l.base[c.requestKind] = l.base[c.requestKind].minus(*t)
	}
	l.dying = time.Time{}
	return true, fmt.Sprintf("%s%d of %d times; the stream and the base: %d of %d)", record.Evidence,
		t.deaths, t.deaths+t.answers, own.deaths, own.deaths+own.answers)
}

// suspects says whether the device has died of a variant before.
func (l *ledger) suspects(p kernels.Problem, v kernels.Variant) bool {
	for op := range requestKinds {
		if t := l.counts[failureKey{p, v, op}]; t != nil && t.deaths > 0 {
			return true
		}
	}
	return false
}

// deathChance computes the chance of as many deaths as the variant's or more, if the variant died at the
// device's own rate. That rate is uncertain: it has the distribution that own leaves of a uniform one,
// so few answers prove little.
func deathChance(variant, own deathCount) float64 {
	a, b := float64(own.deaths+1), float64(own.answers+1)
	n, p := float64(variant.deaths+variant.answers), 0.0
	for k := float64(variant.deaths); k <= n; k++ {
		choose := -math.Log(n+1) - mathext.Lbeta(n-k+1, k+1)
		p += math.Exp(choose + mathext.Lbeta(k+a, n-k+b) - mathext.Lbeta(a, b))
	}
	return p
}

// die notes the time of a death, if it is the first since the device last answered.
func (l *ledger) die() {
	if l.dying.IsZero() {
		l.dying = time.Now()
	}
}

// isHopeless says whether a device has done nothing but die for too long, or is unfit; then it is
// retired.
func (l *ledger) isHopeless(dev kernels.Device) bool {
	limit := patience
	if d, ok := dev.(interface{ Patience() time.Duration }); ok {
		limit = d.Patience()
	}
	return l.unfit || !l.dying.IsZero() && time.Since(l.dying) >= limit
}

// tookDevice says whether a failure ended the device's process.
func tookDevice(f *kernels.Failure) bool {
	return f.Broken || f.Status == kernels.StatusCrash || f.Status == kernels.StatusTimeout
}

// goneError makes the error of a device that was lost while it did what. No variant gets it as its
// result.
func goneError(dev kernels.Device, what string, f *kernels.Failure) error {
	g := &kernels.DeviceLoss{Device: nameOf(dev), Reason: fmt.Sprintf("%s: %s", what, f.Reason)}
	return hint.With(g, goneHelp)
}

// nameOf names a device: a worker by its command.
func nameOf(dev kernels.Device) string {
	if s, ok := dev.(fmt.Stringer); ok {
		return s.String()
	}
	return dev.Info().Name
}

const goneHelp = "mend it or leave it out; the same command goes on from there"

// giveBack puts the rest of a job at the end of the queue, with its first variant last, after the device
// was lost. It returns whether the device is retired, and then notes it in the totals.
func (r *runState) giveBack(v *deviceLoop, j *job, why error) (retired bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.returned == nil {
		j.returned = map[*deviceLoop]int{}
	}
	j.returned[v]++
	j.announced, j.why = nil, why
	if r.options.Search == nil && r.options.RaceRounds == 0 {
		j.left = append(slices.Clone(j.left[1:]), j.left[0])
	}
	r.queue = append(r.queue, j)
	r.change.Broadcast()
	r.toCome += len(j.Variants)
	v.ledger.die()
	retired = v.ledger.isHopeless(v.dev)
	if retired {
		r.noteGone(why)
	}
	return retired
}

// An UnfinishedError says that a run could not measure all.
type UnfinishedError struct{ error }

func (u *UnfinishedError) Unwrap() error { return u.error }

// checkFinished fails with an UnfinishedError if jobs are left in the queue when the run ends.
func (r *runState) checkFinished() error {
	left, why := 0, r.totals.Gone
	for _, j := range r.queue {
		left += len(j.left)
		if j.why != nil && len(why) == 0 {
			why = []string{j.why.Error()}
		}
	}
	if left == 0 || len(why) == 0 {
		return nil
	}
	what := fmt.Sprintf("%d variants are unmeasured", left)
	if r.options.Search != nil {
		what = fmt.Sprintf("%d problems are unmeasured", len(r.queue))
	}
	return &UnfinishedError{hint.Errorf(goneHelp, "%s; %s", strings.Join(why, "; "), what)}
}

// markIdle notes that v has no job to give back, and wakes the loops that wait for one.
func (r *runState) markIdle(v *deviceLoop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, v)
	if len(r.queue)+len(r.busy) == 0 && !r.over {
		r.over = true
		close(r.done)
	}
	r.change.Broadcast()
}
