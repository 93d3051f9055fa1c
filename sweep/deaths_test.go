package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/search"
)

var ways = []string{
	"gone",             // the worker does not start again
	"dies in open",     // it starts, and dies whatever it is asked
	"hangs in open",    //
	"dies in checks",   // it opens problems, and dies then
	"hangs in checks",  //
	"launches nothing", // it says itself that the GPU is lost
}

const silence = time.Minute

// mortal is a device that goes wrong for good after some calls, in one of the ways of a lost host.
func mortal(way string, lives *int) *devicetest.Fake {
	f := fake()
	f.Hook = func(ctx context.Context, op string, _ kernels.Variant) error {
		if *lives--; *lives >= 0 {
			return nil
		}
		switch {
		case way == "gone" && op == "open":
			return &kernels.DeviceLoss{Device: "worker \"ssh gpu1\"", Reason: "connection refused"}
		case way == "launches nothing":
			return &kernels.Failure{Status: kernels.StatusLaunch, Reason: "no device", Broken: true}
		case strings.HasSuffix(way, "checks") && op == "open":
			return nil
		case strings.HasPrefix(way, "hangs"):
			select {
			case <-time.After(silence):
			case <-ctx.Done():
				return ctx.Err()
			}
			return &kernels.Failure{Status: kernels.StatusTimeout, Reason: "no answer",
				Broken: true}
		}
		return &kernels.Failure{Status: kernels.StatusCrash,
			Reason: "the worker ended: exit status 255", Broken: true}
	}
	return f
}

// However a device is lost, and whenever: no variant gets a record by it, nor is a search told that
// one failed, the rest of the queue is left, and the run says so. Beside a healthy device nothing is
// left.
func TestALostDeviceBlamesNoVariant(t *testing.T) {
	for _, c := range []struct {
		problems, variants int
		beside, search     bool
		lives              []int
	}{
		{1, 4, false, false, []int{0, 1, 2, 3, 4, 5, 7, 12, 18}},
		{3, 4, false, false, []int{0, 1, 2, 3, 4, 5, 7, 12, 18}},
		{1, 4, true, false, []int{0, 1, 2, 3, 4, 5, 7, 12, 18}},
		{3, 4, true, false, []int{0, 1, 2, 3, 4, 5, 7, 12, 18}},
		{2, 12, false, true, []int{0, 3, 9, 25}},
	} {
		for _, way := range ways {
			for _, lives := range c.lives {
				synctest.Test(t, func(t *testing.T) {
					n, lived, o, unit := c.variants*c.problems, lives, options(2), "variants"
					ds := []kernels.Device{mortal(way, &lived)}
					if c.beside {
						f := fake()
						f.Seconds = takes(0.01)
						ds = append(ds, f)
					}
					if c.search {
						o, unit = searching(search.Auto, search.Budget{}), "problems"
					}
					sink := &memorySink{}
					start := time.Now()
					sum, err := Run(t.Context(), registry, ds,
						tasks(t, c.variants, pool[:c.problems]...), sink, o)
					for _, r := range sink.variants() {
						assert.Equal(t, r.Status, kernels.StatusOK, way, "after", lives, r.Variant(),
							r.Reason)
					}
					got := len(sink.variants())
					var left *UnfinishedError
					switch {
					case lived >= 0 || c.beside: // all was done before, or by the other
						assert.That(t, err == nil && got == n,
							"%s after %d, %+v: %d records of %d, %v", way, lives, c, got, n, err)
					case got == n: // it went wrong in the stages of the last
					case !errors.As(err, &left) || hint.Of(err) == "" ||
						strings.Contains(err.Error(), "\n") ||
						!strings.HasSuffix(err.Error(), " "+unit+" are unmeasured") ||
						!c.search && !strings.Contains(err.Error(), fmt.Sprint(" ", n-got, " v")):
						t.Errorf("%s after %d, %+v: %d records of %d, %v, gone %q", way, lives, c, got,
							n, err, sum.Gone)
					}
					d := time.Since(start)
					assert.That(t, d <= time.Hour, "%s after %d: it took %s", way, lives, d)
				})
			}
		}
	}
}

// A device that dies at random has no variant blamed for it, whatever is run, and what it measures
// is all but little; a variant that it dies of each time is blamed, with the evidence.
func TestDeviceThatDiesAtRandomBlamesNobody(t *testing.T) {
	ts := tasks(t, 12, pool[:4]...)
	fatal := map[kernels.Variant]bool{ts[0].Variants[5]: true}
	for _, p := range []float64{0, 0.01, 0.03, 0.1, 0.3} {
		for seed := range uint64(4) {
			for _, o := range []RunOptions{options(2), searching(search.Grid, search.Budget{}),
				contesting(4)} {
				synctest.Test(t, func(t *testing.T) {
					sink := &memorySink{}
					f, rng := fake(), rand.New(rand.NewPCG(seed, 40))
					f.Hook = func(_ context.Context, op string, v kernels.Variant) error {
						if rng.Float64() < p || fatal[v] && op == "check" {
							return &kernels.Failure{Status: kernels.StatusCrash,
								Reason: "as scripted", Broken: true}
						}
						return nil
					}
					_, err := Run(t.Context(), registry, []kernels.Device{f}, ts, sink, o)
					var left *UnfinishedError
					assert.That(t, err == nil || errors.As(err, &left) && p >= 0.1,
						"p %g, seed %d: %v", p, seed, err)
					guilty := 0
					for _, r := range sink.variants() {
						switch {
						case r.Status == kernels.StatusOK && !fatal[r.Variant()]:
						case r.Status == kernels.StatusCrash && fatal[r.Variant()] &&
							strings.Contains(r.Reason, record.Evidence):
							guilty++
						default:
							t.Errorf("p %g, seed %d: %s is %s: %s", p, seed, r.Variant(), r.Status,
								r.Reason)
						}
					}
					assert.That(t, err != nil || guilty != 0,
						"p %g, seed %d: nobody is blamed", p, seed)
				})
			}
		}
	}
}

