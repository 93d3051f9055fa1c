package verdict

import (
	"testing"

	"normbench/internal/assert"
	"normbench/sweep/stats"
)

func median(us, lo, hi float64) stats.Summary { return stats.Summary{Median: us, Lo: lo, Hi: hi} }

func TestJudgeMedians(t *testing.T) {
	for _, c := range []struct {
		a, b       stats.Summary
		band, wide float64
		want       Verdict
	}{
		{median(103, 102, 104), median(100, 99, 101), 0.02, 0.02, Faster},
		{median(100, 99, 101), median(103, 102, 104), 0.02, 0.02, Slower},
		// the intervals meet
		{median(103, 100, 104), median(100, 99, 101), 0.02, 0.02, Inconclusive},
		{median(103, 102, 104), median(100, 99, 101), 0.02, 0.04, Inconclusive}, // the stream moved
		{median(103, 0, 0), median(100, 0, 0), 0.02, 0.02, Faster},
		{median(100, 0, 0), median(100, 0, 0), 0.02, 0.02, Inconclusive}, // no intervals
		{median(100, 99.5, 100.5), median(100, 99.5, 100.5), 0.02, 0.02, Same},
		{median(100, 99.5, 100.5), median(100, 99.5, 100.5), 0.02, 0.035, Inconclusive},
	} {
		assert.Equal(t, JudgeMedians(c.a, c.b, c.band, c.wide), c.want, c)
	}
}

// The band grows by what the stream moved, and by what the floors differ by, over the time. Without
// a floor short times do not compare. Recordings whose floors differ by more than their times do
// are neither apart nor the same.
func TestBands(t *testing.T) {
	for _, c := range []struct {
		a, b, streamA, streamB, floorA, floorB float64
		want                                   Verdict
	}{
		{10, 8, 0, 0, 2.6, 2.6, Faster},
		{10, 8, 0, 0, 4.6, 2.6, Inconclusive}, // the 2 us are the host's
		{8, 10, 0, 0, 2.6, 4.6, Inconclusive},
		{10, 8, 0, 0, 0, 2.6, ""},
		{50, 49.9, 0, 0, 2.6, 0, ""},
		{100, 80, 0, 0, 0, 2.6, Faster},
		{10, 10, 0, 0, 2.6, 2.6, Same},
		{10, 10, 0, 0, 4.6, 2.6, Inconclusive}, // 20% may be hidden
		{1000, 1000, 0, 0, 4.6, 2.6, Same},
		{1000, 1100, 30, 33, 2.6, 2.6, Inconclusive}, // so did the stream
		{1000, 1100, 33, 30, 2.6, 2.6, Inconclusive},
		{1000, 1100, 30, 30.1, 2.6, 2.6, Slower},
		{1000, 1100, 0, 33, 2.6, 2.6, Slower},
	} {
		band := Default().RecordedBand(0.05, c.streamA, c.streamB)
		wide, ok := WidenBand(band, c.floorA, c.floorB, min(c.a, c.b))
		got := JudgeMedians(median(c.a, 0.999*c.a, 1.001*c.a),
			median(c.b, 0.999*c.b, 1.001*c.b), 0.05, wide)
		assert.That(t, ok == (c.want != "") && (!ok || got == c.want),
			"%+v: got %s, %t", c, got, ok)
	}
}
