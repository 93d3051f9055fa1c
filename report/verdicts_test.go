package report

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// rounds is a finalist of a run whose rounds share their noise, times factor(i) in round i.
func rounds(family string, n int, factor func(i int) float64) Measurement {
	noise := []float64{1, 1.3, 0.8, 1.1, 0.9, 1.2, 1, 1.05}
	c := timed(10)
	c.Variant.Family, c.Run, c.Final = family, &record.Run{ID: "r1"}, &record.Final{Of: 9}
	for i := range n {
		us := 10 * noise[i%len(noise)] * factor(i)
		c.Final.Rounds = append(c.Final.Rounds, us)
		c.SamplesUS = append(c.SamplesUS, us, us)
	}
	return c
}

// Two sides are told apart by the rounds that they share, else by their medians and intervals, of
// which the floors and the streams of their runs say how far they can be trusted. The notes say how.
func TestVerdictsComeFromSharedRounds(t *testing.T) {
	twice := func(again float64) Measurement {
		c := rounds("a", 12, steady(1))
		c.Base, c.Final.BaseAgain = true, rounds("a", 12, steady(again)).Final.Rounds
		return c
	}
	base, b := twice(1.0003), rounds("b", 12, steady(1/1.02))
	alone := base
	alone.Final = &record.Final{Of: 1, Rounds: base.Final.Rounds[:1]}
	of := func(run *record.Run, c Measurement) Measurement { c.Run = run; return c }
	gpu := func(id string, floor float64, trials ...record.Trial) *record.Run {
		return &record.Run{ID: id, FloorUS: floor, SelfTest: trials,
			Device: kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA}}
	}
	warm := coldRun("", "y")
	warm.Protocol.Name = "warm"
	stream := func(us float64, c Measurement) Measurement { c.StreamUS = us; return c }
	noCI := func(c Measurement) Measurement { c.Lo, c.Hi = 0, 0; return c }
	sampled := func(run string, us, streamUS float64) Measurement {
		c := of(coldRun(run, "d"), stream(streamUS, ok(us)))
		c.Variant.Family = fmt.Sprint(us)
		for i := range 20 {
			c.SamplesUS = append(c.SamplesUS, us*(1+0.001*float64(i%5-2)))
		}
		return c
	}
	few := noCI(sampled("r", 100, 50))
	few.SamplesUS = few.SamplesUS[:5]
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x8192/bf16")
	compare := func(a, b Measurement) *Comparison {
		return Compare(Side{Label: "a", Cells: map[kernels.Problem]Measurement{p: a}},
			Side{Label: "b", Cells: map[kernels.Problem]Measurement{p: b}})
	}
	var got strings.Builder
	for _, tc := range []struct {
		name string
		a, b Measurement
	}{
		{"rounds, faster", base, b},
		{"rounds, slower", base, rounds("b", 12, steady(1/0.97))},
		{"rounds, below the band", base, rounds("b", 12, steady(1/1.007))},
		{"rounds, noise", base, rounds("b", 12, func(i int) float64 { return 1.02 - 0.04*float64(i%2) })},
		{"rounds, copies differ", twice(1.02), b},
		{"eight rounds", rounds("a", 8, steady(1)), rounds("b", 8, steady(1/1.3))},
		{"rounds of two runs", base, of(&record.Run{ID: "r2"}, b)},
		{"a search and its finals", of(&record.Run{ID: "r1"}, ok(12)), of(&record.Run{ID: "r1-finals"}, b)},
		{"one variant, the base", base, base},
		{"one variant", b, b},
		{"one variant, no finals", alone, alone},
		{"one variant in two runs", of(&record.Run{ID: "r0"}, base), base},
		{"faster", ok(103), ok(100)},
		{"slower", ok(100), ok(103)},
		{"same", ok(100), ok(101.7)},
		{"same, or 2.1%", ok(101.9), ok(100)},
		{"the intervals overlap", wide(ok(142)), wide(ok(100))},
		{"one has an interval", noCI(ok(130)), wide(ok(100))},
		{"how much noise is not known", noCI(ok(100)), noCI(ok(100))},
		{"so did the stream", stream(50, ok(100)), stream(54, ok(110))},
		{"more than the stream", stream(50, ok(100)), stream(54, ok(120))},
		{"a stream is not known", stream(0, ok(103)), stream(54, ok(100))},
		{"A failed", failed(kernels.StatusCrash, "x"), ok(1)},
		{"B failed", ok(1), failed(kernels.StatusCrash, "x")},
		{"few samples", sampled("s", 300, 50), few},
		{"one run, 3 %", sampled("r", 103, 50), sampled("r", 100, 50)},
		{"one run, 1 %", sampled("r", 101, 50), sampled("r", 100, 50)},
		{"two runs, 3 %", sampled("r", 103, 50), sampled("s", 100, 50)},
		{"two runs, 8 %", sampled("r", 100, 50), sampled("s", 108, 50)},
		{"two runs, the stream moved", sampled("r", 100, 50), sampled("s", 108, 53)},
		{"two runs, a run is not known", sampled("", 100, 50), sampled("", 103, 50)},
		{"two floors", of(gpu("x", 4.6), ok(10)), of(gpu("y", 2.6), ok(8))},
		{"one floor", of(gpu("x", 2.6), ok(10)), of(gpu("y", 2.6), ok(8))},
		{"a floor is not known", of(gpu("x", 0), ok(10)), of(gpu("y", 2.6), ok(8))},
		{"one run without a floor", of(gpu("x", 0), ok(10)), of(gpu("x-finals", 0), ok(8))},
		{"long without a floor", of(gpu("x", 0), ok(100)), of(gpu("y", 2.6), ok(80))},
		{"a selftest failed", of(gpu("x", 2.6, record.Trial{Name: "timer step", Found: "2 us",
			Wanted: "at most 1 us"}), ok(10)), of(gpu("y", 2.6), ok(8))},
		{"two devices and protocols", of(coldRun("", "x"), ok(1)), of(warm, ok(1))},
	} {
		c := compare(tc.a, tc.b)
		r := c.Rows[0]
		lo, hi := r.interval()
		fmt.Fprintf(&got, "%s: %s %.3f (%.3f-%.3f), mean %.3f, %d equal", tc.name, r.Verdict, r.Speedup,
			lo, hi, c.All.Speedup, c.All.Equal)
		for _, note := range slices.Concat([]string{r.reason()}, c.Timer, meanTable(c).Notes[1:]) {
			fmt.Fprintf(&got, "; %.30s", note)
		}
		got.WriteString("\n")
		if turned := compare(tc.b, tc.a).Rows[0]; r.judged != nil {
			want := map[verdict.Verdict]verdict.Verdict{verdict.Faster: verdict.Slower,
				verdict.Slower: verdict.Faster}[r.Verdict]
			turnedLo, _ := turned.interval()
			assert.That(t, (turned.Verdict == want || want == "" && turned.Verdict == r.Verdict) &&
				math.Abs(turned.Speedup*r.Speedup-1) <= 1e-9 &&
				math.Abs(turnedLo*hi-min(1, hi*1e9)) <= 1e-9,
				"%s: %s %+v, turned %s %+v", tc.name, r.Verdict, r.judged, turned.Verdict, turned.judged)
		}
	}
	assert.Golden(t, "testdata/verdicts.txt", got.String())
}

