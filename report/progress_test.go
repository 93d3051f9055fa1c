package report

import (
	"bytes"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// Once the finals have chosen, the line says what, and of its gain what the table will: by the
// rounds of both, and not what a noisy search saw or the medians of all samples.
func TestProgressChosen(t *testing.T) {
	pr := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 8, N: 64, DType: kernels.BF16,
		Weight: kernels.BF16}
	finals := func(family string, us float64, chosen string) *record.Record {
		r := &record.Record{Run: "r-finals", Problem: pr, Family: family, Status: kernels.StatusOK,
			Base: family == "base", Chosen: chosen, SearchUS: 1, StreamUS: 5, Finals: 3}
		// All are slow and fast in the same rounds. The gain grows, and the rounds in the middle of
		// the times are the last.
		for i, noise := range []float64{0.5, 0.51, 0.53, 0.52, 0.54, 2, 2.1, 1.9, 2.2, 2.05, 1,
			1.001} {
			x := us * noise
			if family != "base" {
				x /= 1 + 0.02*float64(i)
			}
			r.SamplesUS, r.Visits = append(r.SamplesUS, x), append(r.Visits, 1)
		}
		return r
	}
	for _, test := range []struct {
		best *record.Record
		want string
	}{
		{finals("chosen", 9, "fastest"), ": chosen 7.4 us (67% of stream, 1.23x base, FASTER) " +
			"chosen@\n"},
		{finals("chosen", 10.9, "fastest"),
			": chosen 9.0 us (55% of stream, 1.02x base, INCONCLUSIVE) chosen@\n"},
		{finals("base", 10, "base: none is faster beyond doubt"),
			": chosen 10.0 us (50% of stream, = base) base@\n"},
	} {
		var out bytes.Buffer
		p := NewProgress(console.New(t.Context(), nil, &out), "problems")
		defer p.End()
		at := func(r *record.Record, left int) {
			p.Observe(sweep.Event{Record: r, Median: stats.Median(r.SamplesUS), Left: left, Done: 1,
				Total: 6})
		}
		search := func(family string, us float64) *record.Record {
			return &record.Record{Run: "r", Problem: pr, Family: family, Status: kernels.StatusOK,
				Base: family == "base", StreamUS: 5, SamplesUS: []float64{us}}
		}
		at(search("base", 100), 5)
		at(search("lucky", 0.5), 4)
		if out.Len() > 0 { // its line comes with the finals
			t.Error(out.String())
		}
		at(finals("lucky", 8.9, ""), 1)
		if test.best.Base {
			at(test.best, 0)
		} else {
			at(test.best, 2)
			at(finals("base", 10, ""), 0)
		}
		got := out.String()
		assert.That(t, strings.HasPrefix(got, "normbench: [1/6] ") && strings.HasSuffix(got,
			test.want),
			"%q, want %q", got, test.want)
	}
}
