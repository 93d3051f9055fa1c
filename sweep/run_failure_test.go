package sweep

import (
	"errors"
	"fmt"
	"slices"

	"testing"
	"testing/synctest"

	"normbench/kernels"
	"normbench/kernels/devicetest"
)

// A failure to time stages costs no more than their times.
func TestStagesFail(t *testing.T) {
	for _, broken := range []bool{false, true} {
		fail := func(kernels.Problem, kernels.Variant) *kernels.Failure {
			return &kernels.Failure{Status: kernels.StatusLaunch, Reason: "as scripted", Broken: broken}
		}
		ts := tasks(t, 3, pool[1]) // two launches each
		sink, f := &memory{}, fake()
		f.FailStages = fail
		sum := mustRun(t, ts, sink, options(2), f)
		if rs := sink.variants(); len(rs) != 3 || sum.Failed != 0 || rs[1].Status != kernels.StatusOK || len(rs[1].SamplesUS) != 2 || rs[1].Stages != nil {
			t.Errorf("a sweep: %+v, %d records", sum, len(rs))
		}
	}
}

// Opening gets a second try. Where that fails too, what is left of the problem
// fails with it, and the next problem has its turn.
func TestRunOpenFails(t *testing.T) {
	ts := tasks(t, 4, pool[0], pool[1])
	first := ts[0].Problem
	lost := func(p kernels.Problem, from, to int) func(kernels.Problem, int) error {
		return func(q kernels.Problem, attempt int) error {
			if q == p && from <= attempt && attempt < to {
				return fmt.Errorf("in other words: %w", kernels.Failf(kernels.StatusCrash, "no device"))
			}
			return nil
		}
	}
	crash := func(at kernels.Variant) func(kernels.Problem, kernels.Variant) *kernels.Failure {
		return func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			if v == at {
				return kernels.Failf(kernels.StatusCrash, "as scripted")
			}
			return nil
		}
	}
	for _, tc := range []struct {
		name   string
		open   func(kernels.Problem, int) error
		fail   func(kernels.Problem, kernels.Variant) *kernels.Failure
		failed []int // variants of the first problem
		opens  int   // of it
		reason string
	}{
		{"once", lost(first, 0, 1), nil, nil, 2, ""},
		{"always", lost(first, 0, 99), nil, []int{0, 1, 2, 3}, 2, "opening the problem: no device"},
		{"again, once", lost(first, 1, 2), crash(ts[0].Variants[1]), []int{1}, 3, "as scripted"},
		{"again, always", lost(first, 1, 99), crash(ts[0].Variants[1]), []int{1, 2, 3}, 3, "opening the problem: no device"},
		{"after the last", lost(first, 1, 99), crash(ts[0].Variants[3]), []int{3}, 1, "as scripted"},
		{"stream", nil, func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
			if p == first && isStream(v) {
				return kernels.Failf(kernels.StatusCompile, "no device")
			}
			return nil
		}, []int{0, 1, 2, 3}, 2, "opening the problem: no device"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := fake()
			f.OpenError, f.Fail = tc.open, tc.fail
			sink := &memory{}
			sum := mustRun(t, ts, sink, options(2), f)
			rs := sink.variants()
			if len(rs) != 8 || sum.Measured != 8 || sum.Failed != len(tc.failed) {
				t.Fatalf("%d records, %+v", len(rs), sum)
			}
			for i, r := range rs {
				if (r.Status == kernels.StatusOK) == slices.Contains(tc.failed, i) {
					t.Errorf("variant %d is %s: %s", i, r.Status, r.Reason)
				}
			}
			if len(tc.failed) > 0 && rs[tc.failed[len(tc.failed)-1]].Reason != tc.reason {
				t.Errorf("reason %q, want %q", rs[tc.failed[len(tc.failed)-1]].Reason, tc.reason)
			}
			opens := 0
			for _, c := range f.Calls("open") {
				if c.Problem == first {
					opens++
				}
			}
			if opens != tc.opens {
				t.Errorf("opened %d times, want %d", opens, tc.opens)
			}
		})
	}
}

// Trouble that is no failure of a variant stops the run, with what was measured
// until then in the sink.
func TestRunTrouble(t *testing.T) {
	ts := tasks(t, 3, pool[:3]...)
	second := ts[1].Problem
	trouble := errors.New("no memory left on the device")
	opening := func(p kernels.Problem, _ int) error {
		if p == second {
			return trouble
		}
		return nil
	}
	wrong := func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
		if p == second && isStream(v) {
			return kernels.Failf(kernels.StatusWrong, "as scripted")
		}
		return nil
	}
	for _, tc := range []struct {
		name string
		fake *devicetest.Fake
		want string
	}{
		{"open", &devicetest.Fake{OpenError: opening}, trouble.Error()},
		{"a wrong stream", &devicetest.Fake{Fail: wrong}, "the stream of " + second.String() + ": y is wrong in 1 of 16384 elements, first at 16383: got NaN, want 1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := tc.fake
			f.Registry = registry
			sink := &memory{}
			sum, err := Run(t.Context(), registry, devices(f), ts, sink, options(2))
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
			}
			if len(sink.variants()) != 3 || sum.Measured != 3 {
				t.Errorf("%s: %d records, %+v", tc.name, len(sink.variants()), sum)
			}
			for _, c := range f.Calls("open") {
				if c.Problem == ts[2].Problem {
					t.Errorf("%s: the run went on", tc.name)
				}
			}
		})
	}
}

func TestRunDifferentDevices(t *testing.T) {
	other := fake()
	other.DeviceInfo = devicetest.CPU()
	sink := &memory{}
	_, err := Run(t.Context(), registry, devices(fake(), other), tasks(t, 2, pool[0]), sink, options(2))
	if err == nil || err.Error() != "the devices differ: nvidia-h200 and cpu-two-2c" || len(sink.runs) != 0 {
		t.Errorf("got %v, %d runs", err, len(sink.runs))
	}
}