// Two choices from one records file, whatever the runs in it, get a verdict of paired rounds only.
func TestOneFileHasVerdictsOfPairedRoundsOnly(t *testing.T) {
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x8192/bf16")
	of := func(run string, us float64) Measurement {
		c := ok(us)
		c.Run, c.Variant.Family = coldRun(run, "d"), fmt.Sprint(us)
		return c
	}
	side := func(file string, c Measurement) Side {
		return Side{Records: file, Cells: map[kernels.Problem]Measurement{p: c}}
	}
	for _, x := range []struct {
		a, b Side
		want verdict.Verdict
	}{
		{side("f", of("r1", 100)), side("f", of("r2", 50)), NotPaired},
		{side("f", of("r1", 100)), side("g", of("r2", 50)), verdict.Faster},
		{side("", of("r1", 100)), side("", of("r2", 50)), verdict.Faster},
		{side("f", of("r1", 100)), side("g", of("r1", 50)), NotPaired},
		{side("f", rounds("a", 12, steady(1))), side("f", rounds("b", 12, steady(0.5))), verdict.Faster},
	} {
		c := Compare(x.a, x.b)
		r := c.Rows[0]
		assert.Equal(t, r.Verdict, x.want, x.a.Records, x.b.Records, r.A.Run.ID, r.B.Run.ID)
		assert.That(t, r.Speedup > 1.9, "times and ratio stay: %v", r.Speedup)
		unpaired := 0
		if x.want == NotPaired {
			unpaired = 1
		}
		assert.That(t, c.All.Unpaired == unpaired && (c.All.Speedup == 1) == (unpaired == 1), "%+v", c.All)
		notes := strings.Join(meanTable(c).Notes, "\n")
		assert.That(t, strings.Contains(notes, "compare A B --live") == (unpaired == 1),
			"how to get a verdict: %s", notes)
	}
}

