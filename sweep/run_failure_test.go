package sweep

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// A failure to time stages costs no more than their times.
func TestFailureOfStagesCostsTheirTimesOnly(t *testing.T) {
	for _, broken := range []bool{false, true} {
		fail := func(kernels.Problem, kernels.Variant) *kernels.Failure {
			return &kernels.Failure{Status: kernels.StatusLaunch, Reason: "as scripted",
				Broken: broken}
		}
		ts := tasks(t, 3, pool[1]) // two launches each
		sink, f := &memorySink{}, fake()
		f.Fail, f.FailIn = fail, "stages"
		sum := mustRun(t, ts, sink, options(2), f)
		rs := sink.variants()
		assert.That(t, len(rs) == 3 && sum.Failed == 0 && rs[1].Status == kernels.StatusOK &&
			len(rs[1].SamplesUS) == 2 && rs[1].Stages == nil, "a sweep: %+v, %d records", sum,
			len(rs))
	}
}

// A death that is nobody's fault costs another try. The totals have it, for whoever wonders about a GPU.
func TestDeathsOfADeviceAreCounted(t *testing.T) {
	ts := tasks(t, 3, pool[0], pool[1])
	f, asked := fake(), 0
	f.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
		is := v == ts[0].Variants[1]
		asked += int(kernels.Flag(is))
		return failIf(is && asked == 1, kernels.StatusCrash)
	}
	sum := mustRun(t, ts, &memorySink{}, options(2), f)
	assert.That(t, sum.Deaths == 1 && sum.Failed == 0, "%+v", sum)
}

// A problem that cannot be opened is nobody's result: its variants are unmeasured, and the next
// problem has its turn. What was measured before stays. A failure of opening that a device lives on
// from has a second try; one that stays is the problem's.
func TestProblemThatDoesNotOpenIsNobodysResult(t *testing.T) {
	ts := tasks(t, 4, pool[0], pool[1])
	first := ts[0].Problem
	failing := func(s kernels.Status, from, to int) func(kernels.Problem, int) error {
		return func(q kernels.Problem, attempt int) error {
			if q == first && from <= attempt && attempt < to {
				return fmt.Errorf("in other words: %w", kernels.Failf(s, "no device"))
			}
			return nil
		}
	}
	lost := func(from, to int) func(kernels.Problem, int) error {
		return failing(kernels.StatusCrash, from, to)
	}
	fail := func(at kernels.Variant, s kernels.Status) func(kernels.Problem,
		kernels.Variant) *kernels.Failure {
		return func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
			return failIf(p == first && v == at, s)
		}
	}
	for _, tc := range []struct {
		name       string
		open       func(kernels.Problem, int) error
		fail       func(kernels.Problem, kernels.Variant) *kernels.Failure
		unmeasured int // variants of the first problem
		crashed    int
		opens      int // of both, where they are counted
	}{
		{"once, and lives", failing(kernels.StatusLaunch, 0, 1), nil, 0, 0, 3},
		{"always, and lives", failing(kernels.StatusLaunch, 0, 999), nil, 4, 0, 2*returns + 1},
		{"once", lost(0, 1), nil, 0, 0, 0},
		{"always", lost(0, 999), nil, 4, 0, 0},
		{"again, once", lost(1, 2), fail(ts[0].Variants[1], kernels.StatusCrash), 0, 1, 0},
		{"again, always", lost(1, 999), fail(ts[0].Variants[1], kernels.StatusCrash), 3, 0, 0},
		{"after the last", lost(1, 999), fail(ts[0].Variants[3], kernels.StatusCrash), 1, 0, 0},
		{"stream", nil, func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
			return failIf(p == first && isStream(v), kernels.StatusCompile)
		}, 4, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := fake()
			f.OpenError, f.Fail = tc.open, tc.fail
			sink := &memorySink{}
			sum, err := Run(t.Context(), registry, devices(f), ts, sink, options(2))
			var left *UnfinishedError
			assert.That(t, errors.As(err, &left) == (tc.unmeasured > 0) &&
				(err == nil || strings.HasSuffix(err.Error(), fmt.Sprintf("; %d variants are "+
					"unmeasured", tc.unmeasured))),
				"%s: %v", tc.name, err)
			n := len(sink.variants())
			opens := len(f.Calls("open"))
			assert.That(t, n == 8-tc.unmeasured && sum.Failed == tc.crashed &&
				(tc.opens == 0 || opens == tc.opens), "%s: %d records after %d opens, %+v", tc.name, n,
				opens, sum)
		})
	}
}

// Trouble that is no failure of a variant stops the run, with what was measured
// until then in the sink.
func TestTroubleStopsTheRun(t *testing.T) {
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
		{"a wrong stream", &devicetest.Fake{Fail: wrong}, "the stream of " + second.String() +
			": y is wrong in 1 of 16384 elements, first at 16383: got NaN, want 1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := tc.fake
			f.Registry = registry
			sink := &memorySink{}
			sum, err := Run(t.Context(), registry, devices(f), ts, sink, options(2))
			assert.That(t, err != nil && err.Error() == tc.want,
				"%s: got %v, want %s", tc.name, err, tc.want)
			assert.That(t, len(sink.variants()) == 3 && sum.Measured == 3,
				"%s: %d records, %+v", tc.name, len(sink.variants()), sum)
			for _, c := range f.Calls("open") {
				assert.That(t, c.Problem != ts[2].Problem, "%s: the run went on", tc.name)
			}
		})
	}
}

func TestDevicesThatDifferAreRefused(t *testing.T) {
	other := fake()
	other.DeviceInfo = devicetest.CPU()
	sink := &memorySink{}
	_, err := Run(t.Context(), registry, devices(fake(), other), tasks(t, 2, pool[0]), sink,
		options(2))
	assert.That(t, err != nil && err.Error() == "the devices differ: nvidia-h200 and cpu-two-2c" &&
		len(sink.runs) == 0, "got %v, %d runs", err, len(sink.runs))
}
