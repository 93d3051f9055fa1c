package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

var registry = families.New()

// A memorySink is a Sink that checks what it gets.
type memorySink struct {
	runs    []*record.Run
	records []*record.Record
	whole   [][]*record.Record // records of variants that came together
	keys    map[string]kernels.Status
	fail    func(appended int) error // where set, asked before every line
}

func (m *memorySink) AppendAll(vs ...interface{ CheckValid() error }) error {
	before := len(m.records)
	for _, v := range vs {
		if m.fail != nil {
			if err := m.fail(len(m.runs) + len(m.records)); err != nil {
				return err
			}
		}
		if err := v.CheckValid(); err != nil {
			return err
		}
		if run, ok := v.(*record.Run); ok {
			m.runs = append(m.runs, run)
		} else if len(m.runs) == 0 {
			return errors.New("a record before its run")
		} else {
			m.records = append(m.records, v.(*record.Record))
		}
	}
	if rs := ofVariants(m.records[before:]); len(rs) > 0 {
		m.whole = append(m.whole, rs)
	}
	return nil
}

func (m *memorySink) Status(key string) (kernels.Status, bool) {
	s, ok := m.keys[key]
	return s, ok
}

// remember makes what was appended what the sink holds.
func (m *memorySink) remember() {
	m.keys = map[string]kernels.Status{}
	for _, r := range m.records {
		m.keys[r.Key] = r.Status
	}
}

// variants are the records but for those of streams.
func (m *memorySink) variants() []*record.Record { return ofVariants(m.records) }

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
	ts := slices.Clone(grid(t, problems...))
	for i := range ts {
		assert.Must(t, len(ts[i].Variants) >= n,
			"%s has %d variants only", ts[i].Problem, len(ts[i].Variants))
		ts[i].Variants = slices.Clone(ts[i].Variants[:n])
	}
	return ts
}

// grids are those that were laid out: it is most of the time of a test with a fake device.
var grids sync.Map

func grid(t testing.TB, problems ...string) []Task {
	key := strings.Join(problems, " ")
	if ts, ok := grids.Load(key); ok {
		return ts.([]Task)
	}
	ts, err := Grid(t.Context(), registry, parse(t, problems...), devicetest.H200(), nil, nil)
	assert.NoError(t, err)
	grids.Store(key, ts)
	return ts
}

// The devices are tested once, if something is left to measure, and each run has what the test found.
func TestDevicesAreTestedOnceBeforeARun(t *testing.T) {
	ts, sink, tests := tasks(t, 20, pool[0]), &memorySink{}, 0
	search := func() RunOptions {
		o := searching("auto", search.Budget{})
		o.Test = func(run *record.Run) error {
			tests++
			run.SelfTest, run.FloorUS = []record.Trial{{Name: "noise", Found: "9%", Wanted: "1%"}}, 2
			return nil
		}
		return o
	}
	f := fake()
	mustRun(t, ts, sink, search(), f)
	assert.That(t, tests == 1 && len(sink.runs) == 2, "%d tests, %d runs", tests, len(sink.runs))
	for _, r := range sink.runs {
		assert.That(t, r.Failures() != "" && r.FloorUS == 2, "%s lost the test: %+v", r.ID, r)
	}
	sink.remember()
	mustRun(t, ts, sink, search(), f)
	assert.Equal(t, tests, 1, "tests of a sweep that has nothing to measure, and of one that had")
	o, failed := search(), errors.New("no device")
	o.Test = func(*record.Run) error { return failed }
	_, err := Run(t.Context(), registry, []kernels.Device{f}, ts, &memorySink{}, o)
	assert.That(t, errors.Is(err, failed), "%v", err)
}

func options(samples int) RunOptions {
	d := devicetest.H200()
	return RunOptions{
		Run: record.Run{ID: "r1", Time: time.Unix(1e9, 0), Tool: "test", Device: d,
			Protocol: ColdProtocol(d, samples)},
		Seed: 7,
	}
}

func fake() *devicetest.Fake { return &devicetest.Fake{Registry: registry} }

func isStream(v kernels.Variant) bool { return strings.HasSuffix(v.Family, "/stream") }

// mustRun is Run on fakes, without trouble.
func mustRun(t testing.TB, ts []Task, sink RecordStore, o RunOptions, fakes ...*devicetest.Fake) Totals {
	t.Helper()
	sum, err := Run(t.Context(), registry, devices(fakes...), ts, sink, o)
	assert.NoError(t, err)
	return sum
}

func devices(fakes ...*devicetest.Fake) []kernels.Device {
	ds := make([]kernels.Device, len(fakes))
	for i, f := range fakes {
		ds[i] = f
	}
	return ds
}

