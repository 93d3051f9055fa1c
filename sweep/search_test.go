package sweep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/search"
)

// searching are options of a search by a strategy.
func searching(strategy string, b search.Budget) RunOptions {
	o := options(20)
	o.SearchBy(&SearchOptions{Strategy: strategy, Budget: b, Finals: 8, Rounds: 8})
	return o
}

// contesting are options of a contest of so many rounds.
func contesting(rounds int) RunOptions {
	o := options(rounds)
	o.RaceRounds, o.Run.Protocol = rounds, RaceProtocol(o.Run.Protocol, "test", rounds)
	return o
}

// found are the records of a search, and those of its finals.
func found(t *testing.T, ts []Task, o RunOptions, f *devicetest.Fake) (sum Totals, searched,
	finals []*record.Record) {
	t.Helper()
	sink := &memorySink{}
	sum = mustRun(t, ts, sink, o, f)
	searched, finals = byPhase(sink)
	return sum, searched, finals
}

func byPhase(m *memorySink) (searched, finals []*record.Record) {
	for _, r := range m.variants() {
		if strings.HasSuffix(r.Run, "-finals") {
			finals = append(finals, r)
		} else {
			searched = append(searched, r)
		}
	}
	return searched, finals
}

// A search measures a part, its best again in full rounds, and marks one winner. What it saw of a
// problem and its finals are one append, and each of the finals says how many they are: a kill leaves
// all of a problem or nothing.
func TestSearchMarksOneWinnerInOneAppend(t *testing.T) {
	ts := tasks(t, 150, pool[0], "rmsnorm/bwd/600x1024/bf16")
	preset := ts[0].Variants[40]
	ts[0].AddKept(preset)
	ts[0].Checked = preset
	for _, strategy := range search.Names() {
		sink := &memorySink{}
		o := searching(strategy, search.Budget{})
		var last ProgressEvent
		o.Observe = func(e ProgressEvent) {
			if e.Done > e.Total || e.Total != len(ts) { // from the first record on
				t.Errorf("%s: %d of %d are through", strategy, e.Done, e.Total)
			}
			last = e
		}
		sum := mustRun(t, ts, sink, o, fake())
		assert.Equal(t, last.Done, last.Total, strategy, "in the end", "through")
		searched, finals := byPhase(sink)
		assert.That(t, sum.Problems == 2 && sum.Failed == 0 && len(sink.runs) == 2 &&
			sum.Measured == len(searched)+len(finals), "%s: %+v, %d runs", strategy, sum,
			len(sink.runs))
		assert.That(t, strategy != search.Auto && strategy != search.Evolve || len(searched) <= 100,
			"%s measured %d of 300", strategy, len(searched))
		assert.Must(t, len(sink.whole) == 2, "%s: %d appends", strategy, len(sink.whole))
		for _, rs := range sink.whole {
			last := rs[len(rs)-1]
			for i, r := range rs {
				want := 0
				if i >= len(rs)-last.Finals {
					want = last.Finals
				}
				assert.That(t, r.Finals == want && strings.HasSuffix(r.Run, "-finals") == (want > 0) &&
					r.Problem == last.Problem, "%s: record %d of %d counts %d finals of %d", strategy, i,
					len(rs), r.Finals, last.Finals)
			}
		}
		winners, entries := 0, 0
		for _, r := range finals {
			assert.Must(t, r.Status == kernels.StatusOK && len(r.SamplesUS) == 8*FinalLaunches &&
				len(r.Visits) == 8 && r.SearchUS > 0, "%s: %+v", strategy, r)
			if r.Chosen != "" {
				winners++
				assert.That(t, r.Seed != 7 && r.Check.Repeats >= 3,
					"%s: the winner was not checked on fresh inputs", strategy)
			}
			if r.Entry {
				entries++
				assert.Equal(t, r.Variant(), preset, strategy, "no entry")
			}
			assert.That(t, !r.Base || len(r.BaseAgainUS) == 8,
				"%s: no second copy of the base", strategy)
		}
		if last := finals[len(finals)-1]; !last.Base || winners != 2 || entries != 1 ||
			len(finals) < 10 {
			t.Errorf("%s: %d finals, %d winners, %d entries, the last is %s", strategy, len(finals),
				winners, entries, last.Variant())
		}
		// The same again: nothing, as the base of each problem has its final.
		sink.remember()
		again := mustRun(t, ts, sink, searching(strategy, search.Budget{}), fake())
		assert.That(t, again.Measured == 0 && again.Skipped == sum.Measured,
			"%s again: %+v, after %+v", strategy, again, sum)
		// A search by another budget is another search.
		again = mustRun(t, ts, sink, searching(strategy, search.Budget{Share: 0.5}), fake())
		assert.That(t, again.Problems == 2 && again.Skipped == 0, "%s by half: %+v", strategy, again)
	}
}

// A search in other families has the base in common with one before, and is one of its own.
func TestSearchInOtherFamiliesIsOneOfItsOwn(t *testing.T) {
	ts, sink := tasks(t, 60, pool[0]), &memorySink{}
	all := ts[0].Variants
	for _, part := range []struct {
		name     string
		variants []kernels.Variant
		keep     []kernels.Variant
		done     bool
	}{
		{"a half", all[:30], nil, false},
		{"the same", all[:30], nil, true},
		{"the other half", append([]kernels.Variant{ts[0].Base}, all[30:59]...), nil, false},
		{"both", all[:59], nil, true},
		{"another to keep", all, all[59:], false},
	} {
		ts[0].Variants, ts[0].Keep = part.variants, part.keep
		sum := mustRun(t, ts, sink, searching(search.Auto, search.Budget{}), fake())
		if (sum.Measured == 0) != part.done {
			t.Errorf("%s: measured %d", part.name, sum.Measured)
		}
		sink.remember()
	}
}