// The chance is that of the binomial test where much is known of the device, and larger where little
// is: testdata/chances.txt, by the answers and deaths of a variant and of the device.
func TestChanceIsThatOfTheBinomialTest(t *testing.T) {
	assert.Lines(t, "testdata/chances.txt", func(input string) string {
		x := assert.Value[[4]int](t, input)
		return fmt.Sprintf("%.3g", deathChance(deathCount{x[0], x[1]}, deathCount{x[2], x[3]}))
	})
}

// A device is retired for dying, not for a long wait before its first death; and at once for dying
// of its own stream or sensors.
func TestDeviceIsRetiredForDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, dev := newLedger(1), &devicetest.Fake{}
		c := failureKey{requestKind: requestTime}
		want := func(stale bool, when string) {
			assert.Equal(t, l.isHopeless(dev), stale, when, "stale", !stale)
		}
		time.Sleep(2 * patience) // it compiles
		l.noteAnswer(c, false, true, true)
		want(false, "its first death")
		time.Sleep(patience / 2)
		l.noteAnswer(failureKey{requestKind: requestCheck}, true, false, false)
		l.noteAnswer(c, false, true, true)
		time.Sleep(patience / 2)
		want(true, "deaths with a check of the stream between")
		l.noteAnswer(c, false, true, false)
		want(false, "a time")
		l.unfit = true
		want(true, "dying of its stream")
	})
}

// A base that its device dies of each time is to blame, too: its own deaths are not the device's.
func TestBaseThatKillsItsDeviceIsBlamed(t *testing.T) {
	l, base := newLedger(100), failureKey{requestKind: requestCheck}
	for range 40 {
		l.noteAnswer(failureKey{requestKind: requestCheck}, true, false, false)
		l.noteAnswer(failureKey{Variant: kernels.Variant{Family: "stream"}, requestKind: requestTime}, true, false, false)
	}
	for death := 1; ; death++ {
		guilty, why := l.noteAnswer(base, false, true, true)
		if guilty {
			assert.That(t, strings.HasSuffix(why, fmt.Sprintf("%d of %d times; the stream and the base: 0 of 80)",
				death, death)), "%s", why)
			break
		}
		assert.Must(t, death < 10, "%d deaths of %d are not its own: %+v", death, death, l.counts)
	}
}

// A device that is gone before it was asked to run a variant says nothing of it.
func TestDeviceGoneBeforeItRanBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ts := fake(), tasks(t, 2, pool[0])
		bad := ts[0].Variants[1]
		f.Hook = func(_ context.Context, op string, v kernels.Variant) error {
			if op == "check" && v == bad {
				return &kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker is gone", Broken: true,
					Before: true}
			}
			return nil
		}
		l := newLedger(1)
		s := &Session{Device: f, Registry: registry, Problem: ts[0].Problem, Base: ts[0].Base,
			Protocol: options(2).Run.Protocol, ledger: l}
		defer s.Close()
		for range 30 {
			_, err := s.Check(t.Context(), s.Stream(), 1)
			assert.NoError(t, err)
		}
		_, err := s.Check(t.Context(), bad, 1)
		var lost *kernels.DeviceLoss
		assert.That(t, errors.As(err, &lost), "%v", err)
		died := l.counts[failureKey{s.Problem, bad, requestCheck}]
		assert.That(t, died == nil || died.deaths == 0, "%+v deaths are the variant's", died)
	})
}

// docs/clusters.md says that one sweep in a million blames a variant by chance. So each of its cells is
// blamed, in each of its tries, from a chance of one millionth of a millionth share on, and not before.
func TestBlameIsOneInAMillionSweeps(t *testing.T) {
	const cells = 1000
	for _, own := range []deathCount{{answers: 200}, {answers: 500, deaths: 20}} {
		l, c := newLedger(cells), failureKey{requestKind: requestTime}
		l.own[requestTime] = own
		for n := 1; ; n++ {
			guilty, _ := l.noteAnswer(c, false, false, true)
			p := deathChance(deathCount{deaths: n}, own)
			assert.Must(t, guilty == (p <= 1e-6/(cells*tries)), "%v: after %d deaths, by chance %g: guilty is %v",
				own, n, p, guilty)
			if guilty {
				break
			}
		}
	}
}
