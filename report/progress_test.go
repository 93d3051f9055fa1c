package report

import (
	"bytes"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// Once the finals have chosen, the line says what, and of its gain what the table will: by the
// rounds of both, and not what a noisy search saw or the medians of all samples.
func TestProgressHasWhatTheFinalsChose(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(console.New(t.Context(), nil, &out), "problems", 6)
	defer p.End()
	observe := func(run, family, chosen string, left int, samples ...float64) {
		r := &record.Record{Run: run, Problem: devicetest.Problem(t, "rmsnorm/fwd/8x64/bf16"),
			Family: family, Status: kernels.StatusOK, Base: family == "base", Chosen: chosen,
			StreamUS: 5, SamplesUS: samples}
		if run == "r-finals" {
			r.SearchUS, r.Finals, r.Visits = 1, 3, slices.Repeat([]int{1}, len(samples))
		}
		p.Observe(sweep.ProgressEvent{Record: r, Median: stats.Median(samples), Left: left, Done: 1, Total: 6})
	}
	// All are slow and fast in the same rounds. The gain grows, and the rounds in the middle of the
	// times are the last.
	var base, lucky, chosen []float64
	for i, noise := range []float64{0.5, 0.51, 0.53, 0.52, 0.54, 2, 2.1, 1.9, 2.2, 2.05, 1, 1.001} {
		gain := 1 + 0.02*float64(i)
		base, lucky = append(base, 10*noise), append(lucky, 8.9*noise/gain)
		chosen = append(chosen, 10.9*noise/gain)
	}
	observe("r", "base", "", 5, 100)
	observe("r", "lucky", "", 4, 0.5)
	assert.Equal(t, out.String(), "", "its line comes with the finals")
	observe("r-finals", "lucky", "", 2, lucky...)
	observe("r-finals", "chosen", "fastest", 1, chosen...)
	observe("r-finals", "base", "", 0, base...)
	assert.Equal(t, out.String(), "normbench: [1/6] rmsnorm/fwd/8x64/bf16: chosen 9.0 us "+
		"(55% of stream, 1.02x base, INCONCLUSIVE) chosen@\n")
	// What is ahead by its rounds and behind by the median of all samples the tuned table does not take.
	out.Reset()
	slow := slices.Clone(chosen)
	for i := range slow {
		slow[i] *= 1.3
	}
	observe("r-finals", "chosen", "fastest", 1, slow...)
	observe("r-finals", "base", "", 0, base...)
	assert.Equal(t, out.String(), "normbench: [1/6] rmsnorm/fwd/8x64/bf16: chosen 10.0 us "+
		"(50% of stream, kept base: 7.360 us not proven) base@\n", "lucky is ahead, and not proven")
}

// Without finals the line has the least median and says that nothing pairs it with the base's: the
// table has no verdict of it either.
func TestProgressWithoutFinalsSaysSo(t *testing.T) {
	for least, want := range map[string]string{
		"other": "least median 5.0 us (100% of stream, not paired) other@",
		"base":  "least median 5.0 us (100% of stream, = base) base@",
	} {
		var out bytes.Buffer
		p := NewProgress(console.New(t.Context(), nil, &out), "variants", 2)
		for i, family := range []string{"base", "other"} {
			us := 10.0
			if family == least {
				us = 5
			}
			r := &record.Record{Run: "r", Problem: devicetest.Problem(t, "rmsnorm/fwd/8x64/bf16"),
				Family: family, Status: kernels.StatusOK, Base: family == "base", StreamUS: 5,
				SamplesUS: slices.Repeat([]float64{us}, 9)}
			p.Observe(sweep.ProgressEvent{Record: r, Median: us, Left: 1 - i, Done: i + 1, Total: 2})
		}
		p.End()
		assert.Equal(t, out.String(), "normbench: [2/2] rmsnorm/fwd/8x64/bf16: "+want+"\n")
	}
}

// A base of the finals is held against the others of the same finals, and by more than noise.
func TestBaseOfTheFinalsIsHeldAgainstThem(t *testing.T) {
	now, before := &record.Run{ID: "now"}, &record.Run{ID: "before"}
	entry := func(run *record.Run, family string, us float64, final *record.Final) *record.Outcome {
		return &record.Outcome{Run: run, Variant: kernels.Variant{Family: family}, Base: family == "base",
			Status: kernels.StatusOK, Summary: stats.Summary{Median: us}, Final: final}
	}
	final := &record.Final{Of: 3}
	wrong := entry(now, "wrong", 10, final)
	wrong.Status = kernels.StatusWrong
	variants := []*record.Outcome{entry(now, "base", 100, final), entry(now, "near", 99.5, final), wrong,
		entry(before, "older", 50, final), entry(now, "unpaired", 60, nil)}
	base := variants[0].Variant
	assert.That(t, FasterThanBase(variants, base) == nil, "none of these is of the finals and ahead by 1%%")
	variants = append(variants, entry(now, "b", 95, final), entry(now, "c", 90, final))
	if x := FasterThanBase(variants, base); x == nil || x.Variant.Family != "c" {
		t.Errorf("not the fastest of the finals: %+v", x)
	}
	assert.That(t, FasterThanBase(variants, variants[5].Variant) == nil, "the base was not kept")
}
