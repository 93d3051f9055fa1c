package report_test

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/sweep/verdict"
)

// gpuSide is one problem that took us microseconds, in a run with a floor.
func gpuSide(run string, us, floor float64, trials ...record.Trial) report.Side {
	c := report.Cell{Entry: record.Entry{Status: kernels.StatusOK,
		Summary: stats.Summary{Median: us, Lo: 0.999 * us, Hi: 1.001 * us},
		Run: &record.Run{ID: run, FloorUS: floor, SelfTest: trials,
			Device: kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA}}}}
	p := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 64, N: 1024,
		DType:  kernels.BF16,
		Weight: kernels.BF16}
	return report.Side{Label: run, Cells: map[kernels.Problem]report.Cell{p: c}}
}

// What the floors of two hosts differ by is no speedup, in one run they do not count, and a short
// time without a floor has no verdict.
func TestFloors(t *testing.T) {
	for _, c := range []struct {
		a, b  report.Side
		want  verdict.Verdict
		timer string
	}{
		{gpuSide("x", 10, 4.6), gpuSide("y", 8, 2.6), verdict.Inconclusive,
			"floor (an empty launch): A 4.60 us, B 2.60 us"},
		{gpuSide("x", 10, 2.6), gpuSide("y", 8, 2.6), verdict.Faster,
			"floor (an empty launch): 2.60 us"},
		{gpuSide("x", 10, 0), gpuSide("y", 8, 2.6), verdict.Inconclusive,
			"floor (an empty launch): A unknown, B 2.60 us"},
		{gpuSide("x", 10, 0), gpuSide("x-finals", 8, 0), verdict.Faster,
			"floor (an empty launch): unknown"},
		{gpuSide("x", 100, 0), gpuSide("y", 80, 2.6), verdict.Faster,
			"floor (an empty launch): A unknown, B 2.60 us"},
	} {
		got := report.Compare(c.a, c.b)
		assert.That(t, got.Rows[0].Verdict == c.want && slices.Equal(got.Timer, []string{c.timer}),
			"%q: %s, wanted %s, %q", c.timer, got.Rows[0].Verdict, c.want, got.Timer)
		noted := slices.ContainsFunc(got.Notes,
			func(n string) bool { return strings.Contains(n, "floor of a run is unknown") })
		assert.Equal(t, noted, c.want == verdict.Inconclusive && strings.Contains(c.timer, "unknown"),
			c.timer, "notes", got.Notes)
	}
	failed := record.Trial{Name: "timer step", Found: "2 us", Wanted: "at most 1 us"}
	var b strings.Builder
	assert.NoError(t,
		report.Render(&b, report.Compare(gpuSide("x", 10, 2.6, failed), gpuSide("y", 8, 2.6)),
			report.FormatText))
	assert.That(t,
		strings.Contains(b.String(), "\nselftest: 1 of 1 checks failed: timer step is 2 us, "+
			"wanted at most 1 us\n"),
		"the header does not carry the selftest:\n%s", b.String())
}