// Every variant is one record, with everything in it that it should have: testdata/run.jsonl, but
// for hashes and what it took. The first sample of each visit is dropped, and times have three
// decimals.
func TestRunRecordsEveryVariant(t *testing.T) {
	ts := tasks(t, 4, pool[0], pool[1])
	const samples = 6
	o := options(samples)
	f := fake()
	f.Seconds = func(_ kernels.Problem, v kernels.Variant, sample int) float64 {
		if isStream(v) {
			return 10e-6
		}
		return 12.3456789e-6 + 1e-6*float64(sample)
	}
	sink := &memorySink{}
	sum := mustRun(t, ts, sink, o, f)
	assert.That(t, sum.Measured == 8 && sum.Failed == 0 && sum.Skipped == 0 && sum.Wall > 0 &&
		sum.Busy > 0, "summary %+v", sum)
	assert.That(t, len(sink.runs) == 1 && sink.runs[0].ID == o.Run.ID, "runs: %v", sink.runs)
	var got strings.Builder
	for _, r := range sink.records {
		v := r.Variant()
		if v.Family == record.Stream {
			v.Family = registry.StreamOf(r.Problem)
		}
		code, err := HashCode(registry, families.NewIdentity(registry, f.Info().Kind), r.Problem, v,
			f.Info())
		assert.That(t, err == nil && code.Launch != "" && r.Source == code.Source &&
			r.Launch == code.Launch && r.Key == record.Key(r.Problem, v, f.Info(), code.String(),
			o.Run.Protocol, "") && r.WallMS >= 0 && !r.Time.IsZero(), "%s: %+v, %v", v, r, err)
		masked := *r
		masked.Source, masked.Launch, masked.Key = "", "", ""
		masked.WallMS, masked.Time = 0, time.Time{}
		line, err := json.Marshal(masked)
		assert.NoError(t, err)
		got.Write(append(line, '\n'))
	}
	assert.Golden(t, "testdata/run.jsonl", got.String())
	for _, c := range f.Calls() {
		bad := false
		switch c.Op {
		case "open":
			bad = c.Inputs.Seed != o.Seed
		case "check":
			bad = !isStream(c.Variants[0]) && c.Repeats != Repeats
		case "time":
			want := samples
			if c.Options.Stages {
				want = samples / 2
			}
			bad = c.Options.Flush != o.Run.Protocol.Flush || c.Options.Samples != want+1
		}
		assert.That(t, !bad, "%s: %+v", c, c)
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
			assert.That(t, !announced[c.Problem] && isStream(c.Variants[0]),
				"announced again, or without its stream: %s", c)
			announced[c.Problem] = true
		case "open":
			opens++
			assert.That(t, announced[c.Problem], "%s was opened without a word", c.Problem)
		case "close":
			closes++
		}
	}
	assert.Equal(t, opens, closes, "times opened", "times closed")
}

// The next jobs are announced before this one is measured, with what is left of them.
func TestNextTasksAreAnnounced(t *testing.T) {
	ts := tasks(t, 3, pool[:4]...)
	f := fake()
	mustRun(t, ts, &memorySink{}, options(2), f)
	var got []string
	for _, c := range f.Calls("prefetch", "open") {
		got = append(got, c.Op+" "+c.Problem.String())
		if c.Op == "prefetch" {
			i := slices.IndexFunc(ts, func(task Task) bool { return task.Problem == c.Problem })
			assert.Same(t, fmt.Sprint(c.Variants[1:]), fmt.Sprint(ts[i].Variants))
		}
	}
	assert.Same(t, got, []string{"prefetch " + pool[0], "prefetch " + pool[1], "prefetch " + pool[2],
		"open " + pool[0], "prefetch " + pool[3], "open " + pool[1], "open " + pool[2], "open " + pool[3]})
}

// pick is a number below n that belongs to what it is given.
func pick(n int, parts ...any) int {
	h := fnv.New32a()
	fmt.Fprintln(h, parts...)
	return int(h.Sum32()>>8) % n
}

var failures = []kernels.Status{kernels.StatusRefused, kernels.StatusCompile,
	kernels.StatusResource, kernels.StatusLaunch,
	kernels.StatusWrong, kernels.StatusTimeout, kernels.StatusCrash}

