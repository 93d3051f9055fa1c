package sweep

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devicetest"
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

const patience = time.Minute

// mortal is a device that goes wrong for good after some calls, in one of the ways of a lost host.
func mortal(way string, lives *int) *devicetest.Fake {
	f := fake()
	f.Hook = func(ctx context.Context, op string, _ kernels.Variant) error {
		if *lives--; *lives >= 0 {
			return nil
		}
		switch {
		case way == "gone" && op == "open":
			return &kernels.Gone{Device: "worker \"ssh gpu1\"", Reason: "connection refused"}
		case way == "launches nothing":
			return &kernels.Failure{Status: kernels.StatusLaunch, Reason: "no device", Broken: true}
		case strings.HasSuffix(way, "checks") && op == "open":
			return nil
		case strings.HasPrefix(way, "hangs"):
			select {
			case <-time.After(patience):
			case <-ctx.Done():
				return ctx.Err()
			}
			return &kernels.Failure{Status: kernels.StatusTimeout, Reason: "no answer", Broken: true}
		}
		return &kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker ended: exit status 255", Broken: true}
	}
	return f
}

// However a device is lost, and whenever: no variant gets a record by it, the rest of the
// queue is left, and the run says so. Beside a healthy device nothing is left.
func TestRunDeviceGone(t *testing.T) {
	for _, way := range ways {
		for _, lives := range []int{0, 1, 2, 3, 4, 5, 7, 12, 18} {
			for _, beside := range []bool{false, true} {
				for _, problems := range []int{1, 3} {
					synctest.Test(t, func(t *testing.T) {
						ts := tasks(t, 4, pool[:problems]...)
						n, left := 4*problems, lives
						ds := []kernels.Device{mortal(way, &left)}
						if beside {
							f := fake()
							f.Seconds = takes(0.01)
							ds = append(ds, f)
						}
						sink := &memory{}
						start := time.Now()
						sum, err := Run(t.Context(), registry, ds, ts, sink, options(2))
						for _, r := range sink.variants() {
							if r.Status != kernels.StatusOK {
								t.Errorf("%s after %d: %s is %s: %s", way, lives, r.Variant(), r.Status, r.Reason)
							}
						}
						got := len(sink.variants())
						var gone *kernels.Gone
						switch {
						case left >= 0: // all was done before
							if err != nil || got != n {
								t.Errorf("%s after %d: %d records, %v", way, lives, got, err)
							}
						case beside:
							if err != nil || got != n || len(sum.Gone) > 1 {
								t.Errorf("%s after %d beside another: %d records of %d, %v, gone %q", way, lives, got, n, err, sum.Gone)
							}
						case got == n: // the last to go wrong was the proof for nothing
						case err == nil || errors.As(err, &gone) || len(sum.Gone) != 1 || hint.Of(err) == "" ||
							!strings.Contains(err.Error(), "is gone: ") || !strings.HasSuffix(err.Error(), " variants are left") || strings.Contains(err.Error(), "\n"):
							t.Errorf("%s after %d: %d records of %d, %v, gone %q", way, lives, got, n, err, sum.Gone)
						}
						if d := time.Since(start); d > 3*patience+5*time.Second { // its stages, its problem again, the next one
							t.Errorf("%s after %d: it took %s", way, lives, d)
						}
					})
				}
			}
		}
	}
}

// A search is not told that variants failed which were never measured.
func TestSearchDeviceGone(t *testing.T) {
	for _, way := range ways {
		for _, lives := range []int{0, 3, 9, 25} {
			synctest.Test(t, func(t *testing.T) {
				ts := tasks(t, 12, pool[:2]...)
				left := lives
				sink := &memory{}
				o := options(2)
				searching, final := SearchProtocols(o.Run.Protocol, search.Auto, search.Budget{}, 6)
				o.Run.Protocol = searching
				o.Search = &Searching{Strategy: search.Auto, Final: o.Run, Finals: 2, Rounds: 6}
				o.Search.Final.ID, o.Search.Final.Protocol = "r2", final
				_, err := Run(t.Context(), registry, []kernels.Device{mortal(way, &left)}, ts, sink, o)
				if err == nil || !strings.HasSuffix(err.Error(), "problems are left to search") {
					t.Errorf("%s after %d: %v", way, lives, err)
				}
				for _, r := range sink.variants() {
					if r.Status != kernels.StatusOK {
						t.Errorf("%s after %d: %s is %s: %s", way, lives, r.Variant(), cmp.Or(r.Status, "nothing"), r.Reason)
					}
				}
			})
		}
	}
}

// A failure of opening that a device lives on from has a second try; one that stays is the problem's.
func TestOpen(t *testing.T) {
	p := tasks(t, 1, pool[0])[0].Problem
	for fails, opens := range map[int]int{0: 1, 1: 2, 9: 2} {
		f := &devicetest.Fake{OpenError: func(_ kernels.Problem, attempt int) error {
			if attempt < fails {
				return kernels.Failf(kernels.StatusLaunch, "as asked")
			}
			return nil
		}}
		err := (&Session{Device: f, Registry: registry, Problem: p}).Open(t.Context())
		if n := len(f.Calls("open")); (err == nil) != (fails < 2) || n != opens {
			t.Errorf("%d failures: %v after %d opens", fails, err, n)
		}
	}
}
