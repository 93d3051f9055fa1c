package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

var registry = families.New()

// A memory is a Sink that checks what it gets.
type memory struct {
	runs    []*record.Run
	records []*record.Record
	keys    map[string]kernels.Status
	fail    func(appended int) error // where set, asked before every line
}

func (m *memory) Append(v interface{ CheckValid() error }) error {
	if m.fail != nil {
		if err := m.fail(len(m.runs) + len(m.records)); err != nil {
			return err
		}
	}
	if err := v.CheckValid(); err != nil {
		return err
	}
	switch v := v.(type) {
	case *record.Run:
		m.runs = append(m.runs, v)
	case *record.Record:
		if len(m.runs) == 0 {
			return errors.New("a record before its run")
		}
		m.records = append(m.records, v)
	}
	return nil
}

func (m *memory) Keys() map[string]kernels.Status { return m.keys }

// variants are the records but for those of streams.
func (m *memory) variants() []*record.Record { return ofVariants(m.records) }

func ofVariants(all []*record.Record) []*record.Record {
	var rs []*record.Record
	for _, r := range all {
		if r.Family != record.Stream {
			rs = append(rs, r)
		}
	}
	return rs
}

// tasks are grids of at most n variants for each problem.
func tasks(t testing.TB, n int, problems ...string) []Task {
	t.Helper()
	ts, err := Grid(registry, parse(t, problems...), devicetest.H200(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ts {
		if len(ts[i].Variants) < n {
			t.Fatalf("%s has %d variants only", ts[i].Problem, len(ts[i].Variants))
		}
		ts[i].Variants = ts[i].Variants[:n]
	}
	return ts
}

func options(samples int) Options {
	d := devicetest.H200()
	return Options{
		Run:     record.Run{ID: "r1", Time: time.Unix(1e9, 0), Tool: "test", Device: d, Protocol: ColdProtocol(d, samples)},
		Seed:    7,
		Repeats: 3,
	}
}

func fake() *devicetest.Fake { return &devicetest.Fake{Registry: registry} }

func isStream(v kernels.Variant) bool { return strings.HasSuffix(v.Family, "/stream") }

// mustRun is Run on fakes, without trouble.
func mustRun(t testing.TB, ts []Task, sink Sink, o Options, fakes ...*devicetest.Fake) Summary {
	t.Helper()
	sum, err := Run(t.Context(), registry, devices(fakes...), ts, sink, o)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func devices(fakes ...*devicetest.Fake) []kernels.Device {
	ds := make([]kernels.Device, len(fakes))
	for i, f := range fakes {
		ds[i] = f
	}
	return ds
}

// Every variant is one record, with everything in it that it should have.
func TestRun(t *testing.T) {
	ts := tasks(t, 4, pool[0], pool[1])
	const samples = 6
	o := options(samples)
	seconds := func(_ kernels.Problem, v kernels.Variant, sample int) float64 {
		if isStream(v) {
			return 10e-6
		}
		return 12.3456789e-6 + 1e-6*float64(sample)
	}
	f := fake()
	f.Seconds = seconds
	sink := &memory{}
	sum := mustRun(t, ts, sink, o, f)
	if sum.Measured != 8 || sum.Failed != 0 || sum.Skipped != 0 || sum.Wall <= 0 || sum.Busy <= 0 {
		t.Errorf("summary %+v", sum)
	}
	if len(sink.runs) != 1 || sink.runs[0].ID != o.Run.ID {
		t.Errorf("runs: %v", sink.runs)
	}
	var want []*record.Record
	for _, task := range ts {
		p := task.Problem
		base := record.Record{Run: "r1", Problem: p, Status: kernels.StatusOK, Seed: 7, Bytes: p.Bytes(), StreamUS: 10}
		hash := func(family string) string {
			fam, err := registry.Lookup(family)
			if err != nil {
				t.Fatal(err)
			}
			h, err := families.SourceHash(registry, fam)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		for _, v := range append([]kernels.Variant{{Family: registry.StreamOf(p)}}, task.Variants...) {
			_, v, plan, err := registry.Resolve(p, v, f.Info())
			if err != nil {
				t.Fatal(err)
			}
			r := base
			r.Family, r.Config, r.Source, r.Base = v.Family, v.Config, hash(v.Family), v == task.Base
			r.Key = record.Key(p, v, f.Info(), r.Source, o.Run.Protocol)
			if isStream(v) {
				r.Family = record.Stream
				r.SamplesUS = slices.Repeat([]float64{10}, samples)
			} else {
				// The first sample of each visit is dropped, and times have three
				// decimals.
				for i := range samples {
					r.SamplesUS = append(r.SamplesUS, 13.346+float64(i))
				}
				r.ScratchBytes = plan.ScratchBytes()
				if len(plan.Launches) > 1 {
					for i, share := range []float64{0.75, 0.25} {
						s := record.Stage{Stage: plan.Launches[i].Stage}
						for k := range samples / 2 {
							s.SamplesUS = append(s.SamplesUS, record.Micros([]float64{share * seconds(p, v, samples+2+k)})...)
						}
						r.Stages = append(r.Stages, s)
					}
				}
			}
			want = append(want, &r)
		}
	}
	ignore := cmp.Options{
		cmpopts.IgnoreFields(record.Record{}, "Check", "WallMS", "Time"),
		cmpopts.EquateApprox(0, 1e-9),
		cmp.Comparer(func(a, b kernels.Config) bool { return a == b }),
	}
	if diff := cmp.Diff(want, sink.records, ignore); diff != "" {
		t.Error(diff)
	}
	for _, r := range sink.records {
		if r.Check == nil || !r.Check.OK() || r.WallMS < 0 || r.Time.IsZero() {
			t.Errorf("%s: check %+v, wall %g, time %s", r.Variant(), r.Check, r.WallMS, r.Time)
		}
	}
	if len(sink.records[1].Stages) != 2 || len(sink.records[6].Stages) != 0 {
		t.Errorf("stages: %v of a backward, %v of a forward", sink.records[1].Stages, sink.records[6].Stages)
	}
	for _, c := range f.Calls() {
		bad := false
		switch c.Op {
		case "open":
			bad = c.Seed != o.Seed
		case "check":
			bad = !isStream(c.Variants[0]) && c.Repeats != o.Repeats
		case "time":
			want := samples
			if c.Options.Stages {
				want = samples / 2
			}
			bad = c.Options.Flush != o.Run.Protocol.Flush || c.Options.Samples != want+1
		}
		if bad {
			t.Errorf("%s: %+v", c, c)
		}
	}
	checkCalls(t, f)
}

// checkCalls holds what is true of every device after a run: what it opened is
// closed, and was announced before, once and with its stream.
func checkCalls(t *testing.T, f *devicetest.Fake) {
	t.Helper()
	announced := map[kernels.Problem]bool{}
	opens, closes := 0, 0
	for _, c := range f.Calls() {
		switch c.Op {
		case "prefetch":
			if announced[c.Problem] || !isStream(c.Variants[0]) {
				t.Errorf("announced again, or without its stream: %s", c)
			}
			announced[c.Problem] = true
		case "open":
			opens++
			if !announced[c.Problem] {
				t.Errorf("%s was opened without a word", c.Problem)
			}
		case "close":
			closes++
		}
	}
	if opens != closes {
		t.Errorf("%d times opened, %d times closed", opens, closes)
	}
}

// The next job is announced before this one is measured, with what is left of it.
func TestRunPrefetches(t *testing.T) {
	ts := tasks(t, 3, pool[:4]...)
	f := fake()
	mustRun(t, ts, &memory{}, options(2), f)
	var got []string
	for _, c := range f.Calls("prefetch", "open") {
		got = append(got, c.Op+" "+c.Problem.String())
		if c.Op == "prefetch" {
			i := slices.IndexFunc(ts, func(task Task) bool { return task.Problem == c.Problem })
			if diff := cmp.Diff(fmt.Sprint(ts[i].Variants), fmt.Sprint(c.Variants[1:])); diff != "" {
				t.Error(diff)
			}
		}
	}
	want := []string{
		"prefetch " + pool[0], "prefetch " + pool[1], "open " + pool[0],
		"prefetch " + pool[2], "open " + pool[1],
		"prefetch " + pool[3], "open " + pool[2],
		"open " + pool[3],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// pick is a number below n that belongs to what it is given.
func pick(n int, parts ...any) int {
	h := fnv.New32a()
	fmt.Fprintln(h, parts...)
	return int(h.Sum32()>>8) % n
}

var failures = []kernels.Status{kernels.StatusRefused, kernels.StatusCompile, kernels.StatusResource, kernels.StatusLaunch,
	kernels.StatusWrong, kernels.StatusTimeout, kernels.StatusCrash}

// Any jobs on any number of devices, with failures of every kind in between:
// each variant is measured once, with the status that it should have, and the
// events add up.
func TestRunRandom(t *testing.T) {
	all := tasks(t, 12, pool...)
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var ts []Task
		total := 0
		for _, i := range rnd.Perm(len(all))[:1+rnd.IntN(len(all))] {
			task := all[i]
			task.Variants = task.Variants[:1+rnd.IntN(len(task.Variants))]
			total += len(task.Variants)
			ts = append(ts, task)
		}
		inTime := rnd.IntN(2) == 0
		one := 1 + rnd.IntN(6) // one variant of so many fails
		fail := func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
			if isStream(v) || pick(one, seed, p, v) > 0 {
				return nil
			}
			s := failures[pick(len(failures), seed, v, p)]
			return &kernels.Failure{Status: s, Reason: "as scripted", Broken: s == kernels.StatusLaunch && pick(2, v) > 0}
		}
		broken := func(f *kernels.Failure) bool {
			return f != nil && (f.Broken || f.Status == kernels.StatusCrash || f.Status == kernels.StatusTimeout)
		}
		var fakes []*devicetest.Fake
		for range 1 + rnd.IntN(3) {
			f := fake()
			if f.Fail = fail; inTime {
				f.Fail, f.FailTime = nil, fail
			}
			fakes = append(fakes, f)
		}
		sink := &memory{}
		o := options(1 + rnd.IntN(4))
		var events []Event
		o.Observe = func(e Event) { events = append(events, e) }
		sum := mustRun(t, ts, sink, o, fakes...)

		wrong := 0
		got := map[string]kernels.Status{}
		for _, r := range sink.variants() {
			k := r.Problem.String() + " " + r.Variant().String()
			if _, ok := got[k]; ok {
				t.Errorf("seed %d: %s twice", seed, k)
			}
			got[k] = r.Status
			if r.Status != kernels.StatusOK {
				wrong++
			}
		}
		want := map[string]kernels.Status{}
		opens := map[kernels.Problem]int{}
		for _, task := range ts {
			opens[task.Problem] = 1
			for i, v := range task.Variants {
				f := fail(task.Problem, v)
				k := task.Problem.String() + " " + v.String()
				if want[k] = kernels.StatusOK; f != nil {
					want[k] = f.Status
				}
				if broken(f) && i < len(task.Variants)-1 {
					opens[task.Problem]++
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if sum.Measured != total || sum.Failed != wrong || sum.Skipped != 0 {
			t.Errorf("seed %d: %+v, want %d measured, %d failed", seed, sum, total, wrong)
		}
		gotOpens := map[kernels.Problem]int{}
		for _, f := range fakes {
			for _, c := range f.Calls("open") {
				gotOpens[c.Problem]++
			}
			checkCalls(t, f)
		}
		if diff := cmp.Diff(opens, gotOpens); diff != "" {
			t.Errorf("seed %d: opened %s", seed, diff)
		}

		if len(events) != len(sink.records) {
			t.Fatalf("seed %d: %d events, %d records", seed, len(events), len(sink.records))
		}
		done := 0
		left := map[kernels.Problem]int{}
		for _, task := range ts {
			left[task.Problem] = len(task.Variants)
		}
		for i, e := range events {
			r := e.Record
			if r != sink.records[i] {
				t.Errorf("seed %d: event %d is of another record", seed, i)
			}
			if r.Family != record.Stream {
				done++
				left[r.Problem]--
			}
			median := 0.0
			if r.Status == kernels.StatusOK {
				median = stats.Median(r.SamplesUS)
			}
			if e.Done != done || e.Total != total || e.Left != left[r.Problem] || e.Median != median {
				t.Errorf("seed %d: event %d is %d/%d, %d left, median %g; want %d/%d, %d left, median %g",
					seed, i, e.Done, e.Total, e.Left, e.Median, done, total, left[r.Problem], median)
			}
		}
	}
}

// A failure is a row with its reason and no times, and the run goes on, with the
// problem opened again where the device lost it.
func TestRunFailures(t *testing.T) {
	ts := tasks(t, 4, pool[0], pool[1])
	bad := ts[0].Variants[1]
	type tc struct {
		failure kernels.Failure
		inTime  bool
		opens   int
	}
	var cases []tc
	for _, s := range failures {
		opens := 1
		if s == kernels.StatusTimeout || s == kernels.StatusCrash {
			opens = 2
		}
		cases = append(cases, tc{kernels.Failure{Status: s, Reason: "as scripted"}, false, opens})
		if s != kernels.StatusWrong {
			cases = append(cases, tc{kernels.Failure{Status: s, Reason: "as scripted"}, true, opens},
				tc{kernels.Failure{Status: s, Reason: "as scripted", Broken: true}, true, 2})
		}
	}
	cases = append(cases, tc{kernels.Failure{Status: kernels.StatusCompile}, false, 1}) // a device without words
	for _, c := range cases {
		f := fake()
		fail := func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			if v != bad {
				return nil
			}
			return &c.failure
		}
		if f.Fail = fail; c.inTime {
			f.Fail, f.FailTime = nil, fail
		}
		sink := &memory{}
		sum := mustRun(t, ts, sink, options(2), f)
		rs := sink.variants()
		if len(rs) != 8 || sum.Failed != 1 {
			t.Fatalf("%+v: %d records, %+v", c, len(rs), sum)
		}
		for i, r := range rs {
			if i != 1 {
				if r.Status != kernels.StatusOK || len(r.SamplesUS) != 2 {
					t.Errorf("%+v: variant %d is %s: %s", c, i, r.Status, r.Reason)
				}
				continue
			}
			if r.Variant() != bad || r.Status != c.failure.Status || r.Reason == "" || r.SamplesUS != nil || r.Stages != nil || r.StreamUS <= 0 {
				t.Errorf("%+v: record %+v", c, r)
			}
			if r.Status == kernels.StatusWrong {
				if r.Check == nil || r.Check.Outputs[0].Bad != 1 || !strings.HasPrefix(r.Reason, "dx is wrong in 1 of ") {
					t.Errorf("%+v: %q, check %+v", c, r.Reason, r.Check)
				}
			} else if c.failure.Reason != "" && r.Reason != c.failure.Reason {
				t.Errorf("%+v: reason %q", c, r.Reason)
			}
		}
		if n := len(f.Calls("open")); n != c.opens+1 {
			t.Errorf("%+v: opened %d times, want %d", c, n, c.opens+1)
		}
		checkCalls(t, f)
	}
}

// Bits that change from run to run are no failure, but they are recorded.
func TestRunDiffering(t *testing.T) {
	ts := tasks(t, 2, pool[0])
	f := fake()
	f.Differing = func(_ kernels.Problem, v kernels.Variant) int64 {
		if v == ts[0].Base {
			return 5
		}
		return 0
	}
	sink := &memory{}
	mustRun(t, ts, sink, options(2), f)
	for i, want := range []int64{5, 0} {
		if r := sink.variants()[i]; r.Status != kernels.StatusOK || r.Check.Differing != want {
			t.Errorf("variant %d: %s, %d differing", i, r.Status, r.Check.Differing)
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

// takes makes a fake's samples take as long as they say, in a bubble's time.
func takes(seconds float64) func(kernels.Problem, kernels.Variant, int) float64 {
	return func(kernels.Problem, kernels.Variant, int) float64 {
		time.Sleep(time.Duration(seconds * float64(time.Second)))
		return seconds
	}
}

// As long as there are jobs no device idles: as many jobs as devices take no
// longer than one, and who is done early takes what was announced to another.
func TestRunSharesWork(t *testing.T) {
	ts := tasks(t, 4, pool[1], pool[3], pool[5]) // one launch each
	synctest.Test(t, func(t *testing.T) {
		var fakes []*devicetest.Fake
		for range len(ts) {
			f := fake()
			f.Seconds = takes(1)
			fakes = append(fakes, f)
		}
		mustRun(t, ts, &memory{}, options(2), fakes...)
		for i, f := range fakes {
			if n := len(f.Calls("open")); n != 1 {
				t.Errorf("device %d had %d of %d jobs", i, n, len(ts))
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		slow, fast := fake(), fake()
		slow.Seconds, fast.Seconds = takes(100), takes(1e-3)
		ts := tasks(t, 4, pool...)
		sum := mustRun(t, ts, &memory{}, options(2), slow, fast)
		if sum.Measured != 4*len(ts) {
			t.Errorf("%+v", sum)
		}
		if n := len(slow.Calls("open")); n > 1 {
			t.Errorf("the slow device had %d jobs", n)
		}
		checkCalls(t, slow)
		checkCalls(t, fast)
	})
}

// The warm-up ends when two visits agree, or after a second, and is made once.
func TestRunWarmsUp(t *testing.T) {
	const samples, visit = 4, 5 // with the discarded one
	for _, tc := range []struct {
		name string
		// seconds of the n-th sample of the first problem's stream
		seconds  func(n int) float64
		min, max int // visits
	}{
		{"steady", func(int) float64 { return 0.01 }, 3, 3},
		{"rising clocks", func(n int) float64 { return 0.01 * (1 + 1/float64(1+n/visit)) }, 10, 13},
		{"never", func(n int) float64 { return 0.01 * float64(1+n/visit%2) }, 13, 16},
		{"slow and never", func(n int) float64 { return float64(1 + n/visit%2) }, 2, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			ts := tasks(t, 2, pool[0], pool[1])
			f := fake()
			f.Seconds = func(p kernels.Problem, v kernels.Variant, n int) float64 {
				s := 0.001
				if isStream(v) && p == ts[0].Problem {
					s = tc.seconds(n)
				}
				time.Sleep(time.Duration(s * 1e9))
				return s
			}
			sink := &memory{}
			mustRun(t, ts, sink, options(samples), f)
			visits := map[kernels.Problem]int{}
			for _, c := range f.Calls("time") {
				if isStream(c.Variants[0]) {
					visits[c.Problem]++
				}
			}
			if n := visits[ts[0].Problem]; n < tc.min || n > tc.max || visits[ts[1].Problem] != 1 {
				t.Errorf("%s: %d and %d visits, want %d to %d and 1", tc.name, n, visits[ts[1].Problem], tc.min, tc.max)
			}
			// What is recorded is the last visit.
			last := tc.seconds(visit*visits[ts[0].Problem] - 1)
			if r := sink.records[0]; r.Family != record.Stream || len(r.SamplesUS) != samples || r.SamplesUS[samples-1] != record.Micros([]float64{last})[0] {
				t.Errorf("%s: %s of %v, want %g at the end", tc.name, r.Family, r.SamplesUS, last*1e6)
			}
		})
	}
}

// A run that is stopped ends at once, whole: what was measured is in the sink,
// nothing is half there, nobody is left behind (the bubble sees to that).
func TestRunCanceled(t *testing.T) {
	for after := range 11 {
		synctest.Test(t, func(t *testing.T) {
			ts := tasks(t, 3, pool[:4]...)
			a, b := fake(), fake()
			a.Seconds, b.Seconds = takes(0.01), takes(0.02)
			ctx, cancel := context.WithCancelCause(t.Context())
			sink := &memory{}
			o := options(2)
			n := 0
			var at time.Time
			o.Observe = func(Event) {
				if n++; n == after+1 {
					at = time.Now()
					cancel(errors.New("a signal"))
				}
			}
			sum, err := Run(ctx, registry, devices(a, b), ts, sink, o)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after %d: got %v", after, err)
			}
			if d := time.Since(at); d > 100*time.Millisecond { // one visit is 60 ms
				t.Errorf("after %d: it took %s", after, d)
			}
			if sum.Measured != len(sink.variants()) || sum.Measured >= 12 {
				t.Errorf("after %d: %d records, %+v", after, len(sink.variants()), sum)
			}
			for _, r := range sink.variants() {
				if r.Status != kernels.StatusOK {
					t.Errorf("after %d: %s is %s: %s", after, r.Variant(), r.Status, r.Reason)
				}
			}
			checkCalls(t, a)
			checkCalls(t, b)
			// Every finished measurement is kept.
			times := 0
			for _, c := range append(a.Calls("time"), b.Calls("time")...) {
				if l := len(planOf(t, c).Launches); !isStream(c.Variants[0]) && (l == 1 || c.Options.Stages) {
					times++
				}
			}
			// An aborted Time is a call too, one at most per device.
			if len(sink.variants()) < times-2 || len(sink.variants()) > times {
				t.Errorf("after %d: %d measured, %d kept", after, times, len(sink.variants()))
			}
		})
	}
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if sum, err := Run(ctx, registry, devices(fake()), tasks(t, 2, pool[0]), &memory{}, options(2)); !errors.Is(err, context.Canceled) || sum.Measured != 0 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
	t.Run("after the last", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := options(2)
		o.Observe = func(e Event) {
			if e.Done == e.Total {
				cancel()
			}
		}
		if sum, err := Run(ctx, registry, devices(fake()), tasks(t, 2, pool[0]), &memory{}, o); err != nil || sum.Measured != 2 {
			t.Errorf("nothing is missing, and yet: %+v, %v", sum, err)
		}
	})
}

func planOf(t *testing.T, c devicetest.Call) kernels.Plan {
	t.Helper()
	_, _, plan, err := registry.Resolve(c.Problem, c.Variants[0], devicetest.H200())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// stuck is a device whose Time hangs until it is stopped, and then reports a
// failure, as one whose process ended with ours does.
type stuck struct {
	*devicetest.Fake
	say error
}

type stuckBench struct {
	kernels.Bench
	say error
}

func (s stuck) Open(ctx context.Context, p kernels.Problem, seed uint64) (kernels.Bench, error) {
	b, err := s.Fake.Open(ctx, p, seed)
	return stuckBench{b, s.say}, err
}

func (b stuckBench) Time(ctx context.Context, v kernels.Variant, o kernels.TimeOptions) (kernels.Timing, error) {
	if isStream(v) {
		return b.Bench.Time(ctx, v, o)
	}
	<-ctx.Done()
	return kernels.Timing{}, b.say
}

// What a device says while it is being stopped is neither a record, which would
// keep the variant from being measured ever after, nor the error.
func TestRunCanceledDevice(t *testing.T) {
	for _, say := range []error{
		&kernels.Failure{Status: kernels.StatusCrash, Reason: "the worker ended: signal: terminated", Broken: true},
		errors.New("broken pipe"),
		context.Canceled,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sink := &memory{}
			_, err := Run(ctx, registry, []kernels.Device{stuck{fake(), say}, stuck{fake(), say}}, tasks(t, 3, pool[:3]...), sink, options(2))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: got %v", say, err)
			}
			if rs := sink.variants(); len(rs) != 0 {
				t.Errorf("%v: a record of %s: %s", say, rs[0].Status, rs[0].Reason)
			}
		})
	}
}

// A sink that does not take a line ends the run at once with its error, also
// where a device hangs that minds its context.
func TestRunSinkFails(t *testing.T) {
	full := errors.New("records: no space left on device")
	for at := range 10 {
		synctest.Test(t, func(t *testing.T) {
			a, b := fake(), fake()
			a.Seconds, b.Seconds = takes(0.01), takes(0.015)
			var failedAt time.Time
			sink := &memory{}
			sink.fail = func(n int) error {
				if n < at {
					return nil
				}
				if !failedAt.IsZero() {
					t.Errorf("at %d: asked again", at)
				}
				failedAt = time.Now()
				return full
			}
			sum, err := Run(t.Context(), registry, devices(a, b), tasks(t, 4, pool[:4]...), sink, options(2))
			if !errors.Is(err, full) {
				t.Errorf("at %d: got %v", at, err)
			}
			if d := time.Since(failedAt); d > 100*time.Millisecond {
				t.Errorf("at %d: it took %s", at, d)
			}
			if len(sink.runs)+len(sink.records) != at || sum.Measured != len(sink.variants()) {
				t.Errorf("at %d: %d records, %+v", at, len(sink.records), sum)
			}
			checkCalls(t, a)
			checkCalls(t, b)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		sink := &memory{fail: func(n int) error {
			if n == 2 { // the stream of the second device
				return full
			}
			return nil
		}}
		ds := []kernels.Device{stuck{fake(), errors.New("broken pipe")}, stuck{fake(), context.Canceled}}
		if _, err := Run(t.Context(), registry, ds, tasks(t, 2, pool[:2]...), sink, options(2)); !errors.Is(err, full) {
			t.Errorf("with hanging devices: got %v", err)
		}
	})
}

// writer opens a results folder until done is called.
func writer(t *testing.T, dir string) (w *record.Writer, done func()) {
	t.Helper()
	w, notes, err := record.OpenWriter(dir)
	if err != nil || notes != nil {
		t.Fatal(err, notes)
	}
	return w, func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// resume runs ts into dir and returns the variants that were measured.
func resume(t *testing.T, dir string, r *kernels.Registry, ts []Task, f *devicetest.Fake, o Options) ([]kernels.Variant, Summary) {
	t.Helper()
	w, done := writer(t, dir)
	defer done()
	var vs []kernels.Variant
	o.Observe = func(e Event) {
		if v := e.Record.Variant(); v.Family != record.Stream {
			vs = append(vs, v)
		}
	}
	sum, err := Run(t.Context(), r, devices(f), ts, w, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(vs) != sum.Measured {
		t.Errorf("%d events, %+v", len(vs), sum)
	}
	return vs, sum
}

// A second run measures what the folder lacks: nothing, or what another source,
// driver or protocol made new, or what failed if asked.
func TestRunResumes(t *testing.T) {
	ts := tasks(t, 3, pool[0])
	two, one := ts[0].Variants, kernels.Variant{}
	for _, task := range tasks(t, 40, pool[0]) { // a variant of another family
		for _, v := range task.Variants {
			if v.Family != two[0].Family {
				one = v
			}
		}
	}
	if one.Family == "" {
		s, err := Grid(registry, parse(t, pool[0]), devicetest.H200(), []string{"rms_bwd/two_pass"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		one = s[0].Variants[1]
	}
	ts[0].Variants = append(ts[0].Variants, one)
	all := ts[0].Variants
	bad := all[2]

	dir := t.TempDir()
	failing := fake()
	failing.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
		if v == bad {
			return kernels.Failf(kernels.StatusTimeout, "as scripted")
		}
		return nil
	}
	if vs, sum := resume(t, dir, registry, ts, failing, options(3)); !slices.Equal(vs, all) || sum.Failed != 1 {
		t.Fatalf("first: %v, %+v", vs, sum)
	}
	path := filepath.Join(dir, record.FileName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := fake()
	if vs, sum := resume(t, dir, registry, ts, f, options(3)); len(vs) != 0 || sum.Skipped != 4 {
		t.Errorf("second: %v, %+v", vs, sum)
	}
	if calls := f.Calls(); len(calls) != 0 {
		t.Errorf("a second run calls %v", calls)
	}
	if after, err := os.ReadFile(path); string(after) != string(before) || err != nil {
		t.Errorf("a second run writes %d bytes, %v", len(after)-len(before), err)
	}

	// What does not count: seed, run, repeats, UUID.
	o := options(3)
	o.Seed, o.Repeats, o.Run.ID = 8, 5, "r2"
	f = fake()
	f.DeviceInfo = devicetest.H200()
	f.DeviceInfo.UUID = "GPU-2"
	if vs, _ := resume(t, dir, registry, ts, f, o); len(vs) != 0 {
		t.Errorf("another seed and card measure %v", vs)
	}

	o.RetryFailed = true
	if vs, sum := resume(t, dir, registry, ts, fake(), o); !slices.Equal(vs, []kernels.Variant{bad}) || sum.Skipped != 3 {
		t.Errorf("--retry-failed: %v, %+v", vs, sum)
	}
	if vs, _ := resume(t, dir, registry, ts, fake(), o); len(vs) != 0 {
		t.Errorf("--retry-failed of nothing: %v", vs)
	}
	loaded, err := record.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	ok := 0
	for _, e := range loaded.Latest() {
		if e.Status == kernels.StatusOK && e.Variant.Family != record.Stream {
			ok++
		}
	}
	if ok != 4 {
		t.Errorf("%d variants are right, want 4", ok)
	}

	changed := *registry
	changed.File = func(name string) (string, error) {
		text, err := registry.File(name)
		if name == "bwd_two_pass.cu" {
			text += "// changed\n"
		}
		return text, err
	}
	if vs, _ := resume(t, dir, &changed, ts, fake(), options(3)); !slices.Equal(vs, []kernels.Variant{one}) {
		t.Errorf("another source of two_pass measures %v, want %s", vs, one)
	}
	f = fake()
	f.DeviceInfo = devicetest.H200()
	f.DeviceInfo.Driver = "581.0"
	if vs, _ := resume(t, dir, registry, ts, f, options(3)); !slices.Equal(vs, all) {
		t.Errorf("another driver measures %v", vs)
	}
	o = options(4)
	if vs, _ := resume(t, dir, registry, ts, fake(), o); !slices.Equal(vs, all) {
		t.Errorf("more samples measure %v", vs)
	}
	o.Run.Protocol = WarmProtocol(devicetest.H200(), 3)
	if vs, _ := resume(t, dir, registry, ts, fake(), o); !slices.Equal(vs, all) {
		t.Errorf("warm times measure %v", vs)
	}
	if vs, _ := resume(t, dir, registry, ts, fake(), options(3)); len(vs) != 0 {
		t.Errorf("back again: %v", vs)
	}
}

// However often a run is stopped, in the end everything is measured once.
func TestRunResumesStopped(t *testing.T) {
	ts := tasks(t, 5, pool[:3]...)
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		dir := t.TempDir()
		for runs := 1; ; runs++ {
			w, done := writer(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			o := options(2)
			o.Run.ID = fmt.Sprint("r", runs)
			stop := rnd.IntN(7)
			o.Observe = func(e Event) {
				if stop--; stop <= 0 && e.Record.Family != record.Stream {
					cancel()
				}
			}
			before := len(w.Keys())
			fakes := []*devicetest.Fake{fake(), fake()}[:1+rnd.IntN(2)]
			sum, err := Run(ctx, registry, devices(fakes...), ts, w, o)
			cancel()
			done()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) || sum.Measured == 0 || before > 0 && sum.Skipped == 0 {
				t.Fatalf("seed %d, run %d: %+v, %v", seed, runs, sum, err)
			}
		}
		seen := map[string]int{}
		if _, err := record.Read(dir, func(r *record.Record, _ *record.Run) error {
			if r.Family != record.Stream {
				seen[r.Key]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for k, n := range seen {
			if n != 1 {
				t.Errorf("seed %d: %s is there %d times", seed, k, n)
			}
		}
		if len(seen) != 15 {
			t.Errorf("seed %d: %d variants, want 15", seed, len(seen))
		}
	}
}

// Observe is called by one goroutine at a time, whatever the devices do.
func TestRunObservesInTurn(t *testing.T) {
	var mu sync.Mutex
	o := options(1)
	o.Observe = func(Event) {
		if !mu.TryLock() {
			t.Error("two calls at once")
			return
		}
		time.Sleep(time.Millisecond)
		mu.Unlock()
	}
	mustRun(t, tasks(t, 5, pool[:4]...), &memory{}, o, fake(), fake(), fake())
}