// Trouble with variants is records; the search goes on.
func TestSearchGoesOnAfterFailures(t *testing.T) {
	ts := tasks(t, 60, pool[0])
	base := ts[0].Base
	of8 := func(v kernels.Variant) bool {
		return v != base && !isStream(v) && v.Config.Get(kernels.Warps) == 8
	}
	for name, test := range map[string]struct {
		status kernels.Status
		fails  func(v kernels.Variant) bool
		base   bool // stands
		chosen int
	}{
		"some wrong":     {kernels.StatusWrong, of8, true, 1},
		"some crash":     {kernels.StatusCrash, of8, true, 1},
		"the base wrong": {kernels.StatusWrong, func(v kernels.Variant) bool { return v == base }, false, 1},
		"all fail":       {kernels.StatusLaunch, func(v kernels.Variant) bool { return !isStream(v) }, false, 0},
	} {
		f := fake()
		f.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			return failIf(test.fails(v), test.status)
		}
		_, _, finals := found(t, ts, searching(search.Auto, search.Budget{}), f)
		last := finals[len(finals)-1]
		assert.That(t, last.Base && (last.Status == kernels.StatusOK) == test.base,
			"%s: the last final is %s: %s %s", name, last.Variant(), last.Status, last.Reason)
		chosen := 0
		for _, r := range finals {
			if r.Chosen != "" {
				chosen++
			}
		}
		assert.Equal(t, chosen, test.chosen, name, "winners")
	}
}

func failIf(is bool, s kernels.Status) *kernels.Failure {
	if is {
		return kernels.Failf(s, "as asked")
	}
	return nil
}

// A winner that is wrong on fresh inputs is out, and another is chosen.
func TestWinnerWrongOnFreshInputsIsOut(t *testing.T) {
	ts, f := tasks(t, 40, pool[0]), fake()
	winner := ts[0].Variants[3]
	f.Seconds = func(_ kernels.Problem, v kernels.Variant, _ int) float64 {
		switch {
		case isStream(v):
			return 10e-6
		case v == winner:
			return 12e-6
		}
		return 20e-6
	}
	for _, want := range []string{"ok: fastest", "wrong: "} {
		_, _, finals := found(t, ts, searching(search.Grid, search.Budget{}), f)
		for _, r := range finals {
			assert.That(t, r.Variant() != winner || fmt.Sprint(r.Status, ": ", r.Chosen) == want &&
				(r.Chosen != "" || strings.HasPrefix(r.Reason, "on fresh inputs of rows with a mean: ")),
				"the winner is %s: %s, %s; want %s", r.Status, r.Reason, r.Chosen, want)
		}
		f.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
			opens := f.Calls("open")
			return failIf(v == winner && opens[len(opens)-1].Inputs.Seed != 7, kernels.StatusWrong)
		}
	}
}

func TestSearchKeepsItsBudget(t *testing.T) {
	ts := tasks(t, 60, pool[0], "rmsnorm/bwd/600x1024/bf16")
	err := CheckBudget(search.Budget{Configs: 1}, len(ts))
	assert.That(t, err != nil && strings.HasPrefix(err.Error(),
		"budget 1configs is too small to measure the bases of 2 problems") &&
		strings.HasPrefix(hint.Of(err), "give 2 or more"), "%v (%s)", err, hint.Of(err))
	err = NewShortBudgetError(ts[0].Problem, 2, "1ms", 300*time.Millisecond)
	assert.That(t, strings.HasPrefix(hint.Of(err), "give 2s or more"), "%v (%s)", err, hint.Of(err))
	sum, _, finals := found(t, ts, searching(search.Auto, search.Budget{Time: time.Nanosecond}), fake())
	assert.That(t, sum.Short == 2 && sum.Problems == 2, "a nanosecond: %+v", sum)
	// The finals are within the budget too: of the base alone, one round.
	for _, r := range finals {
		assert.That(t, len(r.Visits) <= 1, "%s: %d rounds", r.Problem, len(r.Visits))
	}
	// Whatever is left for them, the finals have a rival in as many rounds as an interval needs.
	for budget := time.Millisecond; budget < time.Second; budget *= 4 {
		sum, _, finals := found(t, ts, searching(search.Auto, search.Budget{Time: budget}), fake())
		rivals := 0
		for _, r := range finals {
			if !r.Base && len(r.Visits) >= leastRounds {
				rivals++
			}
		}
		assert.That(t, rivals >= sum.Problems-sum.Short, "%s: %d rivals, %+v", budget, rivals, sum)
	}
	o := searching(search.Auto, search.Budget{Time: time.Hour})
	_, _, finals = found(t, ts, o, fake())
	assert.That(t, len(finals) >= 4 && len(finals[0].Visits) == o.Search.Rounds,
		"an hour: %d finals", len(finals))
	_, searched, _ := found(t, ts, searching(search.Random, search.Budget{Configs: 20}), fake())
	assert.Equal(t, len(searched), 20, "variants of a budget of 20")
}