// Any jobs on any number of devices, with failures of every kind in between:
// each variant is measured once, with the status that it should have, and the
// events add up.
func TestEachVariantIsMeasuredOnceWhateverFails(t *testing.T) {
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
			return &kernels.Failure{Status: s, Reason: "as scripted",
				Broken: s == kernels.StatusLaunch && pick(2, v) > 0}
		}
		var fakes []*devicetest.Fake
		for range 1 + rnd.IntN(3) {
			f := fake()
			if f.Fail = fail; inTime {
				f.FailIn = "time"
			}
			fakes = append(fakes, f)
		}
		sink := &memorySink{}
		o := options(1 + rnd.IntN(4))
		var events []ProgressEvent
		o.Observe = func(e ProgressEvent) { events = append(events, e) }
		sum := mustRun(t, ts, sink, o, fakes...)

		wrong := 0
		got := map[string]kernels.Status{}
		for _, r := range sink.variants() {
			k := r.Problem.String() + " " + r.Variant().String()
			_, ok := got[k]
			assert.That(t, !ok, "seed %d: %s twice", seed, k)
			got[k] = r.Status
			if r.Status != kernels.StatusOK {
				wrong++
			}
		}
		want := map[string]kernels.Status{}
		for _, task := range ts {
			for _, v := range task.Variants {
				f := fail(task.Problem, v)
				k := task.Problem.String() + " " + v.String()
				if want[k] = kernels.StatusOK; f != nil {
					want[k] = f.Status
				}
			}
		}
		diff := cmp.Diff(want, got)
		assert.Must(t, diff == "", "seed %d: %s", seed, diff)
		assert.That(t, sum.Measured == total && sum.Failed+sum.Refused == wrong && sum.Skipped == 0,
			"seed %d: %+v, want %d measured, %d failed", seed, sum, total, wrong)
		for _, f := range fakes {
			checkCalls(t, f)
		}
		assert.Must(t, len(events) == len(sink.records),
			"seed %d: %d events, %d records", seed, len(events), len(sink.records))
		done := 0
		left := map[kernels.Problem]int{}
		for _, task := range ts {
			left[task.Problem] = len(task.Variants)
		}
		for i, e := range events {
			r := e.Record
			assert.Equal(t, r, sink.records[i], "seed", seed, "event", i, "of another record")
			if r.Family != record.Stream {
				done++
				left[r.Problem]--
			}
			median := 0.0
			if r.Status == kernels.StatusOK {
				median = stats.Median(r.SamplesUS)
			}
			assert.That(t, e.Done == done && e.Total == total && e.Left == left[r.Problem] &&
				e.Median == median,
				"seed %d: event %d is %d/%d, %d left, median %g; want %d/%d, %d left, median %g",
				seed, i, e.Done, e.Total, e.Left, e.Median, done, total, left[r.Problem], median)
		}
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
func TestNoDeviceIdles(t *testing.T) {
	ts := tasks(t, 4, pool[1], pool[3], pool[5]) // one launch each
	synctest.Test(t, func(t *testing.T) {
		var fakes []*devicetest.Fake
		for range len(ts) {
			f := fake()
			f.Seconds = takes(1)
			fakes = append(fakes, f)
		}
		mustRun(t, ts, &memorySink{}, options(2), fakes...)
		for i, f := range fakes {
			assert.Equal(t, len(f.Calls("open")), 1, "device", i, "had", len(ts), "jobs")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		slow, fast := fake(), fake()
		slow.Seconds, fast.Seconds = takes(100), takes(1e-3)
		ts := tasks(t, 4, pool...)
		sum := mustRun(t, ts, &memorySink{}, options(2), slow, fast)
		assert.Equal(t, sum.Measured, 4*len(ts), sum)
		n := len(slow.Calls("open"))
		assert.That(t, n <= 1, "the slow device had %d jobs", n)
		checkCalls(t, slow)
		checkCalls(t, fast)
	})
}

// The warm-up ends when two visits agree, or after a second, and is made once.
func TestWarmUpEndsWhenVisitsAgree(t *testing.T) {
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
			sink := &memorySink{}
			mustRun(t, ts, sink, options(samples), f)
			visits := map[kernels.Problem]int{}
			for _, c := range f.Calls("time") {
				if isStream(c.Variants[0]) {
					visits[c.Problem]++
				}
			}
			n := visits[ts[0].Problem]
			assert.That(t, n >= tc.min && n <= tc.max && visits[ts[1].Problem] == 1,
				"%s: %d and %d visits, want %d to %d and 1", tc.name, n, visits[ts[1].Problem],
				tc.min, tc.max)
			// What is recorded is the last visit.
			last := tc.seconds(visit*visits[ts[0].Problem] - 1)
			r := sink.records[0]
			assert.That(t, r.Family == record.Stream && len(r.SamplesUS) == samples &&
				r.SamplesUS[samples-1] == record.Micros([]float64{last})[0],
				"%s: %s of %v, want %g at the end", tc.name, r.Family, r.SamplesUS, last*1e6)
		})
	}
}
