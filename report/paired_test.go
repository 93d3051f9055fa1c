package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// rounds is a finalist of a run whose rounds share their noise, times factor(i) in round i.
func rounds(family string, n int, factor func(i int) float64) Cell {
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

func flat(f float64) func(int) float64 {
	return func(i int) float64 { return f * (1 + 1e-5*float64(i)) }
}

func versus(t *testing.T, a, b Cell) *Comparison {
	p := devicetest.Problem(t, "rmsnorm/bwd/8x64/bf16")
	return Compare(Side{Label: "x", Cells: map[kernels.Problem]Cell{p: a}},
		Side{Label: "y", Cells: map[kernels.Problem]Cell{p: b}})
}

// Two sides of one run's finals are judged by the rounds that they share, as a live cell is: noise
// that both have cancels, a gain below 1% is none, and what is not told apart counts as 1.00x.
func TestPaired(t *testing.T) {
	wobble := func(i int) float64 { return 1.02 - 0.04*float64(i%2) }
	twice := func(again float64) Cell {
		c := rounds("a", 12, flat(1))
		c.Base, c.Final.BaseAgain = true, rounds("a", 12, flat(again)).Final.Rounds
		return c
	}
	base, apart := twice(1.0003), twice(1.02)
	for name, test := range map[string]struct {
		a, b    Cell
		speedup float64
		mark    verdict.Verdict
		mean    float64
	}{
		"faster":         {base, rounds("b", 12, flat(1/1.02)), 1.02, verdict.Faster, 1.02},
		"slower":         {base, rounds("b", 12, flat(1/0.97)), 0.97, verdict.Slower, 0.97},
		"below the band": {base, rounds("b", 12, flat(1/1.007)), 1.007, verdict.Same, 1.007},
		"noise":          {base, rounds("b", 12, wobble), 1, verdict.Inconclusive, 1},
		"copies differ":  {apart, rounds("b", 12, flat(1/1.02)), 1.02, verdict.Inconclusive, 1},
		"eight rounds":   {rounds("a", 8, flat(1)), rounds("b", 8, flat(1/1.3)), 1.3, verdict.Inconclusive, 1},
	} {
		c := versus(t, test.a, test.b)
		r := c.Rows[0]
		if r.judged == nil || r.Verdict != test.mark || math.Abs(r.Speedup-test.speedup) > 1e-3 ||
			math.Abs(c.All.Speedup-test.mean) > 1e-3 {
			t.Errorf("%s: %+v: %s, mean %g, want %+v", name, r.judged, r.Verdict, c.All.Speedup, test)
			continue
		}
		few := len(test.a.Final.Rounds) < 12
		lo, hi := r.interval()
		assert.That(t, few == (lo == 0) && (few || lo <= r.Speedup && hi >= r.Speedup) &&
			(r.judged.Reason == "") == (r.Verdict != verdict.Inconclusive), "%s: %+v", name, r.judged)
		var out strings.Builder
		err := Render(&out, c, FormatText)
		assert.That(t, err == nil && !strings.Contains(out.String(), "UNPAIRED"),
			"%s: %v: %s", name, err, out.String())
		assert.Equal(t, strings.Contains(out.String(), "no interval in 1 problem"),
			lo == 0, name, out.String())
		turned := versus(t, test.b, test.a).Rows[0]
		turnedLo, _ := turned.interval()
		assert.That(t,
			turned.Verdict == map[verdict.Verdict]verdict.Verdict{verdict.Faster: verdict.Slower, verdict.Slower: verdict.Faster, verdict.Same: verdict.Same,
				verdict.Inconclusive: verdict.Inconclusive}[r.Verdict] &&
				math.Abs(turned.Speedup*r.Speedup-1) <= 1e-9 &&
				math.Abs(turnedLo*hi-min(1, hi*1e9)) <= 1e-9,
			"%s: %s %+v, turned %s %+v", name, r.Verdict, r.judged, turned.Verdict, turned.judged)
		test.b.Run = &record.Run{ID: "r2"}
		c = versus(t, test.a, test.b)
		assert.That(t, c.Rows[0].judged == nil, "%s: rounds of two runs are paired", name)
	}
}

// One variant of one run on both sides is not measured against itself, and no format says that it
// is.
func TestEqual(t *testing.T) {
	base := rounds("a", 12, flat(1))
	base.Base = true
	other := rounds("b", 12, flat(1))
	alone := base
	alone.Final = &record.Final{Of: 1, Rounds: base.Final.Rounds[:1]}
	for _, test := range []struct {
		cell  Cell
		word  string
		alone bool
	}{{base, "= base", false}, {other, "= A", false}, {alone, "= base", true}} {
		c := versus(t, test.cell, test.cell)
		r := c.Rows[0]
		assert.That(t, r.alike() && r.Speedup == 1 && r.judged == nil && c.All.Equal == 1 &&
			c.All.Same == 0 && c.All.Speedup == 1, "%s: %+v, %+v", test.word, r, c.All)
		for _, f := range Formats() {
			var out bytes.Buffer
			err := Render(&out, c, f)
			assert.That(t, err == nil && strings.Contains(out.String(), test.word) &&
				!strings.Contains(out.String(), "SAME") &&
				!strings.Contains(out.String(), "1.000-1.000"), "%s: %v\n%s", f, err, out.String())
			assert.That(t,
				f != FormatText || strings.Contains(out.String(), "no finals in 1 problem") ==
					test.alone,
				"%s", out.String())
			if f != FormatCSV {
				continue
			}
			rows, err := csv.NewReader(&out).ReadAll()
			assert.That(t, err == nil && rows[1][slices.Index(rows[0], "verdict")] == test.word &&
				rows[1][slices.Index(rows[0], "speedup_lo")] == "", "%v %v", rows, err)
		}
		var page bytes.Buffer
		err := c.Page("t").Write(&page)
		assert.That(t, err == nil && strings.Contains(page.String(), test.word) &&
			!strings.Contains(page.String(), "SAME"), "page: %v\n%s", err, page.String())
	}
	older := base
	older.Run = &record.Run{ID: "r0"}
	r := versus(t, older, base).Rows[0]
	assert.That(t, !r.alike(), "runs of two times are one: %+v", r)
}

// The base and its second copy, as the sweeps of results recorded them, are the same code: no
// rounds of theirs are called, although no third copy says what two of one differ by.
func TestRecordedAlike(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "results", "*", "records.jsonl.gz"))
	assert.Must(t, err == nil && len(files) >= 2, "%v %v", files, err)
	pairs, bound := 0, 0
	for _, name := range files {
		f, err := record.Load(name)
		assert.NoError(t, err)
		twice := func(x *record.Entry) bool { return x.Base && len(x.Finals().BaseAgain) > 0 }
		for _, e := range f.Latest(twice) {
			x := e.Finals()
			step := stats.TimerStep(e.SamplesUS)
			pairs++
			j := verdict.JudgeRounds(x.Rounds, x.BaseAgain, nil, step, x.Of-1)
			assert.That(t, j.Verdict != verdict.Faster && j.Verdict != verdict.Slower,
				"%s of %s: %+v", e.Problem, name, j)
			if verdict.IsAhead(x.Rounds, x.BaseAgain, 0) || verdict.IsAhead(x.BaseAgain, x.Rounds, 0) {
				bound++
			}
		}
	}
	t.Logf("%d pairs; a bound above zero alone calls %d", pairs, bound)
	assert.That(t, pairs >= 500, "%d pairs", pairs)
}