// steady is a factor of rounds that differ by what the clock shows.
func steady(f float64) func(int) float64 {
	return func(i int) float64 { return f * (1 + 1e-5*float64(i)) }
}

// A row whose base was kept names the median that nothing proved; an unfit machine stands above the
// table, in every format that has a title.
func TestUnprovenAndUnfitAreNamed(t *testing.T) {
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x8192/bf16")
	base := rounds("a", 12, steady(1))
	base.Base, base.Run.SelfTest = true, []record.Trial{{Name: "timer step", Found: "2 us",
		Wanted: "at most 1 us"}, {Name: "floor", OK: true}}
	side := Side{Label: "base", Cells: map[kernels.Problem]Measurement{p: base}}
	c := Compare(side, side)
	c.Rows[0].Unproven = ok(6.4)
	assert.That(t, strings.HasSuffix(c.Rows[0].reason(), "nothing proves it faster"), "%s", c.Rows[0].reason())
	noisy := rounds("b", 12, func(i int) float64 { return []float64{0.5, 1.6, 0.9}[i%3] })
	noisy.Median = 6.4
	c.Rows[0].Unproven = noisy
	assert.That(t, strings.Contains(c.Rows[0].reason(), "nothing proves it faster: two modes"), "%s",
		c.Rows[0].reason())
	for _, format := range []string{FormatText, FormatMarkdown} {
		var out strings.Builder
		assert.NoError(t, Render(&out, c, format))
		above, table, _ := strings.Cut(out.String(), "verdict")
		assert.That(t, strings.Contains(strings.Join(strings.Fields(above), " "), "selftest: 1 of 2 checks "+
			"failed: timer step is 2 us, wanted at most 1 us; do not trust small differences"),
			"%s: above the table stands %q", format, above)
		assert.That(t, strings.Contains(table, "kept base: 6.400 us not proven") &&
			strings.Contains(out.String(), "many look fast"), "%s: %s", format, table)
	}
}

// The base and its second copy, as the sweeps of results recorded them, are the same code: no
// rounds of theirs are called, although no third copy says what two of one differ by.
func TestRecordedCopiesAreCalledAlike(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "results", "*", "records.jsonl.bz2"))
	assert.Must(t, err == nil && len(files) >= 2, "%v %v", files, err)
	pairs := 0
	for _, name := range files {
		f, err := record.Load(name)
		assert.NoError(t, err)
		twice := func(x *record.Outcome) bool { return x.Base && len(x.Finals().BaseAgain) > 0 }
		for _, e := range f.LatestOutcomes(twice) {
			x := e.Finals()
			step := stats.TimerStep(e.SamplesUS)
			pairs++
			j := verdict.JudgeRounds(x.Rounds, x.BaseAgain, nil, step, x.Of-1)
			assert.That(t, j.Verdict != verdict.Faster && j.Verdict != verdict.Slower,
				"%s of %s: %+v", e.Problem, name, j)
		}
	}
	assert.That(t, pairs >= 500, "%d pairs", pairs)
}
