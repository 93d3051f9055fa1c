package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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
		for i, noise := range []float64{0.5, 0.51, 0.53, 0.52, 0.54, 2, 2.1, 1.9, 2.2, 2.05, 1, 1.001} {
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
		{finals("chosen", 9, "fastest"), ": chosen 7.4 us (67% of stream, 1.23x base, FASTER) chosen@\n"},
		{finals("chosen", 10.9, "fastest"),
			": chosen 9.0 us (55% of stream, 1.02x base, INCONCLUSIVE) chosen@\n"},
		{finals("base", 10, "base: none is faster beyond doubt"),
			": chosen 10.0 us (50% of stream, = base) base@\n"},
	} {
		var out bytes.Buffer
		p := NewProgress(&out, "problems")
		p.lastLine = p.lastLine.Add(-2 * console.Pause)
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
		assert.That(t, strings.HasPrefix(got, "[1/6] ") && strings.HasSuffix(got, test.want),
			"%q, want %q", got, test.want)
	}
}

// What is written fits the terminal's width, also when that changes. Elsewhere it is whole.
func TestProgressFits(t *testing.T) {
	problem := kernels.Problem{Op: kernels.LayerNorm, Pass: kernels.Bwd, M: 1048576, N: 65536,
		Bias: true}
	record := &record.Record{Problem: problem, Family: "ln_bwd/reg_persist", Base: true,
		Status: kernels.StatusOK}
	long := sweep.Event{Record: record, Median: 12345.6, Done: 10_000, Total: 31415}
	for _, width := range []int{1, 10, 40, 60, 80, 200} {
		var b bytes.Buffer
		now := width
		p := NewProgress(console.Terminal{Writer: &b, Columns: func() int { return now }}, "variants")
		for left := 2; left >= 0; left-- { // a line that is drawn again, but for the last
			long.Left, p.drawn = left, time.Time{}
			p.Observe(long)
			assert.That(t, b.Len() != 0 || width <= 1, "%d columns: nothing", width)
			p.Clear()
			for line := range strings.SplitSeq(strings.ReplaceAll(b.String(), "\r", "\n"), "\n") {
				n := utf8.RuneCountInString(line)
				assert.That(t, n < now || n <= 1, "%d columns: a line of %d: %q", now, n, line)
			}
			assert.That(t,
				left != 0 || width <= 40 || strings.Contains(b.String(), "[10000/31415] layernorm/bwd/1048576x65536"),
				"%d columns: no progress: %q", width, b.String())
			if b.Reset(); width > 5 {
				now--
			}
		}
	}
	var b bytes.Buffer
	NewProgress(&b, "variants").Observe(long)
	lines := strings.Split(b.String(), "\n")
	assert.That(t, len(lines) == 2 && strings.Contains(lines[0], "ln_bwd/reg_persist"),
		"in a pipe: %q", b.String())
}
